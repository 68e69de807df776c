"""windlass's own agents: what they have by default only looks or asks, and the store is not among their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass import Agent, Runtime
from windlass.cli.own_agents import assistant, coder, notices
from windlass.cli.settings import Settings
from windlass.errors import ConfigError, ToolError
from windlass.models.arithmetic import evaluate
from windlass.testing import ScriptedModel, call, calls, say


def contracts(agent: Agent[None, str]) -> dict[str, tuple[str, object]]:
    """Return the effect and the approval of each of its tools."""
    return {tool.spec.name: (tool.effect, tool.approval) for tool in agent.toolbox}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(store=f"sqlite:///{tmp_path / 'windlass.db'}")


def with_tools(settings: Settings, names: str) -> Settings:
    return Settings(store=settings.store, tools=names)


def test_no_tool_of_the_assistant_acts_on_the_world(settings: Settings, tmp_path: Path) -> None:
    assert contracts(assistant("demo", settings, tmp_path)) == {
        "clock": ("pure", "never"),
        "calculate": ("pure", "never"),
        "read_file": ("pure", "never"),
        "list_files": ("pure", "never"),
        "find_files": ("pure", "never"),
        "search_files": ("pure", "never"),
        "ask_person": ("idempotent", "never"),
    }


def test_whatever_the_coder_changes_or_starts_is_asked_for(
    settings: Settings, tmp_path: Path
) -> None:
    found = contracts(coder("demo", settings, tmp_path))

    assert {name: each for name, each in found.items() if each[0] != "pure"} == {
        "write_file": ("keyed", "ask"),
        "edit_file": ("keyed", "ask"),
        "apply_patch": ("keyed", "ask"),
        "run_command": ("once", "ask"),
        "update_todo": ("idempotent", "never"),
        "ask_person": ("idempotent", "never"),
    }


def test_only_the_flag_gives_the_coder_other_tools(settings: Settings, tmp_path: Path) -> None:
    of_a_file = Settings(store=settings.store, tools="clock", sources={"tools": "pyproject.toml"})
    of_a_flag = Settings(store=settings.store, tools="clock", sources={"tools": "--tools"})

    assert "run_command" in contracts(coder("demo", of_a_file, tmp_path))
    assert set(contracts(coder("demo", of_a_flag, tmp_path))) == {"clock"}


def test_a_model_that_cannot_choose_between_tools_gets_those_that_are_named(
    settings: Settings, tmp_path: Path
) -> None:
    named = with_tools(settings, "clock")

    assert list(assistant("local:smollm2", settings, tmp_path).toolbox) == []
    assert set(contracts(assistant("local:smollm2", named, tmp_path))) == {"clock"}


@pytest.mark.parametrize(
    ("names", "tools"),
    [
        ("clock", ["clock"]),
        ("none", []),
        ("clock, clock ,calculate", ["clock", "calculate"]),
        ("default,todo", ["clock", "calculate", "read_file", "list_files", "find_files", "search_files",
                          "ask_person", "update_todo", "read_todo"]),
        ("files,edit", ["read_file", "list_files", "find_files", "search_files",
                        "write_file", "edit_file", "apply_patch"]),
        ("fetch", ["fetch_url"]),
        ("python", ["run_python"]),
        ("shell", ["run_command"]),
        ("notes", ["write_note", "read_notes"]),
        ("memory", ["remember", "recall", "forget"]),
    ],
)  # fmt: skip
def test_tools_are_named(settings: Settings, tmp_path: Path, names: str, tools: list[str]) -> None:
    agent = assistant("demo", with_tools(settings, names), tmp_path)

    assert [tool.spec.name for tool in agent.toolbox] == tools


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ("shel", r"tools: 'shel' is not known; did you mean shell\?"),
        (" , ", "tools: found ' , ', wanted names such as clock"),
    ],
)
def test_names_that_are_not_tools_are_refused(
    settings: Settings, tmp_path: Path, names: str, told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        assistant("demo", with_tools(settings, names), tmp_path)


@pytest.mark.parametrize("name", [".windlass", ".windlass/notes"])
@pytest.mark.parametrize("tools", ["notes", "todo", "memory"])
def test_a_link_where_notes_would_be_kept_is_refused(
    settings: Settings, tmp_path: Path, name: str, tools: str
) -> None:
    """It came with the folder, and would lead to other files of the user."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).symlink_to(tmp_path.parent, target_is_directory=True)

    with pytest.raises(ConfigError) as refused:
        assistant("demo", with_tools(settings, tools), tmp_path)
    assert str(refused.value) == f"{name}: found a link, wanted a folder: remove the link"


async def test_the_store_is_not_among_the_files(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("x = 1\n", encoding="utf-8")
    agent = assistant("demo", settings, tmp_path)
    model = ScriptedModel([
        calls(("list_files", {}), ("read_file", {"path": "windlass.db"})),
        call("search_files", query="SQLite"),
        say("ok"),
    ])  # fmt: skip
    async with Runtime(agent, store=settings.store) as rt:
        result = await rt.session("s").run("Look around.", model=model)

    assert (tmp_path / "windlass.db").exists()
    listed, read, searched = (one.outcome for one in result.tool_calls)
    assert "app.py" in str(listed.value)
    assert "windlass.db" not in str(listed.value)
    assert read.status in ("error", "denied")
    assert "windlass.db" not in str(searched.value)


@pytest.mark.parametrize("name", ["my[1].db", "linked.db"])
async def test_the_store_is_hidden_whatever_it_is_called(tmp_path: Path, name: str) -> None:
    (tmp_path / "real.db").write_text("other sessions\n", encoding="utf-8")
    if name == "linked.db":
        (tmp_path / name).symlink_to("real.db")
    else:
        (tmp_path / "real.db").rename(tmp_path / name)
    agent = assistant("demo", Settings(store=f"sqlite:///{tmp_path / name}"), tmp_path)
    model = ScriptedModel([
        calls(("list_files", {}), ("read_file", {"path": name}), ("read_file", {"path": "real.db"})),
        say("ok"),
    ])  # fmt: skip
    async with Runtime(agent, store="memory:") as rt:
        result = await rt.session("s").run("Look around.", model=model)

    assert "other sessions" not in str([one.outcome for one in result.tool_calls])
    assert ".db" not in str(result.tool_calls[0].outcome.value)


async def test_what_users_say_of_their_folder_reaches_the_coder(
    settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "AGENTS.md").write_text("Indent with tabs.\n", encoding="utf-8")
    model = ScriptedModel([say("ok")])
    async with Runtime(coder(model, settings, tmp_path), store="memory:") as rt:
        await rt.session("s").run("Hello")

    assert "Indent with tabs." in str(model.requests[0].messages[0].parts)


@pytest.mark.parametrize("kind", ["link", "huge"])
def test_notes_on_a_folder_that_cannot_be_read_are_left_out(
    settings: Settings, tmp_path: Path, kind: str
) -> None:
    if kind == "link":
        (tmp_path / "AGENTS.md").symlink_to("/etc/passwd")
    else:
        (tmp_path / "AGENTS.md").write_text("x" * 40_000, encoding="utf-8")

    assert "user's notes" not in str(coder("demo", settings, tmp_path).instructions)


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("2 + 3 * 4", 14),
        ("(17 + 4) / 2", 10.5),
        ("2 ^ 10", 1024),
        ("-7 // 2", -4),
        ("sqrt(16) + max(1, 2)", 6.0),
        ("round(pi, 2)", 3.14),
    ],
)
def test_expressions_are_calculated(expression: str, result: float) -> None:
    assert evaluate(expression) == result


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os').system('true')",
        "().__class__",
        "open('/etc/passwd')",
        "9 ** 9 ** 9",
        "2 ** 100000",
        "'a' * 10",
        "[1] * 10",
        "1 if True else 2",
        "lambda: 1",
        "1 / 0",
        "1e400",
        "(-1) ** 0.5",
        "sqrt(-1)",
        "1 +",
        "round(1, ndigits=2)",
        "(" * 300 + "1" + ")" * 300,
        "1" * 501,
    ],
)
def test_what_is_no_arithmetic_is_refused(expression: str) -> None:
    with pytest.raises(ToolError):
        evaluate(expression)


@pytest.mark.parametrize(
    ("rows", "is_told"),
    [
        (None, True),
        ("*.db\n", True),  # not the -wal, which holds the newest turns
        ("windlass.db*\n", False),
        ("windlass.db\nwindlass.db-*\n", False),
    ],
)
@pytest.mark.parametrize("place", ["", "deep/inside"])
def test_a_store_that_git_would_take_along_is_told(
    tmp_path: Path, rows: str | None, is_told: bool, place: str
) -> None:
    (tmp_path / ".git").mkdir()
    folder = tmp_path / place
    folder.mkdir(parents=True, exist_ok=True)
    if rows is not None:
        (tmp_path / ".gitignore").write_text(rows, encoding="utf-8")

    told = notices(Settings(store="sqlite:///windlass.db"), folder)

    assert any("holds this conversation" in each for each in told) == is_told


def test_a_store_outside_of_the_repository_is_not_told(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    (repository / ".git").mkdir(parents=True)

    assert notices(Settings(store=f"sqlite:///{tmp_path}/windlass.db"), repository) == []


def test_users_are_told_that_a_small_model_cannot_program(tmp_path: Path) -> None:
    told = notices(Settings(), tmp_path, "local:smollm2")

    assert told == ["local:smollm2 is too small to program; name another model with --model"]

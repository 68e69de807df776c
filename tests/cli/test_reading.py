"""Commands that look into a store: sessions, show, tail, usage, export, fork, cancel."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

import pytest

from tests.cli.started import values, windlass
from windlass import Agent, Runtime, tool
from windlass.api.usage_report import UsageReport
from windlass.cli.output import usage_record
from windlass.journal import UsageLine
from windlass.kernel import Usage
from windlass.ports.price import Price
from windlass.testing import ScriptedModel, call, say


@tool(effect="keyed")
def ship(order: str) -> str:
    """Ship an order."""
    return f"shipped {order}"


@tool(effect="once", approval="ask")
def pay(cents: int) -> str:
    """Pay."""
    return "paid"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a session of two turns and one that waits."""
    folder = tmp_path_factory.mktemp("made")

    async def fill() -> None:
        script = [
            call("ship", order="A-17"), say("On its way."), say("You are welcome."), call("pay", cents=5),
        ]  # fmt: skip
        agent = Agent("depot", model=ScriptedModel(script), tools=[ship, pay])
        async with Runtime(agent, store=f"sqlite:///{folder / 'windlass.db'}") as runtime:
            await runtime.session("ada").run("Ship it.", turn_id="one")
            await runtime.session("ada").run("Thanks.\x1b[31m", turn_id="two")
            result = await runtime.session("bob").run("Pay.", turn_id="three")
            assert result.parked

    asyncio.run(fill())
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    for each in made.glob("windlass.db*"):
        if each.is_file():
            shutil.copy(each, tmp_path)
    return tmp_path


def test_sessions_are_listed_with_what_they_wait_for(made: Path) -> None:
    shown = windlass("sessions", cwd=made).stdout.splitlines()
    found = values(windlass("sessions", "--json", cwd=made))

    assert [line.split()[:3] for line in shown] == [
        ["session", "agent", "turns"],
        ["ada", "depot", "2"],
        ["bob", "depot", "0"],
    ]
    assert shown[2].rstrip().endswith("waits: approval")
    assert [(each["session"], each["turns"], each["active"], each["waits"]) for each in found] == [
        ("ada", 2, None, []),
        ("bob", 0, "three", ["approval"]),
    ]
    assert [each["session"] for each in values(windlass("sessions", "--after", "ada", "--json", cwd=made))] == ["bob"]  # fmt: skip


def test_a_session_is_shown_as_a_tree(made: Path) -> None:
    shown = windlass("show", "ada", cwd=made).stdout

    assert "├── 1  finished  one" in shown
    assert "user Ship it." in shown
    assert 'assistant → ship(order="A-17")' in shown
    assert "tool ← ship ok: shipped A-17" in shown
    assert "assistant On its way." in shown
    assert "\x1b" not in shown


def test_a_session_that_waits_shows_what_it_waits_for(made: Path) -> None:
    shown = windlass("show", "bob", cwd=made).stdout.splitlines()
    (found,) = values(windlass("show", "bob", "--json", cwd=made))
    (wait,) = values(windlass("waits", "--json", cwd=made))

    assert shown[-2:] == [
        "└── unfinished: three",
        f"    └── waits (approval): Run pay?  windlass approve {wait['key'][:14]}",
    ]
    assert found["waits"] == [wait]


def test_a_turn_is_shown_alone_and_as_json(made: Path) -> None:
    shown = windlass("show", "bob", "--turn", "three", cwd=made).stdout
    (found,) = values(windlass("show", "ada", "--turn", "two", "--json", cwd=made))

    (parked,) = values(windlass("show", "bob", "--turn", "three", "--json", cwd=made))

    assert "three  parked, unfinished" in shown
    assert "user Pay." in shown
    assert "assistant → pay(cents=5)" in shown
    assert "waits (approval): Run pay?" in shown
    assert f"windlass approve {parked['waits'][0]['key'][:14]}" in shown
    assert [message["role"] for message in parked["messages"]] == ["user", "assistant"]
    assert found["state"] == "done"
    assert [message["role"] for message in found["messages"]] == ["user", "assistant"]


def test_a_journal_is_shown_entry_by_entry(made: Path) -> None:
    shown = windlass("show", "ada", "--turn", "one", "--journal", cwd=made).stdout
    found = values(windlass("show", "ada", "--turn", "one", "--journal", "--json", cwd=made))

    assert "turn one: done, finished" in shown
    assert found[0]["entry"] == "started"
    asked = [each["asked"] for each in found if "tool_call" in each["key"]]
    assert asked[0] == 'keyed: ship(order="A-17")'
    assert any(each["answered"] == "ok: shipped A-17" for each in found)


def test_a_key_in_the_list_is_short_enough_to_copy_and_answers(folder: Path) -> None:
    (whole,) = [each["key"] for each in values(windlass("waits", "--json", cwd=folder))]
    shown = windlass("waits", cwd=folder).stdout.splitlines()[1].split()[0]

    assert shown == whole[:14]
    assert windlass("approve", shown, "--by", "eva", cwd=folder).returncode == 0


# Every command with --json, and the row of the guide that names its keys.
JSON = [
    ("sessions", "`sessions`"),
    ("show ada", "`show SESSION`"),
    ("show bob --turn three", "`show --turn`"),
    ("show bob --journal", "`show --journal`"),
    ("waits", "`waits`"),
    ("waits --kind approval", "`waits`"),
    ("usage", "`usage`"),
    ("usage ada", "`usage`"),
    ("doctor", "`doctor`"),
    ("models", "`models`"),
    ("models get smollm2", "`models get`"),
    ("bench --turns 1", "`bench`"),
    ("fork ada new", "`fork`"),
    ("cancel bob", "`cancel`"),
    ("run hello --model demo", "`run`, `chat`"),
]


def documented(row: str) -> set[str]:
    guide = (Path(__file__).parents[2] / "docs/guides/cli.md").read_text(encoding="utf-8")
    (keys,) = re.findall(rf"^\| {re.escape(row)} \| (.*?) \|$", guide, re.MULTILINE)
    return set(re.findall(r"`(\w+)`", keys))


@pytest.mark.parametrize(("command", "row"), JSON)
def test_json_has_the_keys_that_the_guide_names(command: str, row: str, folder: Path) -> None:
    found = values(windlass(*command.split(), "--json", cwd=folder))

    assert found
    assert all(set(each) == documented(row) for each in found)


def test_exports_and_answers_have_the_keys_that_the_guide_names(folder: Path) -> None:
    session, turn, _ = values(windlass("export", "ada", "--json", cwd=folder))
    (wait,) = values(windlass("waits", "--json", cwd=folder))
    rest = values(windlass("tail", "bob", "--json", cwd=folder))
    (answer,) = values(windlass("approve", wait["key"], "--json", cwd=folder))

    assert set(session) == documented("`export`, first")
    assert set(turn) == documented("`export`, then")
    assert set(answer) == documented("`approve`, `deny`, `answer`")
    assert set(rest[-1]) == documented("`tail`, when the state changes")
    for each in rest[:-1]:
        assert set(each) == documented("`tail`, for each [fact](streaming.md#the-events)")


def test_a_session_that_is_not_there_is_a_line_and_2(made: Path) -> None:
    for words in (
        ["show", "eve"],
        ["show", "ada", "--turn", "x"],
        ["export", "eve"],
        ["tail", "eve"],
    ):
        done = windlass(*words, cwd=made)
        assert done.returncode == 2, words
        assert len(done.stderr.splitlines()) == 1


def test_tail_shows_the_turn_under_way_until_it_rests(made: Path) -> None:
    shown = windlass("tail", "bob", cwd=made).stdout
    found = values(windlass("tail", "bob", "--json", cwd=made))

    lines = [line.split() for line in shown.splitlines()]
    assert [line[0] for line in lines] == ["used", "reply", "wait", "turn"]
    assert lines[1] == ["reply", "→", "pay(cents=5)"]
    assert lines[2][2:] == ["approval:", "Run", "pay?"]
    assert shown.splitlines()[-1] == "turn three: parked (approval)"
    facts = [each["event"] for each in found[:-1]]
    assert [fact["type"] for fact in facts] == ["usage_reported", "model_finished", "wait_opened"]
    # printf bob/three | sha256sum | cut -c-16
    assert [fact["id"] for fact in facts] == [
        "e_d689ddbf6cadb04a.1", "e_d689ddbf6cadb04a.2", "e_d689ddbf6cadb04a.wait1",
    ]  # fmt: skip
    assert found[-1]["state"] == "parked"
    assert [wait["kind"] for wait in found[-1]["waits"]] == ["approval"]


def test_usage_is_counted_by_model_and_cost_is_not_made_up(made: Path) -> None:
    (found,) = values(windlass("usage", "ada", "--json", cwd=made))
    shown = windlass("usage", cwd=made).stdout

    assert found["calls"] == 3
    assert [line["model"] for line in found["models"]] == ["scripted"]
    assert (found["cost"], found["known_cost"], found["unpriced"]) == (None, 0.0, ["scripted"])
    assert "cost: not known for scripted" in shown


def test_the_demo_model_costs_nothing(tmp_path: Path) -> None:
    windlass("run", "1 + 1", "--model", "demo", "--session", "s", cwd=tmp_path)
    (found,) = values(windlass("usage", "--json", cwd=tmp_path))
    shown = windlass("usage", cwd=tmp_path).stdout

    assert (found["cost"], found["unpriced"]) == (0.0, [])
    assert shown.endswith("; cost: $0\n")


def test_a_cost_that_is_known_is_a_number() -> None:
    used = Usage(input_tokens=1_000_000, output_tokens=1_000_000)
    lines = [UsageLine(source="turn", model="m", calls=1, usage=used)]
    report = UsageReport.of(lines, {"m": Price(input=3, output=15)})

    record = usage_record(report)

    assert (record["cost"], record["unpriced"]) == (18.0, [])


def test_an_export_holds_every_message(made: Path) -> None:
    lines = values(windlass("export", "ada", cwd=made))
    text = windlass("export", "ada", "--format", "markdown", cwd=made).stdout

    assert [line["kind"] for line in lines] == ["session", "turn", "turn"]
    assert [len(line["messages"]) for line in lines[1:]] == [4, 2]
    assert "## Turn 1: finished" in text
    assert "**tool**\n\n← ship ok: shipped A-17\n" in text
    assert re.findall(r"^\*\*(\w+)\*\*$", text, re.MULTILINE) == [
        "user", "assistant", "tool", "assistant", "user", "assistant",
    ]  # fmt: skip
    assert "You are welcome." in text
    assert "\x1b" not in text


def test_a_fork_shares_the_turns_that_were_asked_for(folder: Path) -> None:
    shown = windlass("fork", "ada", "eva", "--at", "1", cwd=folder).stdout
    (found,) = values(windlass("fork", "ada", "--at", "two", "--json", cwd=folder))

    assert shown == "eva: starts with 1 turn of ada\n"
    assert (found["from"], found["turns"]) == ("ada", 2)
    again = windlass("fork", "ada", "eva", cwd=folder)
    assert again.returncode == 2


def test_a_fork_begins_inside_a_turn_that_was_asked_for(folder: Path) -> None:
    shown = windlass("fork", "ada", "eva", "--at", "one:1", cwd=folder).stdout
    (found,) = values(windlass("fork", "ada", "--at", "two:1", "--json", cwd=folder))
    (kept,) = values(windlass("show", "eva", "--json", cwd=folder))
    beyond = windlass("fork", "ada", "--at", "one:3", cwd=folder)
    unknown = windlass("fork", "ada", "--at", "three:1", cwd=folder)

    assert shown == "eva: starts with 0 turns and 1 iteration of one of ada\n"
    assert (found["from"], found["turns"], found["iterations"]) == ("ada", 1, 1)
    (turn,) = kept["turns"]
    assert [message["role"] for message in turn["messages"]] == ["user", "assistant", "user"]
    assert (beyond.returncode, unknown.returncode) == (2, 2)
    assert "wanted 1 to 2, the iterations of turn one that have ended" in beyond.stderr
    assert "turn three is not known in session ada" in unknown.stderr


def test_a_turn_is_cancelled_by_its_session_alone(folder: Path) -> None:
    (first,) = values(windlass("cancel", "bob", "--json", cwd=folder))
    second = windlass("cancel", "bob", "three", cwd=folder)
    nothing = windlass("cancel", "ada", cwd=folder)
    over = windlass("cancel", "ada", "one", cwd=folder)
    unknown = windlass("cancel", "ada", "x", cwd=folder)

    assert first == {"session": "bob", "turn": "three", "status": "requested"}
    assert second.stdout.startswith("three: already")
    assert (nothing.returncode, over.returncode, unknown.returncode) == (2, 1, 2)


def test_a_file_of_another_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "windlass.db").write_text("hello " * 500, encoding="utf-8")

    done = windlass("sessions", cwd=tmp_path)

    assert done.returncode == 4
    assert "not an SQLite database" in done.stderr

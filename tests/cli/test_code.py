"""`windlass chat --code` in a real terminal: changes are shown as diffs, asked for, and survive kill -9."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.started import Chat, clean_environment, lines, values, windlass

APP = "def price(cents):\n    return cents * 119 / 100\n"
EDIT = 'edit_file {"path": "shop/app.py", "old": "cents * 119 / 100", "new": "cents * 119 // 100"}'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "shop").mkdir(parents=True)
    (folder / "shop" / "app.py").write_text(APP, encoding="utf-8")
    return folder


@pytest.fixture
def begin(project: Path) -> Iterator[list[Chat]]:
    begun: list[Chat] = []
    yield begun
    for chat in begun:
        chat.close()


def start(begun: list[Chat], project: Path, *args: str) -> Chat:
    chat = Chat(project, "--code", "--model", "demo", "--session", "s", *args)
    begun.append(chat)
    return chat


@contextmanager
def open_coder(folder: Path) -> Iterator[Chat]:
    chat = Chat(folder, "--code", "--model", "demo")
    try:
        yield chat
    finally:
        chat.close()


def inside(chat: Chat) -> list[str]:
    """The lines of the panel, without its frame."""
    return [row.strip("│").rstrip() for row in chat.screen.splitlines() if row.startswith("│")]


def test_a_change_is_shown_as_a_diff_before_it_is_made(begin: list[Chat], project: Path) -> None:
    chat = start(begin, project)

    chat.say(EDIT)
    chat.until("[s]ession >")
    shown = [row.strip() for row in inside(chat)]
    assert "-    return cents * 119 / 100" in shown
    assert "+    return cents * 119 // 100" in shown
    assert re.search(r"\x1b\[[\d;]*31m-    return cents", chat.raw), "what goes is red"
    assert re.search(r"\x1b\[[\d;]*32m\+    return cents", chat.raw), "what comes is green"
    assert (project / "shop" / "app.py").read_text() == APP
    chat.answer("y")
    chat.until("✓ edit_file")

    assert "119 // 100" in (project / "shop" / "app.py").read_text()


def test_a_change_that_is_refused_is_not_made(begin: list[Chat], project: Path) -> None:
    chat = start(begin, project)

    chat.say(EDIT)
    chat.until("[s]ession >")
    chat.answer("n not now")
    chat.until("✗ edit_file denied")

    assert (project / "shop" / "app.py").read_text() == APP


def test_killed_twice_it_goes_on_and_nothing_is_done_twice(
    begin: list[Chat], project: Path
) -> None:
    first = start(begin, project)
    first.say(EDIT)
    first.until("[s]ession >")
    first.kill()
    assert (project / "shop" / "app.py").read_text() == APP

    second = start(begin, project)
    second.until("[s]ession >")
    second.answer("y")
    second.until("✓ edit_file")
    assert "119 // 100" in (project / "shop" / "app.py").read_text()
    second.say('run_command {"command": "echo ran >> ran.txt; sleep 60"}')
    second.until("[s]ession >", count=2)
    second.answer("y")
    second.until_there(lambda: bool(lines(project, "ran.txt")))
    second.kill()

    third = start(begin, project)
    third.until("once: it is not run")
    third.until("? run_command unknown")
    third.until_asked()
    assert lines(project, "ran.txt") == ["ran"]
    assert (project / "shop" / "app.py").read_text().count("//") == 1
    third.say('edit_file {"path": "shop/app.py", "old": "price(", "new": "net_price("}')
    third.until("[s]ession >")
    third.answer("y")
    third.until("✓ edit_file")
    assert (project / "shop" / "app.py").read_text() == (
        "def net_price(cents):\n    return cents * 119 // 100\n"
    )


def test_a_turn_of_the_coder_is_not_given_to_the_assistant(
    begin: list[Chat], project: Path
) -> None:
    chat = start(begin, project)
    chat.say(EDIT)
    chat.until("[s]ession >")
    chat.kill()

    done = windlass("run", "hello", "--model", "demo", "--session", "s", cwd=project)

    assert done.returncode == 2
    assert "belongs to agent 'coder'" in done.stderr
    assert "add --code" in done.stderr


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("--code", "-m", "app:x"), "code: found --code and --agent, wanted one of the two"),
        (("--tools", "teleport"), "tools: 'teleport' is not known"),
        (("-m", "app:x", "--tools", "shell"), "which has tools of its own, wanted one of the two"),
    ],
)
def test_wrong_arguments_are_one_line(project: Path, args: tuple[str, ...], told: str) -> None:
    done = windlass("chat", *args, "--json", cwd=project, said="")

    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_the_next_process_is_told_with_which_flags(begin: list[Chat], project: Path) -> None:
    chat = start(begin, project, "--tools", "edit, todo", "--by", "Eva K.")
    chat.until_asked()

    again = "windlass chat --code --model demo --tools 'edit, todo' --by 'Eva K.' --session s"
    assert again in " ".join(chat.screen.split())


def test_after_an_answer_the_next_command_names_the_store(project: Path) -> None:
    store = ("--store", "other place.db")
    asked = windlass("run", "change", "-m", "askers:asker", "--session", "s", *store, cwd=project)
    key = asked.stderr.split("windlass approve ")[1].split()[0]

    done = windlass("approve", key, *store, cwd=project)

    again = "(windlass work -m MODULE:NAME --store 'sqlite:///other place.db')"
    assert done.stdout.splitlines()[-1].endswith(again)


def test_a_call_that_was_allowed_is_not_lost_for_want_of_its_tool(project: Path) -> None:
    """Approved elsewhere, the turn waits for a process with the same tools; one without them would spoil it."""
    asked = windlass(
        "run", EDIT, "--model", "demo", "--tools", "edit", "--session", "s", cwd=project
    )
    assert asked.returncode == 3
    key = asked.stderr.split("windlass approve ")[1].split()[0]

    allowed = windlass("approve", key, cwd=project)
    refused = windlass("run", "go on", "--model", "demo", "--session", "s", cwd=project)

    again = "(windlass chat --model demo --session s); add --tools if the turn began with it"
    assert again in allowed.stdout
    assert refused.returncode == 2
    assert (
        "calls edit_file, which is not among these tools; give the same --tools" in refused.stderr
    )
    done = windlass(
        "run", "Hello", "--model", "demo", "--tools", "edit", "--session", "s", cwd=project
    )
    assert done.returncode == 0
    assert "119 // 100" in (project / "shop" / "app.py").read_text()


def allowed_elsewhere(project: Path, *args: str) -> Path:
    """A command that a person allowed in this folder and that waits for a process; return what it would write."""
    line = 'run_command {"command": "pwd >> ran.txt"}\n'
    told = windlass("chat", "--code", "--model", "demo", *args, "--json", cwd=project, said=line)
    assert told.returncode == 3
    key = values(told)[0]["waits"][0]["key"]
    store = args[args.index("--store") :] if "--store" in args else ()
    assert windlass("approve", key, *store, cwd=project).returncode == 0
    return project / "ran.txt"


def test_a_store_that_came_with_a_folder_runs_nothing_in_it(project: Path, tmp_path: Path) -> None:
    allowed_elsewhere(project, "--session", "theirs")
    clone = tmp_path / "clone"
    shutil.copytree(project, clone)

    with open_coder(clone) as chat:
        chat.until_asked()
        chat.say('run_command {"command": "touch mine.txt"}')
        chat.until("[s]ession >")
        chat.answer("y")
        chat.until("✓ run_command")
        chat.until_asked()

    assert (clone / "mine.txt").exists()
    assert not (clone / "ran.txt").exists()


def test_nor_does_it_while_a_session_is_repaired(project: Path) -> None:
    own = ("run", "--model", "demo", "--tools", "shell", "--session")
    assert windlass(*own, "mine", "Hello", cwd=project).returncode == 0
    line = 'run_command {"command": "touch ran.txt"}'
    asked = windlass(*own, "theirs", line, "--json", cwd=project)
    key = values(asked)[0]["waits"][0]["key"]
    assert windlass("approve", key, cwd=project).returncode == 0

    env = clean_environment(WINDLASS_TOOLS="shell", WINDLASS_MODEL="demo")
    repaired = windlass("repair", "mine", "--attachments", cwd=project, env=env)

    assert (repaired.returncode, repaired.stdout) == (0, "There is nothing to hide.\n")
    assert not (project / "ran.txt").exists()
    assert windlass(*own, "theirs", "Hello", cwd=project).returncode == 0
    assert (project / "ran.txt").exists()


def test_what_was_allowed_in_one_folder_does_not_run_in_another(
    project: Path, tmp_path: Path
) -> None:
    shared, other = ("--store", str(tmp_path / "shared.db")), tmp_path / "other"
    other.mkdir()
    ran = allowed_elsewhere(project, "--session", "s", *shared)
    again = ("chat", "--code", "--model", "demo", "--session", "s", *shared, "--json")

    refused = windlass(*again, cwd=other, said="Hello\n")

    assert refused.returncode == 2
    assert (
        f"is unfinished and began in {project}; continue it there, or cancel it: "
        f"windlass cancel s --store sqlite:///{tmp_path / 'shared.db'}"
    ) in refused.stderr
    assert windlass(*again, cwd=project, said="Hello\n").returncode == 0
    assert ran.read_text().split() == [str(project)]


def test_the_coder_says_what_it_has_read_and_where_the_conversation_lies(
    begin: list[Chat], project: Path
) -> None:
    (project / ".git").mkdir()
    (project / "AGENTS.md").write_text("x" * 40_000, encoding="utf-8")
    first = start(begin, project)
    first.until("AGENTS.md: not read")
    first.until("windlass.db holds this conversation: add windlass.db* to .gitignore")
    first.kill()

    (project / "AGENTS.md").write_text("Indent with tabs.", encoding="utf-8")
    (project / ".gitignore").write_text("windlass.db*\n", encoding="utf-8")
    second = start(begin, project)
    second.until("AGENTS.md: read as your notes on this folder")
    second.until_asked()
    assert "holds this conversation" not in second.screen


def test_how_a_command_ended_is_on_the_screen(begin: list[Chat], project: Path) -> None:
    chat = start(begin, project)

    chat.say('run_command {"command": "seq 1 100; exit 3"}')
    chat.until("[s]ession >")
    chat.answer("y")

    chat.until("✓ run_command [exit code 3,")


def test_a_message_behind_an_open_question_is_told_in_words_for_people(
    begin: list[Chat], project: Path
) -> None:
    chat = start(begin, project)
    chat.say(EDIT)
    chat.until("[s]ession >")
    chat.press_ctrl_d()
    chat.until_asked()

    chat.say("and another thing")

    chat.until("still waits for an answer, so this was not sent; /wait asks again")
    assert "submit()" not in chat.screen

"""`windlass waits`, `approve` and `deny`: a person sees all that would run, and hears what happens next."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.started import COMMAND, clean_environment, values, windlass
from tests.limits import HANGS_S

HIDDEN = "\u202e\u2066\x9b\u2028\u3164\U000e0041"
ESCAPED = r"\u202eeva\u2066\u009b2J\u2028\u3164\udb40\udc41\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store in which a hostile call waits."""
    _ask(tmp_path, "pay hostile")
    return tmp_path


def _ask(folder: Path, prompt: str, session: str = "s") -> None:
    done = windlass("run", "-m", "talkers:talker", "--session", session, prompt, cwd=folder)
    assert "waits (approval)" in done.stderr


def _key(folder: Path) -> str:
    (wait,) = values(windlass("waits", "--json", cwd=folder))
    return str(wait["key"])


def _is_whole(shown: str) -> None:
    assert "tidy up the folder " * 40 in shown
    assert ESCAPED in shown
    assert '    to mallory"' in shown
    assert "cents = 90000" in shown
    assert "risk high" in shown
    assert not set(HIDDEN) & set(shown)


def test_the_list_shows_every_argument_whole(folder: Path) -> None:
    shown = windlass("waits", cwd=folder).stdout

    assert shown.splitlines()[0].split() == ["key", "kind", "session", "since", "what"]
    _is_whole(shown)


@pytest.mark.parametrize("command", ["approve", "deny"])
def test_who_answers_is_shown_what_was_answered(folder: Path, command: str) -> None:
    done = windlass(command, _key(folder), "--by", "eva", cwd=folder)

    assert done.returncode == 0
    _is_whole(done.stdout)
    assert "accepted: the answer is recorded (by eva)" in done.stdout


def test_an_edit_is_shown_in_place_of_what_was_asked(folder: Path) -> None:
    edit = '{"to": "landlord", "cents": 5}'
    done = windlass("approve", _key(folder), "--edit", edit, cwd=folder)

    assert done.returncode == 0
    assert 'to = "landlord"\n' in done.stdout
    assert "mallory" not in done.stdout


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        ('{"to": "x", "cents": "lots"}', "edit.cents: found string, wanted integer"),
        ('{"cents": 1}', "edit.to: found nothing, wanted a value: it is required"),
        ('{"cents": 1', "edit: not valid JSON"),
    ],
)
def test_an_edit_that_does_not_fit_is_refused_and_the_question_stays_open(
    folder: Path, edit: str, says: str
) -> None:
    key = _key(folder)
    done = windlass("approve", key, "--edit", edit, cwd=folder)

    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert _key(folder) == key


def test_json_escapes_what_a_terminal_may_act_on_and_loses_nothing(folder: Path) -> None:
    shown = windlass("waits", "--json", cwd=folder).stdout
    (wait,) = [json.loads(line) for line in shown.split("\n") if line]

    assert not set(HIDDEN) & set(shown)
    to = wait["detail"]["args"]["to"]
    assert (
        to == "tidy up the folder " * 40 + "\u202eeva\u2066\x9b2J\u2028\u3164\U000e0041\nto mallory"
    )


def test_a_message_in_the_history_hides_nothing_either(folder: Path) -> None:
    windlass("deny", _key(folder), cwd=folder)
    done = windlass("run", "-m", "talkers:talker", "--session", "t", "a\u202eb\x9bc", cwd=folder)
    shown = windlass("show", "t", cwd=folder).stdout

    assert r"a\u202eb\u009bc" in shown
    assert not set(HIDDEN) & set(shown + done.stdout)


def test_without_a_worker_it_says_what_is_needed(folder: Path) -> None:
    done = windlass("approve", _key(folder), cwd=folder)

    assert done.stdout.splitlines()[-1] == (
        "no worker has taken the turn yet: it continues when one with the agent talker runs "
        "(windlass work -m MODULE:NAME)"
    )


def test_the_command_that_continues_a_turn_names_its_model_and_can_be_pasted(
    tmp_path: Path,
) -> None:
    """Without the model, the session would go on with another one; behind the command is what may be added."""
    where = ("--session", "s", "--store", "other.db")
    tools = ("--model", "demo", "--tools", "ask")
    windlass("run", 'ask_person {"question": "Which?"}', *tools, *where, cwd=tmp_path)
    (wait,) = values(windlass("waits", "--json", "--store", "other.db", cwd=tmp_path))
    done = windlass("answer", wait["key"], "this one", "--store", "other.db", cwd=tmp_path)

    last = done.stdout.splitlines()[-1]
    assert last.partition("assistant runs ")[2] == (
        "(windlass chat --model demo --store sqlite:///other.db --session s); "
        "add --tools if the turn began with it"
    )


def test_with_more_to_answer_it_says_so(tmp_path: Path) -> None:
    _ask(tmp_path, "pay twice")
    first, second = (each["key"] for each in values(windlass("waits", "--json", cwd=tmp_path)))
    done = windlass("approve", first, cwd=tmp_path)

    assert done.stdout.splitlines()[-1] == f"the turn still waits for 1 answer: {second[:14]}"


@contextmanager
def _worker(folder: Path) -> Iterator[None]:
    """A process that has the agent, and waits for work."""
    code = (
        "import asyncio, talkers\nfrom windlass import Runtime\n"
        "async def main():\n"
        "    async with Runtime(talkers.talker, store='sqlite:///windlass.db'):\n"
        "        print('here', flush=True)\n"
        "        await asyncio.to_thread(input)\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen(
        [COMMAND[0], "-c", code],
        cwd=folder,
        env=clean_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        try:
            yield
        finally:
            process.communicate("\n", timeout=HANGS_S)


def test_with_a_worker_it_says_that_the_turn_goes_on(folder: Path) -> None:
    with _worker(folder):
        done = windlass("approve", _key(folder), cwd=folder)

    assert done.stdout.splitlines()[-1] in ("a worker continues the turn", "the turn has ended")


def test_a_timer_says_how_long_it_still_takes(tmp_path: Path) -> None:
    program = (
        "from windlass import Again, Agent, Runtime, tool\n"
        "from windlass.testing import ScriptedModel, call\n"
        "@tool(effect='keyed')\n"
        "def poll() -> str:\n"
        "    'Poll.'\n"
        "    raise Again(after=3 * 86_400 + 3_600, reason='not done')\n"
        "agent = Agent('a', model=ScriptedModel([call('poll')]), tools=[poll])\n"
        "Runtime(agent, store='sqlite:///windlass.db').run_sync('s', 'Go.')\n"
    )
    subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, check=True, env=clean_environment()
    )
    store = ("--store", "sqlite:///windlass.db")

    assert "poll runs again: not done, in 3 d" in windlass("waits", *store, cwd=tmp_path).stdout
    shown = windlass("show", "s", *store, cwd=tmp_path).stdout
    assert "waits (timer): poll runs again: not done, in 3 d" in shown

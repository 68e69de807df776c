"""`windlass run`: one turn from a script, with codes that a script can act on."""

from __future__ import annotations

import json
import select
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.started import COMMAND, clean_environment, take_sigint, values, windlass
from tests.limits import HANGS_S

ACCEPTED = (
    "accepted: the answer is recorded\n"
    "no worker has taken the turn yet: it continues when one with the agent talker runs "
    "(windlass work -m MODULE:NAME)\n"
)


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + HANGS_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_answer_is_on_stdout_and_the_rest_beside_it(tmp_path: Path) -> None:
    done = windlass("run", "hello", "-m", "talkers:talker", "--session", "s", cwd=tmp_path)

    assert (done.returncode, done.stdout) == (0, "You said: hello\n")
    assert done.stderr == "session s, agent talkers:talker, model talker\n"


def test_json_is_one_value_with_keys_that_stay(tmp_path: Path) -> None:
    done = windlass(
        *("run", "hello", "-m", "talkers:talker", "--session", "s", "--turn", "t", "--json"),
        cwd=tmp_path,
    )

    (found,) = values(done)
    assert done.stderr == ""
    assert list(found) == [
        "session", "turn", "status", "outcome", "text", "waits", "tool_calls", "issues", "usage",
    ]  # fmt: skip
    assert (found["session"], found["turn"], found["status"]) == ("s", "t", "done")
    assert found["outcome"] == {"type": "finished", "text": "You said: hello"}
    assert (found["usage"]["input_tokens"], found["usage"]["cost"]) == (10, None)


def test_the_same_turn_is_not_run_twice(tmp_path: Path) -> None:
    once = ("run", "hello", "-m", "talkers:made", "--session", "s", "--turn", "t")

    first, second = windlass(*once, cwd=tmp_path), windlass(*once, cwd=tmp_path)

    assert first.stdout == second.stdout == "You said: hello\n"
    calls = (tmp_path / "model_calls.txt").read_text(encoding="utf-8").splitlines()
    assert len(calls) == 1


def test_a_turn_that_waits_ends_with_3_and_another_process_answers(tmp_path: Path) -> None:
    parked = windlass(
        *("run", "pay", "-m", "talkers:talker", "--session", "s", "--turn", "t", "--json"),
        cwd=tmp_path,
    )
    assert parked.returncode == 3
    (found,) = values(parked)
    key = found["waits"][0]["key"]
    assert found["waits"][0]["detail"]["args"] == {"to": "landlord", "cents": 90000}

    (listed,) = values(windlass("waits", "--json", cwd=tmp_path))
    assert listed == found["waits"][0]
    shown = windlass("waits", cwd=tmp_path).stdout
    assert "Run" in shown
    yes = windlass("approve", key[:12], "--by", "eva", "--json", cwd=tmp_path)
    assert (yes.returncode, values(yes)[0]["status"]) == (0, "accepted")
    late = windlass("deny", key, "--reason", "no", cwd=tmp_path)
    assert (late.returncode, late.stdout) == (1, "already: another answer came first (by eva)\n")

    goes_on = windlass(
        *("run", "pay", "-m", "talkers:talker", "--session", "s", "--turn", "t"), cwd=tmp_path
    )
    assert (goes_on.returncode, goes_on.stdout) == (0, "It ended: paid 90000 to landlord\n")


def test_no_and_an_edit_can_be_given_from_the_command_line(tmp_path: Path) -> None:
    def pay(turn: str) -> dict[str, str]:
        words = ("run", "pay", "-m", "talkers:talker", "--session", turn, "--turn", turn, "--json")
        return dict(values(windlass(*words, cwd=tmp_path))[0])

    first, second = pay("a"), pay("b")
    (one, two) = (each["waits"][0]["key"] for each in (first, second))  # type: ignore[index]  # JSON
    edited = windlass("approve", one, "--edit", '{"to": "x", "cents": 1}', cwd=tmp_path)
    denied = windlass("deny", two, "--reason", "not now", cwd=tmp_path)
    assert edited.stdout.endswith(f'pay\n  to = "x"\n  cents = 1\n{ACCEPTED}')
    assert denied.stdout.endswith(f'pay\n  to = "landlord"\n  cents = 90000\n{ACCEPTED}')

    assert pay("a")["text"].startswith("It ended: paid 1 to x (The approver changed")
    assert "not now" in pay("b")["text"]
    broken = windlass("approve", one, "--edit", "{to}", cwd=tmp_path)
    assert (broken.returncode, "edit: not valid JSON" in broken.stderr) == (2, True)


def test_events_are_lines_before_the_result(tmp_path: Path) -> None:
    done = windlass(
        *("run", "hi", "-m", "talkers:talker", "--session", "s", "--json", "--events"),
        cwd=tmp_path,
    )

    found = values(done)
    names = [each["event"] for each in found[:-1] if each["event"] != "TextDelta"]
    assert names == ["ModelStarted", "UsageReported", "ModelFinished", "TurnEnded"]
    assert found[-1]["text"] == "You said: hi"


def test_ctrl_c_ends_with_130_and_the_turn_goes_on_later(tmp_path: Path) -> None:
    words = ("run", "one two three four", "-m", "talkers:talker", "--session", "s", "--turn", "t")
    env = clean_environment(TALKER_PAUSE_S="0.5")
    with subprocess.Popen(
        [*COMMAND, *words],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=take_sigint,  # noqa: PLW1509 - it only resets a signal
    ) as process:
        until((tmp_path / "model_calls.txt").exists)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=HANGS_S)
    assert process.returncode == 130
    assert said.decode().splitlines()[-1] == "windlass: interrupted"

    again = windlass(*words, cwd=tmp_path)
    assert (again.returncode, again.stdout) == (0, "You said: one two three four\n")


def test_tail_follows_a_turn_that_another_process_drives(tmp_path: Path) -> None:
    words = ("run", "one two three four", "-m", "talkers:talker", "--session", "s", "--turn", "t")
    env = clean_environment(TALKER_PAUSE_S="0.8")
    with subprocess.Popen(
        [*COMMAND, *words],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        until((tmp_path / "model_calls.txt").exists)
        found = values(windlass("tail", "s", "--json", cwd=tmp_path))
        process.wait(HANGS_S)

    assert found[0].get("state") == "running" or "event" in found[0]
    assert found[-1]["state"] == "done"
    assert found[-1]["outcome"] == {"type": "finished", "text": "You said: one two three four"}


def test_tail_follows_turns_that_begin_and_end_between_two_looks(tmp_path: Path) -> None:
    said = ("--session", "s", "--model", "demo")
    windlass("run", "first", *said, cwd=tmp_path)
    watching = subprocess.Popen(
        [*COMMAND, "tail", "s", "--follow", "--json"],
        cwd=tmp_path,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert watching.stdout is not None
        for _ in range(5):  # it may look for the first time when a turn is over
            windlass("run", "hello", *said, cwd=tmp_path)
            ready, _, _ = select.select([watching.stdout], [], [], 2)
            if ready:
                break
        assert ready
        assert json.loads(watching.stdout.readline())["event"]["type"] == "usage_reported"
    finally:
        watching.terminate()
        watching.communicate()


def test_the_prompt_may_come_from_standard_input(tmp_path: Path) -> None:
    done = windlass("run", "-m", "talkers:talker", cwd=tmp_path, said="two\nlines")

    assert done.stdout == "You said: two\nlines\n"
    assert windlass("run", "-m", "talkers:talker", cwd=tmp_path, said=" ").returncode == 2


def test_without_an_agent_the_default_one_works_and_says_its_model(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("milk\n", encoding="utf-8")
    env = clean_environment(WINDLASS_MODEL="demo")

    done = windlass(
        *("run", 'read_file {"path": "note.txt"}', "--session", "s"), cwd=tmp_path, env=env
    )

    assert done.returncode == 0
    said = "read_file answered note.txt: lines 1 to 1 of 1, version 28b3e2baaf82 milk.\n"
    assert done.stdout.endswith(said)
    assert done.stderr.splitlines()[0] == "session s, model demo (environment)"


def test_the_agent_may_be_named_in_the_project_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from windlass import Agent\nhelper = Agent('helper', model='demo')\n", encoding="utf-8"
    )
    (tmp_path / "pyproject.toml").write_text(
        '[tool.windlass]\nagent = "mine:helper"\nstore = "kept.db"\n', encoding="utf-8"
    )
    below = tmp_path / "below"
    below.mkdir()

    done = windlass("run", "hello", cwd=below)

    assert done.returncode == 0
    assert "agent mine:helper, model demo" in done.stderr
    assert (tmp_path / "kept.db").exists()


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["-m", "talkers"], "wanted module:name"),
        (["-m", "talkers:taker"], "talkers has no 'taker'; did you mean talker?"),
        (["-m", "talkers:not_an_agent"], "is int, wanted an Agent"),
        (["-m", "nowhere:agent"], "importing nowhere failed: ModuleNotFoundError"),
        (["-m", "broken:agent"], "importing broken failed: ZeroDivisionError"),
        (["-m", "leaving:agent"], "importing leaving failed: SystemExit: 3"),
        (["-m", "talkers:talker", "--deps", "nowhere:x"], "deps: importing nowhere failed"),
        (["--model", "antropic:x"], "did you mean anthropic?"),
        (["--model", "anthropic:claude-sonnet-4-5"], "ANTHROPIC_API_KEY"),
        (["--store", "oracle://x"], "wanted sqlite:///FILE or memory:"),
    ],
)
def test_what_a_user_can_put_right_is_one_line_and_2(
    args: list[str], complaint: str, tmp_path: Path
) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n", encoding="utf-8")
    (tmp_path / "leaving.py").write_text("raise SystemExit(3)\n", encoding="utf-8")

    done = windlass("run", "hello", *args, cwd=tmp_path)

    assert done.returncode == 2
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.glob("*.db"))


@pytest.mark.parametrize("command", ["run hello", "run hello --turn t", "chat", "chat --json"])
def test_an_unfinished_turn_of_another_agent_is_told_and_not_waited_for(
    command: str, tmp_path: Path
) -> None:
    mine = ("-m", "talkers:talker")
    assert (
        windlass("run", "pay", *mine, "--session", "s", "--turn", "t", cwd=tmp_path).returncode == 3
    )

    done = windlass(
        *command.split(), "--session", "s", "--model", "demo", cwd=tmp_path, said="hello\n"
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert "turn t of session s is unfinished and belongs to agent 'talker'" in done.stderr
    assert (
        windlass("run", "pay", *mine, "--session", "s", "--turn", "t", cwd=tmp_path).returncode == 3
    )


def test_a_traceback_is_shown_to_whoever_asks_for_it(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n", encoding="utf-8")

    done = windlass(
        *("run", "hello", "-m", "broken:agent"),
        cwd=tmp_path,
        env=clean_environment(WINDLASS_DEBUG="1"),
    )

    assert "broken.py" in done.stderr
    assert "ZeroDivisionError" in done.stderr

"""`windlass work` as a supervisor starts it: real processes, real signals, executions counted in files."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.cli.started import COMMAND, clean_environment, take_sigint, values, windlass
from tests.limits import HANGS_S

LOAD = 'load {"crate": "tea"}'
SAIL = 'cast_off {"port": "Lisbon"}'


class Work:
    """`windlass work --json` in a process of its own."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "work", *words, "--json"],
            cwd=folder,
            env=clean_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=take_sigint,  # noqa: PLW1509 - it only resets a signal
        )
        self.lines: list[dict[str, Any]] = []

    def until(self, event: str) -> dict[str, Any]:
        """Read lines until one is of this event."""
        assert self.process.stdout is not None
        for text in self.process.stdout:
            self.lines.append(json.loads(text))
            if self.lines[-1]["event"] == event:
                return self.lines[-1]
        assert self.process.stderr is not None
        raise AssertionError(f"no {event} in {self.lines}: {self.process.stderr.read()}")

    def end(self) -> int:
        """Wait for the process; return its exit code."""
        out, _ = self.process.communicate(timeout=HANGS_S)
        self.lines += [json.loads(line) for line in out.splitlines()]
        return self.process.returncode

    @property
    def events(self) -> list[tuple[str, str]]:
        return [(line["event"], line["turn"]) for line in self.lines if "turn" in line]


Begin: TypeAlias = Callable[..., Work]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[Work]]:
    made: list[Work] = []
    yield made
    for each in made:
        each.process.kill()
        each.process.communicate()


@pytest.fixture
def work(tmp_path: Path, started: list[Work]) -> Begin:
    def begin(*words: str) -> Work:
        started.append(Work(tmp_path, *(words or ("-m", "crew:deck"))))
        started[-1].until("worker_started")
        return started[-1]

    return begin


def submit(folder: Path, said: str, turn: str = "t", agent: str = "deck") -> None:
    """Accept a turn in this process, which has no agent and drives nothing."""
    code = (
        "import asyncio, sys; from windlass import Runtime; import crew\n"
        "async def main(said, turn, agent):\n"
        "    async with Runtime(crew.deck, crew.galley, worker=False) as rt:\n"
        "        await rt.session(f's-{turn}', agent=agent).submit(said, turn_id=turn)\n"
        "asyncio.run(main(*sys.argv[1:]))"
    )
    subprocess.run(
        [sys.executable, "-c", code, said, turn, agent],
        cwd=folder,
        env=clean_environment(),
        check=True,
        timeout=HANGS_S,
    )


def lines(folder: Path, name: str) -> list[str]:
    return (folder / name).read_text(encoding="utf-8").splitlines()


def test_a_worker_drives_what_others_submit(tmp_path: Path, work: Begin) -> None:
    worker = work("-m", "crew:deck", "-m", "crew:galley")

    submit(tmp_path, LOAD, "t1")
    ended = worker.until("turn_ended")
    submit(tmp_path, "17 * 24", "t2", agent="galley")
    other = worker.until("turn_ended")

    assert ended["outcome"] == {"type": "finished", "text": "load answered tea is on board."}
    assert other["outcome"] == {"type": "finished", "text": "17 * 24 = 408."}
    assert worker.lines[0]["agents"] == ["deck", "galley"]
    assert worker.events == [
        ("turn_started", "t1"), ("turn_ended", "t1"), ("turn_started", "t2"), ("turn_ended", "t2"),
    ]  # fmt: skip


def test_an_approval_from_another_process_lets_the_worker_go_on(
    tmp_path: Path, work: Begin
) -> None:
    worker = work()
    submit(tmp_path, SAIL)
    asked = worker.until("wait_opened")["wait"]
    worker.until("turn_parked")
    assert (asked["kind"], asked["title"], len(asked["key"])) == ("approval", "Run cast_off?", 14)
    assert not (tmp_path / "cast_off.txt").exists()

    answered = windlass("approve", asked["key"], "--by", "eva", cwd=tmp_path)
    ended = worker.until("turn_ended")

    assert answered.returncode == 0
    assert ended["outcome"]["text"] == "cast_off answered left Lisbon."
    assert lines(tmp_path, "cast_off.txt") == ["Lisbon"]
    assert worker.lines[-2]["answers"] == [{**asked, "status": "answered", "by": "eva"}]
    assert worker.events == [
        ("turn_started", "t"), ("wait_opened", "t"), ("turn_parked", "t"), ("turn_continued", "t"),
        ("turn_ended", "t"),
    ]  # fmt: skip


def test_after_kill_9_of_a_worker_another_goes_on(tmp_path: Path, work: Begin) -> None:
    (tmp_path / "hold").touch()
    first = work()
    submit(tmp_path, LOAD)
    first.until("turn_started")
    while not (tmp_path / "loaded.txt").exists():
        assert first.process.poll() is None
    second = work()
    os.kill(first.process.pid, signal.SIGKILL)
    second.until("turn_continued")
    (tmp_path / "hold").unlink()
    ended = second.until("turn_ended")

    assert ended["outcome"]["text"] == "load answered tea is on board."
    attempts = [line.split() for line in lines(tmp_path, "loaded.txt")]
    assert [attempt[:2] for attempt in attempts] == [["tea", "1"], ["tea", "2"]]
    assert len({attempt[2] for attempt in attempts}) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_tool_end_and_leaves_the_rest(
    tmp_path: Path, work: Begin, number: signal.Signals
) -> None:
    (tmp_path / "hold").touch()
    first = work()
    submit(tmp_path, LOAD)
    first.until("turn_started")
    while not (tmp_path / "loaded.txt").exists():
        assert first.process.poll() is None
    first.process.send_signal(number)
    assert first.until("worker_stopping")["signal"] == number.name
    (tmp_path / "hold").unlink()

    assert first.end() == 0
    assert first.lines[-1]["event"] == "worker_stopped"
    assert ("turn_left", "t") in first.events or ("turn_ended", "t") in first.events
    done = values(windlass("run", LOAD, "-m", "crew:deck", "--session", "s-t", "--turn", "t",
                           "--json", cwd=tmp_path))[0]  # fmt: skip
    assert done["text"] == "load answered tea is on board."
    assert len(lines(tmp_path, "loaded.txt")) == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_second_signal_ends_it_at_once_even_if_a_tool_blocks(
    tmp_path: Path, work: Begin, number: signal.Signals, code: int
) -> None:
    first = work()
    submit(tmp_path, "doze {}")
    dozing = tmp_path / "dozing.txt"
    while not (dozing.exists() and dozing.stat().st_size):  # it is there before it is written
        assert first.process.poll() is None
    first.process.send_signal(number)
    while first.process.poll() is None:
        first.process.send_signal(number)

    assert first.process.returncode == code
    assert lines(tmp_path, "dozing.txt") == ["zzz"]


def test_a_worker_leaves_the_turns_of_other_agents_alone(tmp_path: Path, work: Begin) -> None:
    worker = work("-m", "crew:galley")
    submit(tmp_path, LOAD, "t1")
    submit(tmp_path, "1 + 1", "t2", agent="galley")
    worker.until("turn_ended")
    worker.process.terminate()

    assert worker.end() == 0
    assert worker.events == [("turn_started", "t2"), ("turn_ended", "t2")]
    (shown,) = values(windlass("show", "s-t1", "--turn", "t1", "--json", cwd=tmp_path))
    assert shown["state"] == "queued"


def test_a_turn_that_parks_says_what_to_type_next(tmp_path: Path) -> None:
    done = windlass("run", SAIL, "-m", "crew:deck", cwd=tmp_path)
    told = done.stderr.splitlines()[-1]

    assert re.fullmatch(r"waits \(approval\): Run cast_off\?  windlass approve w_\w{12}", told)
    answered = windlass(*told.partition("  windlass ")[2].split(), cwd=tmp_path)
    assert answered.returncode == 0


def test_people_read_lines(tmp_path: Path) -> None:
    submit(tmp_path, "17 * 24", agent="galley")
    with subprocess.Popen(
        [*COMMAND, "work", "-m", "crew:galley"],
        cwd=tmp_path,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        told = [
            process.stdout.readline().split("  ")[1:],
            process.stdout.readline().split("  ")[1:],
        ]
        process.terminate()
        _, notes = process.communicate(timeout=HANGS_S)

    assert told == [["s-t/t", "started\n"], ["s-t/t", "finished: 17 * 24 = 408.\n"]]
    first, second, *rest = notes.splitlines()
    assert first.startswith("worker w-")
    assert first.endswith(", agent galley, sqlite:///windlass.db")
    assert second == "Ctrl-C or SIGTERM stops it; turns that it leaves continue elsewhere"
    assert rest == ["SIGTERM: stopping with 0 turns under way; again to exit at once", "stopped"]
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "agent: found none, wanted at least one, such as -m app:support"),
        (["-m", "crew:deck", "--store", "memory:"], "wanted a file that other processes can open"),
        (["-m", "crew:nobody"], "crew has no 'nobody'"),
        (["-m", "crew:deck", "-m", "nowhere:x"], "importing nowhere failed"),
        (["-m", "crew:deck", "--max-turns", "0"], "max_turns"),
    ],
)
def test_wrong_words_are_refused_in_one_line(
    tmp_path: Path, words: list[str], complaint: str
) -> None:
    done = windlass("work", *words, cwd=tmp_path)

    assert done.returncode == 2
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "windlass.db").exists()


def test_a_file_that_vanished_is_told_at_the_end(tmp_path: Path, work: Begin) -> None:
    worker = work()
    for part in tmp_path.glob("windlass.db*"):
        if part.is_file():
            part.unlink()
    worker.process.terminate()
    assert worker.process.stderr is not None
    told = worker.process.stderr.read()

    assert worker.end() == 4
    assert json.loads(told.splitlines()[-1])["error"]["code"] == "store_unavailable"


def test_a_store_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    (tmp_path / "broken.db").write_bytes(b"not a database at all" * 100)

    done = windlass("work", "-m", "crew:deck", "--store", "broken.db", cwd=tmp_path)

    assert done.returncode == 4
    assert "broken.db" in done.stderr

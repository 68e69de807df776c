"""The demo does what it says, seen from outside: exit codes, killed processes, counts in files."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.cli.started import take_sigint
from windlass.cli import demo
from windlass.cli.demo import Act, Seen

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "windlass", "demo"]
ESCAPE = "\x1b"
PROCESS = re.compile(r"^process (?P<number>\d+), pid (?P<pid>\d+): (?P<title>.+)$", re.MULTILINE)
ANSWER = (
    "Booked: 2 nights at Casa do Rio in Lisbon for 236 euros; book answered RIO-2N. Pay answered "
    "receipt 23600. Notify was started; whether it finished is unknown, and it was not run again."
)


def run(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *args],
        env={**os.environ, "PYTHONIOENCODING": "utf-8", **env},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "kept"


@pytest.fixture(scope="module")
def shown(kept: Path) -> str:
    """One run of the demo, looked at from many sides."""
    done = run("--plain", "--dir", str(kept))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder for temporary files."""
    return tmp_path_factory.mktemp("scratch")


@pytest.fixture(scope="module")
def piped(scratch: Path) -> str:
    """What it prints where there is no terminal, and nothing was asked for."""
    done = run(TMPDIR=str(scratch))
    assert done.returncode == 0, done.stderr
    return done.stdout


def lines_of(kept: Path, name: str) -> list[list[str]]:
    """The lines of a file, without the process that wrote each."""
    text = (kept / f"{name}.txt").read_text(encoding="utf-8")
    return [line.split(" ")[1:] for line in text.splitlines()]


def cells(shown: str) -> dict[str, list[tuple[str, ...]]]:
    """The rows of each process: what, came back, how."""
    rows: dict[str, list[tuple[str, ...]]] = {}
    _, _, table = shown.partition("-\n")
    table, _, _ = table.partition("\n\n")
    for line in table.splitlines():
        if match := PROCESS.match(line):
            current = rows.setdefault(match["number"], [])
        else:
            what, back, how = line[:8], line[40:77], line[78:]
            current.append((what.strip(), back.strip(), how.strip()))
    return rows


def test_it_ends_with_the_answer(shown: str) -> None:
    assert ANSWER in " ".join(shown.split())


def test_the_turn_goes_through_five_processes(shown: str) -> None:
    found = [match.groupdict() for match in PROCESS.finditer(shown)]

    assert [process["number"] for process in found] == ["1", "2", "3", "4", "5"]
    assert len({process["pid"] for process in found}) == 5


def test_each_process_adds_what_the_one_before_left_open(shown: str) -> None:
    rows = cells(shown)

    assert rows["1"] == [
        ("model", "look_up('Lisbon')", "called"),
        ("look_up", '{"cents":11800,"hotel":"Casa do Rio"}', "pure: ran"),
        ("model", "book('Casa do Rio', 2)", "called"),
        ("book", "x KILLED (signal 9)", "keyed: no result"),
    ]
    assert rows["2"] == [
        ("journal", "2 replies, look_up", "recorded, not repeated"),
        ("book", "RIO-2N", "keyed: again, same key"),
        ("model", "notify('Booked: 2 nights at Casa d...", "called"),
        ("notify", "x KILLED (signal 9)", "once: no result"),
    ]
    assert [(what, how) for what, _, how in rows["3"]] == [
        ("journal", "recorded, not repeated"),
        ("notify", "once: not run again"),
        ("model", "called"),
        ("wait", "stored, no process"),
    ]
    assert rows["4"] == [("wait", "answered by eva", "from outside")]
    assert rows["5"] == [
        ("journal", "4 replies, look_up, book, notify", "recorded, not repeated"),
        ("pay", "receipt 23600", "once: ran"),
        ("model", "text, and no more calls", "called"),
    ]


def test_no_model_call_is_repeated(shown: str, kept: Path) -> None:
    asked = [digest for (digest,) in lines_of(kept, "model")]

    assert len(asked) == len(set(asked)) == 5
    assert "model       5 calls, 0 of them repeated" in shown


def test_a_keyed_tool_runs_again_and_the_world_sees_it_once(shown: str, kept: Path) -> None:
    keys = [words[1] for words in lines_of(kept, "tools") if words[0] == "book"]
    ((key, confirmation),) = lines_of(kept, "hotel")

    assert keys == [key, key]
    assert confirmation == "RIO-2N"


def test_a_tool_that_acts_once_acts_once(shown: str, kept: Path) -> None:
    started = Counter(words[0] for words in lines_of(kept, "tools"))

    assert started == {"look_up": 1, "book": 2, "notify": 1, "pay": 1}
    assert len(lines_of(kept, "messages")) == 1
    assert lines_of(kept, "payments") == [["23600"]]


def test_plain_output_is_ascii_within_100_columns(shown: str) -> None:
    assert shown.isascii()
    assert max(map(len, shown.splitlines())) <= 100


def test_output_that_is_no_terminal_has_no_colors(piped: str) -> None:
    assert ESCAPE not in piped
    assert max(map(len, piped.splitlines())) <= 100


def test_programs_are_told_the_same_one_value_per_line(shown: str, tmp_path: Path) -> None:
    done = run("--json", "--dir", str(tmp_path / "kept"))
    assert (done.returncode, done.stderr) == (0, "")
    *rows, last = [json.loads(line) for line in done.stdout.splitlines()]

    told: dict[str, list[tuple[str, str]]] = {}
    for row in rows:
        assert list(row) == ["process", "pid", "what", "asked", "answered", "how"]
        told.setdefault(str(row["process"]), []).append((row["what"], row["how"]))
    assert told == {
        number: [(what, how) for what, _, how in lines] for number, lines in cells(shown).items()
    }
    pids = last.pop("pids")
    assert [row["pid"] for row in rows if row["process"] == 2] == [pids[1]] * 4
    assert last == {
        "question": "Book 2 nights in Lisbon for at most 300 euros.",
        "answer": ANSWER,
        "killed": [{"pid": pids[0], "in": "book"}, {"pid": pids[1], "in": "notify"}],
        "replies": {"bought": 5, "twice": 0},
        "ran": {"look_up": 1, "book": 2, "notify": 1, "pay": 1},
        "bookings": 1,
        "messages": 1,
        "payments": 1,
        "kept": str(tmp_path / "kept"),
    }


def masked(text: str) -> list[str]:
    """The lines without what differs from run to run: process ids and keys."""
    text = re.sub(r"pid \d+", "pid PID", text)
    text = re.sub(r"\d+ in (book|notify)", r"PID in \1", text)
    return re.sub(r"wl_[0-9a-f]+", "KEY", text).splitlines()


def test_the_readme_shows_what_it_prints(piped: str) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = next(block for block in readme.split("```\n") if block.startswith("what "))
    _intro, _blank, table = piped.partition("\n\n")

    assert masked(shown) == masked(table)


def test_nothing_is_left_behind_without_a_folder(piped: str, scratch: Path) -> None:
    assert list(scratch.iterdir()) == []


def test_ctrl_c_ends_it_with_130_and_no_traceback(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "--plain", "--dir", str(tmp_path / "kept")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=take_sigint,  # noqa: PLW1509 - it only resets a signal
    ) as process:
        assert process.stdout is not None
        assert any(PROCESS.match(line) for line in process.stdout), "it was seen to run"
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate()

    assert process.returncode == 130
    assert complaint == "\nwindlass: interrupted\n"


@pytest.mark.parametrize(
    ("prepare", "wanted"), [(None, "1"), (take_sigint, "<built-in function default_int_handler>")]
)
def test_a_process_can_be_interrupted_although_this_run_ignores_ctrl_c(
    prepare: Callable[[], None] | None, wanted: str
) -> None:
    """As under nohup. The first row is the red proof: a process inherits that SIGINT is ignored."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        done = subprocess.run(
            [sys.executable, "-IS", "-c", "import _signal; print(_signal.getsignal(2))"],
            preexec_fn=prepare,
            capture_output=True,
            text=True,
            check=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)

    assert done.stdout == f"{wanted}\n"


def test_whatever_happens_here_a_process_does_not_outlive_it() -> None:
    sleeper = [sys.executable, "-c", "import signal; signal.pause()"]

    with pytest.raises(KeyboardInterrupt), demo._child(sleeper) as child:
        raise KeyboardInterrupt

    assert child.returncode == -signal.SIGKILL


def test_a_reader_that_goes_away_ends_it_quietly() -> None:
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        complaint = process.stderr.read()

    assert process.returncode == 141
    assert complaint == b""


# --- the faults that turn the demo's own check red ---------------------------------------------


GOOD = Seen(
    pids=[1, 2, 3, 4, 5],
    model=["a", "b", "c", "d", "e"],
    tools=["look_up", "book", "book", "notify", "pay"],
    keys=["k", "k"],
    bookings=1,
    messages=1,
    payers=[5],
    answer="Booked.",
)


def test_what_holds_passes_the_check() -> None:
    demo.check(GOOD)


@pytest.mark.parametrize(
    ("changed", "claim"),
    [
        ({"pids": [1, 2, 3, 4, 4]}, "every process was another one"),
        ({"model": ["a", "b", "c", "d", "d"]}, "none of them twice"),
        ({"model": ["a", "b", "c", "d", "e", "f"]}, "5 requests went to the model"),
        ({"tools": ["look_up", *GOOD.tools]}, "look_up ran once"),
        ({"keys": ["k", "l"]}, "book ran twice under one key"),
        ({"keys": ["k"]}, "book ran twice under one key"),
        ({"bookings": 2}, "the hotel has one booking"),
        ({"tools": ["notify", *GOOD.tools]}, "notify ran once"),
        ({"messages": 2}, "one message went out"),
        ({"tools": ["pay", *GOOD.tools]}, "pay ran once"),
        ({"payers": []}, "one payment was made"),
        ({"payers": [5, 5]}, "one payment was made"),
        ({"payers": [3]}, "after the approval"),
        ({"answer": ""}, "the turn ended with an answer"),
    ],
)
def test_what_does_not_hold_is_named(changed: dict[str, object], claim: str) -> None:
    with pytest.raises(demo.NotAsTold, match=claim):
        demo.check(msgspec.structs.replace(GOOD, **changed))


def test_a_process_that_ends_otherwise_is_told(tmp_path: Path) -> None:
    """`approve` on an empty file finds nothing to approve and is to die in no tool."""
    act = Act(role="approve", title="", dies_in="pay")

    with pytest.raises(demo.NotAsTold, match="process 1 ended with 0, wanted -9"):
        demo._play(act, 1, tmp_path)


def test_what_is_not_as_told_ends_it_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "ACTS", (Act(role="approve", title="", dies_in="pay"),))

    assert demo.run(tmp_path, plain=True) == 1
    assert capsys.readouterr().err == "demo: process 1 ended with 0, wanted -9\n"
    assert demo.run(tmp_path, plain=True, json=True) == 1
    assert json.loads(capsys.readouterr().err) == {
        "error": {
            "code": "not_as_told",
            "message": "process 1 ended with 0, wanted -9",
            "field": None,
        }
    }

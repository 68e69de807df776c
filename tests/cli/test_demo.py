"""The demo does what it says, seen from outside: exit codes, one killed process, counts in files."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from windlass.cli import demo
from windlass.cli.one_step import Note
from windlass.cli.timeline import Style, Timeline
from windlass.kernel import TurnSnapshot, canonical

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "windlass.cli.demo"]
ESCAPE = "\x1b"
ROW = re.compile(r"^ +(?P<step>\d+) +(?P<pid>\d+) +(?P<effect>\d+) (?P<rest>.+)$", re.MULTILINE)


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
    return tmp_path_factory.mktemp("demo") / "steps"


@pytest.fixture(scope="module")
def shown(kept: Path) -> str:
    """One run of the demo, looked at from many sides."""
    done = run("--plain", "--steps-dir", str(kept))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_it_ends_with_the_answer(shown: str) -> None:
    assert (
        "Answer     Booked: 2 nights at Casa do Rio in Lisbon for 236 euros, "
        "confirmation RIO-2N-236." in shown.splitlines()
    )


def test_each_step_has_a_process_of_its_own_and_one_is_killed(shown: str) -> None:
    rows = [match.groupdict() for match in ROW.finditer(shown)]
    killed = [row["pid"] for row in rows if "KILLED" in row["rest"]]

    assert len(rows) == len({row["pid"] for row in rows}) == 12
    assert len(killed) == 1
    assert f"processes: 12, killed: 1 (pid {killed[0]} in the middle of book)" in shown


def test_the_killed_effect_comes_again_in_the_next_process_with_the_same_id(shown: str) -> None:
    rows = [match.groupdict() for match in ROW.finditer(shown)]
    at = next(at for at, row in enumerate(rows) if "KILLED" in row["rest"])

    assert rows[at + 1]["rest"].startswith("> call tool book, asked again")
    assert rows[at]["effect"] == rows[at + 1]["effect"]


def test_no_model_call_is_bought_again_and_the_booking_is_made_once(shown: str, kept: Path) -> None:
    calls = (kept / "model-calls.txt").read_text(encoding="utf-8").splitlines()
    tools = Counter((kept / "tools.txt").read_text(encoding="utf-8").splitlines())

    assert len(calls) == len(set(calls)) == 4
    assert tools == {
        "started look_up": 1, "ended look_up": 1,
        "started multiply": 1, "ended multiply": 1,
        "started book": 2, "acted book": 1, "ended book": 1,
    }  # fmt: skip
    assert "model calls bought: 4, bought again: 0" in shown
    assert "tools started: look_up 1, multiply 1, book 2; bookings made: 1" in shown


def test_it_says_what_the_bare_machine_does_not_give(shown: str) -> None:
    assert "The model is a stand-in" in shown
    assert "Not yet: the bare machine keeps no journal and knows no effect contracts." in shown


def test_every_step_that_answered_left_its_snapshot(shown: str, kept: Path) -> None:
    numbers = [int(path.stem.removeprefix("step-")) for path in sorted(kept.glob("step-*.json"))]
    sizes = {number: len((kept / f"step-{number:02}.json").read_bytes()) for number in numbers}

    assert numbers == [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12]
    for match in ROW.finditer(shown):
        if "KILLED" not in match["rest"]:
            assert match["rest"].endswith(f" {sizes[int(match['step'])]:,} B")


def test_the_snapshots_are_canonical_bytes_of_the_turn(shown: str, kept: Path) -> None:
    for path in kept.glob("step-*.json"):
        assert canonical.decode(path.read_bytes(), TurnSnapshot).turn_id == "t1"


def test_plain_output_is_ascii_within_100_columns(shown: str) -> None:
    assert shown.isascii()
    assert ESCAPE not in shown
    assert max(map(len, shown.splitlines())) <= 100


@pytest.fixture(scope="module")
def piped() -> str:
    """What it prints where there is no terminal, and nothing was asked for."""
    done = run()
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_output_that_is_no_terminal_has_no_colors(piped: str) -> None:
    assert ESCAPE not in piped
    assert max(map(len, piped.splitlines())) <= 100


def without_numbers(text: str) -> list[str]:
    """The lines without what differs from run to run (pids) and with the kernel (sizes)."""
    masked = re.sub(r"(?m)^( +\d+) +\d+", r"\1 PID", text)
    masked = re.sub(r"pid \d+", "pid PID", masked)
    return re.sub(r" +[\d,]+ B$", " SIZE", masked, flags=re.MULTILINE).splitlines()


def test_the_readme_shows_what_it_prints(piped: str) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = next(block for block in readme.split("```\n") if block.startswith("step "))
    _intro, _blank, table = piped.partition("\n\n")

    assert without_numbers(shown) == without_numbers(table)


class Terminal:
    """A stream that claims to be a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("env", "plain", "color"),
    [
        pytest.param({}, False, True, id="a-terminal"),
        pytest.param({}, True, False, id="plain"),
        pytest.param({"NO_COLOR": "1"}, False, False, id="NO_COLOR"),
        pytest.param({"NO_COLOR": ""}, False, True, id="empty-NO_COLOR"),
        pytest.param({"TERM": "dumb"}, False, False, id="dumb"),
    ],
)
def test_colors_are_for_terminals_that_want_them(
    env: dict[str, str], plain: bool, color: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in env.items():
        monkeypatch.setenv(name, value)

    style = Style.of(Terminal(), plain=plain)  # type: ignore[arg-type] # all of a stream it looks at

    assert style.color is color
    assert (ESCAPE in style.paint("x", "red")) is color


def test_a_cell_that_is_too_long_is_cut_where_one_can_see_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen = Timeline(sys.stdout, Style(color=False, unicode=False))

    screen.row("1", "2", "3", "a" * 31, "b" * 40, "4 B")

    assert capsys.readouterr().out == (f"   1       2   3 {'a' * 27}... {'b' * 40}      4 B\n")


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        pytest.param(["--colour"], "unrecognized arguments: --colour", id="unknown"),
        pytest.param(["now"], "unrecognized arguments: now", id="positional"),
        pytest.param(["--steps-dir"], "expected one argument", id="no-folder"),
    ],
)
def test_wrong_arguments_are_answered_with_usage_and_2(args: list[str], complaint: str) -> None:
    done = run(*args)

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("usage: python -m windlass.cli.demo ")
    assert complaint in done.stderr


def test_a_folder_in_use_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x", encoding="utf-8")

    done = run("--steps-dir", str(tmp_path))

    assert done.returncode == 2
    assert f"{tmp_path} is not empty" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")

    done = run("--steps-dir", str(tmp_path / "file" / "below"))

    assert done.returncode == 2
    assert "Not a directory" in done.stderr


def test_help_names_every_option() -> None:
    done = run("--help")

    assert done.returncode == 0
    assert {"--plain", "--steps-dir", "--help"} <= set(re.findall(r"--[a-z-]+", done.stdout))


def test_ctrl_c_ends_it_with_130_and_no_traceback(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "--plain", "--steps-dir", str(tmp_path / "steps")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert any(ROW.match(line) for line in process.stdout), "it was seen to run"
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate()

    assert process.returncode == 130
    assert complaint == "\ndemo: interrupted\n"


def test_a_step_without_a_parent_ends_before_it_acts(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "windlass.cli.one_step", str(tmp_path)],
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(writing)

    assert (done.returncode, done.stderr) == (1, b"")
    assert list(tmp_path.iterdir()) == []


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


def step(number: int, *, pid: int, exit_code: int = 0, digest: str = "d") -> demo.Step:
    asked = Note(stage="asked", text="call tool book", effect_id=8, effect_digest=digest)
    return demo.Step(number=number, pid=pid, asked=asked, answered=None, exit_code=exit_code)


GOOD = [step(1, pid=11, exit_code=-9), step(2, pid=12)]
BOUGHT = Counter(["request"])
ACTED = Counter(["acted book"])


def test_what_holds_passes_the_check() -> None:
    demo.check(GOOD, BOUGHT, ACTED)


@pytest.mark.parametrize(
    ("steps", "bought", "tools", "claim"),
    [
        pytest.param(GOOD[1:], BOUGHT, ACTED, "exactly one process was killed", id="none-killed"),
        pytest.param(
            [*GOOD, *GOOD], BOUGHT, ACTED, "exactly one process was killed", id="two-killed"
        ),
        pytest.param(GOOD, BOUGHT + BOUGHT, ACTED, "sent to the model twice", id="bought-again"),
        pytest.param(GOOD, BOUGHT, ACTED + ACTED, "acted once", id="acted-twice"),
        pytest.param(GOOD, BOUGHT, Counter(), "acted once", id="never-acted"),
        pytest.param(
            [GOOD[0], msgspec.structs.replace(GOOD[1], pid=11)],
            BOUGHT, ACTED, "a process of its own", id="same-process",
        ),
        pytest.param(
            [GOOD[0], step(2, pid=12, digest="other")],
            BOUGHT, ACTED, "id and payload the same", id="another-effect",
        ),
    ],
)  # fmt: skip
def test_what_does_not_hold_is_named(
    steps: list[demo.Step], bought: Counter[str], tools: Counter[str], claim: str
) -> None:
    with pytest.raises(demo.NotAsClaimed, match=claim):
        demo.check(steps, bought, tools)

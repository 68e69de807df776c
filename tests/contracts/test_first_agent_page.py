"""The first page of a new user does what it says, with a real process and a real kill."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/guides/first-agent.md"
FENCE = re.compile(r"^```(?P<kind>python|console)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
BOOKED = "Booked: 2 nights at Casa do Rio in Lisbon for 236 euros; book answered RIO-2N."


def blocks(kind: str) -> list[str]:
    found = FENCE.finditer(PAGE.read_text(encoding="utf-8"))
    return [block["text"] for block in found if block["kind"] == kind]


def without_keys(text: str) -> str:
    """A key is another one in every store."""
    return re.sub(r"wl_[0-9a-f]+", "wl_…", text)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the page's first block as trip.py."""
    (tmp_path / "trip.py").write_text(blocks("python")[0], encoding="utf-8")
    return tmp_path


def trip(folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "trip.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def kill_in_booking(folder: Path) -> str:
    """Start the slow trip, wait until it books, and kill it there."""
    slow = subprocess.Popen(
        [sys.executable, "-W", "error", "trip.py", "slow"],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    with slow:
        assert slow.stdout is not None
        said = slow.stdout.readline()
        slow.kill()
    assert slow.returncode == -signal.SIGKILL
    return said


def test_a_second_run_answers_from_the_file_as_the_page_shows(folder: Path) -> None:
    first, second = trip(folder), trip(folder)

    shown = without_keys("".join(blocks("console")))
    assert without_keys(first) in shown
    assert second == BOOKED + "\n"
    assert f"$ venv/bin/python trip.py\n{second}" in shown


def test_a_killed_trip_goes_on_under_the_same_key_as_the_page_shows(folder: Path) -> None:
    before = kill_in_booking(folder)
    after = trip(folder).splitlines()

    assert re.fullmatch(r"booking, attempt 1, key wl_\w{9}\n", before)
    assert after == [before.replace("attempt 1", "attempt 2").strip(), BOOKED]
    assert without_keys("\n".join(after)) in without_keys("".join(blocks("console")))


def test_what_the_later_blocks_print_is_what_the_page_shows(tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks("python")), encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    printed = done.stdout.partition(BOOKED + "\n")[2]
    outputs = [text for text in blocks("console") if not text.startswith("$")]
    assert printed.split() == "".join(outputs).split()

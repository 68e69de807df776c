"""A batch of 500 whose process is killed twice: the script is run again, goes on, and buys nothing that it had."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "batch_process.py"
N_ITEMS = 500
CONCURRENCY = 8


def run(folder: Path, kill_at: int) -> subprocess.CompletedProcess[str]:
    paths = [str(folder / name) for name in ("batch.db", "calls.log", "done.log")]
    command = [sys.executable, str(SCRIPT), *paths, str(kill_at)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


@pytest.mark.slow
def test_a_batch_that_is_killed_twice_goes_on_and_pays_for_nothing_twice(tmp_path: Path) -> None:
    known: set[str] = set()
    for kill_at in (150, 350):
        killed = run(tmp_path, kill_at)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        known.update(lines_of(tmp_path / "done.log"))
    # Each process was killed in the middle: something was done, and more was left.
    assert 150 < len(known) < 350
    bought_before = Counter(lines_of(tmp_path / "calls.log"))

    last = run(tmp_path, 0)

    assert last.returncode == 0, last.stderr
    bought = Counter(lines_of(tmp_path / "calls.log"))
    mails = {f"Sort mail {number}." for number in range(N_ITEMS)}
    assert set(bought) == mails
    # What a call of a killed process brought may be lost, of those that were in flight.
    assert max(bought.values()) <= 3
    assert N_ITEMS <= bought.total() <= N_ITEMS + 2 * CONCURRENCY
    # What the script was given before a kill was not bought again.
    given = {line.partition("Sorted: ")[2] for line in known}
    assert [mail for mail in given if bought[mail] != bought_before[mail]] == []
    # In the end the script has all of them, each in a session of its own.
    assert set(lines_of(tmp_path / "done.log")[-N_ITEMS:]) >= known
    sessions = {line.split(" ")[0] for line in lines_of(tmp_path / "done.log")}
    assert len(sessions) == N_ITEMS
    # The generator was never further ahead than the turns that were worked on.
    assert int(last.stdout) <= 2 * CONCURRENCY
    assert last.stderr == ""  # no bar, for stderr is no terminal

"""A process and the turn that it waits for, in an operating system's process that is killed behind everything that it does."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.limits import HANGS_S

SCRIPT = Path(__file__).parent / "working_process.py"
ACTS = ["first", "a", "b", "paid 5", "last"]


def run(folder: Path, kill_at: float) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), str(folder / "p.db"), str(folder / "log"), str(kill_at)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANGS_S)


@pytest.mark.slow
def test_whatever_is_killed_the_process_ends_and_repeats_one_step_at_most(tmp_path: Path) -> None:
    """Each life does one thing more and is killed behind it, now before and now after its result is recorded."""
    lives, kill_at = 0, 1.0
    while lives < 2 * len(ACTS):
        lives += 1
        ended = run(tmp_path, kill_at)
        if ended.returncode == 0:
            break
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        n_lines = len((tmp_path / "log").read_text().splitlines())
        kill_at = n_lines + 1 + (0.5 if lives % 2 else 0)
    ended = run(tmp_path, 0)

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == ["first", "a", "b", "Paid.", "last"]
    done = Counter((tmp_path / "log").read_text().splitlines())
    assert set(done) == set(ACTS)
    # A step is repeated once for each life that was killed in it.
    assert done.total() <= len(ACTS) + lives
    assert lives >= 4


@pytest.mark.slow
def test_what_is_recorded_is_never_done_again(tmp_path: Path) -> None:
    """The first life is killed when the result of its act is on disk."""
    assert run(tmp_path, 1.5).returncode == -signal.SIGKILL
    assert run(tmp_path, 0).returncode == 0
    once = Counter((tmp_path / "log").read_text().splitlines())
    again = run(tmp_path, 0)

    assert again.returncode == 0
    assert Counter((tmp_path / "log").read_text().splitlines()) == once
    assert once == Counter(ACTS)

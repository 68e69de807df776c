"""Replies that a tool bought for itself: a kill loses one of them at most, as of the turn's own."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.durability.asking_process import N_ASKED, bought
from tests.limits import HANGS_S


def live(folder: Path, *how: str) -> subprocess.CompletedProcess[str]:
    """Let the process live once, to its end or its death."""
    return subprocess.run(
        [sys.executable, "-m", "tests.durability.asking_process", str(folder), *how],
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )


@pytest.mark.parametrize("how", ["in_turn", "at_once"])
@pytest.mark.parametrize("effect", ["pure", "idempotent", "keyed"])
def test_a_kill_at_the_end_of_a_tool_loses_one_of_its_replies_at_most(
    tmp_path: Path, effect: str, how: str
) -> None:
    first = live(tmp_path, effect, how)
    assert first.returncode == -signal.SIGKILL, first.stderr
    assert sorted(bought(tmp_path)) == [f"question {n}" for n in range(N_ASKED)]

    second = live(tmp_path, effect, how)

    assert (second.returncode, second.stdout) == (0, "Done."), second.stderr
    again = Counter(bought(tmp_path)) - Counter(f"question {n}" for n in range(N_ASKED))
    assert again.total() <= 1, again

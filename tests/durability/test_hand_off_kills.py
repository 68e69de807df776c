"""A process that hands off and comes back is killed in the middle of what it does: the chain goes on, each part once."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.durability.desk_process import ledger
from tests.limits import HANGS_S

# Without any death it notes: triage, billing, three looks at the job, billing, the end.
N_NOTED = 7


def _live(folder: Path, dies_at: int) -> int:
    command = [sys.executable, "-m", "tests.durability.desk_process", str(folder), str(dies_at)]
    return subprocess.run(command, check=False, timeout=HANGS_S).returncode


@pytest.mark.slow
@pytest.mark.parametrize("dies_at", range(1, N_NOTED + 1))
def test_a_chain_goes_on_wherever_its_process_is_killed(tmp_path: Path, dies_at: int) -> None:
    died = [_live(tmp_path, dies_at) for _ in range(2)]
    assert _live(tmp_path, 0) == 0
    lines = ledger(tmp_path)
    looks = [line.split() for line in lines if line.startswith("pay ")]
    attempts = [int(look[1]) for look in looks]

    assert died[0] == -signal.SIGKILL
    assert lines[-1] == "done Paid. ['t']"
    # Attempts count on, whatever died, and the world can tell that it is one call.
    assert attempts == sorted(set(attempts))
    assert len({look[2] for look in looks}) == 1
    # Each life may cost the reply in flight, and nothing else is asked for twice.
    assert 1 <= lines.count("triage") <= 3
    assert 2 <= lines.count("billing") <= 4
    assert 3 <= len(looks) <= 5


def test_without_a_death_each_thing_is_done_once(tmp_path: Path) -> None:
    assert _live(tmp_path, 0) == 0

    lines = [" ".join(line.split()[:2]) for line in ledger(tmp_path)]
    assert lines == ["triage", "billing", "pay 1", "pay 2", "pay 3", "billing", "done Paid."]

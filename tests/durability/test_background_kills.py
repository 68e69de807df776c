"""A background tool's process is killed for real while its body runs."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.durability.background_process import built
from tests.limits import HANGS_S

LABEL = re.compile(r"p_[0-9a-f]{10}")


def live(folder: Path, effect: str, life: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.durability.background_process"]
    return subprocess.run(
        [*command, str(folder), effect, life],
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )


@pytest.mark.parametrize(
    ("effect", "n_runs", "words"),
    [
        ("keyed", 2, "build (p): built"),
        (
            "once",
            1,
            (
                "build (p): It failed. StepUnknown: It is not known whether build acted: the process "
                "ended while it ran. It was not run again. Do not assume that it did or did not; "
                "check first if you can."
            ),
        ),
    ],
)
def test_killed_in_the_body_it_goes_by_its_contract_and_its_session_hears_of_it_once(
    tmp_path: Path, effect: str, n_runs: int, words: str
) -> None:
    first = live(tmp_path, effect, "first")
    assert first.returncode == -signal.SIGKILL, first.stderr
    assert len(built(tmp_path)) == 1

    for _ in range(2):  # what is over stays over
        later = live(tmp_path, effect, "next")
        assert later.returncode == 0, later.stderr
        assert LABEL.sub("p", later.stdout) == f"{words}\n"

    assert len(built(tmp_path)) == n_runs
    assert len(set(built(tmp_path))) == 1

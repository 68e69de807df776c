"""The first read of a process happens on several threads: none of them sees a decoder that is half made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_first_page_of_a_process_can_be_read_on_many_threads_at_once() -> None:
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, "-m", "tests.durability.first_read"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")

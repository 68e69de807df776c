"""Same inputs, same bytes, whatever the interpreter's hash seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.limits import HANGS_S

ROOT = Path(__file__).parents[2]
SEEDS = ("0", "1", "2", "3", "42", "1000", "65535", "123456789", "4294967295", "random")
# How much the program says, and its SHA-256. It changes when the machine says something else, never
# by accident.
GOLDEN = "160 a6701afc48f1bb77e3fb184264596650ac2ac889e967965df1a84e2680e6a5cc"


def run(seed: str, program: tuple[str, ...] = ("-m", "tests.kernel.seeded_program")) -> str:
    done = subprocess.run(
        [sys.executable, *program],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_fixed_program_says_the_same_bytes_under_ten_hash_seeds() -> None:
    assert {seed: run(seed) for seed in SEEDS} == dict.fromkeys(SEEDS, GOLDEN)


def test_the_seeds_really_reach_the_interpreter() -> None:
    """A program whose output hangs on set order differs: the seeds do seed."""
    unordered = ("-c", "print({f'tool-{n}' for n in range(50)})")
    assert len({run(seed, unordered) for seed in SEEDS}) > 1

"""Run the whole suite in two halves side by side, one for each core.

The first half is measured: every branch of the kernel and the journal has to be covered by it. The second holds what
starts processes, waits for real clocks or counts instructions; measuring it would only make it slower. The first is
shown as it runs, the second when it has ended.

Usage: python -m scripts.suite
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path("tests")
SECOND = ("cli", "durability", "perf", "scenarios", "testing", "typing")


def halves() -> tuple[list[str], list[str]]:
    """Return the folders of both halves: together they are all of them."""
    folders = sorted(path.name for path in TESTS.iterdir() if any(path.rglob("test_*.py")))
    first = [f"{TESTS}/{name}" for name in folders if name not in SECOND]
    second = [f"{TESTS}/{name}" for name in folders if name in SECOND]
    return first, second


def main() -> int:
    """Run both halves; 0 if both pass."""
    first, second = halves()
    pytest = [sys.executable, "-m", "pytest"]
    measured = [sys.executable, "-m", "coverage", "run", "-m", "pytest"]
    with tempfile.TemporaryFile("w+") as said:
        beside = subprocess.Popen(
            [*pytest, "-p", "no:cacheprovider", *second], stdout=said, stderr=subprocess.STDOUT
        )
        try:
            found = subprocess.run([*measured, *first], check=False).returncode
            found = beside.wait() or found
        except BaseException:
            beside.kill()
            raise
        said.seek(0)
        print(f"\n--- {' '.join(second)}\n")
        print(said.read(), flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())

"""Run the whole suite on two cores: two runs of pytest at a time, the next as soon as one has ended.

The first is measured: every branch of the kernel and the journal has to be covered by it. The others are a folder each:
they start processes, wait for real clocks, speak to servers or count instructions, and measuring them would only make
them slower. The measured one is shown as it runs, the others when they have ended.

Usage: python -m scripts.suite
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from collections import deque
from pathlib import Path

TESTS = Path("tests")
# Apart from the measured ones, those that take longest first.
APART = ("durability", "scenarios", "plugins", "models", "cli", "testing", "perf", "typing")


def measured() -> list[str]:
    """Return the folders that are measured: all but those that run apart."""
    folders = sorted(path.name for path in TESTS.iterdir() if any(path.rglob("test_*.py")))
    return [f"{TESTS}/{name}" for name in folders if name not in APART]


def main() -> int:
    """Run everything; 0 if all of it passes."""
    left = deque(f"{TESTS}/{name}" for name in APART)
    failed: list[str] = []
    beside = threading.Thread(target=_run_all, args=(left, failed), daemon=True)
    beside.start()
    command = [sys.executable, "-m", "coverage", "run", "-m", "pytest", *measured()]
    if subprocess.run(command, check=False).returncode:
        failed.append("the measured tests")
    _run_all(left, failed)
    beside.join()
    for name in failed:
        print(f"failed: {name}", flush=True)
    return bool(failed)


def _run_all(left: deque[str], failed: list[str]) -> None:
    """Run what is left, folder by folder, until nothing is."""
    while True:
        try:
            folder = left.popleft()
        except IndexError:
            return
        with tempfile.TemporaryFile("w+") as said:
            command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", folder]
            run = subprocess.run(command, stdout=said, stderr=subprocess.STDOUT, check=False)
            said.seek(0)
            print(f"\n--- {folder}\n{said.read()}", flush=True)
        if run.returncode:
            failed.append(folder)


if __name__ == "__main__":
    sys.exit(main())

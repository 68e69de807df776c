"""Run the whole suite on two cores: two runs of pytest at a time, the next as soon as one has ended.

One is measured: every branch of the kernel and the journal has to be covered by their own tests. Measuring the others
would only make them slower. Those that wait for real clocks and processes come first, so that the others fill their gaps. Of a run that passes its last line is shown, of one that fails everything.

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
MEASURED = ("guards", "journal", "kernel")
# Those that take longest first; all that is not named runs together, last.
APART = ("durability", "plugins", "models", "scenarios", "cli", "perf", "conformance", "testing")


def runs() -> list[list[str]]:
    """Return what each run of pytest is given: every folder with tests, once."""
    folders = sorted(path.name for path in TESTS.iterdir() if any(path.rglob("test_*.py")))
    rest = [name for name in folders if name not in MEASURED and name not in APART]
    apart = [[name] for name in APART]
    groups = [apart[0], list(MEASURED), *apart[1:], rest]
    return [[f"{TESTS}/{name}" for name in group] for group in groups]


def main() -> int:
    """Run everything; 0 if all of it passes."""
    left = deque(enumerate(runs(), 1))
    failed: list[str] = []
    lanes = [threading.Thread(target=_run_all, args=(left, failed)) for _ in range(2)]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    for name in failed:
        print(f"failed: {name}", flush=True)
    return bool(failed)


def _run_all(left: deque[tuple[int, list[str]]], failed: list[str]) -> None:
    """Run what is left, one after the other, until nothing is."""
    while True:
        try:
            number, folders = left.popleft()
        except IndexError:
            return
        names = " ".join(folders)
        print(f"[{number}] {names} …", flush=True)
        code, said = _run(folders)
        if code:
            failed.append(names)
            print(f"[{number}] {names}\n{said}", flush=True)
        else:
            print(f"[{number}] {names} {said.splitlines()[-1].strip('= ')}", flush=True)


def _run(folders: list[str]) -> tuple[int, str]:
    """Run some folders; return the exit code and what was said."""
    is_measured = folders[0] == f"{TESTS}/{MEASURED[0]}"
    how = ["-m", "coverage", "run", "-m", "pytest"] if is_measured else ["-m", "pytest"]
    command = [sys.executable, *how, "-p", "no:cacheprovider", *folders]
    with tempfile.TemporaryFile("w+") as said:
        run = subprocess.run(command, stdout=said, stderr=subprocess.STDOUT, check=False)
        said.seek(0)
        return run.returncode, said.read()


if __name__ == "__main__":
    sys.exit(main())

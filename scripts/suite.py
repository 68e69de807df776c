"""Run the whole suite on two cores: two runs of pytest at a time, the longest first.

A lane that has ended its run takes the next one, so both end at about the same time. One run is measured: the tests of
the kernel and the journal have to cover every branch of them. Measuring the others would only make them slower.
What is not about the disk keeps its files in memory (tmpfs), where syncs cost nothing; crash tests, stores and figures
stay on the disk. Of a run that passes, the last line is shown; of a run that fails, everything. Every half a minute a line
says how far the runs under way have come.

With WINDLASS_SOAK=10 only the random and the crash tests run, each property ten times as often (see tests/limits.py).

Usage: python -m scripts.suite
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.limits import SOAK

TESTS = Path("tests")
N_LANES = 2
TELL_EVERY_S = 30.0
TEST_LIMIT_S = 300
MEASURED = ("guards", "journal", "kernel")
# From the run that takes longest to the one that takes least; a folder runs without what has a run of its own.
RUNS: tuple[tuple[str, ...], ...] = (
    ("scenarios",),
    ("durability",),
    ("cli",),
    ("plugins",),
    ("abuse", "runtime"),
    ("durability/matrix", "durability/test_crash_matrix.py", "durability/test_two_workers.py"),
    ("perf",),
    MEASURED,
    ("models",),
    ("toolkit", "net", "sandbox", "evals"),
    ("security", "testing", "tools"),
    ("contracts", "typing"),
    ("conformance", "stores"),
    ("durability/test_worker_soak.py", "durability/test_spend_kills.py"),
    ("durability/test_queue_kills.py",),
    ("durability/test_errand_soak.py", "durability/test_errand_audit.py"),
)
NOTHING_COLLECTED = 5
# The first folder of a run's paths below tests/.
ON_DISK = frozenset({"conformance", "durability", "perf", "stores"})
IN_MEMORY = Path("/dev/shm")  # noqa: S108 - pytest makes a folder of its own there
ROOM_BYTES = 2 * 1024**3


@dataclass(slots=True, kw_only=True)
class Run:
    """One run of pytest."""

    paths: tuple[Path, ...]
    left_out: tuple[Path, ...] = ()
    output: Path | None = None

    @property
    def name(self) -> str:
        return " ".join(map(str, self.paths))

    def command(self) -> list[str]:
        """Return what starts it."""
        is_measured = self.paths[0] == TESTS / MEASURED[0] and SOAK == 1
        how = ["coverage", "run", "-m", "pytest"] if is_measured else ["pytest"]
        return [
            *(sys.executable, "-m", *how, "-p", "no:cacheprovider"),
            *(f"--timeout={TEST_LIMIT_S * SOAK}" for _ in range(SOAK > 1)),
            *(f"--ignore={path}" for path in self.left_out),
            *map(str, self.paths),
        ]

    @property
    def is_about_disk(self) -> bool:
        """Whether its files have to be on the disk."""
        return any(path.parts[1] in ON_DISK for path in self.paths)

    def progress(self) -> str:
        """Return how far it has come: the last percentage that pytest has printed."""
        try:
            said = self.output.read_text(errors="replace") if self.output else ""
        except FileNotFoundError:  # it is about to begin, or has just ended
            said = ""
        percents = re.findall(r"\[ *(\d+)%\]", said)
        return f"{self.name} {percents[-1] if percents else 0}%"


def runs(tests: Path = TESTS) -> list[Run]:
    """Return the runs of pytest that together run every test once; what has no run of its own runs together, last."""
    named = {tests / name for group in RUNS for name in group}
    found = sorted(path for path in tests.iterdir() if any(path.rglob("test_*.py")))
    rest = tuple(path for path in found if path not in named)
    groups = [tuple(tests / name for name in group) for group in RUNS]
    return [
        Run(
            paths=group,
            left_out=tuple(sorted(p for p in named if any(path in p.parents for path in group))),
        )
        for group in (*groups, rest)
        if group
    ]


@dataclass(slots=True, kw_only=True)
class Suite:
    """The runs, and what has become of them."""

    runs: Sequence[Run]
    left: deque[Run] = field(init=False)
    under_way: list[Run] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    began_s: float = field(default_factory=time.monotonic)  # noqa: TID251 - for a person to read

    def __post_init__(self) -> None:
        self.left = deque(self.runs)

    def run(self) -> None:
        """Run everything in two lanes, and say from time to time how far it has come."""
        lanes = [threading.Thread(target=self._run_lane) for _ in range(N_LANES)]
        for lane in lanes:
            lane.start()
        try:
            for lane in lanes:
                self._follow(lane)
        finally:
            self.left.clear()  # after Ctrl-C, which ended the runs under way, too, no other run begins
            for lane in lanes:
                lane.join()

    def _follow(self, lane: threading.Thread) -> None:
        while lane.is_alive():
            lane.join(TELL_EVERY_S)
            if self.under_way:
                self._tell(", ".join(run.progress() for run in tuple(self.under_way)))

    def _run_lane(self) -> None:
        """Run what is left, one after the other, until nothing is."""
        with tempfile.TemporaryDirectory() as folder:
            while self.left:
                try:
                    run = self.left.popleft()
                except IndexError:  # the other lane took the last one
                    return
                run.output = Path(folder, "output")
                self.under_way.append(run)
                code, said = _run(run)
                self.under_way.remove(run)
                self._end(run, code, said)

    def _end(self, run: Run, code: int, said: str) -> None:
        self.ended.append(run.name)
        if code and not (SOAK > 1 and code == NOTHING_COLLECTED):
            self.failed.append(run.name)
            self._tell(f"FAILED {run.name}\n{said}")
        else:
            self._tell(f"{run.name}: {said.splitlines()[-1].strip('= ')}")

    def _tell(self, text: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - self.began_s), 60)  # noqa: TID251 - likewise
        print(f"{minutes:2}:{seconds:02} [{len(self.ended)}/{len(self.runs)}] {text}", flush=True)


def _run(run: Run) -> tuple[int, str]:
    """Run pytest with temporary files of its own; return the exit code and what it printed."""
    assert run.output is not None  # noqa: S101 - its lane has set it
    is_on_disk = run.is_about_disk or not _has_room(IN_MEMORY)
    with (
        tempfile.TemporaryDirectory(dir=None if is_on_disk else IN_MEMORY) as folder,
        run.output.open("w") as file,
    ):
        ended = subprocess.run(
            run.command(),
            env={**os.environ, "TMPDIR": folder},  # noqa: TID251 - all but one of it is handed on
            stdout=file,
            stderr=subprocess.STDOUT,
            check=False,
        )
    return ended.returncode, run.output.read_text(errors="replace")


def _has_room(folder: Path) -> bool:
    return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free >= ROOM_BYTES


def main() -> int:
    """Run everything; 0 if all of it passes, 130 after Ctrl-C."""
    suite = Suite(runs=runs())
    try:
        suite.run()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        return 130
    for name in suite.failed:
        print(f"failed: {name}", flush=True)
    return bool(suite.failed) or len(suite.ended) < len(suite.runs)


if __name__ == "__main__":
    sys.exit(main())

"""What an import costs: fresh processes, in turn, each timing its own import statement."""

from __future__ import annotations

import os
import subprocess
import sys

from bench.progress import progress
from bench.samples import Figure, figure, ratio

FLOOR = "asyncio, msgspec"
MEASURED = ("windlass", "windlass.kernel", "asyncio, windlass.kernel")
# Installed packages have their bytecode; a shell that forbids writing it would time the compiler.
_ENVIRONMENT = {
    name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
}
BAR = 1.4

_CHILD = """\
from time import perf_counter_ns, process_time_ns
wall, cpu = perf_counter_ns(), process_time_ns()
import {names}
print(perf_counter_ns() - wall, process_time_ns() - cpu)
"""


def _import(names: str) -> tuple[float, float]:
    """Return wall and CPU milliseconds of one import in a new process."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD.format(names=names)],
        capture_output=True,
        text=True,
        check=True,
        env=_ENVIRONMENT,
    )
    wall, cpu = done.stdout.split()
    return int(wall) / 1e6, int(cpu) / 1e6


def measure_imports(rounds: int) -> list[Figure]:
    """Time each import once a round; a first round, not counted, leaves the bytecode on disk."""
    every = (FLOOR, *MEASURED)
    for names in every:
        _import(names)
    walls: dict[str, list[float]] = {names: [] for names in every}
    cpus: dict[str, list[float]] = {names: [] for names in every}
    for _ in progress("imports", rounds):
        for names in every:
            wall, cpu = _import(names)
            walls[names].append(wall)
            cpus[names].append(cpu)
    lines = [figure(f"import {FLOOR} (the floor)", "ms", walls[FLOOR])]
    for names in MEASURED:
        lines.append(figure(f"import {names}", "ms", walls[names]))
        for kind, samples in (("wall", walls), ("CPU", cpus)):
            blocks = [[sample] for sample in samples[names]]
            floors = [[sample] for sample in samples[FLOOR]]
            lines.append(ratio(f"  {kind} time to the floor's", blocks, floors, bar=BAR))
    return lines

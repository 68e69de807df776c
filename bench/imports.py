"""What an import costs: fresh processes, in turn, each timing its own import statement."""

from __future__ import annotations

import os
import subprocess
import sys

from bench.progress import progress
from bench.samples import Figure, figure, ratio

FLOOR = "import asyncio, msgspec, apsw"
MEASURED = (
    "import windlass",
    "from windlass import Agent, Runtime, tool",
    "import windlass.kernel",
)
# Installed packages have their bytecode; a shell that forbids writing it would time the compiler.
_ENVIRONMENT = {
    name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
}
BAR = 1.4

_CHILD = """\
from time import perf_counter_ns, process_time_ns
wall, cpu = perf_counter_ns(), process_time_ns()
{statement}
print(perf_counter_ns() - wall, process_time_ns() - cpu)
"""


def _import(statement: str) -> tuple[float, float]:
    """Return wall and CPU milliseconds of one import in a new process."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD.format(statement=statement)],
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
    for statement in every:
        _import(statement)
    walls: dict[str, list[float]] = {statement: [] for statement in every}
    cpus: dict[str, list[float]] = {statement: [] for statement in every}
    for _ in progress("imports", rounds):
        for statement in every:
            wall, cpu = _import(statement)
            walls[statement].append(wall)
            cpus[statement].append(cpu)
    lines = [figure(f"{FLOOR} (the floor)", "ms", walls[FLOOR])]
    for statement in MEASURED:
        lines.append(figure(statement, "ms", walls[statement]))
        for kind, samples in (("wall", walls), ("CPU", cpus)):
            blocks = [[sample] for sample in samples[statement]]
            floors = [[sample] for sample in samples[FLOOR]]
            lines.append(ratio(f"  {kind} time to the floor's", blocks, floors, bar=BAR))
    return lines

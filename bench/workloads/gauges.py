"""What a piece of work took: on the clock, of the processor, written."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter_ns, process_time_ns
from typing import NamedTuple

from bench.workloads.candidate import Candidate
from bench.workloads.script import ANSWER, n_calls_of, script


class Reading(NamedTuple):
    """One measurement, or the medians of several."""

    wall_us: float
    cpu_us: float
    written: float


def cpu_us() -> float:
    """Return what this process has used of the processor, with all its threads."""
    return process_time_ns() / 1e3


def written_bytes(pid: int | str = "self") -> int:
    """Return what a process has handed to the system to write; 0 where nobody counts."""
    try:
        text = Path(f"/proc/{pid}/io").read_text(encoding="ascii")
    except OSError:
        return 0
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("wchar"))


def memory_mb(field: str = "VmRSS") -> float:
    """Return the memory of this process, or its peak under `VmHWM`; 0 where nobody counts."""
    try:
        text = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return 0.0
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(field)) / 1e3


def folder_bytes(folder: Path) -> int:
    """Return the size of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


async def measured_turn(candidate: Candidate, session: str, asked: str) -> Reading:
    """Run a turn and see that all of it was really done."""
    n_before, written = script.n_calls, written_bytes()
    cpu, begin = cpu_us(), perf_counter_ns()
    answer = await candidate.turn(session, asked)
    wall = perf_counter_ns() - begin
    cpu = cpu_us() - cpu
    assert answer == ANSWER, answer[:100]
    assert script.n_calls - n_before == n_calls_of(asked)
    return Reading(wall / 1e3, cpu, written_bytes() - written)


def medians(readings: Sequence[Reading]) -> Reading:
    """Return the median of each gauge."""
    return Reading(*(statistics.median(column) for column in zip(*readings, strict=True)))

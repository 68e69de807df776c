"""A session that is open and has nothing to do: what it keeps in memory, and what it writes."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from pathlib import Path

from bench.progress import progress
from bench.samples import Figure, figure
from bench.store_file import measured_folder
from bench.workloads.candidate import opened
from bench.workloads.script import loop, question
from bench.workloads.windlass_turns import WindlassTurns
from windlass.runtime.system_clock import SystemClock

MEMORY_BAR_KB = 40.0
_SHORT_TURNS, _N_SHORT = 1, 100
_LONG_TURNS, _N_LONG = 100, 10
_PER_TURN = 4
_PER_ROUND = 10
_LEASE_S = 1.0
_IDLE_S = 2.5
# Longer than anybody may come back and ask for what was shown live.
_LATER_MS = 180_000


class LaterClock(SystemClock):
    """The time, put forward at will: three minutes of idling are not waited for."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now_ms(self) -> int:
        """Return the time, or a later one."""
        return super().now_ms() + self.ahead_ms


def measure_idle(rounds: int) -> list[Figure]:
    """Open sessions of two lengths, and wait. Few rounds make do with a shorter long one."""
    n_long = min(_LONG_TURNS, _PER_ROUND * rounds)
    with measured_folder() as folder:
        short, _ = asyncio.run(idle_session(folder, _N_SHORT, _SHORT_TURNS))
    with measured_folder() as folder:
        long, commits = asyncio.run(idle_session(folder, _N_LONG, n_long))
    return [
        _memory(_SHORT_TURNS, short),
        _memory(n_long, long),
        figure(f"  commits in {_IDLE_S} s, lease of {_LEASE_S:.0f} s", "", [commits] * 2, bar=0),
    ]


def _memory(turns: int, found: float) -> Figure:
    name = f"idle session of {turns * _PER_TURN} messages"
    return figure(name, "kB", [found / 1e3] * 2, bar=MEMORY_BAR_KB)


async def idle_session(folder: Path, n_sessions: int, n_turns: int) -> tuple[float, int]:
    """Return the bytes that an idle session keeps, and the commits while all of them idle."""
    clock = LaterClock()
    made = WindlassTurns("once", folder, durability="process", lease_s=_LEASE_S, clock=clock)
    async with opened(made) as candidate:
        for at in range(5):
            await candidate.turn(f"warm{at}", question(loop(1)))
        gc.collect()
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            for at in progress("idle ones", n_sessions):
                for _ in range(n_turns):
                    await candidate.turn(f"s{at}", question(loop(1)))
            before_idling = candidate.commits
            await asyncio.sleep(_IDLE_S)
            commits = candidate.commits - before_idling
            # Later the past is forgotten, and housekeeping has its hour: that is no idling.
            clock.ahead_ms = _LATER_MS
            await asyncio.sleep(_IDLE_S)
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        return (after - before) / n_sessions, commits

"""W4: turn 1,000 of an old session beside turn 10 of young ones, with 60 newer sessions in the file."""

from __future__ import annotations

import asyncio
from pathlib import Path
from statistics import fmean

from bench.progress import progress
from bench.samples import Figure, figure, ratio
from bench.store_bytes import CountingVfs
from bench.store_file import measured_folder
from bench.workloads.candidate import opened
from bench.workloads.gauges import measured_turn
from bench.workloads.script import loop, question
from bench.workloads.windlass_turns import WindlassTurns

YOUNG = 10
OLD = 1_000
NEWER_SESSIONS = 60
TIME_BAR = 1.15
BYTES_BAR = 1.1
_PER_BLOCK = 10
_PER_ROUND = 50

Pair = tuple[list[float], list[float]]


def measure_long_sessions(rounds: int) -> list[Figure]:
    """Time such turns in turn; count what they write in a run of its own, because counting is slow.

    Few rounds make do with a younger old session.
    """
    old = min(OLD, _PER_ROUND * rounds)
    with measured_folder() as folder:
        youngs, olds = asyncio.run(turn_times(folder, old, NEWER_SESSIONS))
    with measured_folder() as folder:
        young_bytes, old_bytes = asyncio.run(turn_bytes(folder, old, NEWER_SESSIONS))
    return [
        figure(f"W4, turn {YOUNG} with one call", "µs", youngs),
        figure(f"  turn {old:,} of the oldest of {NEWER_SESSIONS + 1}", "µs", olds),
        ratio(
            f"  turn {old:,} to turn {YOUNG}, time", _blocks(olds), _blocks(youngs), bar=TIME_BAR
        ),
        figure(f"W4, turn {YOUNG} writes to the log", "kB", [each / 1e3 for each in young_bytes]),
        ratio(
            f"  turn {old:,} to turn {YOUNG}, bytes",
            [[fmean(old_bytes)]] * 2,
            [[fmean(young_bytes)]] * 2,
            bar=BYTES_BAR,
        ),
    ]


def _blocks(samples: list[float]) -> list[list[float]]:
    return [samples[at : at + _PER_BLOCK] for at in range(0, len(samples), _PER_BLOCK)]


async def turn_times(folder: Path, old: int, n_newer: int) -> Pair:
    """Return times in µs: of turn 10 of so many sessions, and of as many turns of the old one."""
    async with opened(WindlassTurns("once", folder)) as candidate:
        await _grow(candidate, old, n_newer)
        return await _in_turn(candidate, n_newer, None)


async def turn_bytes(folder: Path, old: int, n_newer: int) -> Pair:
    """Return the same turns' bytes."""
    vfs = CountingVfs()
    try:
        made = WindlassTurns("once", folder, durability="process", vfs=vfs.name)
        async with opened(made) as candidate:
            await _grow(candidate, old, n_newer)
            return await _in_turn(candidate, n_newer, vfs)
    finally:
        vfs.unregister()


async def _grow(candidate: WindlassTurns, n_old: int, n_newer: int) -> None:
    for _ in progress("an old one", n_old - n_newer):
        await candidate.turn("old", question(loop(1)))
    for _ in progress("newer ones", YOUNG - 2):
        for newer in range(n_newer):
            await candidate.turn(f"new{newer}", question(loop(1)))


async def _in_turn(candidate: WindlassTurns, n_newer: int, vfs: CountingVfs | None) -> Pair:
    found: dict[str, list[float]] = {"young": [], "old": []}
    for at in range(n_newer):
        sessions = {"young": f"new{at}", "old": "old"}
        for session in sessions.values():
            # A session that was left for a while may have been let go; reading it again is W7's affair.
            await candidate.turn(session, question(loop(1)))
        for who in ("old", "young") if at % 2 else ("young", "old"):
            before = 0 if vfs is None else vfs.log_bytes
            reading = await measured_turn(candidate, sessions[who], question(loop(1)))
            found[who].append(reading.wall_us if vfs is None else vfs.log_bytes - before)
    return found["young"], found["old"]

"""Commits and bytes of whole turns: the same on every run, so they are gates, too."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import repeat
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TypeAlias, cast

from bench.bars.floor_ratios import W1, W2, W3
from bench.counts import instructions_by_file
from bench.samples import Figure, figure
from bench.store_bytes import CountingVfs
from bench.store_file import measured_folder
from bench.workloads.candidate import opened
from bench.workloads.child import ITERATIONS
from bench.workloads.floor import Floor
from bench.workloads.gauges import measured_turn
from bench.workloads.script import loop as plan_of
from bench.workloads.script import question
from bench.workloads.windlass_turns import WindlassTurns
from windlass.runtime import system_clock
from windlass.runtime.system_clock import SystemClock
from windlass.stores.sqlite import writer

Count: TypeAlias = Callable[[Callable[[], object]], Counter[str]]

COMMITS = {
    (W1.plan, "once"): 1,
    (W2.plan, "once"): ITERATIONS + 1,
    (W2.plan, "pure"): 3,
    (W3.plan, "once"): 2,
    (W3.plan, "pure"): 3,
}
BYTES_BAR = 1.0
_TURNS = 4
_SHORT, _LONG = 5, 25


@contextmanager
def _put_in_place(module: ModuleType, name: str, stand_in: object) -> Iterator[None]:
    kept = getattr(module, name)
    setattr(module, name, stand_in)
    try:
        yield
    finally:
        setattr(module, name, kept)


def disk_without_delay() -> AbstractContextManager[None]:
    """Let commits take no time: the store decides by the pace of the disk whether the loop or a thread writes.

    The clock that stands in is C's, as the real one is: it adds no instruction.
    """
    return _put_in_place(writer, "_clock", repeat(0.0).__next__)


def _wall_clock_standing() -> AbstractContextManager[None]:
    """Let no millisecond pass: a slow machine passes more of them in a turn, and what looks at each costs instructions."""
    now_ns = SystemClock().now_ms() * 1_000_000
    return _put_in_place(system_clock, "time", SimpleNamespace(time_ns=repeat(now_ns).__next__))


class StandingLoop(asyncio.SelectorEventLoop):
    """An event loop whose time can be made to stand.

    To be counted slows a turn down a hundredfold. No timer of the runtime may fall due meanwhile, or the count would
    depend on how fast the machine is.
    """

    _stands_at: float | None = None

    def time(self) -> float:
        """Return the time, or when it began to stand."""
        return super().time() if self._stands_at is None else self._stands_at

    @contextmanager
    def standing(self) -> Iterator[None]:
        """Let no time pass."""
        self._stands_at = self.time()
        try:
            with _wall_clock_standing():
                yield
        finally:
            self._stands_at = None


async def commits_per_turn(variant: str, plan: str, folder: Path) -> float:
    """Count the commits of a turn in a session of its own, with what it leaves to be written later."""
    async with opened(WindlassTurns(variant, folder, durability="process")) as candidate:
        await measured_turn(candidate, "first", question(plan))
        before = candidate.commits
        for at in range(_TURNS):
            await measured_turn(candidate, f"s{at}", question(plan))
        return (candidate.commits - before) / _TURNS


def turn_instructions(
    folder: Path,
    plan: str,
    n_before: int = 0,
    *,
    variant: str = "once",
    count: Count = instructions_by_file,
) -> Counter[str]:
    """Count the bytecode instructions of a turn, on the loop's thread, by source file."""
    candidate = WindlassTurns(variant, folder, durability="process")
    return counted_turns(candidate, plan, n_before, count)


def counted_turns(
    candidate: WindlassTurns, plan: str, n_before: int = 0, count: Count = instructions_by_file
) -> Counter[str]:
    """Count those of a turn.

    Each counted turn has a session of its own, in which so many turns went before. The least of some is returned: the
    others were met by something that the runtime does now and then.
    """
    counts = []
    with disk_without_delay(), asyncio.Runner(loop_factory=StandingLoop) as runner:
        loop = cast("StandingLoop", runner.get_loop())
        runner.run(candidate.open())
        try:
            runner.run(candidate.turn("first", question(plan)))
            for at in range(_TURNS):
                for _ in range(n_before):
                    runner.run(candidate.turn(f"s{at}", question(plan_of(1))))
                turn = loop.create_task(candidate.turn(f"s{at}", question(plan)))
                with loop.standing():
                    counts.append(count(partial(loop.run_until_complete, turn)))
        finally:
            runner.run(candidate.close())
    return min(counts, key=Counter.total)


def iteration_instructions(
    folder: Path,
    n_before: int = 0,
    *,
    variant: str = "once",
    count: Count = instructions_by_file,
) -> Counter[str]:
    """Count those of one iteration."""

    def counted(place: Path, plan: str) -> Counter[str]:
        return turn_instructions(place, plan, n_before, variant=variant, count=count)

    return per_iteration(counted, folder)


def per_iteration(count: Callable[[Path, str], Counter[str]], folder: Path) -> Counter[str]:
    """Return what a long turn has more than a short one, divided by its further iterations."""
    found = []
    for n in (_SHORT, _LONG):
        place = folder / f"of-{n}"
        place.mkdir()
        found.append(count(place, plan_of(n)))
    short, long = found
    more = {name: (n - short[name]) // (_LONG - _SHORT) for name, n in long.items()}
    return Counter({name: n for name, n in more.items() if n})


async def log_bytes_per_turn(variant: str, plan: str, folder: Path) -> tuple[float, float]:
    """Count what a turn writes to the log: windlass's, and the floor's."""
    vfs = CountingVfs()
    found = []
    try:
        for candidate in (
            WindlassTurns(variant, folder, durability="process", vfs=vfs.name),
            Floor("full", folder, vfs=vfs.name),
        ):
            async with opened(candidate):
                await measured_turn(candidate, "first", question(plan))
                before = vfs.log_bytes
                for at in range(_TURNS):
                    await measured_turn(candidate, f"s{at}", question(plan))
                found.append((vfs.log_bytes - before) / _TURNS)
    finally:
        vfs.unregister()
    return found[0], found[1]


def measure_turn_counts() -> list[Figure]:
    """Count, once: it is the same each time."""
    return asyncio.run(_measure())


async def _measure() -> list[Figure]:
    figures = []
    for (plan, variant), bar in COMMITS.items():
        with measured_folder() as folder:
            found = await commits_per_turn(variant, plan, folder)
        figures.append(figure(f"commits of a turn, {plan}, {variant}", "", [found] * 2, bar=bar))
    with measured_folder() as folder:
        mine, floor = await log_bytes_per_turn("once", W2.plan, folder)
    return [
        *figures,
        figure("W2 writes to the log, the floor", "kB", [floor / 1e3] * 2),
        figure("  once, bytes to the floor's", "x", [mine / floor] * 2, bar=BYTES_BAR),
    ]

"""W1, W2, W3: turns of windlass and of a bare loop, in turn, on new files and with both logs warm."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

from bench.progress import progress
from bench.samples import Figure, figure, ratio
from bench.store_file import measured_folder
from bench.workloads.candidate import Candidate, opened
from bench.workloads.child import ITERATIONS
from bench.workloads.floor import Floor
from bench.workloads.gauges import Reading, measured_turn
from bench.workloads.script import TEXT, loop, par, question
from bench.workloads.windlass_turns import WindlassTurns

_NEVER_TIMED = 3


class Work(NamedTuple):
    """A workload: how often it is run in a block, and the bars of `once` and of `pure` tools."""

    name: str
    plan: str
    n_turns: int
    once_bar: float
    pure_bar: float | None


W1 = Work("W1, a turn with no call", TEXT, 25, 1.0, None)
W2 = Work("W2, 20 iterations of one call", loop(ITERATIONS), 5, 0.9, 0.35)
W3 = Work("W3, 20 calls in one reply", par(ITERATIONS), 7, 0.35, 0.3)
WORKS = (W1, W2, W3)
WARM_BAR = 1.0


class Blocks:
    """What floor, `once` and `pure` measured, block by block."""

    def __init__(self) -> None:
        self.in_loop: list[float] = []
        self.kept: dict[tuple[str, str], list[list[Reading]]] = {}

    def add(self, work: Work, who: str, block: list[Reading]) -> None:
        """Keep a block."""
        self.kept.setdefault((work.name, who), []).append(block)

    def walls(self, work: Work, who: str) -> list[list[float]]:
        """Return the blocks of one of them, as times in µs."""
        return [[each.wall_us for each in block] for block in self.kept[work.name, who]]

    def to_floor(self, work: Work, who: str, name: str, bar: float | None) -> Figure:
        """Compare one of them with the floor."""
        return ratio(name, self.walls(work, who), self.walls(work, "floor"), bar=bar)

    def flat(self, work: Work, who: str) -> list[Reading]:
        """Return all readings of one of them."""
        return [each for block in self.kept[work.name, who] for each in block]


def measure_floor_ratios(rounds: int) -> list[Figure]:
    """Time the three workloads."""
    fresh, warm = asyncio.run(_measure(rounds))
    figures = []
    for work in WORKS:
        floor = [each.wall_us for each in fresh.flat(work, "floor")]
        figures += [
            figure(f"{work.name}: the floor", "µs", floor),
            fresh.to_floor(work, "once", "  once, to the floor, new files", work.once_bar),
        ]
        if work.pure_bar is not None:
            figures.append(
                fresh.to_floor(work, "pure", "  pure, to the floor, new files", work.pure_bar)
            )
        warm_bar = WARM_BAR if work is W2 else None
        figures.append(
            warm.to_floor(work, "once", "  once, to the floor, both logs warm", warm_bar)
        )
    per_iteration = [each.cpu_us / ITERATIONS for each in warm.flat(W2, "once")]
    of_floor = [each.cpu_us / ITERATIONS for each in warm.flat(W2, "floor")]
    figures.append(figure("commits made on the loop's thread, new files", "%", fresh.in_loop))
    figures.append(figure("W2, CPU per iteration, once", "µs", per_iteration))
    figures.append(figure("W2, CPU per iteration, the floor", "µs", of_floor))
    return figures


async def _measure(rounds: int) -> tuple[Blocks, Blocks]:
    fresh, warm = Blocks(), Blocks()
    for at in progress("new files", rounds):
        with measured_folder() as folder:
            await _measure_files(folder, fresh, first=at, rounds=1, warm=False)
    with measured_folder() as folder:
        await _measure_files(folder, warm, first=0, rounds=rounds, warm=True)
    return fresh, warm


async def _measure_files(
    folder: Path, blocks: Blocks, *, first: int, rounds: int, warm: bool
) -> None:
    async with AsyncExitStack() as stack:
        candidates: dict[str, Candidate] = {}
        for who in ("floor", "once", "pure"):
            place = folder / who
            place.mkdir()
            made = Floor("full", place, warm=warm) if who == "floor" else WindlassTurns(who, place)
            candidates[who] = await stack.enter_async_context(opened(made))
            for _ in range(_NEVER_TIMED):
                await measured_turn(made, "warm", question(loop(1)))
        for at in range(first, first + rounds):
            for work in WORKS:
                await _measure_block(candidates, work, blocks, at)
        once = candidates["once"]
        assert isinstance(once, WindlassTurns)
        blocks.in_loop.append(100 * once.commits_in_loop / once.commits)


async def _measure_block(
    candidates: dict[str, Candidate], work: Work, blocks: Blocks, at: int
) -> None:
    kept: dict[str, list[Reading]] = {who: [] for who in candidates}
    for number in range(work.n_turns):
        for who in _turned(list(candidates), at + number):
            session = f"{work.plan}-{at}-{number}".replace(":", "-")
            kept[who].append(await measured_turn(candidates[who], session, question(work.plan)))
    for who, block in kept.items():
        blocks.add(work, who, block)


def _turned(names: Sequence[str], by: int) -> list[str]:
    """Let another one be first each time: whoever follows a slow disk waits for it, too."""
    by %= len(names)
    return [*names[by:], *names[:by]]

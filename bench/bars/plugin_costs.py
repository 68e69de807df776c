"""What plugins cost: turns with ten that have every hook and no say, against the same turns without any, in turn.

On the processor, not on the clock: hooks of this kind wait for nobody.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from bench.bars.floor_ratios import W2
from bench.bars.turn_counts import counted_turns, per_iteration
from bench.progress import progress
from bench.samples import Figure, figure, ratio
from bench.store_file import measured_folder
from bench.workloads.candidate import Candidate, opened
from bench.workloads.child import ITERATIONS
from bench.workloads.gauges import Reading, measured_turn
from bench.workloads.hooked_turns import N_PLUGINS, HookedInMemory, HookedTurns
from bench.workloads.script import loop, question

BAR = 1.25
_NEVER_TIMED = 3
_TURNS = 5
_NONE, _TEN = "0", str(N_PLUGINS)

Make = Callable[[str, Path], Candidate]


def _on_file(variant: str, folder: Path) -> Candidate:
    return HookedTurns(variant, folder, durability="process")


STORES: dict[str, Make] = {"in memory": HookedInMemory, "SQLite": _on_file}


async def hooked_commits(variant: str, folder: Path) -> float:
    """Count the commits of a turn of 20 iterations with so many plugins."""
    async with opened(HookedTurns(variant, folder, durability="process")) as candidate:
        await measured_turn(candidate, "first", question(W2.plan))
        before = candidate.commits
        for at in range(_TURNS):
            await measured_turn(candidate, f"s{at}", question(W2.plan))
        return (candidate.commits - before) / _TURNS


def hooked_instructions(variant: str, folder: Path) -> Counter[str]:
    """Count the bytecode instructions of one iteration with so many plugins, by source file."""

    def make(place: Path) -> HookedTurns:
        return HookedTurns(variant, place, durability="process")

    return per_iteration(lambda place, plan: counted_turns(make(place), plan), folder)


def measure_plugins(rounds: int) -> list[Figure]:
    """Time and count."""
    figures = []
    for name, make in STORES.items():
        blocks = asyncio.run(_measure(name, make, rounds))
        bare = [each / ITERATIONS for block in blocks[_NONE] for each in block]
        figures += [
            figure(f"CPU of an iteration without plugins, {name}", "µs", bare),
            ratio(f"  with {N_PLUGINS} that have every hook", blocks[_TEN], blocks[_NONE], bar=BAR),
        ]
    return [*figures, *_counts()]


def _counts() -> list[Figure]:
    commits, instructions = [], []
    for variant in (_NONE, _TEN):
        with measured_folder() as folder:
            commits.append(asyncio.run(hooked_commits(variant, folder)))
        with measured_folder() as folder:
            instructions.append(hooked_instructions(variant, folder).total())
    more = (instructions[1] - instructions[0]) / N_PLUGINS
    return [
        figure(
            f"commits with {N_PLUGINS}, to those without",
            "x",
            [commits[1] / commits[0]] * 2,
            bar=1.0,
        ),
        figure("instructions of an iteration, per plugin", "", [more] * 2),
    ]


async def _measure(name: str, make: Make, rounds: int) -> dict[str, list[list[float]]]:
    blocks: dict[str, list[list[float]]] = {_NONE: [], _TEN: []}
    with measured_folder() as folder:
        async with AsyncExitStack() as stack:
            candidates = {}
            for who in blocks:
                place = folder / who
                place.mkdir()
                candidates[who] = await stack.enter_async_context(opened(make(who, place)))
                for _ in range(_NEVER_TIMED):
                    await measured_turn(candidates[who], "warm", question(loop(1)))
            for at in progress(f"plugins, {name}", rounds):
                for who, block in (await _measure_block(candidates, at)).items():
                    blocks[who].append([each.cpu_us for each in block])
    return blocks


async def _measure_block(candidates: dict[str, Candidate], at: int) -> dict[str, list[Reading]]:
    kept: dict[str, list[Reading]] = {who: [] for who in candidates}
    for number in range(_TURNS):
        # Another one is first each time.
        for who in sorted(candidates, reverse=bool((at + number) % 2)):
            asked = question(W2.plan)
            kept[who].append(await measured_turn(candidates[who], f"s-{at}-{number}", asked))
    return kept

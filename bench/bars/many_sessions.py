"""W5: many sessions at once in one process, against the floor, which can only take one step after the other."""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import perf_counter_ns, process_time_ns
from typing import NamedTuple

from bench.progress import progress
from bench.samples import Figure, figure
from bench.store_file import measured_folder
from bench.workloads.candidate import opened
from bench.workloads.child import SESSIONS, TURNS_EACH
from bench.workloads.floor import Floor
from bench.workloads.gauges import measured_turn
from bench.workloads.script import ANSWER, loop, question
from bench.workloads.windlass_turns import WindlassTurns

RATE_BAR = 3.0
COMMITS_BAR = 0.05
CPU_BAR_US = 300.0
_N_TURNS = SESSIONS * TURNS_EACH


class _Pass(NamedTuple):
    """All turns of all sessions, once; per turn."""

    wall_us: float
    cpu_us: float
    commits: float


def measure_many_sessions(rounds: int) -> list[Figure]:
    """Time a floor, a floor that shares commits, and windlass, in turn."""
    kept: dict[str, list[_Pass]] = {"full": [], "group": [], "once": []}
    for _ in progress("sessions", rounds):
        for who, passes in kept.items():
            with measured_folder() as folder:
                passes.append(asyncio.run(_one_pass(who, folder)))
    mine = kept["once"]

    def faster_than(who: str) -> list[float]:
        return [floor.wall_us / each.wall_us for floor, each in zip(kept[who], mine, strict=True)]

    return [
        figure("W5, 200 sessions at once: the floor, per turn", "µs", [e.wall_us for e in kept["full"]]),
        figure("  once, per turn", "µs", [each.wall_us for each in mine]),
        figure("  turns per second to the floor's", "x", faster_than("full"), at_least=RATE_BAR),
        figure("  to those of a floor that shares commits", "x", faster_than("group")),
        figure("  commits per turn", "", [each.commits for each in mine], bar=COMMITS_BAR),
        figure("  CPU per turn", "µs", [each.cpu_us for each in mine], bar=CPU_BAR_US),
        figure("  CPU per turn, the floor", "µs", [each.cpu_us for each in kept["full"]]),
    ]  # fmt: skip


async def _one_pass(who: str, folder: Path) -> _Pass:
    made = WindlassTurns(who, folder) if who == "once" else Floor(who, folder)
    async with opened(made) as candidate:
        await measured_turn(candidate, "warm", question(loop(1)))

        async def one(session: str) -> None:
            for _ in range(TURNS_EACH):
                assert await candidate.turn(session, question(loop(1))) == ANSWER

        commits, cpu, begin = candidate.commits, process_time_ns(), perf_counter_ns()
        await asyncio.gather(*(one(f"s{at}") for at in range(SESSIONS)))
        wall, cpu = perf_counter_ns() - begin, process_time_ns() - cpu
        return _Pass(
            wall / 1e3 / _N_TURNS, cpu / 1e3 / _N_TURNS, (candidate.commits - commits) / _N_TURNS
        )

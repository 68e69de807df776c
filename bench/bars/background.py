"""Background work: a step of a process, a start, children of a turn, a parent that is woken, and those who sleep."""

from __future__ import annotations

import asyncio
import statistics
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from subprocess import Popen
from time import monotonic_ns
from typing import Any, NamedTuple, cast

from bench.bars.turn_counts import (
    StandingLoop,
    disk_without_delay,
    iteration_instructions,
)
from bench.counts import instructions_by_file
from bench.progress import progress
from bench.samples import Figure, figure
from bench.store_file import measured_folder
from bench.workloads import candidate
from bench.workloads.background_work import (
    ANSWER,
    NotingStore,
    family,
    nap,
    opened,
    soundings,
)
from bench.workloads.children import Figures, finish, last_words, start, wait_for
from bench.workloads.gauges import cpu_us, measured_turn
from bench.workloads.script import Diary, loop, question
from bench.workloads.windlass_turns import FILE, WindlassTurns
from windlass import Runtime
from windlass.api.process import Process

STEP_BAR = 1.0
START_BAR = 1
CHILD_COMMITS_BAR = 6
CHILD_CPU_BAR_MS = 10.0
MANY_CHILDREN = 20
MANY_COMMITS_BAR = 1.5
WOKEN_BAR_MS = 50.0
WOKEN_ELSEWHERE_BAR_S = 1.0
DUE_BAR_MS = 2.0
_WORK = "bench.workloads.background_work"
_SECONDS = 120.0
_COUNTED = 3
# What a long one has more than a short one is its steps: how it starts and ends is in both.
_SHORT, _LONG = 5, 25
_TIMED_LONG = 45
_TURNS = 5
_STARTS = 20
_FEW_ASLEEP, _MANY_ASLEEP = 1_000, 10_000
_FEW_PER_ROUND, _MANY_PER_ROUND = 20, 200
_AT_ONCE = 200
_LEASE_S = 1.0
_LONG_LEASE_S = 3_600.0
_IDLE_S = 3.0


class WorkerFailed(Exception):
    """A process of the benchmark did not get as far as it should have."""


# --- steps and starts of processes -------------------------------------------------------------


def step_instructions(folder: Path, of: Process[Any] = soundings) -> float:
    """Count the bytecode instructions of one step of a process, on the loop's thread."""
    few, many = (_process_instructions(folder, of, n) for n in (_SHORT, _LONG))
    return (many - few) / (_LONG - _SHORT)


def _process_instructions(folder: Path, of: Process[Any], n: int) -> int:
    """Count those of a process with so many steps, from its start to its result: the least of some, as of turns."""
    counts = []
    with disk_without_delay(), asyncio.Runner(loop_factory=StandingLoop) as runner:
        standing = cast("StandingLoop", runner.get_loop())
        file = str(folder / f"{of.name}-{n}.db")
        runtime = Runtime(store=file, durability="process", processes=[of])
        runner.run(runtime.__aenter__())
        try:
            runner.run(_run_process(runtime, of, n))
            for _ in range(_COUNTED):
                task = standing.create_task(_run_process(runtime, of, n))
                with standing.standing():
                    counts.append(instructions_by_file(partial(standing.run_until_complete, task)))
        finally:
            runner.run(runtime.__aexit__(None))
    return min(counts, key=Counter.total).total()


async def _run_process(runtime: Runtime[Any], of: Process[Any], n: int) -> None:
    handle = await runtime.processes.start(of, n=n)
    assert await handle.result(timeout=_SECONDS) == n


def measure_processes(rounds: int) -> list[Figure]:
    """Count and time a step beside an iteration with one call of a `once` tool; count what a start writes."""
    with measured_folder() as folder:
        step = step_instructions(folder)
        iteration = iteration_instructions(folder).total()
    with measured_folder() as folder:
        iterations_us, steps_us = asyncio.run(_time_steps(folder, rounds))
    with measured_folder() as folder:
        commits = asyncio.run(_start_commits(folder))
    ratios = [mine / other for mine, other in zip(steps_us, iterations_us, strict=True)]
    return [
        figure("instructions of an iteration with a once call", "", [iteration] * 2),
        figure("  of a step of a process, to those", "x", [step / iteration] * 2, bar=STEP_BAR),
        figure("CPU of an iteration with a once call", "µs", iterations_us),
        figure("  of a step of a process, to that", "x", ratios, bar=STEP_BAR),
        figure("commits to start a process", "", commits, bar=START_BAR),
    ]


async def _time_steps(folder: Path, rounds: int) -> tuple[list[float], list[float]]:
    """Return the processor time of an iteration and that of a step, of each round."""
    place = folder / "processes"
    place.mkdir()
    store = NotingStore(place / FILE, lambda _: None, durability="process")
    turns = WindlassTurns("once", folder, durability="process")
    sessions = count()
    iterations: list[float] = []
    steps: list[float] = []
    async with (
        candidate.opened(turns),
        opened(store, Runtime(store=store, processes=[soundings])) as runtime,
    ):

        async def turn_us(n: int) -> float:
            return (await measured_turn(turns, f"s{next(sessions)}", question(loop(n)))).cpu_us

        async def process_us(n: int) -> float:
            before = cpu_us()
            await _run_process(runtime, soundings, n)
            return cpu_us() - before

        for each in (turn_us, process_us):
            await _each_us(each)
        for at in progress("steps", rounds):
            pair = [(turn_us, iterations), (process_us, steps)]
            # Another one is first each time.
            for each, kept in reversed(pair) if at % 2 else pair:
                kept.append(await _each_us(each))
    return iterations, steps


async def _each_us(work_us: Callable[[int], Awaitable[float]]) -> float:
    """Return what one further step takes: medians of long and of short ones, which take turns."""
    short: list[float] = []
    long: list[float] = []
    for _ in range(_TURNS):
        short.append(await work_us(_SHORT))
        long.append(await work_us(_TIMED_LONG))
    return (statistics.median(long) - statistics.median(short)) / (_TIMED_LONG - _SHORT)


async def _start_commits(folder: Path) -> list[float]:
    """Count the commits of each start, in a process that drives none."""
    store = NotingStore(folder / FILE, lambda _: None)
    commits: list[float] = []
    async with opened(store, Runtime(store=store)) as runtime:
        await runtime.processes.start(soundings, n=1)
        for _ in range(_STARTS):
            before = store.commits
            await runtime.processes.start(soundings, n=1)
            commits.append(store.commits - before)
    return commits


# --- children ----------------------------------------------------------------------------------


class _Spent(NamedTuple):
    """What turns with so many children took, turn by turn."""

    commits: list[int]
    cpu_ms: list[float]


class _Home:
    """A runtime that drives parents and children, and notes when a child ended and when its parent was woken."""

    def __init__(self, folder: Path) -> None:
        self.moments: dict[str, list[int]] = {"ended": [], "woken": []}
        self.store = NotingStore(folder / FILE, self._note)
        # A worker renews its lease now and then, whoever it works for: that commit is no child's.
        self.runtime = Runtime(family(self._note)[0], store=self.store, lease_s=_LONG_LEASE_S)
        self._n_turns = 0

    def _note(self, line: str) -> None:
        self.moments[line.partition(" ")[0]].append(monotonic_ns())

    async def turns(self, n_children: int, n: int = _TURNS) -> _Spent:
        """Run turns with so many children, each in a session of its own."""
        spent = _Spent([], [])
        for _ in range(n):
            self._n_turns += 1
            before, cpu = self.store.commits, cpu_us()
            result = await self.runtime.session(f"s{self._n_turns}").run(str(n_children))
            spent.cpu_ms.append((cpu_us() - cpu) / 1e3)
            spent.commits.append(self.store.commits - before)
            assert result.text == ANSWER
            assert result.child_usage.calls == n_children
        return spent


def measure_children(rounds: int) -> list[Figure]:
    """Run turns without children and with one, in turn, then turns with many."""
    with measured_folder() as folder:
        return asyncio.run(_measure_children(folder, rounds))


async def _measure_children(folder: Path, rounds: int) -> list[Figure]:
    home = _Home(folder)
    commits: list[float] = []
    cpu_ms: list[float] = []
    async with opened(home.store, home.runtime):
        for n_children in (0, 1, MANY_CHILDREN):
            await home.turns(n_children, n=1)
        for some in home.moments.values():
            some.clear()
        for _ in progress("children", rounds):
            alone, one = await home.turns(0), await home.turns(1)
            commits += [each - min(alone.commits) for each in one.commits]
            # The least of each: the others were met by something that the runtime does now and then.
            cpu_ms.append(min(one.cpu_ms) - min(alone.cpu_ms))
        woken_ms = [ns / 1e6 for ns in _between(home.moments["ended"], home.moments["woken"])]
        many = await home.turns(MANY_CHILDREN)
    each = [(total - min(alone.commits)) / MANY_CHILDREN for total in many.commits]
    return [
        figure("commits of a child, above a turn without", "", commits, bar=CHILD_COMMITS_BAR),
        figure("  worst of them", "", [max(commits)] * 2, bar=CHILD_COMMITS_BAR),
        figure("  CPU above a turn without", "ms", cpu_ms, bar=CHILD_CPU_BAR_MS),
        figure(f"  each of {MANY_CHILDREN} of one reply, commits", "", each, bar=MANY_COMMITS_BAR),
        figure("child ended to parent woken, one process", "ms", woken_ms, bar=WOKEN_BAR_MS),
        figure("  worst of them", "ms", [max(woken_ms)] * 2),
    ]


def _between(ended: Sequence[int], woken: Sequence[int]) -> list[int]:
    """Return the nanoseconds from each child's end to its parent's next call: one turn ran after the other."""
    return [after - before for before, after in zip(ended, woken, strict=True)]


# --- a parent of another process ---------------------------------------------------------------


def measure_wakes(rounds: int) -> list[Figure]:
    """Let one process drive the parents and another the children; submit from here."""
    with measured_folder() as folder:
        woken_s = _wake_elsewhere(folder, rounds)
    return [
        figure("child ended to parent woken, two processes", "s", woken_s, bar=WOKEN_ELSEWHERE_BAR_S),
        figure("  worst of them", "s", [max(woken_s)] * 2),
    ]  # fmt: skip


def _wake_elsewhere(folder: Path, rounds: int) -> list[float]:
    roles = ("parents", "children")
    diaries = {role: folder / f"{role}.txt" for role in roles}
    workers: list[Popen[str]] = []
    try:
        for role, diary in diaries.items():
            workers.append(start(_WORK, role, str(folder), diary=str(diary)))
            if not wait_for(workers[-1], diary, "opening", 0, _SECONDS):
                workers[-1].kill()
                raise WorkerFailed(last_words(workers[-1].communicate()[1]))
        asyncio.run(_ask_elsewhere(folder, rounds))
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
    ended = _moments(diaries["children"], "ended")
    return [ns / 1e9 for ns in _between(ended, _moments(diaries["parents"], "woken"))]


async def _ask_elsewhere(folder: Path, rounds: int) -> None:
    lead, _ = family()
    async with Runtime(lead, store=str(folder / FILE), worker=False) as runtime:
        for at in progress("wakes", rounds):
            handle = await runtime.session(f"s{at}").submit("1")
            async with asyncio.timeout(_SECONDS):
                assert (await handle.result()).text == ANSWER


def _moments(diary: Path, kind: str) -> list[int]:
    return [ns for each, _, ns in Diary(diary).lines if each == kind]


# --- those who sleep ---------------------------------------------------------------------------


def measure_sleepers(rounds: int) -> list[Figure]:
    """Let a process idle on a store with nobody, with some and with many asleep. Few rounds make do with fewer."""
    few = min(_FEW_ASLEEP, _FEW_PER_ROUND * rounds)
    many = min(_MANY_ASLEEP, _MANY_PER_ROUND * rounds)
    figures: list[Figure] = []
    n_asleep = 0
    with measured_folder() as folder:
        for n in (0, few, many):
            asyncio.run(_put_to_sleep(folder, n - n_asleep))
            n_asleep = n
            figures += _idle_figures(n, _idle(folder), DUE_BAR_MS if n == many else None)
    return figures


async def _put_to_sleep(folder: Path, n: int) -> None:
    """Start so many processes and wait until all of them are asleep."""
    # How long the disk takes to put them there is not measured.
    store = NotingStore(folder / FILE, lambda _: None, durability="process")
    runtime = Runtime(store=store, processes=[nap], max_turns=_AT_ONCE)
    async with opened(store, runtime), asyncio.timeout(10 * _SECONDS):
        for at in progress("to sleep", -(-n // _AT_ONCE)):
            some = range(at * _AT_ONCE, min(n, (at + 1) * _AT_ONCE))
            await asyncio.gather(*(runtime.processes.start(nap) for _ in some))
            while await _is_busy(runtime, store):  # noqa: ASYNC110 - nothing tells of all sessions
                await asyncio.sleep(0.01)


async def _is_busy(runtime: Runtime[Any], store: NotingStore) -> bool:
    worker = runtime._worker  # noqa: SLF001 - a status reads every wait of the store
    now_ms = worker.services.clock.now_ms()
    return bool(worker.driving or (await store.due(now_ms, agents=tuple(worker.programs))).turns)


def _idle(folder: Path) -> Figures:
    """Let a process of its own open a runtime there, and do nothing."""
    worker = start(_WORK, "idle", str(folder), lease_s=str(_LEASE_S), idle_s=str(_IDLE_S))
    found = finish(worker, _SECONDS)
    if "error" in found:
        raise WorkerFailed(found["error"])
    return found


def _idle_figures(n: int, found: Figures, due_bar: float | None) -> list[Figure]:
    idling = f"  commits in {_IDLE_S} s, lease of {_LEASE_S:.0f} s"
    return [
        figure(f"{n:,} processes asleep: memory of a worker", "MB", [found["memory_mb"]] * 2),
        figure("  what is due", "ms", found["due_ms"], bar=due_bar),
        figure(idling, "", [found["commits"]] * 2, bar=0),
        figure("  CPU of a second, idle", "ms", [found["cpu_ms_per_s"]] * 2),
    ]

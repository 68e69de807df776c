"""What processes cost, in counts that are the same on every run; and what those cost that are asleep.

The bars: a step costs no more than an iteration with one call of a `once` tool, a start is one commit, and a scan that
finds nothing due does not notice how many are asleep.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench.bars.background import step_instructions
from bench.bars.turn_counts import iteration_instructions
from tests.limits import HANGS_S
from tests.perf.test_parked_counts import FAULTS, Steps
from windlass import ProcessContext, Runtime, process
from windlass.journal import derived_session_id
from windlass.ports import AcceptTurn, NewTurn, TurnRequest
from windlass.stores.sqlite import SqliteStore
from windlass.testing import virtual_clock

# Of an iteration with one call of a `once` tool.
STEP_BAR = 1.0
# As counted when it was last set, and 5 % more.
STEP_INSTRUCTIONS = 4_540
SLACK = 1.0 if sys.version_info[:2] == (3, 11) else 1.5
SLEEPERS = 1_000
FEW = 10
# How deep an index is differs with what is in it.
MORE_STEPS = 30
# The index of open turns, as it would be if those that wait were in it.
WALKS_OVER_SLEEPERS = FAULTS["turns"]


async def sound(i: int) -> str:
    return f"{i}: 7 fathoms"


@process
async def soundings(ctx: ProcessContext[Any], n: int) -> int:
    for i in range(n):
        await ctx.step(sound, i)
    return n


@process
async def wordy(ctx: ProcessContext[Any], n: int) -> int:
    """Do the same, and tell of it."""
    for i in range(n):
        await ctx.step(sound, i)
        await ctx.emit("sounded", i)
    return n


@process
async def nap(ctx: ProcessContext[Any]) -> None:
    await ctx.sleep(days=1)


def test_a_step_costs_no_more_than_an_iteration_with_a_call(tmp_path: Path) -> None:
    step = step_instructions(tmp_path, soundings)

    assert step <= STEP_BAR * iteration_instructions(tmp_path).total()
    assert step <= STEP_INSTRUCTIONS * SLACK


def test_an_operation_more_per_step_is_seen(tmp_path: Path) -> None:
    assert step_instructions(tmp_path, wordy) > STEP_INSTRUCTIONS


# --- commits -----------------------------------------------------------------------------------


@asynccontextmanager
async def client(tmp_path: Path) -> AsyncIterator[tuple[Runtime[Any], Any]]:
    """A runtime that drives nothing, and its writer."""
    store = SqliteStore(tmp_path / "p.db", durability="process")
    await store.open()
    try:
        async with Runtime(store=store, clock=virtual_clock()) as rt:
            yield rt, store._writer
    finally:
        await store.close()


async def test_a_start_is_one_commit(tmp_path: Path) -> None:
    async with client(tmp_path) as (rt, writer):
        await rt.processes.start("soundings", id="first", n=1)
        before = writer.commits
        handle = await rt.processes.start("soundings", id="p", n=1)
        assert writer.commits - before == 1
        # What a signal adds is seen.
        await handle.signal("go")
        assert writer.commits - before == 2


async def test_steps_commit_once_each(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "p.db", durability="process")
    await store.open()
    found = []
    try:
        async with Runtime(store=store, clock=virtual_clock(), processes=[soundings]) as rt:
            for n in (1, 21):
                before = store._writer.commits
                handle = await rt.processes.start(soundings, n=n)
                await handle.result(timeout=HANGS_S)
                found.append(store._writer.commits - before)
    finally:
        await store.close()
    assert found[1] - found[0] == 20


# --- those that are asleep ---------------------------------------------------------------------


async def put_to_sleep(rt: Runtime[Any], n: int) -> None:
    """Start so many processes and wait until all of them are asleep."""
    worker, store = rt._worker, rt._services.store
    secret, now_ms = store.secret, rt._services.clock.now_ms()
    errands = [
        AcceptTurn(
            session_id=derived_session_id(secret, "process", f"nap-{at}"),
            turn_id="run",
            turn=NewTurn(
                agent="process:nap",
                request=TurnRequest(overrides={"args": {}, "process_id": f"nap-{at}"}),
                now_ms=now_ms,
            ),
            kind="process",
            label=f"nap-{at}",
        )
        for at in range(n)
    ]
    await store.run_errands(errands, now_ms=now_ms)

    async def are_asleep() -> bool:
        # While the worker takes them up, they are neither due nor driven: those that wait are counted, too.
        if worker.driving or (await store.due(now_ms, agents=("process:nap",))).turns:
            return False
        return len(await rt.processes.list(state="waiting", limit=n)) == n

    async with asyncio.timeout(HANGS_S):
        while not await are_asleep():
            worker.kick()
            await asyncio.sleep(0)


async def steps_of_a_scan(path: Path, n_asleep: int, fault: str = "") -> int:
    """Let so many sleep; return the steps that SQLite takes to find that nothing is due."""
    clock = virtual_clock()
    store = SqliteStore(path, durability="process")
    await store.open()
    try:
        async with Runtime(store=store, clock=clock, processes=[nap]) as rt:
            await put_to_sleep(rt, n_asleep)
            assert len(await rt.processes.list(state="waiting", limit=n_asleep)) == n_asleep
            assert not rt._worker.driving
            assert store._writer._rows is not None
            store._writer._rows.db.execute(fault)
            before, steps = store._writer.commits, Steps(store)
            # The least of several: meanwhile the worker may look, too.
            counts = []
            for _ in range(5):
                steps.count = 0
                due = await store.due(clock.now_ms(), agents=("process:nap",), worker_id="w")
                counts.append(steps.count)
                assert (due.turns, due.waits, due.inboxes) == ((), (), ())
            counted = min(counts)
            for _ in range(20):
                await rt._worker.look()
            # Looking only reads, and keeps nothing of those that sleep.
            assert store._writer.commits == before
            assert not rt._worker._cache._sessions
            clock.advance(86_400)
            due = await store.due(clock.now_ms(), agents=("process:nap",))
            assert due.waits  # the red proof: what is due is found
    finally:
        await store.close()
    return counted


async def test_a_thousand_that_are_asleep_cost_a_scan_nothing(tmp_path: Path) -> None:
    few = await steps_of_a_scan(tmp_path / "few.db", FEW)
    many = await steps_of_a_scan(tmp_path / "many.db", SLEEPERS)

    assert few > 0
    assert abs(many - few) < MORE_STEPS


async def test_a_scan_that_walks_over_those_that_sleep_is_seen(tmp_path: Path) -> None:
    few = await steps_of_a_scan(tmp_path / "few.db", FEW, WALKS_OVER_SLEEPERS)
    many = await steps_of_a_scan(tmp_path / "many.db", FEW + 100, WALKS_OVER_SLEEPERS)

    assert many - few > 100

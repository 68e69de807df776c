"""What a process leaves behind when it is stopped or cancelled, what it tells, and how fast it repeats what is recorded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.stage import Desk, Stage, until
from windlass import Process, ProcessContext, ProcessHandle, Runtime, process
from windlass.errors import ProcessCancelled, StepUnknown
from windlass.folds.turn_fold import facts_of
from windlass.kernel import Event
from windlass.runtime import process_run

HOUR_S = 3_600


async def is_asleep(handle: ProcessHandle[Any]) -> bool:
    return (await handle.status()).state == "waiting"


async def result_after_an_hour(stage: Stage, function: Process[Any]) -> object:
    """Start a process, let it park, let an hour pass, and return what it returns."""
    async with stage.runtime(processes=[function]) as rt:
        handle = await rt.processes.start(function, id="p")
        await until(lambda: is_asleep(handle))
        stage.later(HOUR_S, rt)
        return await handle.result(timeout=HANGS_S)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_run, "_GRACE_S", 0.01)


# --- stopping, and what is recorded ------------------------------------------------------------------------------


@pytest.mark.usefixtures("impatient")
async def test_a_worker_that_closes_lets_the_body_of_a_step_end(stage: Stage) -> None:
    began, gate, seen = asyncio.Event(), asyncio.Event(), list[str]()

    async def body() -> str:
        began.set()
        await gate.wait()
        seen.append("done")
        return "done"

    @process
    async def slow(ctx: ProcessContext[Any]) -> list[Any]:
        return list(await asyncio.gather(ctx.step(body), ctx.sleep(HOUR_S)))

    async def life() -> None:
        async with stage.runtime(processes=[slow]) as rt:
            await rt.processes.start(slow, id="p")
            await began.wait()

    closing = asyncio.create_task(life())
    await began.wait()
    done, _ = await asyncio.wait({closing}, timeout=0.05)  # longer than a function may clean up
    gate.set()
    await asyncio.wait_for(closing, HANGS_S)
    assert (done, seen) == (set(), ["done"])
    async with stage.runtime(processes=[slow]) as rt:
        handle = rt.processes.get("p")
        await until(lambda: is_asleep(handle))
        stage.later(HOUR_S, rt)
        assert await handle.result(timeout=HANGS_S) == ["done", None]
    assert seen == ["done"]


async def test_a_cancel_in_the_body_of_a_step_leaves_it_unknown(stage: Stage) -> None:
    began, seen = asyncio.Event(), list[str]()

    async def body() -> None:
        began.set()
        await asyncio.Event().wait()

    @process
    async def paying(ctx: ProcessContext[Any]) -> None:
        try:
            await ctx.step(body, name="pay")
        finally:
            seen.append("cleaned")

    async with stage.runtime(processes=[paying]) as rt:
        handle = await rt.processes.start(paying, id="p")
        live = [event async for event in _events_until_end(handle, began)]
        stored = await rt._services.store.load_turn(handle.session_id, "run")
    assert stored is not None
    assert seen == ["cleaned"]
    assert [type(one).__name__ for one in live if not one.preview] == [
        "ToolFinished",
        "TurnEnded",
    ]
    assert [one.id for one in live if not one.preview] == [one.id for one in facts_of(stored)]


async def _events_until_end(
    handle: ProcessHandle[Any], began: asyncio.Event
) -> AsyncIterator[Event]:
    async def cancel() -> None:
        await began.wait()
        await handle.cancel("enough")

    cancelling = asyncio.create_task(cancel())
    async for event in handle.events():
        yield event
    await cancelling


async def test_what_is_told_live_is_what_the_rows_say(stage: Stage) -> None:
    @process
    async def busy(ctx: ProcessContext[Any]) -> None:
        async def nap(at: int) -> None:
            await ctx.sleep(at)
            await ctx.step(str, f"n{at}")

        await asyncio.gather(nap(2), ctx.step(str, "a"), nap(1), ctx.emit("told", 1))
        await ctx.step(str, "b")

    async with stage.runtime(processes=[busy]) as rt:
        handle = await rt.processes.start(busy, id="p")
        watching = asyncio.create_task(_all(handle))
        await until(lambda: is_asleep(handle))
        stage.later(1, rt)
        await until(lambda: _has(handle, rt, 1))
        stage.later(1, rt)
        await handle.result(timeout=HANGS_S)
        live = await asyncio.wait_for(watching, HANGS_S)
        stored = await rt._services.store.load_turn(handle.session_id, "run")
    assert stored is not None
    told = [(type(one).__name__, one.id) for one in live if not one.preview]
    assert told == [(type(one).__name__, one.id) for one in facts_of(stored)]
    assert len({one_id for _, one_id in told}) == len(told) >= 11


async def _has(handle: ProcessHandle[Any], rt: Runtime[Any], n_slept: int) -> bool:
    stored = await rt._services.store.load_turn(handle.session_id, "run")
    assert stored is not None
    closed = [one for one in stored.waits if one.state != "open"]
    return len(closed) >= n_slept and stored.state == "parked"


async def _all(handle: ProcessHandle[Any]) -> list[Event]:
    return [event async for event in handle.events()]


async def test_a_signal_may_say_anything(stage: Stage) -> None:
    @process
    async def listening(ctx: ProcessContext[Any]) -> object:
        value = await ctx.wait("paid")
        await ctx.sleep(HOUR_S)
        return value

    async with stage.runtime(processes=[listening]) as rt:
        handle = await rt.processes.start(listening, id="p")
        await handle.signal("paid", {"outcome": "paid"})
        await until(lambda: _has(handle, rt, 1))
        stage.later(HOUR_S, rt)
        assert await handle.result(timeout=HANGS_S) == {"outcome": "paid"}


N_RECORDED = 500


async def test_five_hundred_recorded_steps_are_repeated_at_once(stage: Stage) -> None:
    took: list[float] = []

    @process
    async def long(ctx: ProcessContext[Any]) -> int:
        began = time.process_time()
        for at in range(N_RECORDED // 2):
            await ctx.step(str, at, effect="pure")
        numbers = range(N_RECORDED // 2)
        await asyncio.gather(*[ctx.step(str, at, effect="pure") for at in numbers])
        took.append(time.process_time() - began)
        await ctx.sleep(HOUR_S)
        return len(took)

    assert await result_after_an_hour(stage, long) == 2
    assert took[1] < 0.3


async def test_a_worker_that_lost_its_lease_writes_nothing_more(stage: Stage) -> None:
    desk = Desk(is_open=False)

    @process
    async def paying(ctx: ProcessContext[Any]) -> str:
        try:
            await ctx.step(desk.work, "pay", name="pay")
        except StepUnknown:
            return "unknown"
        return "paid"

    async with stage.runtime(processes=[paying]) as first:
        await first.processes.start(paying, id="p")
        await desk.entered.wait()
        stage.kill(first)
        async with stage.runtime(processes=[paying]) as second:
            handle = second.processes.get("p")
            assert await handle.result(timeout=HANGS_S) == "unknown"
            desk.gate.set()
            await until(lambda: not first._worker.driving)
            assert await handle.result(timeout=HANGS_S) == "unknown"
    assert desk.runs == ["pay"]


async def test_a_cancel_that_comes_before_the_next_drive_begins_nothing_new(stage: Stage) -> None:
    seen: list[str] = []

    @process
    async def naps(ctx: ProcessContext[Any]) -> None:
        await ctx.step(seen.append, "before")
        try:
            await ctx.sleep(HOUR_S)
            await ctx.step(seen.append, "after")
        finally:
            seen.append("unwound")

    async with stage.runtime(processes=[naps]) as rt:
        handle = await rt.processes.start(naps, id="p")
        await until(lambda: is_asleep(handle))
    async with stage.runtime(processes=[naps], worker=False) as rt:
        await rt.processes.get("p").cancel("enough")
        stage.clock.advance(HOUR_S)
    async with stage.runtime(processes=[naps]) as rt:
        with pytest.raises(ProcessCancelled, match="enough"):
            await rt.processes.get("p").result(timeout=HANGS_S)
    assert seen == ["before", "unwound", "unwound"]

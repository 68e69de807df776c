"""Sleeping processes: the time runs whether a worker runs or not; a cancel reaches a function that is asleep."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.stage import DAY_S, Stage, until
from windlass import Process, ProcessContext, ProcessHandle, process
from windlass.errors import ProcessCancelled, ProcessFailed


class Log:
    """What a function did, beside its operations."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def napper(self) -> Process[list[str]]:
        @process
        async def nap(ctx: ProcessContext[Any]) -> list[str]:
            before = await ctx.now()
            await ctx.step(self.lines.append, "began")
            await ctx.sleep(days=3)
            await ctx.step(self.lines.append, "woke")
            return [before.isoformat(), (await ctx.now()).isoformat()]

        return nap


async def is_asleep(handle: ProcessHandle[Any]) -> bool:
    return (await handle.status()).state == "waiting"


async def test_a_sleep_of_three_days_lasts_three_days_over_two_restarts(stage: Stage) -> None:
    log = Log()
    nap = log.napper()
    async with stage.runtime(processes=[nap]) as rt:
        handle = await rt.processes.start(nap, id="n")
        await until(lambda: is_asleep(handle))
    stage.clock.advance(DAY_S)
    async with stage.runtime(processes=[nap]) as rt:
        stage.later(DAY_S, rt)
        assert await is_asleep(rt.processes.get("n"))
    async with stage.runtime(processes=[nap]) as rt:
        stage.later(DAY_S - 1, rt)
        assert await is_asleep(rt.processes.get("n"))
        stage.later(1, rt)
        began, ended = await rt.processes.get("n").result(timeout=HANGS_S)
    assert (began, ended) == ("2023-11-14T22:13:20+00:00", "2023-11-17T22:13:20+00:00")
    assert log.lines == ["began", "woke"]


async def test_a_timer_that_was_due_while_no_worker_ran_fires_once_on_start(stage: Stage) -> None:
    log = Log()
    nap = log.napper()
    async with stage.runtime(processes=[nap]) as rt:
        handle = await rt.processes.start(nap, id="n")
        await until(lambda: is_asleep(handle))
    stage.clock.advance(10 * DAY_S)
    for _ in range(2):
        async with stage.runtime(processes=[nap]) as rt:
            _, ended = await rt.processes.get("n").result(timeout=HANGS_S)
    assert ended == "2023-11-24T22:13:20+00:00"
    assert log.lines == ["began", "woke"]


async def test_a_result_that_takes_longer_than_its_caller_waits_goes_on(stage: Stage) -> None:
    nap = Log().napper()
    async with stage.runtime(processes=[nap]) as rt:
        handle = await rt.processes.start(nap, id="n")
        with pytest.raises(TimeoutError):
            await handle.result(timeout=0)
        await until(lambda: is_asleep(handle))
        waiting = asyncio.create_task(handle.result())
        stage.later(3 * DAY_S, rt)
        assert len(await asyncio.wait_for(waiting, HANGS_S)) == 2


async def test_a_cancel_reaches_a_function_that_is_asleep_once(stage: Stage) -> None:
    seen: list[str] = []

    @process
    async def careful(ctx: ProcessContext[Any]) -> str:
        try:
            await ctx.sleep(days=1)
        except asyncio.CancelledError:
            seen.append("cancelled")
            await asyncio.sleep(0)  # the clean-up may take a moment, and awaits what it likes
            seen.append("cleaned")
            raise
        finally:
            seen.append("finally")
        return "never"

    async with stage.runtime(processes=[careful]) as rt:
        handle = await rt.processes.start(careful, id="c")
        await until(lambda: is_asleep(handle))
        assert seen == ["finally"]  # it was let go of: what it held is released
        receipt = await handle.cancel("no more")
        with pytest.raises(ProcessCancelled, match="process c: cancelled: no more"):
            await handle.result(timeout=HANGS_S)
        again = await handle.cancel("again")
        status = await handle.status()

    assert seen == ["finally", "cancelled", "cleaned", "finally"]
    assert (receipt.status, again.status) == ("requested", "finished")
    assert (status.state, status.error) == ("cancelled", "no more")


async def test_a_function_that_swallows_its_cancel_is_cancelled_all_the_same(stage: Stage) -> None:
    seen: list[str] = []

    @process
    async def stubborn(ctx: ProcessContext[Any]) -> str:
        try:
            await ctx.sleep(days=1)
        except asyncio.CancelledError:
            seen.append("no")
            try:
                await ctx.step(seen.append, "never")
            except asyncio.CancelledError:
                seen.append("no operation runs")
        return "done all the same"

    async with stage.runtime(processes=[stubborn]) as rt:
        handle = await rt.processes.start(stubborn)
        await until(lambda: is_asleep(handle))
        await handle.cancel("stop")
        with pytest.raises(ProcessCancelled, match="stop"):
            await handle.result(timeout=HANGS_S)
    assert seen == ["no", "no operation runs"]


async def test_a_process_that_is_cancelled_before_it_began_does_not_begin(stage: Stage) -> None:
    log = Log()
    nap = log.napper()
    async with stage.runtime() as client:
        handle = await client.processes.start("nap", id="n")
        await handle.cancel("changed my mind")
        async with stage.runtime(processes=[nap]) as rt:
            with pytest.raises(ProcessCancelled, match="changed my mind"):
                await rt.processes.get("n").result(timeout=HANGS_S)
    assert log.lines == []


async def test_a_sleep_that_is_none_is_refused(stage: Stage) -> None:
    @process
    async def nap(ctx: ProcessContext[Any], seconds: float) -> str:
        await ctx.sleep(seconds)
        return "rested"

    async with stage.runtime(processes=[nap]) as rt:
        assert await (await rt.processes.start(nap, seconds=0)).result(timeout=HANGS_S) == "rested"
        with pytest.raises(ProcessFailed, match="sleep"):
            await (await rt.processes.start(nap, seconds=-1)).result(timeout=HANGS_S)

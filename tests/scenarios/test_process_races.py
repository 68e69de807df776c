"""Operations that race: the one that ended first wins, however late a worker comes to look."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.stage import DAY_S, Stage, until
from windlass import ProcessContext, ProcessHandle, process

Order = tuple[str, ...]


@process
async def race(ctx: ProcessContext[Any], order: Order) -> list[str]:
    """Begin what is named, in this order; return what ended, the first one first."""
    days = {"slow": 5, "fast": 1, "timer": 3}

    async def run(name: str) -> str:
        if name == "signal":
            await ctx.wait("go")
        else:
            await ctx.sleep(days=days[name])
        return name

    ended: list[str] = []
    for done in asyncio.as_completed([asyncio.create_task(run(name)) for name in order]):
        ended.append(await done)
        await ctx.step(ended[-1].upper, name=f"saw_{ended[-1]}")
    return ended


async def is_asleep(handle: ProcessHandle[Any]) -> bool:
    return (await handle.status()).state == "waiting"


async def begun(stage: Stage, *order: str) -> None:
    async with stage.runtime(processes=[race]) as rt:
        handle = await rt.processes.start(race, id="r", order=order)
        await until(lambda: is_asleep(handle))


async def signal(stage: Stage) -> None:
    async with stage.runtime(processes=[race], worker=False) as rt:
        await rt.processes.get("r").signal("go")


async def result(stage: Stage) -> list[str]:
    async with stage.runtime(processes=[race]) as rt:
        found: list[str] = await rt.processes.get("r").result(timeout=HANGS_S)
        return found


@pytest.mark.parametrize("order", [("slow", "fast"), ("fast", "slow"), ("slow", "timer", "fast")])
async def test_of_timers_that_ran_out_while_no_worker_ran_the_earliest_is_the_first(
    stage: Stage, order: Order
) -> None:
    await begun(stage, *order)
    stage.clock.advance(10 * DAY_S)
    assert await result(stage) == [one for one in ("fast", "timer", "slow") if one in order]


@pytest.mark.parametrize("order", [("timer", "signal"), ("signal", "timer")])
async def test_a_signal_that_came_before_a_timer_ran_out_is_before_it(
    stage: Stage, order: Order
) -> None:
    await begun(stage, *order)
    stage.clock.advance(DAY_S)
    await signal(stage)
    stage.clock.advance(6 * DAY_S)
    assert await result(stage) == ["signal", "timer"]


@pytest.mark.parametrize("order", [("timer", "signal"), ("signal", "timer")])
async def test_a_signal_that_came_after_a_timer_ran_out_is_behind_it(
    stage: Stage, order: Order
) -> None:
    await begun(stage, *order)
    stage.clock.advance(5 * DAY_S)
    await signal(stage)
    stage.clock.advance(2 * DAY_S)
    assert await result(stage) == ["timer", "signal"]


async def test_a_timer_that_was_given_up_holds_up_nothing_when_it_runs_out(stage: Stage) -> None:
    steps: list[str] = []

    @process
    async def first_only(ctx: ProcessContext[Any]) -> str:
        async def nap(name: str, days: int) -> str:
            await ctx.sleep(days=days)
            return name

        async def inner() -> str:
            return await asyncio.create_task(nap("slow", 5))

        slow, fast = asyncio.create_task(inner()), asyncio.create_task(nap("fast", 1))
        done, left = await asyncio.wait({slow, fast}, return_when=asyncio.FIRST_COMPLETED)
        for one in left:
            one.cancel()
        for at in range(3):
            await ctx.step(steps.append, f"slept {at}")
            await ctx.sleep(days=3)
        return done.pop().result()

    async def is_at(handle: ProcessHandle[Any], n_steps: int) -> bool:
        return len(steps) == n_steps and await is_asleep(handle)

    async with stage.runtime(processes=[first_only]) as rt:
        handle = await rt.processes.start(first_only, id="r")
        await until(lambda: is_asleep(handle))
    for n_steps in (1, 2, 3):  # behind the second, the timer that was given up runs out
        stage.clock.advance(4 * DAY_S)
        async with stage.runtime(processes=[first_only]) as rt:
            await until(partial(is_at, rt.processes.get("r"), n_steps))
    stage.clock.advance(4 * DAY_S)
    async with stage.runtime(processes=[first_only]) as rt:
        assert await rt.processes.get("r").result(timeout=HANGS_S) == "fast"
    assert steps == ["slept 0", "slept 1", "slept 2"]

"""Waits that a function gives up, as it cancels the task that waits: they take no signal, and leave no child at work."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.stage import DAY_S, Stage, until
from windlass import (
    Agent,
    ModelReply,
    ModelRequest,
    ProcessContext,
    ProcessHandle,
    Runtime,
    process,
)
from windlass.errors import ProcessEnded
from windlass.testing import FunctionModel, Scenario, kill_everywhere, say
from windlass.testing.crashing.kill_everywhere import StoreKind


async def first_of(*tasks: asyncio.Task[Any]) -> asyncio.Task[Any]:
    """Return the task that ends first; cancel the others."""
    done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for one in left:
        one.cancel()
    (winner,) = done
    return winner


async def outlast(ctx: ProcessContext[Any], signal: str = "go", days: int = 1) -> str:
    """Wait for a signal or for so many days, and give the other one up."""
    go = asyncio.create_task(ctx.wait(signal))
    nap = asyncio.create_task(ctx.sleep(days=days))
    return "signal" if await first_of(go, nap) is go else "time"


async def kinds(handle: ProcessHandle[Any]) -> list[str]:
    status = await handle.status()
    return sorted(one.kind for one in status.waits) if status.state == "waiting" else []


async def is_asleep(handle: ProcessHandle[Any]) -> bool:
    return (await handle.status()).state == "waiting"


@process
async def twice(ctx: ProcessContext[Any]) -> list[Any]:
    """Outlast a signal, and wait for two of the same name."""
    first = await outlast(ctx)
    return [first, await ctx.wait("go"), await ctx.wait("go")]


async def has_one_wait(handle: ProcessHandle[Any]) -> bool:
    return await kinds(handle) == ["signal"]


async def test_a_signal_is_not_for_a_wait_that_was_given_up(stage: Stage) -> None:
    async with stage.runtime(processes=[twice]) as rt:
        handle = await rt.processes.start(twice, id="t")
        await until(lambda: is_asleep(handle))
        stage.later(DAY_S, rt)
        await until(lambda: has_one_wait(handle))
        await handle.signal("go", 1)
        await handle.signal("go", 2)
        assert await handle.result(timeout=HANGS_S) == ["time", 1, 2]


async def test_what_was_given_up_stays_so_when_the_worker_comes_back(stage: Stage) -> None:
    async with stage.runtime(processes=[twice]) as rt:
        handle = await rt.processes.start(twice, id="t")
        await until(lambda: is_asleep(handle))
        stage.later(DAY_S, rt)
        await until(lambda: has_one_wait(handle))
    async with stage.runtime() as client:
        await client.processes.get("t").signal("go", 1)
    async with stage.runtime(processes=[twice]) as rt:
        await until(lambda: has_one_wait(rt.processes.get("t")))
    async with stage.runtime() as client:
        await client.processes.get("t").signal("go", 2)
    async with stage.runtime(processes=[twice]) as rt:
        assert await rt.processes.get("t").result(timeout=HANGS_S) == ["time", 1, 2]


def window(gate: asyncio.Event, *, goes_on: bool) -> Any:  # noqa: ANN401 - a process
    """Return a process that gives a wait up, and that the store has not heard of it yet while the gate is closed."""

    @process(name="window")
    async def in_between(ctx: ProcessContext[Any], again: bool = False) -> list[Any]:
        first = "earlier" if again else await outlast(ctx)
        await gate.wait()  # not an operation, so nothing is written
        if goes_on and not again:
            ctx.continue_as(again=True)
        return [first, await ctx.wait("go"), await ctx.wait("go")]

    return in_between


@pytest.mark.parametrize("goes_on", [False, True], ids=["in the same turn", "in the next turn"])
async def test_a_signal_that_came_just_before_the_wait_was_closed_is_for_the_next(
    stage: Stage, goes_on: bool
) -> None:
    gate = asyncio.Event()
    waits = window(gate, goes_on=goes_on)
    async with stage.runtime(processes=[waits]) as rt:
        handle = await rt.processes.start(waits, id="w")
        await until(lambda: is_asleep(handle))
        stage.later(DAY_S, rt)
        await until(lambda: is_running(handle))
        await handle.signal("go", 1)
        gate.set()
        await until(lambda: has_one_wait(handle))
        await handle.signal("go", 2)
        first = "earlier" if goes_on else "time"
        assert await handle.result(timeout=HANGS_S) == [first, 1, 2]


async def is_running(handle: ProcessHandle[Any]) -> bool:
    return (await handle.status()).state == "running"


async def test_a_signal_that_was_left_is_before_those_that_came_later_also_after_a_restart(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.engines.worker._GRACE_S", 0.05)
    gate = asyncio.Event()
    waits = window(gate, goes_on=False)
    async with stage.runtime(processes=[waits]) as rt:
        handle = await rt.processes.start(waits, id="w")
        await until(lambda: is_asleep(handle))
        stage.later(DAY_S, rt)
        await until(lambda: is_running(handle))
        await handle.signal("go", 1)
        await handle.signal("go", 2)
    # The worker left while the function stood at the gate: nothing of what it gave up is written.
    gate.set()
    async with stage.runtime(processes=[waits]) as rt:
        assert await rt.processes.get("w").result(timeout=HANGS_S) == ["time", 1, 2]


async def test_a_child_that_nothing_waits_for_any_more_is_cancelled(stage: Stage) -> None:
    gate = asyncio.Event()

    async def answer(_: ModelRequest) -> ModelReply:
        await gate.wait()
        return say("late")

    slow: Agent[None, str] = Agent("slow", model=FunctionModel(answer))

    @process
    async def impatient(ctx: ProcessContext[Any]) -> str:
        work = asyncio.create_task(ctx.turn(slow, "Go", session="chat"))
        nap = asyncio.create_task(ctx.sleep(days=1))
        winner = await first_of(work, nap)
        await ctx.sleep(days=1)
        return "time" if winner is nap else "work"

    async with stage.runtime(slow, processes=[impatient]) as rt:
        handle = await rt.processes.start(impatient, id="i")
        await until(lambda: has_child(handle))
        stage.later(DAY_S, rt)
        await until(lambda: was_cancelled(rt))
    async with stage.runtime(slow, processes=[impatient]) as rt:
        stage.later(DAY_S, rt)
        assert await rt.processes.get("i").result(timeout=HANGS_S) == "time"


async def has_child(handle: ProcessHandle[Any]) -> bool:
    return "child" in await kinds(handle)


async def was_cancelled(rt: Runtime[Any]) -> bool:
    turns = await rt.turns(session_id="chat")
    if any(one.state != "done" for one in turns):
        return False
    results = [await rt.turn("chat", one.turn_id).result() for one in turns]
    return [getattr(one.outcome, "reason", "") for one in results] == ["cancelled"]


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_killed_at_every_point_no_signal_is_lost(store: StoreKind) -> None:
    def make() -> Scenario:
        @process
        async def thrice(ctx: ProcessContext[Any]) -> list[Any]:
            first = await outlast(ctx)
            second = await outlast(ctx, days=2)
            await ctx.emit("ready", True)
            return [first, second, await ctx.wait("go"), await ctx.wait("go")]

        async def run(rt: Runtime[Any]) -> object:
            handle = await rt.processes.start(thrice, id="p")
            result, _ = await asyncio.gather(handle.result(), send(handle))
            return result

        async def send(handle: ProcessHandle[Any]) -> None:
            while not (await handle.status()).record.get("ready"):  # noqa: ASYNC110 - the store tells no one
                await asyncio.sleep(0)
            for number in (1, 2):
                with suppress(ProcessEnded):  # an earlier life has sent it
                    await handle.signal("go", number, key=f"k{number}")

        def check(result: Any) -> None:  # noqa: ANN401 - what the process returned
            assert result == ["time", "time", 1, 2]

        return Scenario(agents=tuple, processes=lambda: [thrice], run=run, check=check)

    await kill_everywhere(make, store=store)

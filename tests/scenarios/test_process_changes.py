"""Code that changed while its process was asleep; versions; and processes that continue with other arguments."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.stage import Stage, until
from windlass import Process, ProcessContext, ProcessHandle, process
from windlass.errors import ArgsInvalid, ProcessCancelled, ProcessFailed, SessionDeleted
from windlass.kernel.events import ProcessEvent


def made(body: Callable[[ProcessContext[Any]], Awaitable[Any]]) -> Process[Any]:
    """Return a release of the process `order` with this body."""

    async def order(ctx: ProcessContext[Any]) -> object:
        return await body(ctx)

    return process(order)


async def waits(handle: ProcessHandle[Any]) -> bool:
    return (await handle.status()).state == "waiting"


async def draw(name: str) -> str:
    return name


async def _first(ctx: ProcessContext[Any]) -> object:
    await ctx.step(draw, "contract")
    await ctx.sleep(days=1)
    return "first"


async def _other_args(ctx: ProcessContext[Any]) -> None:
    await ctx.step(draw, "invoice")
    await ctx.sleep(days=1)


async def _other_step(ctx: ProcessContext[Any]) -> None:
    await ctx.step(draw, "contract", name="print")
    await ctx.sleep(days=1)


async def _no_sleep(ctx: ProcessContext[Any]) -> None:
    await ctx.step(draw, "contract")
    await ctx.step(draw, "contract", name="print")


async def _no_end(ctx: ProcessContext[Any]) -> object:
    return await ctx.step(draw, "contract")


async def _other_length(ctx: ProcessContext[Any]) -> None:
    await ctx.step(draw, "contract")
    await ctx.sleep(days=2)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (_other_args, "operation 1, the step draw: now the step draw, with other arguments"),
        (_other_step, "operation 1, the step draw: now the step print"),
        (_no_sleep, "operation 2, a sleep: now the step print"),
        (_no_end, "operation 2, a sleep: now nothing"),
        (_other_length, "operation 2, a sleep: now a sleep of another length"),
    ],
)
async def test_code_that_changed_parks_and_says_which_step_and_goes_on_after_the_fix(
    stage: Stage, changed: Callable[[ProcessContext[Any]], Awaitable[Any]], said: str
) -> None:
    async with stage.runtime(processes=[made(_first)]) as rt:
        handle = await rt.processes.start("order", id="o")
        await until(lambda: waits(handle))
    stage.clock.advance(86_400)
    async with stage.runtime(processes=[made(changed)]) as rt:
        handle = rt.processes.get("o")
        await until(lambda: _is_mismatched(handle))
        (wait,) = [one for one in (await handle.status()).waits if one.kind == "mismatch"]
        assert wait.title == f"The code asks for something else than the journal holds: {said}"
    async with stage.runtime(processes=[made(_first)]) as rt:
        await rt.retry(wait.session_id, wait.turn_id)
        assert await rt.processes.get("o").result(timeout=HANGS_S) == "first"


@pytest.mark.parametrize("changed", [_other_args, _other_step, _no_sleep, _no_end, _other_length])
async def test_a_process_whose_code_changed_can_be_cancelled_and_deleted(
    stage: Stage, changed: Callable[[ProcessContext[Any]], Awaitable[Any]]
) -> None:
    async with stage.runtime(processes=[made(_first)]) as rt:
        for name in ("o", "p"):
            handle = await rt.processes.start("order", id=name)
            await until(partial(waits, handle))
    async with stage.runtime(processes=[made(changed)]) as rt:
        cancelled, deleted = rt.processes.get("o"), rt.processes.get("p")
        await cancelled.cancel("no longer needed")
        with pytest.raises(ProcessCancelled, match="no longer needed"):
            await cancelled.result(timeout=HANGS_S)
        async with asyncio.timeout(HANGS_S):
            await deleted.delete()
        with pytest.raises(SessionDeleted):
            await deleted.status()


async def _is_mismatched(handle: ProcessHandle[Any]) -> bool:
    status = await handle.status()
    return status.state == "waiting" and any(one.kind == "mismatch" for one in status.waits)


async def test_a_change_that_is_accepted_runs_on_what_is_recorded(stage: Stage) -> None:
    async with stage.runtime(processes=[made(_first)]) as rt:
        handle = await rt.processes.start("order", id="o")
        await until(lambda: waits(handle))
    stage.clock.advance(86_400)
    async with stage.runtime(processes=[made(_no_end)], on_mismatch="accept") as rt:
        assert await rt.processes.get("o").result(timeout=HANGS_S) == "contract"


async def test_a_version_is_for_processes_that_had_not_come_further(stage: Stage) -> None:
    async def second(ctx: ProcessContext[Any]) -> object:
        is_new = await ctx.version("v2")
        await ctx.step(draw, "contract")
        if is_new:
            await ctx.step(draw, "checked", name="check")
        await ctx.sleep(days=1)
        return "second" if await ctx.version("v2") else "as before"

    async with stage.runtime(processes=[made(_first)]) as rt:
        old = await rt.processes.start("order", id="old")
        await until(lambda: waits(old))
    async with stage.runtime(processes=[made(second)]) as rt:
        new = await rt.processes.start("order", id="new")
        await until(lambda: waits(new))
    stage.clock.advance(86_400)
    async with stage.runtime(processes=[made(second)]) as rt:
        found = [await rt.processes.get(one).result(timeout=HANGS_S) for one in ("old", "new")]
    assert found == ["as before", "second"]


@process
async def count(ctx: ProcessContext[Any], until: int, n: int = 0) -> int:
    await ctx.emit("reached", n)
    if n == 1:
        await ctx.emit("early", "yes")
    if n < until:
        ctx.continue_as(until=until, n=n + 1)
    return n


async def test_a_process_that_continues_is_one_process_with_short_journals(stage: Stage) -> None:
    async with stage.runtime(processes=[count]) as rt:
        handle = await rt.processes.start(count, id="c", until=4)
        assert await handle.result(timeout=HANGS_S) == 4
        again = await rt.processes.start(count, id="c", until=4)
        status = await again.status()
        told = [one.value async for one in handle.events() if isinstance(one, ProcessEvent)]
        pages = [
            await rt._services.store.load_turn(handle.session_id, turn_id)
            for turn_id in ("run", "run-2", "run-3", "run-4", "run-5")
        ]
        none = await rt._services.store.load_turn(handle.session_id, "run-6")

    assert (status.state, status.n_continued, status.turn_id) == ("done", 4, "run-5")
    assert status.record == {"reached": 4, "early": "yes"}
    assert told == [0, 1, "yes", 2, 3, 4]
    assert none is None
    assert all(page is not None and len(page.journal().rows()) < 3 for page in pages)


async def test_signals_that_nothing_asked_for_stay_with_a_process_that_continues(
    stage: Stage,
) -> None:
    @process
    async def inbox(ctx: ProcessContext[Any], seen: list[int]) -> list[int]:
        seen = [*seen, await ctx.wait("item")]
        return seen if len(seen) == 3 else ctx.continue_as(seen=seen)

    async with stage.runtime(processes=[inbox]) as rt:
        handle = await rt.processes.start(inbox, seen=[])
        for number in (1, 2, 3):
            await handle.signal("item", number)
        assert await handle.result(timeout=HANGS_S) == [1, 2, 3]


async def test_it_cannot_continue_with_what_its_function_does_not_take(stage: Stage) -> None:
    @process
    async def wrong(ctx: ProcessContext[Any], n: int) -> None:
        try:
            ctx.continue_as(n="many")
        except ArgsInvalid as error:
            raise ValueError(error.field) from None

    async with stage.runtime(processes=[wrong]) as rt:
        handle = await rt.processes.start(wrong, n=1)
        with pytest.raises(ProcessFailed, match=r"ValueError: args\.n"):
            await handle.result(timeout=HANGS_S)


async def test_a_process_that_continues_for_ever_is_cancelled_where_it_is(stage: Stage) -> None:
    @process
    async def endless(ctx: ProcessContext[Any], n: int) -> None:
        if n % 3 == 0:
            await ctx.sleep(60)
        ctx.continue_as(n=n + 1)

    async with stage.runtime(processes=[endless]) as rt:
        handle = await rt.processes.start(endless, n=1)
        await until(lambda: waits(handle))
        assert (await handle.status()).turn_id == "run-3"
        await handle.cancel("enough")
        with pytest.raises(ProcessCancelled, match="enough"):
            await handle.result(timeout=HANGS_S)
        await handle.delete()

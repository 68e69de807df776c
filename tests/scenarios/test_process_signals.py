"""Signals: what a process is told from outside. Kept until it asks, each once, checked by their types."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.stage import DAY_S, Stage, until
from windlass import ProcessContext, ProcessHandle, Runtime, process
from windlass.errors import (
    IdempotencyConflict,
    InvalidInput,
    ProcessEnded,
    ProcessFailed,
    SessionDeleted,
    UnknownSession,
)


@dataclass
class Payment:
    eur: int


@process
async def shop(ctx: ProcessContext[Any], n: int) -> list[Any]:
    """Wait for so many signals."""
    return [await ctx.wait("paid") for _ in range(n)]


@process(signals={"paid": Payment, "note": str})
async def typed(ctx: ProcessContext[Any]) -> list[Any]:
    paid = await ctx.wait("paid", payload_type=Payment)
    note = await ctx.wait("note", timeout=60, default="none")
    assert type(paid) is Payment
    return [paid.eur, note]


async def waits(handle: ProcessHandle[Any], n: int = 1) -> bool:
    status = await handle.status()
    return status.state == "waiting" and len(status.waits) == n


async def test_a_signal_before_the_wait_and_one_after_it_arrive_in_order(stage: Stage) -> None:
    async with stage.runtime() as client:
        handle = await client.processes.start("shop", id="s", n=2)
        first = await handle.signal("paid", {"eur": 1}, by="bank")
        async with stage.runtime(processes=[shop]) as rt:
            mine = rt.processes.get("s")
            await until(lambda: waits(mine))
            assert (await mine.status()).waits[0].title == "process:shop waits for the signal paid"
            second = await mine.signal("paid", {"eur": 2})
            assert await mine.result(timeout=HANGS_S) == [{"eur": 1}, {"eur": 2}]
    assert (first.status, second.status) == ("accepted", "accepted")


async def test_two_signals_are_two_and_the_same_key_is_one(stage: Stage) -> None:
    async with stage.runtime() as client:
        handle = await client.processes.start("shop", id="s", n=3)
        receipts = [
            await handle.signal("paid", 1, key="evt-1"),
            await handle.signal("paid", 1, key="evt-1"),
            await handle.signal("paid", 1),
            await handle.signal("paid", 1),
        ]
        with pytest.raises(IdempotencyConflict):
            await handle.signal("paid", 2, key="evt-1")
        async with stage.runtime(processes=[shop]) as rt:
            assert await rt.processes.get("s").result(timeout=HANGS_S) == [1, 1, 1]
            # A sender that asks again is told that it was heard, also when the process has ended.
            again = await rt.processes.get("s").signal("paid", 1, key="evt-1")
    assert [one.status for one in (*receipts, again)] == [
        "accepted", "known", "accepted", "accepted", "known",
    ]  # fmt: skip


async def test_a_signal_to_a_process_that_is_over_or_not_there_is_refused(stage: Stage) -> None:
    async with stage.runtime(processes=[shop]) as rt:
        handle = await rt.processes.start(shop, id="s", n=0)
        await handle.result(timeout=HANGS_S)
        with pytest.raises(ProcessEnded, match=r"process s: has ended \(done\)"):
            await handle.signal("paid", 1, key="evt-1")
        assert (await rt._services.store.inbox(handle.session_id)).items == ()
        with pytest.raises(UnknownSession, match="process other: is not known"):
            await rt.processes.get("other").signal("paid")
        await handle.delete()
        with pytest.raises(SessionDeleted, match="process s: was deleted"):
            await handle.signal("paid")


async def test_a_declared_signal_is_checked_when_it_is_sent_and_read_when_it_arrives(
    stage: Stage,
) -> None:
    async with stage.runtime(processes=[typed]) as rt:
        handle = await rt.processes.start(typed, id="t")
        with pytest.raises(InvalidInput, match="signal: found 'payed', wanted one of: paid, note"):
            await handle.signal("payed", Payment(1))
        with pytest.raises(InvalidInput, match=r"signals\.paid: Expected `int`, got `str`"):
            await handle.signal("paid", {"eur": "many"})
        with pytest.raises(InvalidInput, match="payload"):
            await handle.signal("paid", object())
        await until(lambda: waits(handle))
        await handle.signal("paid", Payment(9))
        await handle.signal("note", "thanks")
        assert await handle.result(timeout=HANGS_S) == [9, "thanks"]


async def test_what_an_unchecked_sender_sends_and_does_not_fit_is_passed_over(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    async with stage.runtime() as client, stage.runtime(processes=[typed]) as rt:
        handle = await client.processes.start("typed", id="t")
        await handle.signal("paid", {"eur": "many, 4711"})
        await handle.signal("paid", {"eur": "more"})
        await handle.signal("paid", {"eur": 9})
        await handle.signal("note", "thanks")
        assert await rt.processes.get("t").result(timeout=HANGS_S) == [9, "thanks"]
        result = await rt.turn(handle.session_id, "run").result()
    assert [(one.code, one.message) for one in result.issues] == [
        ("signal_refused", "the signal paid was passed over: signal paid: Expected `int`, got `str` - at `$.eur`")
    ]  # fmt: skip
    said = [one.getMessage() for one in caplog.records if "passed over" in one.getMessage()]
    assert len(said) >= 2
    assert all(one.startswith("process t: the signal paid was passed over") for one in said)
    assert "4711" not in caplog.text


async def test_a_wait_that_passed_a_signal_over_ends_when_it_was_to_end(stage: Stage) -> None:
    @process(signals={"paid": int})
    async def patient(ctx: ProcessContext[Any]) -> object:
        began = await ctx.now()
        paid = await ctx.wait("paid", timeout=3 * DAY_S, default="never")
        return [paid, (await ctx.now() - began).days]

    async with stage.runtime() as client:
        handle = await client.processes.start("patient", id="p")
        for _ in range(3):
            async with stage.runtime(processes=[patient]) as rt:
                await until(lambda: waits(rt.processes.get("p")))
                await handle.signal("paid", "nothing that fits")
                await until(lambda: has_heard(rt, handle))
                stage.later(DAY_S - 1, rt)
        async with stage.runtime(processes=[patient]) as rt:
            await until(lambda: waits(rt.processes.get("p")))
            stage.later(3, rt)
            assert await rt.processes.get("p").result(timeout=HANGS_S) == ["never", 3]


async def has_heard(rt: Runtime[Any], handle: ProcessHandle[Any]) -> bool:
    """Whether a process waits, and no signal waits for it."""
    items = (await rt._services.store.inbox(handle.session_id)).items
    return not items and await waits(handle)


async def test_a_process_waits_for_declared_signals_only(stage: Stage) -> None:
    @process(signals={})
    async def deaf(ctx: ProcessContext[Any]) -> object:
        return await ctx.wait("anything")

    async with stage.runtime(processes=[deaf]) as rt:
        handle = await rt.processes.start(deaf)
        with pytest.raises(ProcessFailed, match="signal: found 'anything', wanted none"):
            await handle.result(timeout=HANGS_S)


async def test_a_signal_that_does_not_come_in_time_is_the_default_or_an_error(stage: Stage) -> None:
    @process
    async def patient(ctx: ProcessContext[Any]) -> list[Any]:
        first = await ctx.wait("paid", timeout=timedelta(days=30), default="no money")
        try:
            await ctx.wait("paid", timeout=1)
        except TimeoutError as error:
            return [first, str(error)]

        return []

    async with stage.runtime(processes=[patient]) as rt:
        handle = await rt.processes.start(patient, id="p")
        await until(lambda: waits(handle))
        stage.later(30 * 86_400, rt)
        await until(lambda: _in_turn(handle, "signal", 2))
        stage.later(1, rt)
        found = await handle.result(timeout=HANGS_S)
    assert found == ["no money", "signal paid: did not come in time"]


async def _in_turn(handle: ProcessHandle[Any], kind: str, number: int) -> bool:
    """Whether the process waits for the how manieth time."""
    store = handle._admission.services.store
    view = await store.load_turn(handle.session_id, "run")
    assert view is not None
    return (
        view.state == "parked" and [one.wait.kind for one in view.waits] == [kind] * number
    ) and view.waits[-1].state == "open"


async def test_signals_of_two_names_are_waited_for_together(stage: Stage) -> None:
    @process
    async def both(ctx: ProcessContext[Any]) -> list[Any]:
        return list(await asyncio.gather(ctx.wait("left"), ctx.wait("right")))

    async with stage.runtime(processes=[both]) as rt:
        handle = await rt.processes.start(both)
        await until(lambda: waits(handle, 2))
        await handle.signal("right", 2)
        await until(lambda: waits(handle, 1))
        await handle.signal("left", 1)
        assert await handle.result(timeout=HANGS_S) == [1, 2]

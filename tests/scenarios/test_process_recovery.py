"""What becomes of a process whose worker is lost, as it declares: run again, never twice, or told from elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.stage import Desk, Stage, until
from windlass import Agent, ProcessContext, ProcessHandle, Runtime, process, tool
from windlass.errors import (
    IdempotencyConflict,
    InvalidInput,
    ProcessCancelled,
    ProcessEnded,
    ProcessFailed,
    StepUnknown,
)
from windlass.kernel.events import ProcessEvent
from windlass.testing import ScriptedModel, call, say


async def is_in(handle: ProcessHandle[Any], state: str) -> bool:
    return (await handle.status()).state == state


async def test_a_rerun_goes_on_behind_what_is_recorded(stage: Stage) -> None:
    desk, began = Desk(is_open=False), list[int]()

    @process
    async def twice(ctx: ProcessContext[Any]) -> list[Any]:
        began.append(1)
        first = await ctx.step(lambda: "kept", name="first")
        second = await ctx.step(desk.work, "second", effect="idempotent")
        return [first, second]

    async with stage.runtime(processes=[twice]) as rt:
        await rt.processes.start(twice, id="t")
        await desk.entered.wait()
        stage.kill(rt)
        async with stage.runtime(processes=[twice]) as next_rt:
            await until(lambda: len(desk.runs) == 2)
            desk.gate.set()
            found = await next_rt.processes.get("t").result(timeout=HANGS_S)
    assert found == ["kept", None]
    assert len(began) == 2


async def test_a_once_step_that_was_cut_off_is_unknown_to_the_code_and_not_run_again(
    stage: Stage,
) -> None:
    desk = Desk(is_open=False)

    @process
    async def pay(ctx: ProcessContext[Any]) -> str:
        try:
            await ctx.step(desk.work, "pay")
        except StepUnknown as error:
            return f"asked the bank: {error.field}"
        return "paid"

    async with stage.runtime(processes=[pay]) as rt:
        await rt.processes.start(pay, id="t")
        await desk.entered.wait()
        stage.kill(rt)
        async with stage.runtime(processes=[pay]) as next_rt:
            assert (
                await next_rt.processes.get("t").result(timeout=HANGS_S) == "asked the bank: work"
            )
            desk.gate.set()
    assert desk.runs == ["pay"]


async def test_an_owner_is_never_begun_twice(stage: Stage) -> None:
    desk, began = Desk(is_open=False), list[int]()

    @process(recovery="owner")
    async def own(ctx: ProcessContext[Any]) -> str:
        began.append(1)
        await ctx.step(desk.work, "a", effect="idempotent")
        return "done"

    async with stage.runtime(processes=[own]) as rt:
        await rt.processes.start(own, id="o")
        await desk.entered.wait()
        stage.kill(rt)
        async with stage.runtime(processes=[own]) as next_rt:
            with pytest.raises(ProcessFailed, match="process o: failed: Its worker was lost"):
                await next_rt.processes.get("o").result(timeout=HANGS_S)
            desk.gate.set()
    assert (len(began), desk.runs) == (1, ["a"])


async def test_an_owner_keeps_its_place_in_memory_and_lends_its_slot_while_it_waits(
    stage: Stage,
) -> None:
    began: list[int] = []

    @process(recovery="owner")
    async def own(ctx: ProcessContext[Any]) -> list[Any]:
        began.append(1)
        first = await ctx.wait("go")
        await ctx.sleep(60)
        return [first, await ctx.run("other")]

    @process
    async def other(ctx: ProcessContext[Any]) -> str:
        return "other"

    async with stage.runtime(processes=[own, other], max_turns=1) as rt:
        handle = await rt.processes.start(own, id="o")
        await until(lambda: _open_waits(handle, 1))
        # The one slot is free for others.
        beside = await rt.processes.start(other)
        assert await beside.result(timeout=HANGS_S) == "other"
        await handle.signal("go", 1)
        await until(lambda: _waits_for(handle, "timer"))
        stage.later(60, rt)
        assert await handle.result(timeout=HANGS_S) == [1, "other"]
        assert rt._worker.slots.free == 1
    assert began == [1]


async def _open_waits(handle: ProcessHandle[Any], n: int) -> bool:
    return len((await handle.status()).waits) == n


async def _waits_for(handle: ProcessHandle[Any], kind: str) -> bool:
    return [one.kind for one in (await handle.status()).waits] == [kind]


async def test_an_external_process_is_told_of_and_its_function_never_runs(stage: Stage) -> None:
    @process(recovery="external")
    async def train(ctx: ProcessContext[Any], epochs: int) -> dict[str, Any]:
        raise AssertionError("it runs elsewhere")

    async with stage.runtime(processes=[train]) as rt:
        handle = await rt.processes.start(train, id="t", epochs=2)
        await handle.emit("epoch", {"loss": 0.5}, key="1")
        again = await handle.emit("epoch", {"loss": 0.5}, key="1")
        with pytest.raises(IdempotencyConflict):
            await handle.emit("epoch", {"loss": 0.4}, key="1")
        await handle.emit("epoch", {"loss": 0.25}, key="2")
        with pytest.raises(InvalidInput, match="signal"):
            await handle.signal("stop")
        await until(lambda: _has_told(handle, {"epoch": {"loss": 0.25}}))
        await handle.finish({"weights": "w"})
        found = await handle.result(timeout=HANGS_S)
        told = [one.value async for one in handle.events() if isinstance(one, ProcessEvent)]
        with pytest.raises(ProcessEnded):
            await handle.emit("epoch", {"loss": 0})

        failing = await rt.processes.start(train, epochs=1)
        await failing.fail("out of memory")
        with pytest.raises(ProcessFailed, match="out of memory"):
            await failing.result(timeout=HANGS_S)
        stopped = await rt.processes.start(train, epochs=1)
        await until(lambda: is_in(stopped, "waiting"))
        await stopped.cancel("too dear")
        with pytest.raises(ProcessCancelled, match="too dear"):
            await stopped.result(timeout=HANGS_S)

    assert again.status == "known"
    assert found == {"weights": "w"}
    assert told == [{"loss": 0.5}, {"loss": 0.25}]


async def _has_told(handle: ProcessHandle[Any], record: dict[str, Any]) -> bool:
    return (await handle.status()).record == record


async def test_an_external_process_begins_a_new_journal_from_time_to_time(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.api.process._MAX_TOLD", 3)

    @process(recovery="external")
    async def train(ctx: ProcessContext[Any]) -> int:
        return 0

    async with stage.runtime(processes=[train]) as rt:
        handle = await rt.processes.start(train)
        for number in range(7):
            await handle.emit("epoch" if number else "began", number)
        await handle.finish(7)
        assert await handle.result(timeout=HANGS_S) == 7
        status = await handle.status()
    assert (status.n_continued, status.record) == (2, {"began": 0, "epoch": 6})


async def test_one_that_runs_here_is_not_told_of_from_elsewhere(stage: Stage) -> None:
    @process
    async def here(ctx: ProcessContext[Any]) -> object:
        return await ctx.wait("go")

    async with stage.runtime(processes=[here]) as rt:
        handle = await rt.processes.start(here)
        for act in (handle.emit("x"), handle.finish(1), handle.fail("no")):
            with pytest.raises(InvalidInput, match="here, which runs here"):
                await act


async def test_a_tool_in_a_process_has_its_own_approval(stage: Stage) -> None:
    paid: list[int] = []

    @tool(approval="ask")
    async def pay(eur: int) -> str:
        paid.append(eur)
        return f"paid {eur}"

    @process
    async def buy(ctx: ProcessContext[Any]) -> list[str]:
        first = await ctx.tool(pay, eur=1)
        return [first, await ctx.turn("clerk", "Thank them.")]

    model = ScriptedModel([call("pay", eur=2), say("Thanks.")])
    agent = Agent("clerk", model=model, tools=[pay])
    async with stage.runtime(agent, processes=[buy]) as rt:
        handle = await rt.processes.start(buy, id="b")
        for n_paid in (1, 2):
            await until(lambda: _approval(rt))
            (wait,) = [one for one in await rt.waits() if one.kind == "approval"]
            await rt.approve(wait.key)
            await until(lambda n_paid=n_paid: len(paid) == n_paid)  # type: ignore[misc]
        assert await handle.result(timeout=HANGS_S) == ["paid 1", "Thanks."]
    assert paid == [1, 2]


async def _approval(rt: Runtime[Any]) -> bool:
    return any(one.kind == "approval" for one in await rt.waits())

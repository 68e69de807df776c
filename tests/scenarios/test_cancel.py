"""Cancelling: from anywhere, first writer wins, what was recorded stays, and the session can go on."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from tests.limits import HANGS_S
from tests.scenarios.payers import payer, script
from tests.scenarios.readings import said_by_user, told, turn_view
from tests.scenarios.stage import Desk, Stage, until
from tests.scenarios.workers import echo, worker
from windlass import Agent, Runtime, ToolContext, tool
from windlass.errors import SessionDeleted, UnknownSession
from windlass.kernel import ModelRequest
from windlass.kernel.outcomes import Finished, Stopped
from windlass.ports import Due
from windlass.stores.memory import MemoryStore
from windlass.testing import FunctionModel, ScriptedModel, call, calls, say

CANCELLED = Stopped(reason="cancelled", detail="enough")


class Thinking:
    """A model that thinks until it is let; the first time it is asked it says so."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.gate = asyncio.Event()
        self.model = FunctionModel(self._answer)

    async def _answer(self, request: ModelRequest) -> str:
        self.asked.set()
        await self.gate.wait()
        return "Thought."


async def test_a_turn_in_a_model_call_is_cancelled_from_another_runtime(stage: Stage) -> None:
    thinking = Thinking()
    async with stage.runtime(worker(Desk(), thinking.model)) as rt, stage.runtime() as office:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        await thinking.asked.wait()
        receipt = await office.cancel("s", "t", "enough")
        assert receipt.status == "requested"
        result = await handle.result(timeout=HANGS_S)
        there = await office.turn("s", "t").result(timeout=HANGS_S)

    assert result.outcome == there.outcome == CANCELLED
    assert result.issues == ()
    assert [message.role for message in result.messages] == ["user"]


@pytest.mark.parametrize(
    ("effect", "status"),
    [("once", "unknown"), ("keyed", "unknown"), ("pure", "cancelled")],
)
async def test_a_turn_in_a_tool_is_cancelled_and_says_what_it_does_not_know(
    stage: Stage, effect: str, status: str
) -> None:
    desk, model = Desk(is_open=False), ScriptedModel([call("work"), say("Next.")])
    agent = worker(desk, model, effect=effect)  # type: ignore[arg-type]  # one of them
    async with stage.runtime(agent) as rt, stage.runtime() as office:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        await office.cancel("s", "t", "enough")
        result = await handle.result(timeout=HANGS_S)
        stored = await rt.session("s").run("Go.", turn_id="t")
        desk.gate.set()
        after = await rt.session("s").run("And now?", turn_id="t2")

    assert result.outcome == CANCELLED
    assert [one.outcome.status for one in result.tool_calls] == [status]
    assert [one.outcome.status for one in stored.tool_calls] == [status]
    assert [one.status for one in told(model.requests[-1])] == [status]
    assert [issue.code for issue in result.issues] == (
        ["unknown_outcome"] if status == "unknown" else []
    )
    assert after.text == "Next."  # the next request is valid: every call has its one result


async def test_what_was_recorded_before_the_cancel_stays(stage: Stage) -> None:
    desk = Desk(is_open=False)

    @tool(effect="once")
    async def fast() -> str:
        """Act fast."""
        return "fast"

    model = ScriptedModel(
        [call("fast"), calls(("fast", {}), ("work", {"n": 1})), say("Spare."), say("Next.")]
    )
    agent = Agent("worker", model=model, tools=[fast, *worker(desk, model).toolbox])
    async with stage.runtime(agent) as rt:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        await until(lambda: _n_results(rt, 2))
        await handle.cancel("enough")
        result = await handle.result(timeout=HANGS_S)
        await rt.session("s").run("And now?", turn_id="t2")
        desk.gate.set()

    assert result.outcome == CANCELLED
    assert [one.status for one in told(model.requests[-1])] == ["ok", "ok", "unknown"]


async def _n_results(rt: Runtime[str], wanted: int) -> bool:
    rows = (await turn_view(rt, "s", "t")).journal().rows()
    done = [row for row in rows if "tool_call" in row.key and row.outcome is not None]
    return len(done) == wanted


class UntoldStore(MemoryStore):
    """Tells no worker that a turn is to be cancelled."""

    async def due(self, now_ms: int, **which: Any) -> Due:
        return msgspec.structs.replace(await super().due(now_ms, **which), cancels=())


async def test_a_waiting_call_that_finds_the_mark_ends_the_turn_with_its_reason() -> None:
    desk = Desk(is_open=False)
    model = ScriptedModel([calls(("pay", {"cents": 5}), ("work", {"n": 1}))])
    both = [*payer(Desk(), model).toolbox, *worker(desk, model).toolbox]
    store = UntoldStore()
    async with Runtime(Agent("a", model=model, tools=both), store=store) as rt:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        (wait,) = await store.list_waits()
        await store.request_cancel("s", "t", reason="enough")
        await rt.deny(wait.wait.key)
        desk.gate.set()
        result = await handle.result(timeout=HANGS_S)

    assert result.outcome == CANCELLED
    assert [one.outcome.status for one in result.tool_calls] == ["denied", "ok"]


async def test_a_tool_can_see_that_its_turn_was_cancelled(stage: Stage) -> None:
    entered, release, seen = asyncio.Event(), asyncio.Event(), list[bool]()

    @tool(effect="pure")
    async def work(ctx: ToolContext[None]) -> str:
        """Work."""
        seen.append(ctx.cancelled)
        entered.set()
        try:
            await release.wait()
        finally:
            seen.append(ctx.cancelled)
        return "done"

    model = ScriptedModel([call("work")])
    async with stage.runtime(Agent("worker", model=model, tools=[work])) as rt:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        await entered.wait()
        await handle.cancel("enough")
        result = await handle.result(timeout=HANGS_S)

    assert seen == [False, True]
    assert result.outcome == CANCELLED


async def test_a_parked_turn_can_be_cancelled_and_its_question_is_void(stage: Stage) -> None:
    desk = Desk()
    async with stage.runtime(payer(desk, script())) as rt:
        parked = await rt.session("s").run("Pay.", turn_id="t")
        assert (await rt.cancel("s", "t", "enough")).status == "requested"
        result = await rt.turn("s", "t").result(timeout=HANGS_S)
        assert result.outcome == CANCELLED
        assert await rt.approvals() == ()
        late = await rt.approve(parked.waits[0].key)
        after = await rt.session("s").run("And now?", turn_id="t2")

    assert late.status in ("superseded", "already", "expired")  # never accepted
    assert desk.runs == []
    assert after.text == "Done."


async def test_a_queued_turn_can_be_cancelled_and_never_begins(stage: Stage) -> None:
    desk, model = Desk(is_open=False), echo()
    async with stage.runtime(worker(desk, model)) as rt:
        session = rt.session("s")
        first = await session.submit("work", turn_id="t1")
        await desk.entered.wait()
        second = await session.submit("Second.", turn_id="t2")
        third = await session.submit("Third.", turn_id="t3")
        await second.cancel("enough")
        desk.gate.set()
        results = [await handle.result(timeout=HANGS_S) for handle in (first, second, third)]

    assert [result.outcome for result in results] == [
        Finished(text="worked"),
        CANCELLED,
        Finished(text="You said: Third."),
    ]
    assert len(model.requests) == 3


async def test_a_cancel_of_a_turn_that_nobody_drives_holds_when_somebody_does(
    stage: Stage,
) -> None:
    desk, model = Desk(is_open=False), ScriptedModel([call("work"), say("Never.")])
    async with stage.runtime(worker(desk, model)) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        stage.kill(lost)
        async with stage.runtime() as office:
            assert (await office.cancel("s", "t", "enough")).status == "requested"
        fresh = Desk()
        async with stage.runtime(worker(fresh, model)) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
        desk.gate.set()

    assert result.outcome == CANCELLED
    assert fresh.runs == []  # after a cancel nothing is begun, not even what may run again
    assert len(model.requests) == 1
    assert [one.outcome.status for one in result.tool_calls] == ["unknown"]


async def test_a_turn_that_has_ended_is_not_cancelled(stage: Stage) -> None:
    async with stage.runtime(worker(Desk(), echo())) as rt:
        await rt.session("s").run("Hello.", turn_id="t")
        receipt = await rt.cancel("s", "t", "enough")
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert receipt.status == "finished"
    assert result.outcome == Finished(text="You said: Hello.")


async def test_cancelling_twice_is_cancelling_once(stage: Stage) -> None:
    thinking = Thinking()
    async with stage.runtime(worker(Desk(), thinking.model)) as rt, stage.runtime() as office:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        await thinking.asked.wait()
        first = await office.cancel("s", "t", "enough")
        second = await office.cancel("s", "t", "quite")
        result = await handle.result(timeout=HANGS_S)

    assert (first.status, second.status) == ("requested", "already")
    assert result.outcome == CANCELLED


async def test_cancelling_what_is_not_there_says_so(stage: Stage) -> None:
    async with stage.runtime(worker(Desk(), echo())) as rt:
        await rt.session("s").run("Hello.", turn_id="t")
        assert (await rt.cancel("s", "other")).status == "unknown"
        assert (await rt.cancel("other", "t")).status == "unknown"


async def test_in_a_race_with_its_own_end_a_turn_has_one_outcome_and_all_agree(
    stage: Stage,
) -> None:
    outcomes = set()
    async with stage.runtime(worker(Desk(), echo())) as rt, stage.runtime() as office:
        for n in range(20):
            handle = await rt.session(f"s{n}").submit("Hello.", turn_id="t")
            for _ in range(n):
                await asyncio.sleep(0)
            receipt = await office.cancel(f"s{n}", "t", "enough")
            here = await handle.result(timeout=HANGS_S)
            there = await office.turn(f"s{n}", "t").result(timeout=HANGS_S)
            assert here.outcome == there.outcome
            if receipt.status == "finished":
                assert here.outcome == Finished(text="You said: Hello.")
            else:
                assert here.outcome == CANCELLED  # it was first, so the turn did not finish
            outcomes.add(receipt.status)
    assert outcomes <= {"requested", "finished"}


async def test_after_a_cancel_the_session_goes_on(stage: Stage) -> None:
    desk, model = Desk(is_open=False), echo()
    async with stage.runtime(worker(desk, model)) as rt:
        handle = await rt.session("s").submit("work", turn_id="t1")
        await desk.entered.wait()
        await handle.cancel("enough")
        await handle.result(timeout=HANGS_S)
        desk.gate.set()
        result = await rt.session("s").run("Hello.", turn_id="t2")

    assert result.text == "You said: Hello."
    assert said_by_user(model.requests[-1]) == ["work", "Hello."]


async def test_deleting_a_session_cancels_what_runs_in_it_first(stage: Stage) -> None:
    desk = Desk(is_open=False)
    async with stage.runtime(worker(desk, echo())) as rt:
        session = rt.session("s")
        handle = await session.submit("work", turn_id="t1")
        queued = await session.submit("Hello.", turn_id="t2")
        await desk.entered.wait()
        report = await session.delete()
        desk.gate.set()

        assert report.session_id == "s"
        assert await rt.sessions() == ()
        for late in (
            session.history(), session.run("Hello."), session.submit("Hello."),
            session.enqueue("Hello."), handle.status(), queued.status(),
        ):  # fmt: skip
            with pytest.raises((SessionDeleted, UnknownSession)):
                await late


async def test_a_stream_of_a_cancelled_turn_ends(stage: Stage) -> None:
    thinking = Thinking()
    async with (
        stage.runtime(worker(Desk(), thinking.model)) as rt,
        rt.session("s").stream("Go.", turn_id="t") as turn,
    ):
        await thinking.asked.wait()
        assert (await turn.handle.cancel("enough")).status == "requested"
        seen = [type(event).__name__ async for event in turn]
        result = await turn.result(timeout=HANGS_S)

    assert seen[-1] == "TurnEnded"
    assert result.outcome == CANCELLED

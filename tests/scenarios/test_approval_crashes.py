"""An approval is good once: before the intent it outlives a crash, after it it is used up."""

from __future__ import annotations

import asyncio

import pytest

from tests.limits import HANGS_S
from tests.scenarios.readings import last_told, turn_view
from tests.scenarios.stage import Desk, Stage, until
from windlass import Agent, Ask, Limits, Runtime, ToolContext, tool
from windlass.journal import Contract
from windlass.ports.policy import PolicyCall, PolicySession, Ruling
from windlass.stores.memory import MemoryStore
from windlass.testing import ScriptedModel, call, say


class SlowPolicy:
    """Asks about everything; from the second time on it thinks until it is let."""

    version = "1"

    def __init__(self) -> None:
        self.asked = 0
        self.thinks = asyncio.Event()
        self.gate = asyncio.Event()

    async def decide(self, call: PolicyCall, session: PolicySession) -> Ruling:
        self.asked += 1
        if self.asked == 2:
            self.thinks.set()
            await self.gate.wait()
        return Ask()


def payer(
    desk: Desk, model: ScriptedModel, effect: Contract = "once", policy: SlowPolicy | None = None
) -> Agent[None, str]:
    @tool(effect=effect, approval="ask")
    async def pay(ctx: ToolContext[None], cents: int) -> str:
        """Pay."""
        await desk.work((cents, ctx.idempotency_key, ctx.attempt))
        return f"paid {cents}"

    return Agent("payer", model=model, tools=[pay], policy=policy)


def script() -> ScriptedModel:
    return ScriptedModel([call("pay", cents=5), say("Done.")])


async def test_after_a_crash_between_answer_and_intent_the_approval_is_still_good(
    stage: Stage,
) -> None:
    desk, model, policy = Desk(), script(), SlowPolicy()
    async with stage.runtime(payer(desk, model, policy=policy)) as lost:
        parked = await lost.session("s").run("Pay.", turn_id="t")
        await lost.approve(parked.waits[0].key, by="eva")
        await policy.thinks.wait()
        stage.kill(lost)
        async with stage.runtime(payer(desk, model, policy=policy)) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
            view = await turn_view(rt, "s", "t")
        policy.gate.set()

    assert result.text == "Done."
    assert [run[0] for run in desk.runs] == [5]
    assert [(one.state, one.consumed) for one in view.waits] == [("answered", True)]


async def test_after_the_intent_the_approval_is_used_up_and_an_equal_call_asks_anew(
    stage: Stage,
) -> None:
    desk = Desk(is_open=False)
    model = ScriptedModel([call("pay", cents=5), call("pay", cents=5), say("Done.")])
    async with stage.runtime(payer(desk, model)) as lost:
        parked = await lost.session("s").run("Pay.", turn_id="t")
        first = parked.waits[0]
        await lost.approve(first.key, by="eva")
        await desk.entered.wait()
        stage.kill(lost)
        fresh = Desk()
        async with stage.runtime(payer(fresh, model)) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
            assert [one.status for one in last_told(model)] == ["unknown"]
            assert result.parked
            (second,) = result.waits
            assert second.key != first.key
            assert (await rt.approve(first.key)).status == "already"
            assert fresh.runs == []
            await rt.approve(second.key)
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
        desk.gate.set()

    assert (len(desk.runs), len(fresh.runs)) == (1, 1)
    assert result.text == "Done."


@pytest.mark.parametrize("effect", ["keyed", "idempotent"])
async def test_a_call_that_may_run_again_does_so_on_the_approval_it_has(
    stage: Stage, effect: Contract
) -> None:
    desk, model = Desk(is_open=False), script()
    async with stage.runtime(payer(desk, model, effect)) as lost:
        parked = await lost.session("s").run("Pay.", turn_id="t")
        await lost.approve(parked.waits[0].key)
        await desk.entered.wait()
        stage.kill(lost)
        fresh = Desk()
        async with stage.runtime(payer(fresh, model, effect)) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
        desk.gate.set()

    assert result.text == "Done."
    ((_, first_key, one),), ((_, second_key, two),) = desk.runs, fresh.runs
    assert first_key == second_key
    assert (one, two) == (1, 2)


async def _asks(runtime: Runtime[object]) -> bool:
    return bool(await runtime.approvals())


async def test_an_answer_to_a_turn_that_is_just_parking_is_not_missed(stage: Stage) -> None:
    """Answered as soon as the wait can be seen, whatever the turn does at that moment."""
    desk, model = Desk(), script()
    async with stage.runtime(payer(desk, model)) as rt, stage.runtime() as office:
        handle = await rt.session("s").submit("Pay.", turn_id="t")
        await until(lambda: _asks(office))
        (wait,) = await office.approvals()
        await office.approve(wait.key)
        result = await handle.result(timeout=HANGS_S)

    assert result.text == "Done."
    assert len(desk.runs) == 1


async def test_an_approval_for_some_arguments_is_none_for_others(stage: Stage) -> None:
    desk = Desk()
    model = ScriptedModel([call("pay", cents=5), call("pay", cents=500), say("Done.")])
    async with stage.runtime(payer(desk, model)) as rt:
        parked = await rt.session("s").run("Pay.", turn_id="t")
        small = parked.waits[0]
        await rt.approve(small.key)
        parked = await rt.turn("s", "t").result(timeout=HANGS_S)
        (big,) = parked.waits
        assert big.key != small.key
        assert (await rt.approve(small.key)).status == "already"
        still = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert still.waits == (big,)
    assert [run[0] for run in desk.runs] == [5]


async def test_equal_calls_at_two_places_are_two_questions(stage: Stage) -> None:
    desk = Desk()
    model = ScriptedModel([call("pay", cents=5), call("pay", cents=5), say("Done.")])
    async with stage.runtime(payer(desk, model)) as rt:
        first = await rt.session("s").run("Pay.", turn_id="t")
        await rt.approve(first.waits[0].key)
        second = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert second.parked
    assert second.waits[0].key != first.waits[0].key
    assert len(desk.runs) == 1


async def test_a_key_is_made_of_the_place_and_of_what_is_asked_there() -> None:
    """Two stores with one secret, the same place in the same turn: only equal questions have one key."""
    keys = []
    for cents in (5, 5, 500):
        store = MemoryStore(store_id="here", secret=b"s" * 32)
        model = ScriptedModel([call("pay", cents=cents)])
        async with Runtime(payer(Desk(), model), store=store) as rt:
            parked = await rt.session("s").run("Pay.", turn_id="t")
        keys.append(parked.waits[0].key)

    assert keys[0] == keys[1]
    assert keys[0] != keys[2]


async def test_a_question_whose_time_ran_out_while_nobody_was_there_is_a_no(stage: Stage) -> None:
    desk, model = Desk(), script()

    def agent() -> Agent[None, str]:
        made = payer(desk, model)
        return Agent(
            "payer", model=model, tools=list(made.toolbox), limits=Limits(approval_timeout=60)
        )

    async with stage.runtime(agent()) as rt:
        await rt.session("s").run("Pay.", turn_id="t")
    stage.later(3_600)
    async with stage.runtime(agent()) as rt:
        await until(lambda: len(model.requests) == 2)
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert desk.runs == []
    assert [told.status for told in last_told(model)] == ["denied"]
    assert result.text == "Done."

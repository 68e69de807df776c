"""A call that was approved and then lost: it goes by its contract, with what was approved, unasked."""

from __future__ import annotations

import pytest

from tests.limits import HANGS_S
from tests.scenarios.readings import last_told
from tests.scenarios.stage import Desk, Stage
from windlass import (
    Agent,
    Allow,
    Ask,
    NotDone,
    ToolContext,
    ToolError,
    ToolUncertain,
    tool,
)
from windlass.journal import Contract
from windlass.ports.policy import PolicyCall, PolicySession, Ruling
from windlass.testing import ScriptedModel, call, calls, say

NOTE = "(The approver (eva) changed the arguments before it ran; it ran with the changed ones.)"


def payer(desk: Desk, model: ScriptedModel, effect: Contract) -> Agent[None, str]:
    async def pay(ctx: ToolContext[None], cents: int) -> str:
        """Pay."""
        await desk.work(cents)
        return f"paid {cents}"

    if effect == "reconcile":
        made = tool(approval="ask", reconcile=lambda args: NotDone())(pay)
    else:
        made = tool(approval="ask", effect=effect)(pay)
    return Agent("payer", model=model, tools=[made])


@pytest.mark.parametrize("effect", ["pure", "idempotent", "keyed", "reconcile"])
@pytest.mark.parametrize("edit", [None, {"cents": 3}], ids=["as-asked", "edited"])
async def test_what_may_run_again_runs_as_it_was_approved_and_the_model_is_told(
    stage: Stage, effect: Contract, edit: dict[str, int] | None
) -> None:
    desk, model = Desk(is_open=False), ScriptedModel([call("pay", cents=5), say("Done.")])
    async with stage.runtime(payer(desk, model, effect)) as lost:
        parked = await lost.session("s").run("Pay.", turn_id="t")
        await lost.approve(parked.waits[0].key, edit=edit, by="eva")
        await desk.entered.wait()
        stage.kill(lost)
        fresh = Desk()
        async with stage.runtime(payer(fresh, model, effect)) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
        desk.gate.set()

    cents = 3 if edit else 5
    assert not result.parked
    assert (desk.runs, fresh.runs) == ([cents], [cents])
    assert result.tool_calls[0].args == {"cents": cents}
    ((_, status, text),) = last_told(model)
    assert status == "ok"
    assert text == (f"paid 3\n{NOTE}" if edit else "paid 5")


async def test_of_two_questions_one_was_answered_and_lost_and_the_other_still_stands(
    stage: Stage,
) -> None:
    desk = Desk(is_open=False)
    model = ScriptedModel([calls(("pay", {"cents": 1}), ("pay", {"cents": 2})), say("Done.")])
    async with stage.runtime(payer(desk, model, "once")) as lost:
        parked = await lost.session("s").run("Pay.", turn_id="t")
        one, two = sorted(parked.waits, key=lambda wait: str(wait.call_id))
        await lost.approve(one.key)
        await desk.entered.wait()
        stage.kill(lost)
        fresh = Desk()
        async with stage.runtime(payer(fresh, model, "once")) as rt:
            parked = await rt.turn("s", "t").result(timeout=HANGS_S)
            assert parked.waits == (two,)
            await rt.approve(two.key)
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
        desk.gate.set()

    assert (desk.runs, fresh.runs) == ([1], [2])
    assert [told.status for told in last_told(model)] == ["unknown", "ok"]
    assert result.text == "Done."


async def test_a_denial_outlives_a_crash(stage: Stage) -> None:
    """Denied, recorded, and then the worker is lost in the next call: nobody is asked again."""
    desk = Desk(is_open=False)

    @tool(effect="keyed")
    async def act() -> str:
        """Act."""
        await desk.work()
        return "acted"

    asked = payer(Desk(), ScriptedModel([]), "once").toolbox
    model = ScriptedModel([call("pay", cents=5), call("act"), say("Done.")])
    agent = Agent("payer", model=model, tools=[act, *asked])
    async with stage.runtime(agent) as lost:
        parked = await lost.session("s").run("Pay.", turn_id="t")
        await lost.deny(parked.waits[0].key, reason="No.", by="eva")
        await desk.entered.wait()
        stage.kill(lost)
        desk.runs.clear()
        gate, desk.gate = desk.gate, type(desk.gate)()
        desk.gate.set()
        async with stage.runtime(agent) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
        gate.set()

    assert [one.outcome.status for one in result.tool_calls] == ["denied", "ok"]
    assert last_told(model)[0].text == "Denied by eva: No."
    assert len(desk.runs) == 1


@pytest.mark.parametrize("ends", ["unknown", "error", "deferred", "rejected"])
async def test_whatever_an_edited_call_came_to_the_model_is_told_of_the_edit(
    stage: Stage, ends: str
) -> None:
    model = ScriptedModel([call("pay", cents=5), say("Done.")])

    @tool(effect="once", approval="ask")
    async def pay(ctx: ToolContext[None], cents: int) -> object:
        """Pay."""
        if ends == "unknown":
            raise ToolUncertain("The line went dead.")
        if ends == "error":
            raise ToolError("No such account.")
        return await ctx.defer()

    async with stage.runtime(Agent("payer", model=model, tools=[pay])) as rt:
        parked = await rt.session("s").run("Pay.", turn_id="t")
        await rt.approve(parked.waits[0].key, edit={"cents": 3}, by="eva")
        result = await rt.turn("s", "t").result(timeout=HANGS_S)
        if ends == "deferred":
            await rt.resolve(result.waits[0].key, "paid at last")
        elif ends == "rejected":
            await rt.reject(result.waits[0].key, "not paid")
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.text == "Done."
    assert result.tool_calls[0].args == {"cents": 3}
    assert last_told(model)[0].text.endswith(NOTE)


async def test_remembered_leave_is_no_leave_to_act_a_second_time(stage: Stage) -> None:
    """What may have acted already is another question than whether it may act at all."""
    desk = Desk(is_open=False)
    model = ScriptedModel([call("pay", cents=5), call("pay", cents=5), say("Done.")])
    async with stage.runtime(payer(desk, model, "once")) as lost:
        parked = await lost.session("s").run("Pay.", turn_id="t")
        await lost.approve(parked.waits[0].key, remember="session")
        await desk.entered.wait()
        stage.kill(lost)
        fresh = Desk()
        async with stage.runtime(payer(fresh, model, "once")) as rt:
            parked = await rt.turn("s", "t").result(timeout=HANGS_S)
            assert fresh.runs == []
            assert [wait.title for wait in parked.waits] == [
                "pay may have acted already; run it again?"
            ]
        desk.gate.set()


class SmallIsFree:
    """Asks about what is above ten cents."""

    version = "1"

    def decide(self, call: PolicyCall, session: PolicySession) -> Ruling:
        return Ask() if call.args["cents"] > 10 else Allow()


@pytest.mark.parametrize("where", ["same-turn", "later-turn", "later-process"])
async def test_what_may_have_acted_is_what_ran_and_not_what_the_model_had_asked_for(
    stage: Stage, where: str
) -> None:
    """50 were asked for, 3 were approved and lost: paying 3 again asks first, though 3 are free."""
    desk, fresh = Desk(is_open=False), Desk()
    between = [] if where == "same-turn" else [say("Lost.")]
    model = ScriptedModel([call("pay", cents=50), *between, call("pay", cents=3), say("Done.")])

    def agent(desk: Desk) -> Agent[None, str]:
        @tool(effect="once")
        async def pay(cents: int) -> str:
            """Pay."""
            await desk.work(cents)
            return f"paid {cents}"

        return Agent("payer", model=model, tools=[pay], policy=SmallIsFree())

    async with stage.runtime(agent(desk)) as lost:
        parked = await lost.session("s").run("Pay.", turn_id="t")
        await lost.approve(parked.waits[0].key, edit={"cents": 3})
        await desk.entered.wait()
        stage.kill(lost)
        async with stage.runtime(agent(fresh)) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
            if where == "later-turn":
                result = await rt.session("s").run("Again.", turn_id="t2")
        if where == "later-process":
            async with stage.runtime(agent(fresh)) as rt:
                result = await rt.session("s").run("Again.", turn_id="t2")
        desk.gate.set()

    assert desk.runs == [3]
    assert fresh.runs == []
    assert result.parked

"""Deferred results: a tool hands out a key, and whoever has it delivers, before or after a crash."""

from __future__ import annotations

import asyncio

import pytest

from tests.limits import HANGS_S
from tests.scenarios.readings import Told, last_told, turn_view
from tests.scenarios.stage import DAY_S, Desk, Stage, until
from windlass import Agent, Pending, ToolContext, tool
from windlass.errors import InvalidInput
from windlass.journal import Contract
from windlass.testing import ScriptedModel, call, calls, say


def printer(
    desk: Desk, model: ScriptedModel, deadline: float | None = None, effect: Contract = "once"
) -> Agent[None, str]:
    """Return an agent with a tool whose result comes from outside."""

    @tool(effect=effect)
    async def order(ctx: ToolContext[None], what: str) -> Pending:
        """Order."""
        pending = await ctx.defer(deadline=deadline)
        await desk.work(pending.key)
        return pending

    @tool(effect="pure")
    async def look() -> str:
        """Look."""
        return "seen"

    return Agent("printer", model=model, tools=[order, look])


def script() -> ScriptedModel:
    return ScriptedModel([call("order", what="a book"), say("Done.")])


async def test_a_deferred_result_is_delivered_days_later_by_anyone(stage: Stage) -> None:
    desk, model = Desk(), script()
    async with stage.runtime(printer(desk, model)) as rt:
        parked = await rt.session("s").run("Order.", turn_id="t")
        (wait,) = parked.waits
        assert (wait.kind, wait.call_id, wait.expires_ms) == ("deferred", "call_0_0", None)
        assert desk.runs == [wait.key]
    stage.later(6 * DAY_S)
    async with stage.runtime() as shop:
        receipt = await shop.resolve(wait.key, {"isbn": 42}, by="shop")
        assert receipt.status == "accepted"
        assert (await shop.resolve(wait.key, {"isbn": 43})).status == "already"
    async with stage.runtime(printer(desk, model)) as rt:
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert len(desk.runs) == 1  # the body had ended
    assert result.tool_calls[0].outcome.value == {"isbn": 42}
    assert last_told(model) == [Told("call_0_0", "ok", '{"isbn":42}')]
    assert result.issues == ()


async def test_a_deferred_result_that_will_not_come_is_an_error_to_the_model(
    stage: Stage,
) -> None:
    model = script()
    async with stage.runtime(printer(Desk(), model)) as rt:
        parked = await rt.session("s").run("Order.", turn_id="t")
        await rt.reject(parked.waits[0].key, "Out of print.")
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert last_told(model) == [Told("call_0_0", "error", "Out of print.")]
    assert result.text == "Done."


async def test_after_its_deadline_the_call_fails(stage: Stage) -> None:
    model = script()
    async with stage.runtime(printer(Desk(), model, deadline=60)) as rt:
        parked = await rt.session("s").run("Order.", turn_id="t")
        assert parked.waits[0].expires_ms == stage.clock.now_ms() + 60_000
        stage.later(60, rt)
        await until(lambda: len(model.requests) == 2)
        await rt.turn("s", "t").result(timeout=HANGS_S)
        late = await rt.resolve(parked.waits[0].key, "too late")

    assert late.status == "expired"
    assert last_told(model) == [Told("call_0_0", "timeout", "Its result did not come in time.")]


async def test_a_result_may_come_while_the_body_still_runs(stage: Stage) -> None:
    desk, model = Desk(is_open=False), script()
    async with stage.runtime(printer(desk, model)) as rt, stage.runtime() as shop:
        handle = await rt.session("s").submit("Order.", turn_id="t")
        await desk.entered.wait()
        await shop.resolve(desk.runs[0], "a book")
        desk.gate.set()
        result = await handle.result(timeout=HANGS_S)

    assert result.tool_calls[0].outcome.value == "a book"
    assert len(desk.runs) == 1


@pytest.mark.parametrize("effect", ["once", "keyed"])
async def test_a_body_that_dies_after_it_handed_out_its_key_keeps_the_promise(
    stage: Stage, effect: Contract
) -> None:
    """`once`: the body is not run again and the answer still counts. `keyed`: run again, same key."""
    desk, model = Desk(is_open=False), script()
    async with stage.runtime(printer(desk, model, effect=effect)) as lost:
        await lost.session("s").submit("Order.", turn_id="t")
        await desk.entered.wait()
        stage.kill(lost)
        fresh = Desk()
        async with stage.runtime(printer(fresh, model, effect=effect)) as rt:
            parked = await rt.turn("s", "t").result(timeout=HANGS_S)
            assert [wait.key for wait in parked.waits] == [desk.runs[0]]
            await rt.resolve(desk.runs[0], "a book")
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
        desk.gate.set()

    assert fresh.runs == ([] if effect == "once" else desk.runs)
    assert result.tool_calls[0].outcome.value == "a book"


async def test_siblings_run_and_are_kept_while_one_is_deferred(stage: Stage) -> None:
    desk = Desk()
    model = ScriptedModel([calls(("order", {"what": "x"}), ("look", {})), say("Done.")])
    async with stage.runtime(printer(desk, model)) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")
        view = await turn_view(rt, "s", "t")
        recorded = [row for row in view.journal().rows() if row.outcome is not None]
        await rt.resolve(parked.waits[0].key, "x")
        await rt.turn("s", "t").result(timeout=HANGS_S)

    assert any("tool_call" in row.key for row in recorded)  # the sibling's, before the answer
    assert [one.text for one in last_told(model)] == ["x", "seen"]


async def test_two_deferred_results_may_come_in_any_order(stage: Stage) -> None:
    model = ScriptedModel([calls(("order", {"what": "a"}), ("order", {"what": "b"})), say("Done.")])
    async with stage.runtime(printer(Desk(), model)) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")
        one, two = sorted(parked.waits, key=lambda wait: str(wait.call_id))
        await rt.resolve(two.key, "B")
        rest = await rt.turn("s", "t").result(timeout=HANGS_S)
        assert rest.waits == (one,)
        await rt.resolve(one.key, "A")
        await rt.turn("s", "t").result(timeout=HANGS_S)

    assert [told.text for told in last_told(model)] == ["A", "B"]


async def test_each_kind_of_wait_has_its_own_verb(stage: Stage) -> None:
    async with stage.runtime(printer(Desk(), script())) as rt:
        parked = await rt.session("s").run("Order.", turn_id="t")
        key = parked.waits[0].key
        for wrong in (rt.approve(key), rt.deny(key)):
            with pytest.raises(InvalidInput, match="kind deferred"):
                await wrong
        assert await rt.waits("deferred") == parked.waits


async def test_a_result_of_the_wrong_kind_of_value_is_refused_at_the_door(stage: Stage) -> None:
    async with stage.runtime(printer(Desk(), script())) as rt:
        parked = await rt.session("s").run("Order.", turn_id="t")
        for nonsense in (object(), float("nan"), "\ud800", {1: 2}):
            with pytest.raises(InvalidInput):
                await rt.resolve(parked.waits[0].key, nonsense)
        assert await rt.waits() == parked.waits


async def test_fifty_answers_race_and_one_counts(stage: Stage) -> None:
    model = script()
    async with stage.runtime(printer(Desk(), model)) as rt, stage.runtime() as shop:
        parked = await rt.session("s").run("Order.", turn_id="t")
        key = parked.waits[0].key
        receipts = await asyncio.gather(
            *((rt if n % 2 else shop).resolve(key, n) for n in range(50))
        )
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    statuses = [receipt.status for receipt in receipts]
    assert statuses.count("accepted") == 1
    assert statuses.count("already") == 49
    assert result.tool_calls[0].outcome.value == statuses.index("accepted")

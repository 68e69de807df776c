"""Spend limits in whole turns: what ends, what is asked, what a crash costs and what it does not."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.plugins.spenders import USED, Gated, clerk, done, look, looks, paid, stopped
from tests.scenarios.stage import STORES, Stage, until
from windlass import Agent, Runtime, TurnResult
from windlass.errors import Unavailable
from windlass.kernel import ModelReply, ModelRequest, events
from windlass.kernel.tokens import tokens_of_request
from windlass.plugins.model_retry import ModelRetry
from windlass.plugins.spend_limits import Budget, Price, SpendLimits, bill
from windlass.testing import (
    FunctionModel,
    Scenario,
    ScriptedModel,
    call,
    kill_everywhere,
    say,
)


@pytest.fixture(params=STORES)
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    return Stage(request.param, tmp_path)


# ---------------------------------------------------------------------- stop


async def test_a_turn_ends_where_its_budget_does_and_keeps_what_it_did(stage: Stage) -> None:
    model = looks(5)
    async with stage.runtime(clerk(model, SpendLimits(turn=Budget(calls=2)))) as rt:
        result = await rt.session("s").run("Go.")
        history = await rt.session("s").history()

    assert stopped(result) == "The turn is out of budget: it spent 2 of 2 calls."
    assert len(model.requests) == 2
    assert [message.role for message in history] == ["user", *["assistant", "user"] * 2]


async def test_each_turn_has_its_own_budget_and_the_session_one_for_all(stage: Stage) -> None:
    limits = SpendLimits(turn=Budget(tokens=1_000), session=Budget(tokens=1_200), max_output=500)
    model = ScriptedModel([paid(say("Hi."))] * 20, name="big")
    async with stage.runtime(clerk(model, limits)) as rt:
        session = rt.session("s")
        results = [await session.run("Go.", turn_id=f"t{number}") for number in range(9)]
        usage = await session.usage()
        other = await rt.session("other").run("Go.")

    *through, last = results
    assert [result.text for result in through[:6]] == ["Hi."] * 6
    assert stopped(last).startswith("The session is out of budget: it spent ")
    assert usage.total_tokens == 100 * (len(model.requests) - 1) <= 1_200
    assert other.text == "Hi."


async def test_a_limit_is_the_end_of_a_turn_and_not_of_its_session(stage: Stage) -> None:
    model = looks(1)
    async with stage.runtime(clerk(model, SpendLimits(turn=Budget(calls=1)))) as rt:
        first = await rt.session("s").run("Go.")
        second = await rt.session("s").run("And now?")
    assert stopped(first)
    assert second.text == "Done."


# ---------------------------------------------------------------------- cheaper


async def test_when_the_dear_model_does_not_fit_the_cheaper_one_answers(stage: Stage) -> None:
    big, small = looks(2), looks(2, "small")
    prices = {"big": Price(input=1_000, output=1_000), "small": Price(input=1, output=1)}
    # A call of the big one may take 0.1 for its output and some for its prompt; two took 0.2.
    limits = SpendLimits(
        turn=Budget(cost="0.3"),
        when_spent="cheaper",
        cheaper="small",
        prices=prices,
        max_output=100,
    )
    async with stage.runtime(clerk(big, limits), models=[small]) as rt:
        result = await rt.session("s").run("Go.")
        ledger = await rt.session("s").usage()

    assert result.text == "Done."
    assert (len(big.requests), len(small.requests)) == (2, 1)
    for report in (result.usage, ledger):
        by_model = {line.model: (line.calls, line.usage) for line in report.lines}
        assert by_model == {"big": (2, USED + USED), "small": (1, USED)}
        assert bill(report.lines, prices).cost == Decimal("0.2001")


# ---------------------------------------------------------------------- ask


async def parked(rt: Runtime[Any]) -> str:
    """Run a turn to where its budget is spent, and return the key of the question."""
    result = await rt.session("s").run("Go.", turn_id="t")
    (wait,) = result.waits
    assert wait.kind == "budget"
    assert wait.title == (
        "The turn is out of budget: it spent 2 of 2 calls. Allow it to spend as much again?"
    )
    return wait.key


def asking() -> SpendLimits:
    return SpendLimits(turn=Budget(calls=2), when_spent="ask")


async def test_a_person_lets_a_turn_spend_more_and_it_goes_on(stage: Stage) -> None:
    model = looks(5)
    async with stage.runtime(clerk(model, asking())) as rt:
        key = await parked(rt)
        assert [wait.key for wait in await rt.waits("budget")] == [key]
        await rt.resolve(key, None)
        await until(lambda: len(model.requests) == 4)
        again = await rt.turn("s", "t").result(timeout=HANGS_S)
        (wait,) = again.waits
        assert "it spent 4 of 4 calls" in wait.title
        await rt.resolve(wait.key, {"factor": 3})
        result = await done(rt)

    assert result.text == "Done."
    assert len(model.requests) == 6


async def test_the_answer_may_come_when_no_worker_is_left(stage: Stage) -> None:
    async with stage.runtime(clerk(looks(5), asking())) as rt:
        key = await parked(rt)
    async with stage.runtime() as desk:
        await desk.resolve(key, {"factor": 10})
    model = looks(5)
    async with stage.runtime(clerk(model, asking())) as rt:
        result = await done(rt)

    assert result.text == "Done."
    assert result.usage.calls == 6
    assert len(model.requests) == 4  # two were bought before


async def test_what_was_granted_outlives_the_worker_that_was_told(stage: Stage) -> None:
    model, gate = Gated(looks(9), at=4), SpendLimits(turn=Budget(calls=2), when_spent="ask")
    async with stage.runtime(clerk(model, gate)) as lost:
        key = await parked(lost)
        await lost.resolve(key, {"factor": 9})
        await model.entered.wait()  # the grant is recorded with the third reply; this is the fifth
        stage.kill(lost)
        async with stage.runtime(clerk(looks(9), asking())) as rt:
            result = await done(rt)
        model.gate.set()
    assert result.text == "Done."
    assert (result.usage.calls, result.usage.lost) == (11, 1)


@pytest.mark.parametrize("answer", ["reject", "false"])
async def test_a_person_may_say_no(stage: Stage, answer: str) -> None:
    model = looks(5)
    async with stage.runtime(clerk(model, asking())) as rt:
        key = await parked(rt)
        if answer == "reject":
            await rt.reject(key, "too dear")
        else:
            await rt.resolve(key, value=False)
        result = await done(rt)
    assert stopped(result)
    assert len(model.requests) == 2


# ---------------------------------------------------------------------- crashes and outages


async def test_a_call_that_a_crash_cut_short_counts_once_as_it_was_reserved(stage: Stage) -> None:
    limits = SpendLimits(turn=Budget(tokens=100_000), max_output=500)
    dying, model = Gated(looks(2)), looks(2)
    async with stage.runtime(clerk(dying, limits)) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await dying.entered.wait()
        stage.kill(lost)
        async with stage.runtime(clerk(model, limits)) as rt:
            result = await done(rt)
            ledger = await rt.session("s").usage()
            everything = await rt.usage()
        dying.gate.set()

    reserved = tokens_of_request(model.requests[0]) + 500
    for report in (result.usage, ledger, everything):
        assert (report.calls, report.lost) == (4, 1)
        assert report.total_tokens == reserved + 300


async def test_what_a_crash_cost_is_missing_from_the_budget(stage: Stage) -> None:
    limits = SpendLimits(turn=Budget(calls=3))
    dying, model = Gated(looks(9)), looks(9)
    async with stage.runtime(clerk(dying, limits)) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await dying.entered.wait()
        stage.kill(lost)
        async with stage.runtime(clerk(model, limits)) as rt:
            result = await done(rt)
        dying.gate.set()
    assert stopped(result) == "The turn is out of budget: it spent 3 of 3 calls."
    assert len(model.requests) == 2


async def test_a_turn_that_crashes_its_worker_each_time_runs_out_of_budget(stage: Stage) -> None:
    """Without reservations it would buy the same reply for ever."""
    limits = SpendLimits(turn=Budget(calls=2))
    async with stage.runtime(clerk(first := Gated(looks(0)), limits)) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await first.entered.wait()
        stage.kill(lost)
        async with stage.runtime(clerk(second := Gated(looks(0)), limits)) as lost_too:
            await second.entered.wait()
            stage.kill(lost_too)
            async with stage.runtime(clerk(model := looks(0), limits)) as rt:
                result = await done(rt)
            second.gate.set()
        first.gate.set()
    assert stopped(result)
    assert model.requests == []
    assert (result.usage.calls, result.usage.lost) == (2, 2)


async def test_an_outage_does_not_eat_the_budget(stage: Stage) -> None:
    down = Unavailable("down")
    model = ScriptedModel([down, down, down, paid(say("Hi."))], name="big")
    async with stage.runtime(clerk(model, SpendLimits(turn=Budget(calls=1)))) as rt:
        await rt.session("s").run("Go.", turn_id="t")
        for asked in (2, 3, 4):
            stage.later(300, rt)
            await until(lambda n=asked: len(model.requests) == n)  # type: ignore[misc]
        result = await done(rt)
        ledger = await rt.session("s").usage()
    assert result.text == "Hi."
    for report in (result.usage, ledger):
        assert (report.calls, report.lost, report.total_tokens) == (1, 0, 100)


async def test_a_turn_that_is_cancelled_in_an_outage_has_spent_nothing(stage: Stage) -> None:
    model = ScriptedModel([Unavailable("down")], name="big")
    async with stage.runtime(clerk(model, SpendLimits(turn=Budget(calls=9)))) as rt:
        await rt.session("s").run("Go.", turn_id="t")
        await rt.cancel("s", "t")
        result = await done(rt)
        ledger = await rt.session("s").usage()
    for report in (result.usage, ledger):
        assert (report.lost, report.total_tokens) == (0, 0)


# ---------------------------------------------------------------------- watching


async def test_what_is_spent_is_shown_after_each_reply(stage: Stage) -> None:
    limits = SpendLimits(turn=Budget(tokens=10_000))
    script = [call("look"), say("Done."), call("look"), say("Done.")]
    model = ScriptedModel([paid(reply) for reply in script], name="big")
    async with stage.runtime(clerk(model, limits)) as rt:
        await rt.session("s").run("Go.")
        async with rt.session("s").stream("Again.") as turn:
            seen = [event async for event in turn]
    shown = [event.data for event in seen if isinstance(event, events.PluginEvent)]
    assert [(data["turn"]["tokens"], data["session"]["tokens"]) for data in shown] == [
        (100, 300),
        (200, 400),
    ]


# ---------------------------------------------------------------------- every moment


def shop() -> Scenario:
    """A turn that asks for more once, and whose model is down at first: with both plugins."""
    down = ScriptedModel([Unavailable("down")] * 99, name="big")

    def agents() -> Agent[None, str]:
        plugins = [ModelRetry(attempts=1, fallbacks=["other"]), asking()]
        return Agent("clerk", model=down, tools=[look], plugins=plugins)

    async def run(rt: Runtime[Any]) -> TurnResult[str]:
        return await rt.session("s").run("Go.", turn_id="t")

    def check(result: TurnResult[str]) -> None:
        usage = result.usage
        assert result.text == "Done."
        assert (usage.calls - usage.lost, usage.lost in (0, 1)) == (4, True)

    return Scenario(
        agents=agents,
        run=run,
        answer=lambda rt, wait: rt.resolve(wait.key, None) if wait.kind == "budget" else None,
        check=check,
        settings={"models": [FunctionModel(_look_thrice, name="other")]},
    )


def _look_thrice(request: ModelRequest) -> ModelReply:
    said = sum(message.role == "assistant" for message in request.messages)
    return paid(call("look") if said < 3 else say("Done."))


@pytest.mark.parametrize("store", ["memory", pytest.param("sqlite", marks=pytest.mark.slow)])
async def test_a_turn_on_a_budget_may_be_killed_at_every_moment(store: Any) -> None:  # noqa: ANN401 - a literal
    report = await kill_everywhere(shop, store=store)
    assert len(report.points) > 40
    assert (report.unknown, report.missed) == ((), ())

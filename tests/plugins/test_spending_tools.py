"""Spend limits and the calls that tools make themselves: one budget for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.spenders import Gated, clerk, paid, stopped
from tests.scenarios.stage import STORES, Stage
from windlass import ToolContext, tool
from windlass.errors import Unavailable
from windlass.kernel import ModelMessage, ModelRequest, Text
from windlass.plugins.spend_limits import Budget, Price, SpendLimits
from windlass.testing import ScriptedModel, call, calls, say


@pytest.fixture(params=STORES)
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    return Stage(request.param, tmp_path)


async def test_what_a_tool_asks_of_a_model_is_paid_from_the_same_budget(stage: Stage) -> None:
    helper = ScriptedModel([paid(say("yes"))] * 9, name="helper")
    question = ModelMessage(role="user", parts=(Text(text="Is it?"),))

    @tool(effect="pure")
    async def consult(ctx: ToolContext[None]) -> str:
        """Ask somebody else, as often as it takes."""
        for _ in range(9):
            await ctx.complete(ModelRequest(model="helper", messages=(question,)))
        return "so it is"

    model = ScriptedModel([paid(call("consult")), paid(say("Done."))], name="big")
    limits = SpendLimits(turn=Budget(calls=4))
    async with stage.runtime(clerk(model, limits, consult), models=[helper]) as rt:
        result = await rt.session("s").run("Go.")
    assert stopped(result)
    assert len(helper.requests) == 3
    assert result.usage.calls == 4


def consulting(effort: Callable[[ToolContext[None]], Awaitable[object]]) -> Any:  # noqa: ANN401 - a tool
    """Return a tool that asks a helper."""

    @tool(effect="pure")
    async def consult(ctx: ToolContext[None]) -> str:
        """Ask somebody else."""
        return str(await effort(ctx))

    return consult


QUESTION = ModelRequest(
    model="helper", messages=(ModelMessage(role="user", parts=(Text(text="Is it?"),)),)
)


async def test_tools_that_ask_side_by_side_share_what_is_left(stage: Stage) -> None:
    helper = ScriptedModel([paid(say("yes"))] * 9, name="helper")
    consult = consulting(lambda ctx: ctx.complete(QUESTION))
    script = [calls(*[("consult", {})] * 8), say("Done.")]
    model = ScriptedModel([paid(reply) for reply in script], name="big")
    limits = SpendLimits(turn=Budget(calls=4))
    async with stage.runtime(clerk(model, limits, consult), models=[helper]) as rt:
        result = await rt.session("s").run("Go.")
    assert stopped(result)
    assert (len(helper.requests), result.usage.calls) == (3, 4)


async def test_a_tool_cannot_swallow_the_end_of_a_budget(stage: Stage) -> None:
    helper = ScriptedModel([paid(say("yes"))] * 9, name="helper")

    async def insist(ctx: ToolContext[None]) -> int:
        for _ in range(9):
            with suppress(Exception):
                await ctx.complete(QUESTION)
        return 9

    model = ScriptedModel([paid(call("consult")), paid(say("Done."))], name="big")
    limits = SpendLimits(turn=Budget(calls=3), when_spent="ask")
    async with stage.runtime(clerk(model, limits, consulting(insist)), models=[helper]) as rt:
        result = await rt.session("s").run("Go.")
    assert stopped(result)
    assert (len(model.requests), len(helper.requests)) == (1, 2)


async def test_a_tools_call_that_does_not_fit_goes_to_the_cheaper_model(stage: Stage) -> None:
    helper, small = (
        ScriptedModel([paid(say(name))] * 9, name=name) for name in ("helper", "small")
    )
    prices = {
        "big": Price(input=0, output=0),
        "helper": Price(input=1_000, output=1_000),
        "small": Price(input=0, output=1),
    }
    limits = SpendLimits(
        turn=Budget(cost="0.1"),
        when_spent="cheaper",
        cheaper="small",
        prices=prices,
        max_output=100,
    )
    said = []

    async def ask(ctx: ToolContext[None]) -> int:
        said.append((await ctx.complete(QUESTION)).text)
        return 1

    model = ScriptedModel([paid(call("consult")), paid(say("Done."))], name="big")
    agent = clerk(model, limits, consulting(ask))
    async with stage.runtime(agent, models=[helper, small]) as rt:
        result = await rt.session("s").run("Go.")
        ledger = await rt.session("s").usage()
    assert (result.text, said, helper.requests) == ("Done.", ["small"], [])
    assert small.requests[0].generation.max_output_tokens == 100
    for report in (result.usage, ledger):
        assert {(line.source, line.model) for line in report.lines} == {
            ("turn", "big"),
            ("tool:consult", "small"),
        }


async def test_a_tools_call_that_was_refused_has_spent_nothing(stage: Stage) -> None:
    helper = ScriptedModel([Unavailable("down"), paid(say("yes"))], name="helper")

    async def twice(ctx: ToolContext[None]) -> str:
        with suppress(Unavailable):
            await ctx.complete(QUESTION)
        return (await ctx.complete(QUESTION)).text

    model = ScriptedModel([paid(call("consult")), paid(say("Done."))], name="big")
    limits = SpendLimits(turn=Budget(tokens=100_000))
    async with stage.runtime(clerk(model, limits, consulting(twice)), models=[helper]) as rt:
        result = await rt.session("s").run("Go.")
        ledger = await rt.session("s").usage()
    for report in (result.usage, ledger):
        assert (report.lost, report.total_tokens) == (0, 300)


async def test_a_tools_call_that_was_cut_short_counts_as_it_was_reserved(stage: Stage) -> None:
    helper = Gated(ScriptedModel([paid(say("yes"))], name="helper"))

    async def give_up(ctx: ToolContext[None]) -> str:
        task = asyncio.ensure_future(ctx.complete(QUESTION))
        await helper.entered.wait()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return "never mind"

    model = ScriptedModel([paid(call("consult")), *[paid(call("look"))] * 9], name="big")
    limits = SpendLimits(turn=Budget(calls=3))
    async with stage.runtime(clerk(model, limits, consulting(give_up)), models=[helper]) as rt:
        result = await rt.session("s").run("Go.")
        ledger = await rt.session("s").usage()
    assert stopped(result)
    for report in (result.usage, ledger):
        assert (report.calls, report.lost) == (3, 1)

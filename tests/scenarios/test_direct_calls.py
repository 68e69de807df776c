"""Calls that tools make to a model: recorded, paid once, and counted under the tool's name."""

from __future__ import annotations

import asyncio

import pytest

from tests.limits import HANGS_S
from tests.scenarios.readings import last_told, turn_view
from tests.scenarios.stage import Desk, Stage, until
from windlass import Agent, Runtime, ToolContext, TurnResult, tool
from windlass.errors import InvalidInput, Rejected
from windlass.journal import Contract
from windlass.kernel import ModelMessage, ModelReply, ModelRequest, Text, Usage
from windlass.testing import FunctionModel, Scenario, ScriptedModel, call, kill_everywhere, say


def question(text: str, model: str = "helper") -> ModelRequest:
    return ModelRequest(
        model=model, messages=(ModelMessage(role="user", parts=(Text(text=text),)),)
    )


class Helper:
    """A second model, and a tool that asks it twice and then goes through a desk."""

    def __init__(self, desk: Desk) -> None:
        self.n_asked = 0
        self.model = FunctionModel(self._answer, name="helper")
        self._desk = desk

    def _answer(self, request: ModelRequest) -> ModelReply:
        self.n_asked += 1
        usage = Usage(input_tokens=10, output_tokens=1)
        return ModelReply(text=f"answer {self.n_asked}", usage=usage)

    def agent(self, model: ScriptedModel, asks: tuple[str, ...]) -> Agent[None, str]:
        @tool(effect="keyed")
        async def ask(ctx: ToolContext[None]) -> str:
            """Ask the helper."""
            replies = [await ctx.complete(question(text)) for text in asks]
            await self._desk.work()
            return ", ".join(reply.text for reply in replies)

        return Agent("asker", model=model, tools=[ask])


def script() -> ScriptedModel:
    return ScriptedModel([call("ask"), say("Done.")])


async def test_a_tool_may_ask_a_model_and_pays_under_its_own_name(stage: Stage) -> None:
    helper, model = Helper(Desk()), script()
    agent = helper.agent(model, ("one", "two"))
    async with stage.runtime(agent, models=[helper.model]) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")
        ledger = await rt.session("s").usage()

    assert [one.text for one in last_told(model)] == ["answer 1, answer 2"]
    for report in (result.usage, ledger):
        by_source = {line.source: line for line in report.lines}
        assert set(by_source) == {"turn", "tool:ask"}
        assert (by_source["tool:ask"].model, by_source["tool:ask"].calls) == ("helper", 2)
        assert report.input_tokens == 20
        assert report.calls == 4


async def _has_both(runtime: Runtime[str]) -> bool:
    rows = (await turn_view(runtime, "s", "t")).journal().rows()
    return sum("/direct_call/" in row.key for row in rows) == 2


@pytest.mark.parametrize("asks", [("one", "two"), ("same", "same")], ids=["two", "same-twice"])
async def test_what_was_answered_before_a_crash_is_not_bought_again(
    stage: Stage, asks: tuple[str, ...]
) -> None:
    desk, model = Desk(is_open=False), script()
    helper = Helper(desk)
    async with stage.runtime(helper.agent(model, asks), models=[helper.model]) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        await until(lambda: _has_both(lost))  # the last one goes to the store when the loop is idle
        stage.kill(lost)
        again = Helper(Desk())
        async with stage.runtime(again.agent(model, asks), models=[again.model]) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
            ledger = await rt.session("s").usage()
        desk.gate.set()

    assert (helper.n_asked, again.n_asked) == (2, 0)
    assert [one.text for one in last_told(model)] == ["answer 1, answer 2"]
    assert result.usage.input_tokens == ledger.input_tokens == 20


async def test_a_refusal_is_raised_inside_the_tool(stage: Stage) -> None:
    model = script()

    @tool(effect="keyed")
    async def ask(ctx: ToolContext[None]) -> str:
        """Ask the helper."""
        try:
            await ctx.complete(question("Hello?"))
        except Rejected:
            return "it was refused"
        return "it answered"

    refusing = ScriptedModel([Rejected("No.")], name="helper")
    agent = Agent("asker", model=model, tools=[ask])
    async with stage.runtime(agent, models=[refusing]) as rt:
        await rt.session("s").run("Go.", turn_id="t")

    assert [one.text for one in last_told(model)] == ["it was refused"]


async def test_a_model_that_nobody_has_is_said_to_the_tool_and_the_turn_goes_on(
    stage: Stage,
) -> None:
    model = script()

    @tool(effect="keyed")
    async def ask(ctx: ToolContext[None]) -> str:
        """Ask the helper."""
        try:
            await ctx.complete(question("Hello?", model="nobody"))
        except InvalidInput as error:
            return str(error)
        return "it answered"

    async with stage.runtime(Agent("asker", model=model, tools=[ask])) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")
        view = await turn_view(rt, "s", "t")

    (told,) = last_told(model)
    assert (
        told.text
        == "model: no model is called 'nobody' here; register one with Runtime(models=...)"
    )
    assert result.text == "Done."
    assert (view.waits, result.usage.lost) == ((), 0)


@pytest.mark.parametrize("effect", ["pure", "idempotent"])
@pytest.mark.parametrize("is_at_once", [False, True], ids=["in turn", "at once"])
async def test_wherever_the_process_dies_one_reply_is_bought_again_at_most(
    effect: Contract, *, is_at_once: bool
) -> None:
    bought: list[str] = []

    def answer(_request: ModelRequest) -> ModelReply:
        bought.append("one")
        return say("yes")

    @tool(effect=effect)
    async def ask(ctx: ToolContext[None]) -> str:
        """Ask the helper five times."""
        asked = [question(f"{n}?") for n in range(5)]
        if is_at_once:
            await asyncio.gather(*map(ctx.complete, asked))
        else:
            for one in asked:
                await ctx.complete(one)
        return "asked"

    def check(result: TurnResult[str]) -> None:
        assert result.text == "Done."
        assert len(bought) <= 5 + 1

    def scenario() -> Scenario:
        bought.clear()
        return Scenario(
            agents=lambda: Agent("asker", model=script(), tools=[ask]),
            run=lambda rt: rt.session("s").run("Go.", turn_id="t"),
            check=check,
            settings={"models": [FunctionModel(answer, name="helper")]},
        )

    report = await kill_everywhere(scenario)

    assert len(report.points) > 10

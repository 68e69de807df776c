"""Children that are not waited for: begun in the background, told more, stopped, and heard of when they end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.family import agent, asks, idle, told, words
from tests.scenarios.stage import Stage
from windlass import Agent, Limits, ModelReply, ModelRequest, ToolContext, tool
from windlass.errors import ConfigError
from windlass.testing import FunctionModel, call, say


class Gated:
    """An agent whose tool waits until it is let go."""

    def __init__(self, name: str = "digger") -> None:
        self.gate = asyncio.Event()
        self.entered = asyncio.Event()
        self.asked: list[list[str]] = []

        @tool(effect="pure")
        async def dig() -> str:
            """Dig."""
            self.entered.set()
            await self.gate.wait()
            return "Dug."

        def answer(request: ModelRequest) -> ModelReply:
            self.asked.append(told(request))
            last = request.messages[-1]
            is_new = last.role == "user" and not any(hasattr(one, "call_id") for one in last.parts)
            return call("dig") if is_new else say("Found gold.")

        self.agent: Agent[Any, Any] = Agent(name, model=FunctionModel(answer), tools=[dig])


def lead_over(digger: Gated, *replies: ModelReply, **more: Any) -> Agent[Any, Any]:
    """Return an agent that begins a digger in the background, and then plays a script, a reply per model call."""
    script = iter((asks("digger"), *replies))
    return Agent(
        "lead",
        model=FunctionModel(lambda _: next(script)),
        tools=[digger.agent.as_tool(background=True)],
        **more,
    )


# ------------------------------------------------------------------ in the background


async def test_a_call_in_the_background_returns_at_once_and_its_end_begins_a_turn(
    stage: Stage,
) -> None:
    digger = Gated()
    async with stage.runtime(lead_over(digger, say("Begun."), say("Gold!"))) as rt:
        session = rt.session("s")
        result = await session.run("Go", turn_id="t")
        (child,) = await session.children()
        assert result.text == "Begun."
        assert [one.outcome.value for one in result.tool_calls] == [
            f"Started as {child.name}. Its result arrives as a message when it has ended."
        ]
        assert child.name.startswith("digger-")
        assert result.child_usage.calls == 0
        digger.gate.set()
        await idle(rt)
        said = words(await session.history())
        assert said[-2:] == [f"{child.name}: Found gold.", "Gold!"]
        assert (await session.children())[0].text == "Found gold."


async def test_its_end_enters_the_turn_that_runs(stage: Stage) -> None:
    digger = Gated()
    digger.gate.set()

    @tool(effect="pure")
    async def rest(ctx: ToolContext[Any]) -> str:
        """Rest until the child has ended."""
        async with asyncio.timeout(HANGS_S):
            while (await ctx.children())[0].state != "idle":  # noqa: ASYNC110 - the store tells no one
                await asyncio.sleep(0)
        return "Rested."

    script = iter((asks("digger"), call("rest"), say("I heard."), say("I heard late.")))
    lead: Agent[Any, Any] = Agent(
        "lead",
        model=FunctionModel(lambda _: next(script)),
        tools=[digger.agent.as_tool(background=True), rest],
    )
    async with stage.runtime(lead) as rt:
        result = await rt.session("s").run("Go", turn_id="t")
        await idle(rt)
        said = words(await rt.session("s").history())
    assert result.text == "I heard."
    assert any("Found gold." in one for one in said)


async def test_a_child_that_fails_says_so(stage: Stage) -> None:
    gate = asyncio.Event()

    async def answer(_: ModelRequest) -> ModelReply:
        await gate.wait()  # else its end may enter the turn that began it
        return call("nothing")

    endless: Agent[Any, Any] = Agent(
        "digger", model=FunctionModel(answer), limits=Limits(max_iterations=1)
    )
    script = iter((asks("digger"), say("Begun."), say("A pity.")))
    lead: Agent[Any, Any] = Agent(
        "lead",
        model=FunctionModel(lambda _: next(script)),
        tools=[endless.as_tool(background=True)],
    )
    async with stage.runtime(lead) as rt:
        await rt.session("s").run("Go", turn_id="t")
        gate.set()
        await idle(rt)
        said = words(await rt.session("s").history())
    assert said[-1] == "A pity."
    assert "It stopped (max_iterations)" in said[-2]


async def test_the_model_sees_tells_and_stops_its_children(stage: Stage) -> None:
    digger = Gated()
    names: list[str] = []

    def lead_answers(request: ModelRequest) -> ModelReply:
        n_replies = sum(one.role == "assistant" for one in request.messages)
        if n_replies == 1:
            names.append(told(request)[0].split()[2].rstrip("."))
        steps = (
            lambda: asks("digger"),
            lambda: call("children"),
            lambda: call("message_child", name=names[0], text="Deeper!"),
            lambda: call("stop_child", name=names[0]),
            lambda: call("stop_child", name="nobody"),
            lambda: say("Done."),
        )
        return steps[n_replies]() if n_replies < len(steps) else say("Heard.")

    lead: Agent[Any, Any] = Agent(
        "lead",
        model=FunctionModel(lead_answers),
        tools=[digger.agent.as_tool(background=True)],
    )
    async with stage.runtime(lead) as rt:
        session = rt.session("s")
        result = await session.run("Go", turn_id="t")
        values = [one.outcome.value for one in result.tool_calls]
        (child,) = await session.children()
        assert names == [child.name]
        (listed,) = values[1]
        assert listed["name"] == child.name
        assert listed["state"] in ("queued", "running")
        assert values[2:] == [
            f"Told {child.name}.",
            f"{child.name} stops.",
            "This session has no child called nobody.",
        ]
        await idle(rt)
        assert (await session.children())[0].state == "idle"


async def test_a_child_that_was_told_more_after_its_end_is_heard_of_again(stage: Stage) -> None:
    digger = Gated()

    @tool(effect="keyed")
    async def act(ctx: ToolContext[Any], text: str) -> str:
        """Begin a child, or tell it more."""
        known = await ctx.children()
        if known:
            await ctx.send("bob", text)
        else:
            await ctx.spawn("digger", text, name="bob")
        return "Done."

    def lead_answers(request: ModelRequest) -> ModelReply:
        said = told(request)[-1]
        is_asked = said in ("Here", "There")
        return call("act", text=said) if is_asked else say(f"So: {said}")

    lead: Agent[Any, Any] = Agent("lead", model=FunctionModel(lead_answers), tools=[act])
    async with stage.runtime(lead, digger.agent) as rt:
        session = rt.session("s", lead)
        for at, place in enumerate(("Here", "There")):
            digger.gate.clear()  # else its end may enter the turn that told it
            await session.run(place, turn_id=f"t{at}")
            digger.gate.set()
            await idle(rt)
            assert words(await session.history())[-1].startswith("So: [what woke this turn]")
            assert words(await session.history())[-1].endswith("bob: Found gold.")
        (child,) = await session.children()
        said = words(await rt.session(child.session_id).history())
        assert [one for one in said if one in ("Here", "There")] == ["Here", "There"]
        turns = await rt.turns(session_id=child.session_id)
        assert [one.state for one in turns] == ["done", "done"]


# ------------------------------------------------------------------ limits and names


async def test_no_more_children_begin_than_may_be_at_work(stage: Stage) -> None:
    digger = Gated()
    script = iter((asks("digger", "digger"), say("Begun.")))
    lead: Agent[Any, Any] = Agent(
        "lead",
        model=FunctionModel(lambda _: next(script, say("Heard."))),
        tools=[digger.agent.as_tool(background=True)],
        limits=Limits(max_children=1),
    )
    async with stage.runtime(lead) as rt:
        result = await rt.session("s").run("Go", turn_id="t")
        statuses = sorted(one.outcome.status for one in result.tool_calls)
        assert statuses == ["error", "ok"]
        (refused,) = [one for one in result.tool_calls if one.outcome.status == "error"]
        assert refused.outcome.value == (
            "digger did not start: 1 children may work at a time in this tree. "
            "Wait until one has ended."
        )
        assert len(await rt.session("s").children()) == 1
        digger.gate.set()
        await idle(rt)


async def test_a_body_that_may_not_begin_a_child_is_told(stage: Stage) -> None:
    helper = agent("helper", say("Yes."))

    @tool(effect="keyed")
    async def begin(ctx: ToolContext[Any]) -> str:
        """Begin."""
        await ctx.spawn(helper, "Go")
        return "never"

    lead = agent("lead", call("begin"), say("Done."), tools=[begin], limits=Limits(max_depth=0))
    async with stage.runtime(lead, helper) as rt:
        result = await rt.session("s", lead).run("Go", turn_id="t")
    (one,) = result.tool_calls
    assert one.outcome.value == "Agents may begin each other 0 deep, and this one is there."


async def test_a_child_that_is_woken_stands_where_it_stood(stage: Stage) -> None:
    """A child that begins another one in the background, and is woken by its end, is no deeper and no higher then."""
    digger = Gated("leaf")
    leaf = digger.agent
    offered: list[tuple[str, ...]] = []

    def middle_answers(request: ModelRequest) -> ModelReply:
        offered.append(tuple(sorted(spec.name for spec in request.tools)))
        n_replies = sum(one.role == "assistant" for one in request.messages)
        return asks("leaf") if n_replies == 0 else say("Middle.")

    middle: Agent[Any, Any] = Agent(
        "middle", model=FunctionModel(middle_answers), tools=[leaf.as_tool(background=True)]
    )
    lead = agent(
        "lead", asks("middle"), say("Done."), tools=[middle.as_tool()], limits=Limits(max_depth=2)
    )
    async with stage.runtime(lead) as rt:
        await rt.session("s").run("Go", turn_id="t")
        digger.gate.set()
        await idle(rt)
        (child,) = await rt.session("s").children()
        store = rt._services.store
        turns = await rt.turns(session_id=child.session_id)
        assert len(turns) == 2
        for one in turns:
            view = await store.load_turn(child.session_id, one.turn_id)
            assert view is not None
            assert view.request is not None
            assert len(view.request.overrides["tree"]["above"]) == 1
    assert set(offered) == {("children", "leaf", "message_child", "stop_child")}


def test_the_names_of_the_tools_for_children_are_taken() -> None:
    @tool(effect="pure")
    async def children() -> str:
        """List."""
        return ""

    digger = agent("digger", say("."))
    with pytest.raises(ConfigError, match="a second tool named children"):
        agent("lead", say("."), tools=[digger.as_tool(background=True), children])
    # Without one in the background they are free, and not there.
    lead = agent("lead", say("."), tools=[digger.as_tool(), children])
    assert [one.spec.name for one in lead.toolbox] == ["digger", "children"]


def test_the_tools_for_children_come_once() -> None:
    digger = agent("digger", say("."))
    tools = [digger.as_tool(background=True), digger.as_tool(name="other", background=True)]
    lead = agent("lead", say("."), tools=tools)
    names = [one.spec.name for one in lead.toolbox]
    assert names == ["digger", "other", "children", "message_child", "stop_child"]

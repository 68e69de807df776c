"""Subagents: a call of an agent is a turn in a session of its own, and its result is the call's."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from tests.limits import HANGS_S
from tests.scenarios.family import TOKENS, agent, asks, told, words
from tests.scenarios.stage import Stage
from windlass import Agent, ModelReply, ModelRequest, Runtime, ToolContext, tool
from windlass.api.process import process
from windlass.api.process_context import ProcessContext
from windlass.errors import ConfigError, Forbidden
from windlass.testing import FunctionModel, call, say


class Query(msgspec.Struct):
    """What a researcher is asked."""

    topic: str
    depth: int = 1


class Report(msgspec.Struct):
    """What a researcher answers."""

    topic: str
    pages: int


@tool(effect="keyed", approval="ask")
async def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


def three_levels() -> Agent[Any, Any]:
    """Return a lead whose child's child pays, which a person has to approve."""
    leaf = agent("leaf", call("pay", cents=5), say("Paid."), tools=[pay])
    middle = agent("middle", asks("leaf"), say("It is paid."), tools=[leaf.as_tool()])
    return agent("lead", asks("middle"), say("All is done."), tools=[middle.as_tool()])


# ------------------------------------------------------------------ the call and its child


async def test_a_call_of_an_agent_is_a_turn_in_a_session_of_its_own(stage: Stage) -> None:
    helper = agent("helper", say("Found it."))
    lead = agent("lead", asks("helper"), say("Done."), tools=[helper.as_tool()])
    async with stage.runtime(lead) as rt:
        session = rt.session("s")
        result = await session.run("Go", turn_id="t")
        assert result.text == "Done."
        assert [one.outcome.value for one in result.tool_calls] == ["Found it."]
        (child,) = await session.children()
        assert (child.agent, child.name, child.kind) == ("helper", "helper", "child")
        assert (child.depth, child.parent, child.state) == (1, "s", "idle")
        assert child.text == "Found it."
        assert child.session_id.startswith("c_")
        said = words(await rt.session(child.session_id).history())
        assert said == ["part 0", "Found it."]


async def test_only_errands_begin_turns_in_a_child(stage: Stage) -> None:
    lead = agent(
        "lead", asks("helper"), say("Done."), tools=[agent("helper", say("Yes.")).as_tool()]
    )
    async with stage.runtime(lead) as rt:
        session = rt.session("s")
        await session.run("Go", turn_id="t")
        (child,) = await session.children()
        with pytest.raises(Forbidden):
            await rt.session(child.session_id).submit("Do something else")
        with pytest.raises(Forbidden):
            await rt.session(child.session_id).enqueue("Do something else")


async def test_a_child_is_asked_with_the_fields_of_its_input_type_and_answers_with_a_value(
    stage: Stage,
) -> None:
    seen: list[str] = []

    def answer(request: ModelRequest) -> ModelReply:
        seen.extend(told(request))
        return say('{"topic": "tides", "pages": 3}')

    researcher = Agent("researcher", model=FunctionModel(answer), output_type=Report)
    asked: list[str] = []

    def lead_answers(request: ModelRequest) -> ModelReply:
        if len(request.messages) == 1:
            return call("researcher", topic="tides", depth=2)
        asked.extend(told(request))
        return say("Done.")

    lead = Agent(
        "lead",
        model=FunctionModel(lead_answers),
        tools=[researcher.as_tool(description="Looks things up.", input_type=Query)],
    )
    async with stage.runtime(lead) as rt:
        result = await rt.session("s").run("Go", turn_id="t")
    assert seen == ['{"depth":2,"topic":"tides"}']
    assert [one.outcome.value for one in result.tool_calls] == [{"pages": 3, "topic": "tides"}]
    assert asked == ['{"pages":3,"topic":"tides"}']


def test_a_tool_of_an_agent_says_what_it_is_for() -> None:
    helper = agent("help.er", say("Yes."))
    assert helper.as_tool().spec.description == "Ask the agent help.er."
    assert helper.as_tool().spec.name == "help_er"
    named = helper.as_tool(name="look", description="Looks.")
    assert (named.spec.name, named.spec.description) == ("look", "Looks.")
    assert named.effect == "keyed"


@pytest.mark.parametrize("option", ["keep", "background"])
def test_an_option_that_is_no_flag_is_refused(option: str) -> None:
    with pytest.raises(ConfigError, match=f"as_tool.{option}: found str, wanted True or False"):
        agent("helper", say("Yes.")).as_tool(**{option: "yes"})  # type: ignore[arg-type]


# ------------------------------------------------------------------ who drives them


async def test_a_runtime_drives_the_agents_that_it_finds_as_tools() -> None:
    rt = Runtime(three_levels(), store="memory:")
    async with rt:
        assert (await rt.status()).agents == ("lead", "middle", "leaf")
        # The agent that was named is still the one whose session a new one is.
        result = await rt.session("s").run("Go", turn_id="t")
        assert [wait.kind for wait in result.waits] == ["approval"]


def test_two_different_agents_of_one_name_are_refused() -> None:
    one, other = agent("helper", say("One.")), agent("helper", say("Another."))
    lead = agent("lead", say("Done."), tools=[one.as_tool(), other.as_tool(name="other")])
    with pytest.raises(ConfigError, match="another agent called helper"):
        Runtime(lead, store="memory:")
    with pytest.raises(ConfigError, match="another agent called helper"):
        Runtime(agent("lead", say("."), tools=[one.as_tool()]), other, store="memory:")


def test_one_agent_may_be_a_tool_of_several_and_be_named_too() -> None:
    helper = agent("helper", say("Yes."))
    first = agent("first", say("."), tools=[helper.as_tool()])
    second = agent("second", say("."), tools=[helper.as_tool(), first.as_tool()])
    Runtime(first, second, helper, store="memory:")


async def test_deps_are_made_for_a_child_by_its_name(stage: Stage) -> None:
    @tool(effect="pure")
    async def look(ctx: ToolContext[str]) -> str:
        """Look."""
        return ctx.deps

    helper = agent("helper", call("look"), say("Seen."), tools=[look], deps_type=str)
    lead = agent("lead", asks("helper"), say("Done."), tools=[helper.as_tool()])
    async with stage.runtime(lead, deps={"helper": lambda info: f"for {info.agent}"}) as rt:
        await rt.session("s").run("Go", turn_id="t")
        (child,) = await rt.session("s").children()
        result = await rt.turn(child.session_id, "t").result()
    assert [one.outcome.value for one in result.tool_calls] == ["for helper"]


async def test_a_child_works_with_the_deps_that_came_with_the_turn_above(stage: Stage) -> None:
    seen: list[str] = []

    @tool(effect="pure")
    async def look(ctx: ToolContext[str]) -> str:
        """Look."""
        seen.append(ctx.deps)
        return "Looked."

    helper = agent("helper", call("look"), say("Seen."), tools=[look], deps_type=str)
    lead = agent("lead", asks("helper"), say("Done."), tools=[helper.as_tool()], deps_type=str)
    async with stage.runtime(lead) as rt:
        result = await rt.session("s").run("Go", turn_id="t", deps="the map")
    assert (result.text, seen) == ("Done.", ["the map"])


async def test_an_agent_with_subagents_runs_in_memory() -> None:
    helper = agent("helper", say("Yes."))
    result = await agent("lead", asks("helper"), say("Done."), tools=[helper.as_tool()]).run("Go")
    assert result.text == "Done."
    assert result.child_usage.calls == 1
    with pytest.raises(ConfigError, match="pay"):
        await three_levels().run("Go")
    paid = await three_levels().run("Go", approve=lambda _: True)
    assert paid.text == "All is done."


# ------------------------------------------------------------------ what is told upwards


async def test_an_approval_three_levels_down_is_answered_at_the_top(stage: Stage) -> None:
    async with stage.runtime(three_levels()) as rt:
        session = rt.session("s")
        result = await session.run("Go", turn_id="t")
        (wait,) = result.waits
        assert (result.parked, wait.kind) == (True, "approval")
        below = await session.children(deep=True)
        assert [(one.agent, one.depth, one.state) for one in below] == [
            ("middle", 1, "parked"),
            ("leaf", 2, "parked"),
        ]
        assert [[one.kind for one in child.waits] for child in below] == [["child"], ["approval"]]
        await rt.approve(wait.key)
        done = await rt.turn("s", "t").result(timeout=HANGS_S)
        assert done.text == "All is done."


async def test_the_reason_of_a_denied_call_below_reaches_the_model_above(stage: Stage) -> None:
    seen: list[str] = []

    def leaf_answers(request: ModelRequest) -> ModelReply:
        if len(request.messages) == 1:
            return call("pay", cents=5)
        return say(f"I may not: {told(request)[0]}")

    def lead_answers(request: ModelRequest) -> ModelReply:
        if len(request.messages) == 1:
            return asks("leaf")
        seen.extend(told(request))
        return say("So be it.")

    leaf = Agent("leaf", model=FunctionModel(leaf_answers), tools=[pay])
    lead = Agent("lead", model=FunctionModel(lead_answers), tools=[leaf.as_tool()])
    async with stage.runtime(lead) as rt:
        result = await rt.session("s").run("Go", turn_id="t")
        await rt.deny(result.waits[0].key, reason="The till is empty.")
        done = await rt.turn("s", "t").result(timeout=HANGS_S)
    assert done.text == "So be it."
    assert len(seen) == 1
    assert "The till is empty." in seen[0]


async def test_why_a_child_stopped_is_told_to_the_model_above(stage: Stage) -> None:
    endless = agent("endless", call("look"), tools=[look_around])
    lead = agent("lead", asks("endless"), say("Done."), tools=[endless.as_tool()])
    async with stage.runtime(lead) as rt:
        result = await rt.session("s").run("Go", turn_id="t")
    (one,) = result.tool_calls
    assert one.outcome.status == "error"
    assert one.outcome.value == (
        "It stopped (max_iterations). The turn stopped at its limit of 50 iterations."
    )


@tool(name="look", effect="pure")
async def look_around() -> str:
    """Look."""
    return "Nothing."


async def test_what_a_child_does_not_know_is_an_issue_of_the_root(stage: Stage) -> None:
    started = asyncio.Event()

    @tool(effect="once", timeout=0.01)
    async def launch() -> str:
        """Launch."""
        started.set()
        await asyncio.Event().wait()
        return "never"

    leaf = agent("leaf", call("launch"), say("I do not know."), tools=[launch])
    middle = agent("middle", asks("leaf"), say("It is not known."), tools=[leaf.as_tool()])
    lead = agent("lead", asks("middle"), say("Done."), tools=[middle.as_tool()])
    async with stage.runtime(lead) as rt:
        result = await rt.session("s").run("Go", turn_id="t")
    assert result.text == "Done."
    assert [issue.code for issue in result.issues] == ["unknown_outcome"]
    assert "launch" in result.issues[0].message


# ------------------------------------------------------------------ usage


async def test_what_children_used_counts_once_and_apart(stage: Stage) -> None:
    leaf = agent("leaf", say("Yes."))
    middle = agent("middle", asks("leaf", "leaf"), say("Both."), tools=[leaf.as_tool()])
    lead = agent("lead", asks("middle"), say("Done."), tools=[middle.as_tool()])
    async with stage.runtime(lead) as rt:
        session = rt.session("s")
        result = await session.run("Go", turn_id="t")
        assert (result.usage.calls, result.usage.total_tokens) == (2, 2 * TOKENS)
        own = [(line.source, line.calls) for line in result.usage.lines]
        assert own == [("turn", 2)]
        below = [(line.source, line.calls) for line in result.child_usage.lines]
        assert below == [("child:middle", 2), ("child:middle/leaf", 2)]
        assert result.child_usage.total_tokens == 4 * TOKENS
        again = await rt.turn("s", "t").result()
        assert again.child_usage == result.child_usage

        assert (await session.usage()).calls == 2
        assert (await session.usage(tree=True)).calls == 6
        assert (await rt.usage()).calls == 6
        assert [
            sum(one.calls for one in child.usage) for child in await session.children(deep=True)
        ] == [2, 1, 1]


async def test_a_parked_turn_knows_what_children_used_that_have_answered(stage: Stage) -> None:
    quick = agent("quick", say("Yes."))
    payer = agent("payer", call("pay", cents=5), say("Paid."), tools=[pay])
    lead = agent(
        "lead", asks("quick", "payer"), say("Done."), tools=[quick.as_tool(), payer.as_tool()]
    )
    async with stage.runtime(lead) as rt:
        result = await rt.session("s").run("Go", turn_id="t")
        assert [wait.kind for wait in result.waits] == ["approval"]
        assert [(line.source, line.calls) for line in result.child_usage.lines] == [
            ("child:quick", 1)
        ]
        assert result.usage.calls == 1
        await rt.approve(result.waits[0].key)
        done = await rt.turn("s", "t").result(timeout=HANGS_S)
        assert {line.source: line.calls for line in done.child_usage.lines} == {
            "child:quick": 1,
            "child:payer": 2,
        }


# ------------------------------------------------------------------ kept children, forks, processes


async def test_a_child_that_is_kept_remembers_and_answers_in_order(stage: Stage) -> None:
    asked: list[int] = []

    def answer(request: ModelRequest) -> ModelReply:
        asked.append(sum(one.role == "user" for one in request.messages))
        return say(f"{asked[-1]} so far")

    clerk = Agent("clerk", model=FunctionModel(answer))
    lead = agent("lead", asks("clerk", "clerk"), say("Done."), tools=[clerk.as_tool(keep=True)])
    async with stage.runtime(lead) as rt:
        session = rt.session("s")
        first = await session.run("Go", turn_id="t")
        assert [one.outcome.value for one in first.tool_calls] == ["1 so far", "2 so far"]
        second = await session.run("Again", turn_id="u")
        assert [one.outcome.value for one in second.tool_calls] == ["3 so far", "4 so far"]
        (child,) = await session.children()
        said = words(await rt.session(child.session_id).history())
        assert said[::2] == ["part 0", "part 1", "part 0", "part 1"]

        fork = await session.fork(id="fork")
        assert await fork.children() == ()
        third = await fork.run("Once more", turn_id="v")
        assert [one.outcome.value for one in third.tool_calls] == ["1 so far", "2 so far"]
        assert len(await session.children()) == 1


async def test_agents_are_tools_of_a_process_too_and_side_by_side(stage: Stage) -> None:
    helper = agent("helper", say("Yes."))

    @process
    async def both(ctx: ProcessContext[Any]) -> list[str]:
        work = helper.as_tool()
        return list(await asyncio.gather(ctx.tool(work, task="a"), ctx.tool(work, task="b")))

    async with stage.runtime(helper, processes=[both]) as rt:
        started = await rt.processes.start(both, id="p")
        async with asyncio.timeout(HANGS_S):
            assert await started.result() == ["Yes.", "Yes."]


# ------------------------------------------------------------------ places


async def test_a_turn_that_waits_for_children_gives_its_place_back(stage: Stage) -> None:
    leaf = agent("leaf", say("Yes."))
    low = agent("low", asks("leaf", "leaf"), say("Low."), tools=[leaf.as_tool()])
    middle = agent("middle", asks("low", "low"), say("Middle."), tools=[low.as_tool()])
    lead = agent("lead", asks("middle", "middle"), say("Done."), tools=[middle.as_tool()])
    async with stage.runtime(lead, max_turns=1) as rt:
        async with asyncio.timeout(HANGS_S):
            result = await rt.session("s").run("Go", turn_id="t")
        assert result.text == "Done."
        # One lead, 2 middle, 4 low with two calls each, and 8 leaves with one.
        assert result.child_usage.calls == 2 * 2 + 4 * 2 + 8

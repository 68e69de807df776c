"""How deep, how many and how much: the limits of a tree of agents, told to models and never raised."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.family import TOKENS, agent, asks, told, used
from tests.scenarios.stage import Stage
from windlass import Agent, Limits, ModelReply, ModelRequest, Runtime, Usage, tool
from windlass.kernel import Stopped
from windlass.testing import FunctionModel, call, say


@tool(effect="pure")
async def around() -> str:
    """Look around."""
    return "Nothing."


def tree(depth: int, limits: Limits) -> tuple[Agent[Any, Any], list[tuple[str, tuple[str, ...]]]]:
    """Return an agent over a chain of others that all call the next one, and what each was offered."""
    offered: list[tuple[str, tuple[str, ...]]] = []

    def model(name: str, below: str | None) -> FunctionModel:
        def answer(request: ModelRequest) -> ModelReply:
            if len(request.messages) > 1:
                return say(f"{name}: {told(request)[0]}")
            offered.append((name, tuple(sorted(spec.name for spec in request.tools))))
            return say(name) if below is None else asks(below)

        return FunctionModel(answer)

    made: Agent[Any, Any] = Agent(f"a{depth}", model=model(f"a{depth}", None), tools=[around])
    for level in reversed(range(depth)):
        name, below = f"a{level}", f"a{level + 1}"
        made = Agent(name, model=model(name, below), tools=[around, made.as_tool()], limits=limits)
    return made, offered


async def test_at_the_limit_agents_are_not_offered_and_a_call_is_told_to_do_the_work_itself(
    stage: Stage,
) -> None:
    lead, offered = tree(4, Limits(max_depth=2))
    async with stage.runtime(lead) as rt:
        result = await rt.session("s").run("Go", turn_id="t")
        below = await rt.session("s").children(deep=True)
    assert [(one.agent, one.depth) for one in below] == [("a1", 1), ("a2", 2)]
    assert offered == [
        ("a0", ("a1", "around")),
        ("a1", ("a2", "around")),
        ("a2", ("around",)),
    ]
    assert result.text == (
        "a0: a1: a2: Agents may call each other 2 deep, and this one is there. Do the work yourself."
    )


async def test_three_deep_is_the_limit_if_nothing_is_said(stage: Stage) -> None:
    lead, offered = tree(5, Limits())
    async with stage.runtime(lead) as rt:
        result = await rt.session("s").run("Go", turn_id="t")
        assert len(await rt.session("s").children(deep=True)) == 3
    assert offered[3] == ("a3", ("around",))
    assert "Agents may call each other 3 deep" in result.text


async def test_no_depth_is_no_children_at_all(stage: Stage) -> None:
    lead, offered = tree(1, Limits(max_depth=0))
    async with stage.runtime(lead) as rt:
        result = await rt.session("s").run("Go", turn_id="t")
        assert await rt.session("s").children() == ()
    assert offered == [("a0", ("around",))]
    assert "0 deep" in result.text


async def test_the_limits_are_those_of_the_turn_at_the_top(stage: Stage) -> None:
    lead, offered = tree(4, Limits(max_depth=3))
    async with stage.runtime(lead) as rt:
        await rt.session("s").run("Go", turn_id="t", limits=Limits(max_depth=1))
    assert offered == [("a0", ("a1", "around")), ("a1", ("around",))]


async def test_more_children_than_there_may_be_are_told_and_the_others_work(stage: Stage) -> None:
    gate = asyncio.Event()

    @tool(effect="pure")
    async def hold() -> str:
        """Hold."""
        await gate.wait()
        return "Held."

    worker = agent("worker", call("hold"), say("Worked."), tools=[hold])
    lead = agent(
        "lead",
        asks("worker", "worker", "worker"),
        say("Done."),
        tools=[worker.as_tool()],
        limits=Limits(max_children=2),
    )
    async with stage.runtime(lead) as rt:
        handle = await rt.session("s").submit("Go", turn_id="t")
        async with asyncio.timeout(HANGS_S):
            while len(await rt.session("s").children()) < 2:  # noqa: ASYNC110 - the store tells no one
                await asyncio.sleep(0)
            gate.set()
            result = await handle.result()
    # Which of the three it is, the ids of their sessions decide.
    refused = [one.outcome for one in result.tool_calls if one.outcome.status != "ok"]
    worked = [one.outcome.value for one in result.tool_calls if one.outcome.status == "ok"]
    assert worked == ["Worked.", "Worked."]
    assert [one.status for one in refused] == ["error"]
    assert refused[0].value == (
        "worker did not run: session: found 2 others of its tree with unfinished turns, wanted fewer than 2"
    )
    assert result.text == "Done."


# ------------------------------------------------------------------ tokens and time


async def limits_of_children(rt: Runtime[Any], session_id: str) -> list[dict[str, Any]]:
    """Return the limits that each child began with, by the order of the calls."""
    found = []
    for one in await rt.session(session_id).children():
        view = await rt._services.store.load_turn(one.session_id, "t")
        started = None if view is None else view.journal().started
        assert started is not None
        found.append(dict(started.limits))
    return found


async def test_children_share_what_the_turn_above_has_left(stage: Stage) -> None:
    worker = agent("worker", say("Worked."))
    lead = agent(
        "lead",
        asks("worker", "worker"),
        say("Done."),
        tools=[worker.as_tool()],
        limits=Limits(max_tokens=1015),
    )
    async with stage.runtime(lead) as rt:
        result = await rt.session("s").run("Go", turn_id="t")
        # 1,015 less the 15 of the first reply: two equal parts.
        shares = sorted(one["max_tokens"] for one in await limits_of_children(rt, "s"))
    assert shares == [500, 500]
    assert result.text == "Done."


async def test_a_child_has_the_smallest_of_its_own_its_tools_and_what_is_left(stage: Stage) -> None:
    small = agent("small", say("."), limits=Limits(max_tokens=100, max_seconds=30))
    middle = agent("middle", say("."), limits=Limits(max_tokens=400))
    free = agent("free", say("."))
    lead = agent(
        "lead",
        asks("small", "middle", "free"),
        say("Done."),
        tools=[
            small.as_tool(limits=Limits(max_tokens=200)),
            middle.as_tool(limits=Limits(max_tokens=300, max_seconds=90)),
            free.as_tool(),
        ],
        limits=Limits(max_tokens=6_015, max_seconds=60),
    )
    async with stage.runtime(lead) as rt:
        await rt.session("s").run("Go", turn_id="t")
        found = await limits_of_children(rt, "s")
    assert sorted(one["max_tokens"] for one in found) == [100, 300, 5_600]
    assert sorted(one["max_seconds"] for one in found) == [30, 60, 60]


async def test_without_a_limit_above_a_child_has_its_own(stage: Stage) -> None:
    worker = agent("worker", say("Worked."), limits=Limits(max_tokens=77))
    lead = agent("lead", asks("worker"), say("Done."), tools=[worker.as_tool()])
    async with stage.runtime(lead) as rt:
        await rt.session("s").run("Go", turn_id="t")
        assert [one["max_tokens"] for one in await limits_of_children(rt, "s")] == [77]


async def test_what_children_used_counts_against_the_limit_above(stage: Stage) -> None:
    worker = agent("worker", say("Worked."))
    lead = agent(
        "lead",
        asks("worker"),
        say("Done."),
        tools=[worker.as_tool()],
        limits=Limits(max_tokens=2 * TOKENS),
    )
    async with stage.runtime(lead) as rt:
        result = await rt.session("s").run("Go", turn_id="t")
    assert isinstance(result.outcome, Stopped)
    assert result.outcome.detail == "The turn used 30 tokens, the limit is 30."
    assert (result.usage.total_tokens, result.child_usage.total_tokens) == (TOKENS, TOKENS)


@pytest.mark.parametrize("reply_tokens", [40, 400])
async def test_a_child_that_uses_up_its_share_stops_and_the_model_above_is_told(
    stage: Stage, reply_tokens: int
) -> None:
    usage = Usage(input_tokens=0, output_tokens=reply_tokens)

    def greedy(_: ModelRequest) -> ModelReply:
        return used(call("around"), usage)

    worker = Agent("worker", model=FunctionModel(greedy), tools=[around])
    lead = agent(
        "lead",
        asks("worker"),
        say("Done."),
        tools=[worker.as_tool(limits=Limits(max_tokens=100))],
    )
    async with stage.runtime(lead) as rt:
        result = await rt.session("s").run("Go", turn_id="t")
    (one,) = result.tool_calls
    n_calls = 3 if reply_tokens == 40 else 1
    assert result.child_usage.calls == n_calls
    assert one.outcome.value == (
        f"It stopped (limit). The turn used {n_calls * reply_tokens} tokens, the limit is 100."
    )
    assert result.text == "Done."

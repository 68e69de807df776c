"""A tree of agents is killed wherever it can be: it ends as it would have, no act happens twice, and its usage is exact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.family import TOKENS, agent, asks, idle, killed_in_time, words
from windlass import Agent, ModelReply, ModelRequest, Runtime, ToolContext, tool
from windlass.ports import AcceptTurn, Tool
from windlass.ports.children import ChildView
from windlass.runtime import children
from windlass.runtime.turn import Turn
from windlass.testing import CrashFound, FunctionModel, Scenario, call, kill_everywhere, say


class Outside:
    """What the tools of one scenario did, seen from outside its processes."""

    def __init__(self) -> None:
        self.acts: Counter[str] = Counter()

    def tool(self, **options: Any) -> Tool:
        @tool(effect="once", **options)
        async def act(ctx: ToolContext[Any]) -> str:
            """Act."""
            self.acts[ctx.idempotency_key] += 1
            return "Acted."

        return act

    def keyed(self) -> Tool:
        @tool(effect="keyed")
        async def note(ctx: ToolContext[Any]) -> str:
            """Note."""
            self.acts[ctx.idempotency_key] = 1
            return "Noted."

        return note


def waited_for(n: int) -> Callable[[], Scenario]:
    """Return a scenario of a lead over `n` children with a child each, which act once."""

    def make() -> Scenario:
        outside = Outside()

        def agents() -> Agent[Any, Any]:
            leaf = agent("leaf", call("act"), say("Leaf."), tools=[outside.tool()])
            middle = agent("middle", asks("leaf"), say("Middle."), tools=[leaf.as_tool()])
            return agent("lead", asks(*["middle"] * n), say("Done."), tools=[middle.as_tool()])

        async def run(rt: Runtime[Any]) -> object:
            session = rt.session("s")
            result = await session.run("Go", turn_id="t")
            own, below = result.usage, result.child_usage
            whole = await session.usage(tree=True)
            assert own.calls + below.calls == whole.calls
            assert (own.calls, below.calls) == (2, 4 * n)
            assert below.total_tokens == 4 * n * TOKENS
            assert whole.total_tokens == own.total_tokens + below.total_tokens
            assert len(await session.children(deep=True)) == 2 * n
            assert all(count == 1 for count in outside.acts.values())
            return [result.text, *(one.outcome.value for one in result.tool_calls)]

        return Scenario(agents=agents, run=run)

    return make


def approved() -> Scenario:
    """Return a scenario in which an approval two levels below is answered from outside."""
    outside = Outside()

    def agents() -> Agent[Any, Any]:
        leaf = agent("leaf", call("act"), say("Leaf."), tools=[outside.tool(approval="ask")])
        middle = agent("middle", asks("leaf"), say("Middle."), tools=[leaf.as_tool()])
        return agent("lead", asks("middle"), say("Done."), tools=[middle.as_tool()])

    async def run(rt: Runtime[Any]) -> object:
        result = await rt.session("s").run("Go", turn_id="t")
        assert all(count == 1 for count in outside.acts.values())
        return result

    return Scenario(agents=agents, run=run, answer=lambda rt, wait: rt.approve(wait.key))


def in_the_background() -> Scenario:
    """Return a scenario with a child that is begun by a body, another by a call, and a message to the first."""
    outside = Outside()

    def agents() -> list[Agent[Any, Any]]:
        leaf = agent("leaf", call("note"), say("Leaf."), tools=[outside.keyed()])

        @tool(effect="keyed")
        async def begin(ctx: ToolContext[Any]) -> str:
            """Begin."""
            child = await ctx.spawn(leaf, "Work", name="bob")
            await ctx.send(child, "Work more")
            return "Begun."

        def answer(request: ModelRequest) -> ModelReply:
            n = sum(one.role == "assistant" for one in request.messages)
            return (call("begin"), asks("leaf"))[n] if n < 2 else say("So.")

        lead: Agent[Any, Any] = Agent(
            "lead",
            model=FunctionModel(answer),
            tools=[begin, leaf.as_tool(background=True)],
        )
        return [lead, leaf]

    async def run(rt: Runtime[Any]) -> object:
        session = rt.session("s", "lead")
        await session.run("Go", turn_id="t")
        await idle(rt)
        below = await session.children()
        assert len(below) == 2
        said = words(await session.history())
        for child in below:
            # Each end of a turn there was told here once, whichever of them took the message.
            turns = await rt.turns(session_id=child.session_id)
            assert sum(f"{child.name}: Leaf." in one for one in said) == len(turns)
        tasks = await _inputs(rt, below)
        assert tasks == ["Work", "Work more", "part 0"]
        return len(outside.acts)

    return Scenario(agents=agents, run=run)


async def _inputs(rt: Runtime[Any], below: tuple[ChildView, ...]) -> list[str]:
    """Return all that children were asked, in the order of the words."""
    found: list[str] = []
    for child in below:
        history = await rt.session(child.session_id).history()
        found += words(one for one in history if one.role == "user")
    return sorted(found)


@pytest.mark.parametrize("n", [1, 2])
async def test_a_tree_survives_a_kill_at_every_write(n: int) -> None:
    report = await kill_everywhere(waited_for(n), timeout=HANGS_S)
    assert len(report.points) > 30
    assert report.missed == ()


@pytest.mark.slow
async def test_a_tree_on_disk_survives_two_kills() -> None:
    report = await kill_everywhere(
        waited_for(1), store="sqlite", twice=True, max_points=120, timeout=HANGS_S
    )
    assert len(report.points) == 120


async def test_children_in_the_background_survive_a_kill_at_every_write() -> None:
    # Whether a message finds its child at work is a matter of time. The scenario says what has to hold.
    report, problems = await killed_in_time(in_the_background)
    assert problems == []
    assert len(report.points) > 30


async def test_an_approval_below_survives_a_kill_at_every_write() -> None:
    report = await kill_everywhere(approved, timeout=HANGS_S)
    assert len(report.points) > 30


async def test_a_child_that_is_accepted_apart_from_its_wait_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The red proof: with the acceptance in a unit of its own, a crash between leaves a turn that waits for nothing."""
    accept = children.acceptance

    def apart(turn: Turn, *given: Any) -> AcceptTurn:
        # What was added so far is a unit of its own, which is on disk before the next one is.
        turn.lane._hand_in()
        return accept(turn, *given)

    monkeypatch.setattr(children, "acceptance", apart)
    with pytest.raises(CrashFound):
        await kill_everywhere(waited_for(1))

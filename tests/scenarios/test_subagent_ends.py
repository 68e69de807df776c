"""The end of a tree: a turn that ends takes its children along, and a session that is deleted all that is below it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.family import agent, asks
from tests.scenarios.stage import Stage
from windlass import Agent, ModelReply, ModelRequest, Runtime, ToolContext, tool
from windlass.api.process import process
from windlass.api.process_context import ProcessContext
from windlass.errors import SessionDeleted
from windlass.kernel import Stopped
from windlass.testing import FunctionModel, call, say


class Held:
    """Something that is entered and does not return by itself."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.left = 0

    async def hold(self) -> None:
        self.entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.left += 1


def in_a_model_call(held: Held) -> Agent[Any, Any]:
    async def answer(_: ModelRequest) -> ModelReply:
        await held.hold()
        return say("never")

    return Agent("leaf", model=FunctionModel(answer))


def in_a_body(held: Held) -> Agent[Any, Any]:
    @tool(effect="once")
    async def work() -> str:
        """Work."""
        await held.hold()
        return "never"

    return agent("leaf", call("work"), say("never"), tools=[work])


def at_an_approval(held: Held) -> Agent[Any, Any]:
    @tool(effect="once", approval="ask")
    async def work() -> str:
        """Work."""
        return "never"

    held.entered.set()
    return agent("leaf", call("work"), say("never"), tools=[work])


async def unfinished(rt: Runtime[Any]) -> list[tuple[str, str]]:
    """Return the turns that have not ended."""
    turns = await rt.turns(limit=100)
    return [(one.agent, one.state) for one in turns if one.state != "done"]


@pytest.mark.parametrize("make", [in_a_model_call, in_a_body, at_an_approval])
async def test_a_cancel_at_the_top_reaches_the_leaf_wherever_that_is(
    stage: Stage, make: Callable[[Held], Agent[Any, Any]]
) -> None:
    held = Held()
    middle = agent("middle", asks("leaf"), say("never"), tools=[make(held).as_tool()])
    lead = agent("lead", asks("middle"), say("never"), tools=[middle.as_tool()])
    async with stage.runtime(lead) as rt, asyncio.timeout(HANGS_S):
        session = rt.session("s")
        handle = await session.submit("Go", turn_id="t")
        await held.entered.wait()
        while len(await session.children(deep=True)) < 2:  # noqa: ASYNC110 - the store tells no one
            await asyncio.sleep(0)
        await handle.cancel("enough")
        result = await handle.result(through_parks=True)
        assert result.outcome == Stopped(reason="cancelled", detail="enough")
        assert [one.outcome.status for one in result.tool_calls] == ["cancelled"]
        while await unfinished(rt):  # noqa: ASYNC110 - the store tells no one
            await asyncio.sleep(0)
        outcomes = [one.outcome for one in await session.children(deep=True)]
        assert (
            outcomes
            == [Stopped(reason="cancelled", detail="the turn that waits for it has ended")] * 2
        )
        assert await rt.waits() == ()
    assert held.left == (make is not at_an_approval)


async def test_a_cancel_before_the_children_are_accepted_leaves_none(stage: Stage) -> None:
    """Intent, wait and acceptance are one unit: there is no moment between them for a cancel."""
    helper = agent("helper", say("Yes."))
    lead = agent("lead", asks("helper", "helper"), say("Done."), tools=[helper.as_tool()])
    async with stage.runtime(lead) as rt, asyncio.timeout(HANGS_S):
        for at in range(12):
            session = rt.session(f"s{at}")
            handle = await session.submit("Go", turn_id="t")
            for _ in range(at):
                await asyncio.sleep(0)
            await handle.cancel("enough")
            await handle.result(through_parks=True)
        while await unfinished(rt):  # noqa: ASYNC110 - the store tells no one
            await asyncio.sleep(0)


async def test_a_child_that_is_cancelled_alone_is_told_to_the_model_above(stage: Stage) -> None:
    held = Held()
    lead = agent("lead", asks("leaf"), say("never"), tools=[in_a_body(held).as_tool()])
    async with stage.runtime(lead) as rt, asyncio.timeout(HANGS_S):
        handle = await rt.session("s").submit("Go", turn_id="t")
        await held.entered.wait()
        (child,) = await rt.session("s").children()
        # The child alone is stopped: the turn above goes on with that.
        await rt.cancel(child.session_id, "t", "too slow")
        result = await handle.result()
    assert result.text == "never"
    (one,) = result.tool_calls
    assert (one.outcome.status, one.outcome.value) == (
        "cancelled",
        "It stopped (cancelled). too slow",
    )


async def test_children_that_are_not_waited_for_are_cancelled_with_their_turn(
    stage: Stage,
) -> None:
    held, own = Held(), Held()
    leaf = in_a_body(held)

    @tool(effect="keyed")
    async def begin(ctx: ToolContext[Any]) -> str:
        """Begin."""
        await ctx.spawn(leaf, "Work", name="digger")
        await own.hold()
        return "never"

    lead = agent("lead", call("begin"), say("never"), tools=[begin])
    async with stage.runtime(lead, leaf) as rt, asyncio.timeout(HANGS_S):
        session = rt.session("s", lead)
        handle = await session.submit("Go", turn_id="t")
        await held.entered.wait()
        await handle.cancel("enough")
        await handle.result(through_parks=True)
        while [one for one in await unfinished(rt) if one[0] == "leaf"]:  # noqa: ASYNC110 - the store tells no one
            await asyncio.sleep(0)
        (child,) = await session.children()
        assert child.outcome == Stopped(
            reason="cancelled", detail="the turn that began it was cancelled"
        )


@pytest.mark.parametrize("make", [in_a_model_call, in_a_body, at_an_approval])
async def test_a_session_is_deleted_with_all_that_is_below_it(
    stage: Stage, make: Callable[[Held], Agent[Any, Any]]
) -> None:
    held = Held()
    middle = agent("middle", asks("leaf"), say("never"), tools=[make(held).as_tool()])
    lead = agent("lead", asks("middle"), say("never"), tools=[middle.as_tool()])
    async with stage.runtime(lead) as rt, asyncio.timeout(HANGS_S):
        session = rt.session("s")
        await session.submit("Go", turn_id="t")
        await held.entered.wait()
        while len(await session.children(deep=True)) < 2:  # noqa: ASYNC110 - the store tells no one
            await asyncio.sleep(0)
        below = [one.session_id for one in await session.children(deep=True)]
        await session.delete()
        assert await rt.sessions(kind=None) == ()
        for one in ("s", *below):
            with pytest.raises(SessionDeleted):
                await rt.session(one).history()


async def test_deleting_ends_spawned_children_whose_end_would_wake_the_session(
    stage: Stage,
) -> None:
    held = Held()
    leaf = in_a_body(held)
    lead = agent("lead", asks("leaf"), say("Begun."), tools=[leaf.as_tool(background=True)])
    async with stage.runtime(lead) as rt, asyncio.timeout(HANGS_S):
        session = rt.session("s")
        assert (await session.run("Go", turn_id="t")).text == "Begun."
        await held.entered.wait()
        await session.delete()
        assert await rt.sessions(kind=None) == ()


async def test_deleting_a_session_leaves_the_chats_that_it_opened(stage: Stage) -> None:
    helper = agent("helper", say("Yes."))

    @process
    async def open_chat(ctx: ProcessContext[Any]) -> str:
        return str(await ctx.turn(helper, "Hello", session="a-chat"))

    async with stage.runtime(helper, processes=[open_chat]) as rt, asyncio.timeout(HANGS_S):
        started = await rt.processes.start(open_chat, id="p")
        assert await started.result() == "Yes."
        await rt.session(started.session_id).delete()
        assert [one.session_id for one in await rt.sessions(kind=None)] == ["a-chat"]

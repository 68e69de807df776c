"""Slots: no more turns at a time than there are, and a turn that waits for another one lends it its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.stage import Desk, Stage, until
from tests.scenarios.workers import echo, worker
from windlass import Agent, Runtime, Session, ToolContext, tool
from windlass.kernel import ModelReply, ModelRequest, ToolResult
from windlass.ports import TurnInfo
from windlass.testing import FunctionModel, call, say

Way = Callable[[Session[Any]], Awaitable[str]]


async def by_run(session: Session[Any]) -> str:
    return (await session.run("Hello.", turn_id="t")).text


async def by_submit(session: Session[Any]) -> str:
    return (await (await session.submit("Hello.", turn_id="t")).result()).text


def asking(way: Way) -> tuple[Agent[None, str], list[Runtime[Any]]]:
    """Return an agent whose tool waits for a turn of another agent, and where it looks for its runtime."""
    where: list[Runtime[Any]] = []

    @tool(effect="idempotent")
    async def ask(ctx: ToolContext[None]) -> str:
        """Ask somebody else."""
        return await way(where[0].session(f"for-{ctx.session_id}", "other"))

    def answer(request: ModelRequest) -> ModelReply:
        is_answered = isinstance(request.messages[-1].parts[0], ToolResult)
        return say("Done.") if is_answered else call("ask")

    return Agent("asking", model=FunctionModel(answer), tools=[ask]), where


@pytest.mark.parametrize("way", [by_run, by_submit])
async def test_turns_that_wait_for_turns_do_not_wait_for_ever(stage: Stage, way: Way) -> None:
    agent, where = asking(way)
    other = Agent("other", model=FunctionModel(lambda _request: "I am here.", name="other"))
    async with stage.runtime(agent, other, max_turns=2) as rt:
        where.append(rt)
        async with asyncio.timeout(HANGS_S):
            results = await asyncio.gather(
                *(rt.session(f"s{number}", agent).run("Go.") for number in range(4))
            )

    assert [one.tool_calls[0].outcome.value for one in results] == ["I am here."] * 4


async def test_there_are_no_more_slots_afterwards_than_before(stage: Stage) -> None:
    agent, where = asking(by_run)
    at_once = [0, 0]

    async def counted(_request: object) -> str:
        at_once[0] += 1
        at_once[1] = max(at_once)
        await asyncio.sleep(0)
        at_once[0] -= 1
        return "I am here."

    other = Agent("other", model=FunctionModel(counted, name="other"))
    async with stage.runtime(agent, other, max_turns=1) as rt:
        where.append(rt)
        await rt.session("s", agent).run("Go.")
        at_once[1] = 0
        async with asyncio.timeout(HANGS_S):
            await asyncio.gather(
                *(rt.session(f"o{number}", other).run("Hello.") for number in range(5))
            )

    assert at_once == [0, 1]


async def test_a_turn_that_no_longer_waits_for_a_slot_takes_none(stage: Stage) -> None:
    gate, entered = asyncio.Event(), asyncio.Event()

    async def slow(_request: object) -> str:
        entered.set()
        await gate.wait()
        return "Done."

    async with stage.runtime(Agent("slow", model=FunctionModel(slow)), max_turns=1) as rt:
        first = asyncio.ensure_future(rt.session("a").run("Go."))
        await entered.wait()
        gone = [
            asyncio.ensure_future(rt.session(f"gone{number}").run("Go.")) for number in range(2)
        ]
        for _ in range(5):
            await asyncio.sleep(0)
        for one in gone:
            one.cancel()
        await asyncio.wait(gone)
        gate.set()
        async with asyncio.timeout(HANGS_S):
            last = await rt.session("b").run("Go.")
            await first

    assert last.text == "Done."


async def test_a_turn_that_is_to_be_tried_again_while_no_slot_is_free_is_tried_when_one_is(
    stage: Stage,
) -> None:
    failing, desk = ["first"], Desk(is_open=False)

    async def deps(info: TurnInfo) -> None:
        if info.session_id == "first" and failing:
            failing.pop()
            raise OSError("not yet")

    async with stage.runtime(worker(desk, echo()), deps=deps, max_turns=1) as rt:
        handle = await rt.session("first").submit("Hello.", turn_id="t")
        await until(lambda: not failing and not rt._worker.driving)
        busy = await rt.session("second").submit("work", turn_id="t")
        await desk.entered.wait()
        stage.later(1, rt)
        await rt._worker.look()
        desk.gate.set()
        await busy.result(timeout=HANGS_S)
        result = await handle.result(timeout=HANGS_S)

    assert result.text == "You said: Hello."

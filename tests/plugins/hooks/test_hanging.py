"""Hooks, instructions and deps that hang: a turn that somebody wants to end does, and so does the runtime."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.stage import Stage
from windlass import Agent, tool
from windlass.kernel import ModelReply, ModelRequest, Stopped
from windlass.ports.plugin import Plugin
from windlass.testing import FunctionModel, call, say

HOOKS = [
    "on_input", "before_turn", "prompt", "view", "before_model", "after_model", "before_tool",
    "after_tool", "at_checkpoint", "after_turn",
]  # fmt: skip


def hanging(hook: str) -> tuple[Plugin, asyncio.Event]:
    """Return a plugin one of whose hooks never ends, and what is set when it is asked."""
    entered = asyncio.Event()

    async def hang(_self: Plugin, *_given: Any) -> None:
        entered.set()
        await asyncio.Event().wait()

    return type("Hanging", (Plugin,), {"name": "hanging", hook: hang})(), entered


def acting(**options: Any) -> Agent[Any, str]:
    @tool
    async def act() -> str:
        """Act."""
        return "acted"

    def answer(request: ModelRequest) -> ModelReply:
        return say("Done.") if len(request.messages) > 1 else call("act")

    return Agent("a", model=FunctionModel(answer, name="m"), tools=[act], **options)


@pytest.mark.parametrize("how", ["run", "submit"])
@pytest.mark.parametrize("hook", HOOKS)
async def test_a_turn_whose_hook_hangs_can_be_cancelled(stage: Stage, hook: str, how: str) -> None:
    plugin, entered = hanging(hook)
    async with stage.runtime(acting(plugins=[plugin])) as rt:
        session = rt.session("s")
        if how == "submit":
            await session.submit("Go.", turn_id="t")
        else:
            running = asyncio.ensure_future(session.run("Go.", turn_id="t"))
        await asyncio.wait_for(entered.wait(), HANGS_S)
        await rt.cancel("s", "t", "enough")
        result = await rt.turn("s", "t").result(timeout=HANGS_S)
        if how == "run":
            assert (await running).outcome == result.outcome

    assert result.outcome == Stopped(reason="cancelled", detail="enough")


@pytest.mark.parametrize("what", ["instructions", "deps"])
async def test_a_turn_whose_making_hangs_can_be_cancelled(stage: Stage, what: str) -> None:
    entered = asyncio.Event()

    async def hang(*_given: Any) -> str:
        entered.set()
        await asyncio.Event().wait()
        return ""

    agent = acting(instructions=hang) if what == "instructions" else acting()
    async with stage.runtime(agent, **({"deps": hang} if what == "deps" else {})) as rt:
        await rt.session("s").submit("Go.", turn_id="t")
        await asyncio.wait_for(entered.wait(), HANGS_S)
        await rt.cancel("s", "t", "enough")
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.outcome == Stopped(reason="cancelled", detail="enough")


async def test_after_a_cancelled_turn_the_session_goes_on(stage: Stage) -> None:
    plugin, entered = hanging("on_input")
    async with stage.runtime(acting(plugins=[plugin])) as rt:
        await rt.session("s").submit("Go.", turn_id="t")
        await entered.wait()
        await rt.cancel("s", "t", "enough")
        await rt.turn("s", "t").result(timeout=HANGS_S)
    async with stage.runtime(acting()) as rt:
        result = await asyncio.wait_for(rt.session("s").run("Go on.", turn_id="t2"), HANGS_S)

    assert result.text == "Done."


async def test_whoever_loses_patience_with_the_leaving_leaves_no_loops_behind(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    plugin, entered = hanging("after_tool")

    async def program() -> None:
        async with stage.runtime(acting(plugins=[plugin])) as rt:
            await rt.session("s").submit("Go.", turn_id="t")
            await entered.wait()

    before = asyncio.all_tasks()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(program(), 0.5)

    assert {task for task in asyncio.all_tasks() - before if not task.done()} == set()
    assert "a task of the engine failed" not in caplog.text

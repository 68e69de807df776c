"""Spend limits and the calls that plugins make themselves: what a hook may not buy any more ends the turn as spent."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugins.hooks.hooked import hooked
from tests.plugins.spenders import paid, stopped
from tests.scenarios.stage import Stage
from windlass import Agent, tool
from windlass.kernel import ModelMessage, ModelRequest, Text
from windlass.plugins import Budget, PluginTurn, SpendLimits
from windlass.testing import ScriptedModel, call, say

QUESTION = ModelRequest(
    model="helper", messages=(ModelMessage(role="user", parts=(Text(text="Is it?"),)),)
)
BUILDERS = ("on_input", "before_turn", "prompt", "view", "before_model", "after_model", "at_checkpoint")  # fmt: skip
AROUND_TOOLS = ("before_tool", "after_tool", "present_result")


@tool(effect="pure")
def look() -> str:
    """Look."""
    return "seen"


async def asks(turn: PluginTurn, *_given: object) -> None:
    """Ask more often than any budget here has room for."""
    for _ in range(9):
        await turn.complete(QUESTION)


@pytest.mark.parametrize("hook", [*BUILDERS, *AROUND_TOOLS])
async def test_a_hook_that_asks_too_much_ends_the_turn_as_spent(hook: str, tmp_path: Path) -> None:
    helper = ScriptedModel([paid(say("yes"))] * 9, name="helper")
    model = ScriptedModel([paid(call("look")), paid(say("Done."))], name="big")
    plugins = [SpendLimits(turn=Budget(calls=4)), hooked("asker", **{hook: asks})]
    agent = Agent("clerk", model=model, tools=[look], plugins=plugins)
    async with Stage("sqlite", tmp_path).runtime(agent, models=[helper]) as rt:
        result = await rt.session("s").run("Go.")
    assert stopped(result)
    assert result.usage.calls == 4

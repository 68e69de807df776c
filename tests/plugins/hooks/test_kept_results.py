"""What plugins made of a result is what anybody is told of it later, whoever drove the turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.plugins.hooks.hooked import hooked
from tests.plugins.hooks.ledger import Ledger
from tests.scenarios.stage import Stage
from windlass import Agent
from windlass.kernel import ModelReply
from windlass.kernel.messages import Text
from windlass.kernel.tool_call import CompletedToolCall, ToolOutcome
from windlass.plugins import Redaction
from windlass.ports.plugin import Plugin
from windlass.ports.plugin_turn import PluginTurn
from windlass.ports.policy import Deny
from windlass.testing import call, calls, say
from windlass.tools import tool

PLUGINS: dict[str, Callable[[], Plugin]] = {
    "edited": lambda: hooked("editor", after_tool=ToolOutcome(value={"found": "nothing"})),
    "withheld": lambda: hooked("guard", after_tool=Deny(reason="not for you")),
    "shown otherwise": lambda: hooked("shower", present_result=[Text(text="a result")]),
    "redacted": Redaction,
}
TOLD = {
    "edited": ToolOutcome(value={"found": "nothing"}),
    "withheld": ToolOutcome(value="(Its result is withheld: not for you)"),
    "shown otherwise": ToolOutcome(value="bob@example.com", shown=(Text(text="a result"),)),
    "redacted": ToolOutcome(value="[email]"),
}


@tool(effect="pure")
def look(x: int) -> str:
    """Look somebody up."""
    return f"bob@example.com{'' if x == 1 else x}"


@tool(effect="pure", approval="ask")
def show(x: int) -> str:
    """Ask first."""
    return str(x)


def agent(plugin: Plugin, *script: ModelReply) -> Agent[None, str]:
    return Agent("a", model=Ledger().model(script), tools=[look, show], plugins=[plugin])


@pytest.mark.parametrize("made", PLUGINS)
async def test_a_store_tells_of_a_result_what_the_turn_went_on_with(
    stage: Stage, made: str
) -> None:
    script = (call("look", x=1), say("Done."))
    async with stage.runtime(agent(PLUGINS[made](), *script)) as rt:
        first = await rt.session("s").run("Go.", turn_id="t")
    async with stage.runtime(agent(PLUGINS[made](), *script)) as rt:
        again = await rt.session("s").run("Go.", turn_id="t")
    assert [one.outcome for one in first.tool_calls] == [TOLD[made]]
    assert again.tool_calls == first.tool_calls


async def test_a_parked_turn_tells_of_a_result_what_plugins_left_of_it(stage: Stage) -> None:
    script = (calls(("look", {"x": 1}), ("show", {"x": 2})), say("Done."))
    async with stage.runtime(agent(Redaction(), *script)) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")
    assert parked.parked
    assert [one.outcome.value for one in parked.tool_calls] == ["[email]"]


async def test_a_result_that_nobody_has_looked_at_is_in_no_answer(stage: Stage) -> None:
    is_looking = asyncio.Event()

    async def looks(_turn: PluginTurn, _call: CompletedToolCall) -> None:
        is_looking.set()
        await asyncio.Event().wait()

    script = (call("look", x=1), say("Done."))
    async with stage.runtime(agent(hooked("guard", after_tool=looks), *script)) as rt:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        await is_looking.wait()
        await rt.cancel("s", "t")
        await handle.result()
    async with stage.runtime(agent(hooked("guard", after_tool=looks), *script)) as rt:
        again = await rt.session("s").run("Go.", turn_id="t")
    (told,) = again.tool_calls
    assert told.as_result("look").content == (
        Text(text="(Its result is withheld: the turn was cancelled before it was looked at.)"),
    )

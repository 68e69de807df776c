"""Arguments that a plugin replaces in a reply are gone, also from the text in which the provider sent them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.plugins.hooks.hooked import hooked
from tests.plugins.hooks.ledger import Ledger
from tests.scenarios.stage import Stage
from windlass import Agent, tool
from windlass.kernel import ModelReply, ToolCall
from windlass.ports.plugin import Plugin
from windlass.ports.plugin_turn import PluginTurn
from windlass.testing import say

OLD = "old-4711"
RAW = f'{{"what": "{OLD}"}}'
ASKED = ToolCall(call_id="c1", name="act", args={"what": OLD}, raw=RAW)
REPLY = ModelReply(parts=(ASKED,), terminal="tool_use")


def replacing(**fields: Any) -> Plugin:
    """Return a plugin that replaces some of what is said of a call."""

    def after_model(_turn: PluginTurn, reply: ModelReply) -> ModelReply:
        parts = tuple(
            msgspec.structs.replace(part, **fields) if isinstance(part, ToolCall) else part
            for part in reply.parts
        )
        return msgspec.structs.replace(reply, parts=parts)

    return hooked("replacing", after_model=after_model)


@pytest.mark.parametrize(
    ("fields", "ran", "raw"),
    [
        ({"args": {"what": "new"}}, "new", ""),
        ({"args": {}}, "nothing", ""),
        ({"args": {"what": "new"}, "raw": '{"what":"new"}'}, "new", '{"what":"new"}'),
        ({"call_id": "c2"}, OLD, RAW),
    ],
)
async def test_the_providers_text_goes_with_the_arguments(
    stage: Stage, fields: dict[str, Any], ran: str, raw: str
) -> None:
    bodies: list[str] = []

    @tool(effect="pure")
    async def act(what: str = "nothing") -> str:
        """Act."""
        bodies.append(what)
        return "done"

    model = Ledger().model([REPLY, say("Done.")])
    agent = Agent("a", model=model, tools=[act], plugins=[replacing(**fields)])
    async with stage.runtime(agent) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")

    assert bodies == [ran]
    parts = [part for message in result.messages for part in message.parts]
    assert [part.raw for part in parts if isinstance(part, ToolCall)] == [raw]

"""One turn that uses every kind of effect and every contract."""

from __future__ import annotations

import asyncio

from tests.durability.matrix.acts import ADVISER, PAUSE, VaultProvider, tools
from tests.durability.matrix.outside import BACK, Outside
from tests.durability.matrix.steps import ANSWER, AWAY_AT, STEPS, WRONG_SHAPE
from windlass import Agent, Limits
from windlass.errors import Unavailable
from windlass.kernel import ModelReply, ModelRequest, ToolResult, Usage, canonical
from windlass.models.scripted import placed
from windlass.ports.model import EmitModelEvent
from windlass.testing import calls, say

MAIN = "main"


class Thinker:
    """A model that takes its time, and is counted outside."""

    def __init__(self, outside: Outside, name: str) -> None:
        self.name = name
        self._outside = outside

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        """Answer by the place in the conversation."""
        outside = self._outside
        position = sum(message.role == "assistant" for message in request.messages)
        what = str(position) if self.name == MAIN else self.name
        await outside.note(f"asked {what}")
        await outside.passes(f"model {what} asked")
        for _ in range(PAUSE):
            await asyncio.sleep(0)
        if what == str(AWAY_AT) and not outside.ledger.count(BACK):
            raise Unavailable("the provider is away")
        reply = self._reply(request, position)
        await outside.note(f"replied {what}")
        await outside.passes(f"model {what} replied")
        return reply

    def _reply(self, request: ModelRequest, position: int) -> ModelReply:
        if self.name == ADVISER:
            return say("Wait.", usage=Usage(input_tokens=7, output_tokens=3))
        usage = Usage(input_tokens=100 + position, output_tokens=10)
        if position < WRONG_SHAPE:
            asked = placed(calls(*((name, {}) for name in STEPS[position])), position)
            return ModelReply(parts=asked.parts, terminal="tool_use", usage=usage)
        if position == WRONG_SHAPE:
            return say("All done.", usage=usage)
        assert position == ANSWER
        return say(canonical.encode(_statuses(request)).decode(), usage=usage)


def _statuses(request: ModelRequest) -> dict[str, str]:
    parts = (part for message in request.messages for part in message.parts)
    return {part.name: part.status for part in parts if isinstance(part, ToolResult)}


def make_agent(outside: Outside) -> tuple[Agent[None, dict[str, str]], Thinker]:
    """Return the agent of one life, and the other model that one of its tools asks."""
    agent = Agent(
        "clerk",
        model=Thinker(outside, MAIN),
        tools=[*tools(outside), VaultProvider(outside)],
        output_type=dict[str, str],
        limits=Limits(max_iterations=None),
    )
    return agent, Thinker(outside, ADVISER)

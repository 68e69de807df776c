"""The agent of the picture: tools for a shop's support, and a model of a few rules that writes word by word."""

from __future__ import annotations

import asyncio

from windlass import Agent, tool
from windlass.kernel import Json, ModelReply, ModelRequest, Text, ToolCall, ToolResult, Usage
from windlass.ports.model import EmitModelEvent, TextChunk

_PAUSE_S = 0.06
_ANSWER = """\
**Done.** Ada gets 9.00 euros back for order `A-17`:

| order | item | refunded |
|---|---|---|
| A-17 | brass pawl | 9.00 |

The refund is booked once, *however often this process dies*.
"""


@tool(effect="pure")
def look_up(order: str) -> Json:
    """Find an order."""
    return {"order": order, "item": "brass pawl", "cents": 900, "state": "broken on arrival"}


@tool(effect="keyed", approval="ask", risk="high")
async def refund(order: str, cents: int) -> str:
    """Give a customer money back."""
    return f"{cents} cents back for {order}"


class Rules:
    """Looks up, refunds, and tells."""

    name = "rules"

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        """Do the first of the three that is not done yet."""
        done = [
            part.name
            for message in request.messages
            for part in message.parts
            if isinstance(part, ToolResult)
        ]
        if "look_up" not in done:
            return await _call("I look at the order first.", "look_up", {"order": "A-17"}, emit)
        if "refund" not in done:
            args: dict[str, Json] = {"order": "A-17", "cents": 900}
            return await _call("It arrived broken, so it is refunded.", "refund", args, emit)
        await _write(_ANSWER, emit)
        return ModelReply(text=_ANSWER, usage=Usage(input_tokens=412, output_tokens=58))


async def _call(words: str, name: str, args: dict[str, Json], emit: EmitModelEvent) -> ModelReply:
    await _write(words, emit)
    call = ToolCall(call_id=f"call_{name}", name=name, args=args)
    usage = Usage(input_tokens=280, output_tokens=24)
    return ModelReply(parts=(Text(text=words), call), terminal="tool_use", usage=usage)


async def _write(text: str, emit: EmitModelEvent) -> None:
    for word in text.split(" "):
        emit(TextChunk(text=f"{word} "))
        await asyncio.sleep(_PAUSE_S)


support = Agent("support", model=Rules(), tools=[look_up, refund])

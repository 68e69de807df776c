"""An agent whose calls take as long as its task says, so that a test can meet a worker in the middle of one."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.durability.soak.ledger import Ledger
from windlass import Agent, ToolContext, tool
from windlass.kernel import ModelReply, ModelRequest, Text, ToolCall, Usage
from windlass.testing import FunctionModel

NAME = "gang"
OTHER = "strangers"


def task(*calls: str) -> str:
    """Return a task: one reply for each word, which is `tool:seconds`, several joined with `+`."""
    return f"Do {' '.join(calls)}"


def gang(ledger: Ledger, name: str = NAME) -> Agent[None, str]:
    """Return the agent; what it buys and does is written down in the ledger."""

    async def sell(request: ModelRequest) -> ModelReply:
        asked = [
            part.text
            for message in request.messages
            if message.role == "user"
            for part in message.parts
            if type(part) is Text
        ]
        said = sum(message.role == "assistant" for message in request.messages)
        before = sum(len(each.split()) for each in asked[:-1])
        ledger.write("model", call=str(said), task=asked[-1])
        words = asked[-1].removeprefix("Do ").split()
        place = said - before
        usage = Usage(input_tokens=1, output_tokens=1)
        if place >= len(words):
            return ModelReply(text=f"did {len(words)}", usage=usage)
        parts = tuple(_call(word, said, at) for at, word in enumerate(words[place].split("+")))
        return ModelReply(parts=parts, usage=usage, terminal="tool_use")

    return Agent(name, model=FunctionModel(sell, name="seller"), tools=_tools(ledger))


def _call(word: str, reply: int, at: int) -> ToolCall:
    name, _, seconds = word.partition(":")
    return ToolCall(call_id=f"{name}_{reply}_{at}", name=name, args={"seconds": float(seconds)})


def _tools(ledger: Ledger) -> list[Any]:
    async def act(ctx: ToolContext[None], name: str, seconds: float) -> str:
        word = ledger.mint()
        place = f"{ctx.turn_id}/{ctx.call_id}"
        ledger.write("tool", ctx.session_id, place, name=name, word=word, key=ctx.idempotency_key)
        await asyncio.sleep(seconds)
        return word

    @tool(effect="once")
    async def pay(ctx: ToolContext[None], seconds: float) -> str:
        """Pay."""
        return await act(ctx, "pay", seconds)

    @tool(effect="keyed")
    async def post(ctx: ToolContext[None], seconds: float) -> str:
        """Post."""
        return await act(ctx, "post", seconds)

    @tool(effect="pure")
    async def look(ctx: ToolContext[None], seconds: float) -> str:
        """Look."""
        return await act(ctx, "look", seconds)

    return [pay, post, look]

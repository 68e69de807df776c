"""The agent of the soak: ten tool calls of every contract, alone and together, and a model that sells replies.

Everything that is bought or done bears a word of its own, so that a reply that was bought again or a result of
another run is told from the first one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from secrets import randbelow

from tests.durability.soak.ledger import Ledger
from windlass import Agent, ToolContext, tool
from windlass.kernel import ModelReply, ModelRequest, Text, ToolCall, Usage
from windlass.ports.tool import Tool
from windlass.testing import FunctionModel

NAME = "crew"
TURN = "t0"
N_SESSIONS = 20
N_CALLS = 10
CONTRACTS = {
    "pay": "once",
    "sign": "once",
    "post": "keyed",
    "put": "idempotent",
    "look": "pure",
}
# The calls of each reply, ten in all. Sessions begin at different places of the round.
ROUND = (
    ("pay", "post", "look"),
    ("sign",),
    ("look", "look"),
    ("put",),
    ("post", "pay", "sign"),
)


def sessions() -> tuple[str, ...]:
    """Return the ids of all sessions."""
    return tuple(f"s{number:02}" for number in range(N_SESSIONS))


def task(session: str) -> str:
    """Return what a session is asked to do."""
    return f"Work, {session}"


def wishes(session: str, reply: int) -> tuple[str, ...]:
    """Return the tools that a reply asks for; none is the end."""
    if reply >= len(ROUND):
        return ()
    return ROUND[(reply + int(session[1:])) % len(ROUND)]


def crew(ledger: Ledger) -> Agent[None, str]:
    """Return the agent; what its model sells and its tools do is written down in the ledger."""
    return Agent(NAME, model=FunctionModel(_seller(ledger), name="seller"), tools=_tools(ledger))


def _seller(ledger: Ledger) -> Callable[[ModelRequest], Awaitable[ModelReply]]:
    async def sell(request: ModelRequest) -> ModelReply:
        session = _session_of(request)
        reply = sum(message.role == "assistant" for message in request.messages)
        word, tokens = ledger.mint(), 1 + randbelow(1_000_000)
        ledger.write("model", session, str(reply), word=word, tokens=tokens)
        await asyncio.sleep(0.002)
        ledger.write("reply", session, str(reply), word=word)
        wanted = wishes(session, reply)
        calls = tuple(
            ToolCall(call_id=f"{name}_{reply}_{at}", name=name, args={"at": 10 * reply + at})
            for at, name in enumerate(wanted)
        )
        return ModelReply(
            parts=(Text(text=word), *calls),
            usage=Usage(input_tokens=10 + reply, output_tokens=tokens),
            terminal="tool_use" if calls else "stop",
        )

    return sell


def _session_of(request: ModelRequest) -> str:
    said = (part.text for each in request.messages for part in each.parts if type(part) is Text)
    return next(text for text in said if text.startswith("Work, ")).removeprefix("Work, ")


def _tools(ledger: Ledger) -> list[Tool]:
    def act(ctx: ToolContext[None], name: str) -> str:
        word = ledger.mint()
        key = ctx.idempotency_key
        ledger.write("tool", ctx.session_id, ctx.call_id, name=name, word=word, key=key)
        return word

    @tool(effect="once")
    async def pay(ctx: ToolContext[None], at: int) -> str:
        """Pay."""
        word = act(ctx, "pay")
        await asyncio.sleep(_length_s(ctx, at))
        return word

    @tool(effect="once", sequential=True)
    async def sign(ctx: ToolContext[None], at: int) -> str:
        """Sign."""
        word = act(ctx, "sign")
        await asyncio.sleep(_length_s(ctx, at))
        return word

    @tool(effect="keyed")
    async def post(ctx: ToolContext[None], at: int) -> str:
        """Post."""
        word = act(ctx, "post")
        await asyncio.sleep(_length_s(ctx, at))
        return word

    @tool(effect="idempotent")
    def put(ctx: ToolContext[None], at: int) -> str:
        """Put, in a thread."""
        word = act(ctx, "put")
        time.sleep(_length_s(ctx, at))
        return word

    @tool(effect="pure")
    async def look(ctx: ToolContext[None], at: int) -> str:
        """Look."""
        word = act(ctx, "look")
        # A reply that asks for nothing else is not waited for; it has this long to become durable.
        await asyncio.sleep(max(0.03, _length_s(ctx, at)))
        return word

    return [pay, sign, post, put, look]


def _length_s(ctx: ToolContext[None], at: int) -> float:
    """Return how long a body takes: 0 to 120 ms, the same in every life."""
    return (7 * int(ctx.session_id[1:]) + 5 * at) % 13 / 100

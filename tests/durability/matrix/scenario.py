"""One turn that uses every kind of effect and every contract."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from tests.durability.matrix.outside import BACK, Outside
from tests.durability.matrix.steps import ANSWER, AWAY_AT, STEPS, WRONG_SHAPE
from windlass import Agent, Done, Limits, NotDone, Pending, ToolContext, Unknown, tool
from windlass.errors import Unavailable
from windlass.kernel import ModelMessage, ModelReply, ModelRequest, Text, ToolResult, Usage, canonical
from windlass.ports.model import EmitModelEvent
from windlass.ports.tool import Reconciled, Tool
from windlass.testing import calls, say
from windlass.testing.replies import placed

SESSION, TURN, INPUT = "s", "t", "Do it all."
MAIN, ADVISER = "main", "adviser"
# More passes of the loop than a unit waits for company: what was handed over is on disk meanwhile.
_THINKING = 8
_ASKED = ModelRequest(
    model=ADVISER,
    messages=(ModelMessage(role="user", parts=(Text(text="What would you do?"),)),),
)


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
        for _ in range(_THINKING):
            await asyncio.sleep(0)
        if what == str(AWAY_AT) and not outside.ledger.count(BACK):
            await outside.note("away 1")
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


def _tools(outside: Outside) -> list[Tool]:
    async def act(ctx: ToolContext[None], name: str) -> None:
        await outside.note(f"started {name} {ctx.idempotency_key}")
        await outside.passes(f"{name} inside")
        await outside.note(f"acted {name} {ctx.idempotency_key}")
        await outside.passes(f"{name} done")

    @tool(effect="pure")
    async def look(ctx: ToolContext[None]) -> str:
        """Look."""
        await act(ctx, "look")
        return "seen"

    @tool(effect="idempotent")
    async def index(ctx: ToolContext[None]) -> str:
        """Index."""
        await act(ctx, "index")
        return "indexed"

    @tool(effect="once")
    async def send(ctx: ToolContext[None]) -> str:
        """Send."""
        await act(ctx, "send")
        return "sent"

    async def was_transferred(ctx: ToolContext[None], args: Mapping[str, Any]) -> Reconciled:
        await outside.note("reconciled transfer")
        await outside.passes("transfer reconciled")
        has_acted = outside.ledger.count(f"acted transfer {ctx.idempotency_key}") > 0
        return Done("transferred") if has_acted else NotDone()

    @tool(reconcile=was_transferred)
    async def transfer(ctx: ToolContext[None]) -> str:
        """Transfer."""
        await act(ctx, "transfer")
        return "transferred"

    async def was_shipped(ctx: ToolContext[None], args: Mapping[str, Any]) -> Reconciled:
        await outside.note("reconciled parcel")
        await outside.passes("parcel reconciled")
        return Unknown()

    @tool(reconcile=was_shipped)
    async def parcel(ctx: ToolContext[None]) -> str:
        """Ship."""
        await act(ctx, "parcel")
        return "shipped"

    @tool(effect="once", sequential=True)
    async def post_a(ctx: ToolContext[None]) -> str:
        """Post."""
        await act(ctx, "post_a")
        return "posted a"

    @tool(effect="once")
    async def post_b(ctx: ToolContext[None]) -> str:
        """Post."""
        await act(ctx, "post_b")
        return "posted b"

    @tool(effect="pure")
    async def peek(ctx: ToolContext[None]) -> str:
        """Peek."""
        await act(ctx, "peek")
        return "peeked"

    return [look, index, send, transfer, parcel, post_a, post_b, peek, *_talking(outside, act)]


def _talking(outside: Outside, act: Any) -> list[Tool]:
    """Return the tools that need more than their own body: a model, a courier, a person, the session."""

    @tool(effect="idempotent")
    async def consult(ctx: ToolContext[None]) -> str:
        """Consult."""
        reply = await ctx.complete(_ASKED)
        for _ in range(_THINKING):  # long enough for the reply to be kept
            await asyncio.sleep(0)
        await act(ctx, "consult")
        return reply.text

    @tool(effect="once")
    async def order(ctx: ToolContext[None]) -> Pending:
        """Order."""
        await outside.note(f"started order {ctx.idempotency_key}")
        await outside.passes("order inside")
        pending = await ctx.defer()
        await outside.note(f"acted order {ctx.idempotency_key}")
        await outside.passes("order done")
        return pending

    @tool(effect="once", approval="ask")
    async def refund(ctx: ToolContext[None]) -> str:
        """Refund."""
        await act(ctx, "refund")
        return "refunded"

    @tool(effect="idempotent")
    async def ring(ctx: ToolContext[None]) -> str:
        """Ring."""
        assert outside.runtime is not None
        await outside.runtime.session(SESSION).enqueue("And greet Ada.", key="bell")
        await act(ctx, "ring")
        return "rung"

    return [consult, order, refund, ring]


class VaultProvider:
    """Brings the vault's tool once there is something in the index."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside

    async def tools(self, context: Mapping[str, Any]) -> list[Tool]:
        """Look which tools there are."""
        outside = self._outside

        @tool(effect="keyed")
        async def vault(ctx: ToolContext[None]) -> str:
            """Store away."""
            await outside.note(f"started vault {ctx.idempotency_key}")
            await outside.passes("vault inside")
            await outside.note(f"acted vault {ctx.idempotency_key}")
            await outside.passes("vault done")
            return "stored"

        await outside.passes("tools looked up")
        return [vault] if outside.ledger.counts("acted")["index"] else []


def make_agent(outside: Outside) -> tuple[Agent[None, dict[str, str]], Thinker]:
    """Return the agent of one life, and the other model that one of its tools asks."""
    agent = Agent(
        "clerk",
        model=Thinker(outside, MAIN),
        tools=[*_tools(outside), VaultProvider(outside)],
        output_type=dict[str, str],
        limits=Limits(max_iterations=None),
    )
    return agent, Thinker(outside, ADVISER)

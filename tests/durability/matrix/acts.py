"""The tools of the traced turn: what each does is seen outside, and nothing else of it matters."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from tests.durability.matrix.outside import Outside
from tests.durability.matrix.steps import CONTRACTS, SESSION
from windlass import Done, NotDone, Pending, ToolContext, Unknown, tool
from windlass.kernel import ModelMessage, ModelRequest, Text
from windlass.ports.tool import Reconciled, Tool

ADVISER = "adviser"
# More passes of the loop than a unit waits for company: what was handed over is on disk meanwhile.
PAUSE = 8
_ASKED = ModelRequest(
    model=ADVISER,
    messages=(ModelMessage(role="user", parts=(Text(text="What would you do?"),)),),
)


async def act(outside: Outside, ctx: ToolContext[None], name: str) -> None:
    """Act once, with a seam in the middle and one after it."""
    await outside.note(f"started {name} {ctx.idempotency_key}")
    await outside.passes(f"{name} inside")
    await outside.note(f"acted {name} {ctx.idempotency_key}")
    await outside.passes(f"{name} done")


def plain(outside: Outside, name: str, **options: Any) -> Tool:
    """Return a tool that acts and says so."""
    if "reconcile" not in options:
        options["effect"] = CONTRACTS[name]

    @tool(name=name, **options)
    async def body(ctx: ToolContext[None]) -> str:
        """Act."""
        await act(outside, ctx, name)
        return f"{name}: it is done"

    return body


def tools(outside: Outside) -> list[Tool]:
    """Return the tools that the agent always has."""

    async def was_transferred(ctx: ToolContext[None], _args: Mapping[str, Any]) -> Reconciled:
        await outside.note("reconciled transfer")
        await outside.passes("transfer reconciled")
        has_acted = outside.ledger.count(f"acted transfer {ctx.idempotency_key}") > 0
        return Done("transfer: it was done") if has_acted else NotDone()

    async def was_shipped(_ctx: ToolContext[None], _args: Mapping[str, Any]) -> Reconciled:
        await outside.note("reconciled parcel")
        await outside.passes("parcel reconciled")
        return Unknown()

    return [
        *(plain(outside, name) for name in ("look", "index", "send", "post_b", "peek")),
        plain(outside, "transfer", reconcile=was_transferred),
        plain(outside, "parcel", reconcile=was_shipped),
        plain(outside, "post_a", sequential=True),
        plain(outside, "refund", approval="ask"),
        *_with_others(outside),
    ]


def _with_others(outside: Outside) -> list[Tool]:
    """Return the tools that need more than their own body: a model, a courier, the session."""

    @tool(effect="idempotent")
    async def consult(ctx: ToolContext[None]) -> str:
        """Ask another model, then act."""
        reply = await ctx.complete(_ASKED)
        for _ in range(PAUSE):  # long enough for the reply to be kept
            await asyncio.sleep(0)
        await act(outside, ctx, "consult")
        return reply.text

    @tool(effect="once")
    async def order(ctx: ToolContext[None]) -> Pending:
        """Deliver the result, as a courier would."""
        await outside.note(f"started order {ctx.idempotency_key}")
        await outside.passes("order inside")
        pending = await ctx.defer()
        await outside.note(f"acted order {ctx.idempotency_key}")
        await outside.passes("order done")
        return pending

    @tool(effect="idempotent")
    async def ring(ctx: ToolContext[None]) -> str:
        """Act, and have a letter arrive meanwhile."""
        assert outside.runtime is not None
        await outside.runtime.session(SESSION).enqueue("And greet Ada.", key="bell")
        await act(outside, ctx, "ring")
        return "ring: it is done"

    return [consult, order, ring]


class VaultProvider:
    """Brings the vault's tool once there is something in the index."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside

    async def tools(self, context: Mapping[str, Any]) -> list[Tool]:
        """Look which tools there are."""
        outside = self._outside
        await outside.passes("tools looked up")
        has_index = outside.ledger.counts("acted")["index"] > 0
        return [plain(outside, "vault")] if has_index else []

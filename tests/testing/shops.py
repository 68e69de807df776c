"""A shop whose bank outlives every crash, and tools that refund at it, rightly and wrongly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from windlass import Agent, ToolContext, tool
from windlass.kernel import ModelReply
from windlass.testing import Scenario, ScriptedModel, call, say
from windlass.tools.function_tool import FunctionTool


class Bank:
    """Pays back. Knows the keys that it has seen, and notes what happens around it."""

    def __init__(self) -> None:
        self.refunds: list[str] = []
        self.log: list[str] = []
        self._keys: set[str] = set()

    def refund(self, order: str, *, key: str | None = None) -> None:
        if key is not None and key in self._keys:
            return
        self._keys.add(key or "")
        self.refunds.append(order)


@tool(effect="keyed")
async def refund(ctx: ToolContext[Bank], order: str) -> str:
    """Refund an order, once for each key."""
    ctx.deps.refund(order, key=ctx.idempotency_key)
    return f"refunded {order}"


@tool(effect="keyed")
async def careless(ctx: ToolContext[Bank], order: str) -> str:
    """Say that the key is used, and do not use it."""
    ctx.deps.refund(order)
    return f"refunded {order}"


@tool(effect="once")
async def refund_once(ctx: ToolContext[Bank], order: str) -> str:
    """Refund an order, with nothing that tells a repeat from a new call."""
    ctx.deps.refund(order)
    return f"refunded {order}"


@tool(effect="idempotent")
async def two_waits(ctx: ToolContext[Bank], order: str) -> str:
    """Act between two awaits."""
    await asyncio.sleep(0)
    ctx.deps.refund(order)
    await asyncio.sleep(0)
    return f"refunded {order}"


def shop(
    *tools: FunctionTool[Any, ..., Any],
    replies: list[ModelReply] | None = None,
    check: Callable[[Bank, Any], object] | None = None,
    **options: Any,
) -> Callable[[], Scenario]:
    """Return what makes a scenario: the first tool is called once, then the model is done."""
    script = replies or [call(tools[0].name, order="o1"), say("done")]
    judge = check or (lambda bank, _result: bank.refunds == ["o1"])

    def make() -> Scenario:
        bank = Bank()
        given: dict[str, Any] = {
            "agents": lambda: Agent(
                "shop", model=ScriptedModel(script), tools=list(tools), deps_type=Bank
            ),
            "deps": lambda _info: bank,
            "run": lambda rt: rt.session("s").run("Refund o1.", turn_id="t1"),
            "check": lambda result: judge(bank, result),
        }
        return Scenario(**{**given, **options})

    return make

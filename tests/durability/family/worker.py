"""A process that drives a tree of agents until it is killed: `python -m tests.durability.family.worker FILE LEDGER N`.

Each act of a tool is a line of the ledger, with the key of the call, before the tool returns.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from tests.scenarios.family import agent, asks
from windlass import Agent, Runtime, ToolContext, tool
from windlass.testing import call, say

LEASE_S = 1.0
_ACT_S = 0.05


def wide(ledger: Path, n: int) -> Agent[Any, Any]:
    """Return a lead that asks `n` children at once, each of which acts."""

    @tool(effect="keyed")
    async def act(ctx: ToolContext[Any]) -> str:
        """Act, which takes a moment."""
        _write(ledger, ctx.idempotency_key)
        await asyncio.sleep(_ACT_S)
        return "Acted."

    child = agent("child", call("act"), say("Child."), tools=[act])
    return agent("lead", asks(*["child"] * n), say("Done."), tools=[child.as_tool()])


def deep(ledger: Path) -> Agent[Any, Any]:
    """Return a lead over two more levels, the last of which acts once if it is approved."""

    @tool(effect="once", approval="ask")
    async def act(ctx: ToolContext[Any]) -> str:
        """Act."""
        _write(ledger, ctx.idempotency_key)
        return "Acted."

    leaf = agent("leaf", call("act"), say("Leaf."), tools=[act])
    low = agent("low", asks("leaf"), say("Low."), tools=[leaf.as_tool()])
    middle = agent("middle", asks("low"), say("Middle."), tools=[low.as_tool()])
    return agent("lead", asks("middle"), say("Done."), tools=[middle.as_tool()])


def lead_of(ledger: Path, n: int) -> Agent[Any, Any]:
    """Return the agent at the top: over `n` children, or over three levels if that is 0."""
    return wide(ledger, n) if n else deep(ledger)


def _write(ledger: Path, line: str) -> None:
    handle = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, f"{line}\n".encode())
    finally:
        os.close(handle)


async def _work(file: str, lead: Agent[Any, Any]) -> None:
    async with Runtime(lead, store=file, lease_s=LEASE_S, max_turns=8):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_work(sys.argv[1], lead_of(Path(sys.argv[2]), int(sys.argv[3]))))

"""Agents for the tests of `windlass work`: their tools write down when they run, and wait while a file is there."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from windlass import Agent, ToolContext, tool


def _write(name: str, line: str) -> None:
    with Path(name).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


@tool(effect="keyed")
async def load(ctx: ToolContext[None], crate: str) -> str:
    """Load a crate; takes as long as there is a file called hold."""
    _write("loaded.txt", f"{crate} {ctx.attempt} {ctx.idempotency_key}")
    while await asyncio.to_thread(os.path.exists, "hold"):  # noqa: ASYNC110 - another process removes it
        await asyncio.sleep(0.01)
    return f"{crate} is on board"


@tool(effect="once", approval="ask")
async def cast_off(port: str) -> str:
    """Leave a port."""
    _write("cast_off.txt", port)
    return f"left {port}"


@tool(effect="once")
async def doze() -> str:
    """Block the loop, as a careless tool does."""
    _write("dozing.txt", "zzz")
    time.sleep(60)  # noqa: ASYNC251 - that is what is careless about it
    return "awake"


deck = Agent("deck", model="demo", tools=[load, cast_off, doze])
galley = Agent("galley", model="demo")

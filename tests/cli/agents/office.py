"""Agents three levels deep, a process, schedules and a source for the tests of background work on the command line."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from windlass import Agent, ProcessContext, Source, Tick, on, process, schedule, tool


def _write(name: str, line: str) -> None:
    with Path(name).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


@tool(effect="once", approval="ask")
async def pay(to: str) -> str:
    """Pay someone."""
    _write("paid.txt", to)
    return f"paid {to}"


clerk = Agent("clerk", model="demo", tools=[pay])
manager = Agent(
    "manager", model="demo", tools=[clerk.as_tool(name="ask_clerk", description="Ask the clerk.")]
)
boss = Agent(
    "boss",
    model="demo",
    tools=[manager.as_tool(name="ask_manager", description="Ask the manager.")],
)


async def look(at: str) -> str:
    """A step."""
    return f"looked at {at}"


@process
async def rest(ctx: ProcessContext[Any]) -> str:
    """Look at the mail, then sleep for a day."""
    await ctx.emit("stage", "\x1b[31mlooking")
    await ctx.step(look, "the mail", effect="pure")
    await ctx.sleep(timedelta(days=1, minutes=5).total_seconds())
    return "rested"


@process
async def sign(_ctx: ProcessContext[Any], name: str) -> str:
    """End at once."""
    return f"signed by {name}"


@schedule("0 7 * * 1-5", tz="Europe/Berlin")
async def digest(_tick: Tick[Any]) -> str:
    """Run on the mornings of working days."""
    return "sent"


@schedule(every=timedelta(days=30))
async def tidy(_tick: Tick[Any]) -> str:
    """Run now and then."""
    _write("tidied.txt", "tidy")
    return "tidied"


@dataclass
class Order:
    """An event."""

    id: str
    eur: float


orders = Source("orders", Order)


@on(orders)
async def ship(_ctx: ProcessContext[Any], order: Order) -> str:
    """Get every order."""
    _write("shipped.txt", order.id)
    return order.id


@on(orders, where=lambda order: order.eur > 100)
async def review(_ctx: ProcessContext[Any], order: Order) -> str:
    """Get large orders."""
    return order.id

"""The demo's task: a trip, the agent that books it, the files that stand for the world, and one process.

Law 1. Whatever costs or acts is written to a file by the code that does it, before it answers, so that it
    can be counted from outside the process.

Usage: python -m windlass.cli.demo_trip DIR start|resume|approve TOOL, where TOOL is the one to die in, or empty
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import msgspec

from windlass import Agent, Runtime, ToolContext, tool
from windlass.kernel import Json, ModelReply, ModelRequest, canonical
from windlass.models.demo import DemoModel
from windlass.ports.model import EmitModelEvent

QUESTION = "Book 2 nights in Lisbon for at most 300 euros."
SESSION = "traveller"
TURN = "trip"

_HOTELS: dict[str, Json] = {
    "Lisbon": {"hotel": "Casa do Rio", "cents": 11_800},
    "Vienna": {"hotel": "Zum Anker", "cents": 13_100},
}


def address(folder: Path) -> str:
    """Return the store of the turn."""
    return f"sqlite:///{folder / 'trip.db'}"


class World(msgspec.Struct, frozen=True, kw_only=True):
    """Files that stand for the world, each line with the process that wrote it.

    `dies_in` names the tool in which this process is to die: after it acted and before it answered,
    which is the worst moment there is.
    """

    folder: Path
    dies_in: str | None = None

    def write(self, name: str, *words: object) -> None:
        """Add a line to a file and sync it to the disk."""
        with (self.folder / f"{name}.txt").open("a", encoding="utf-8") as file:
            file.write(" ".join(map(str, (os.getpid(), *words))) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def read(self, name: str) -> list[list[str]]:
        """Return the lines of a file, each as its words; the first one is the process."""
        path = self.folder / f"{name}.txt"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [line.split(" ") for line in lines]

    def die_in(self, name: str) -> None:
        """Kill this process, if this is where it is to die."""
        if self.dies_in == name:
            os.kill(os.getpid(), signal.SIGKILL)


class CountedModel:
    """The demo model; every request that reaches it is written down."""

    name = DemoModel.name

    def __init__(self, world: World) -> None:
        self._model = DemoModel()
        self._world = world

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        """Count the request, and ask the model."""
        self._world.write("model", canonical.digest(request))
        return await self._model.complete(request, emit)


@tool(effect="pure")
def look_up(ctx: ToolContext[World], city: str) -> Json:
    """Find a hotel and what a night costs there."""
    ctx.deps.write("tools", "look_up")
    return _HOTELS[city]


@tool(effect="keyed")
def book(ctx: ToolContext[World], hotel: str, nights: int) -> str:
    """Book a hotel. The hotel takes one booking per key, however often it is asked."""
    world = ctx.deps
    world.write("tools", "book", ctx.idempotency_key)
    confirmation = f"{hotel.rsplit(maxsplit=1)[-1].upper()}-{nights}N"
    if all(key != ctx.idempotency_key for _pid, key, _booked in world.read("hotel")):
        world.write("hotel", ctx.idempotency_key, confirmation)
    world.die_in("book")
    return confirmation


@tool(effect="once")
def notify(ctx: ToolContext[World], text: str) -> str:
    """Send the traveller a message. It cannot be taken back, and there is no receipt."""
    ctx.deps.write("tools", "notify")
    ctx.deps.write("messages", *text.split())
    ctx.deps.die_in("notify")
    return "sent"


@tool(effect="once", approval="ask")
def pay(ctx: ToolContext[World], cents: int) -> str:
    """Pay the hotel, after a person has approved it."""
    ctx.deps.write("tools", "pay")
    ctx.deps.write("payments", cents)
    return f"receipt {cents}"


def _runtime(world: World) -> Runtime[str]:
    agent = Agent(
        "traveller",
        model=CountedModel(world),
        instructions="Book what the user asks for, within the budget.",
        tools=[look_up, book, notify, pay],
        deps_type=World,
    )
    return Runtime(agent, store=address(world.folder), deps=lambda _turn: world)


# ---------------------------------------------------------------------- one process


async def start(world: World) -> None:
    """Ask the question, and wait until the turn ends or waits for an approval."""
    async with _runtime(world) as runtime:
        await runtime.session(SESSION).run(QUESTION, turn_id=TURN)


async def resume(world: World) -> None:
    """Ask nothing: opening the file is enough for the turn to continue. Wait as `start` does."""
    async with _runtime(world) as runtime:
        await runtime.turn(SESSION, TURN).result()


async def approve(world: World) -> None:
    """Approve what waits, from a process that has no agent and drives nothing."""
    async with Runtime(store=address(world.folder)) as runtime:
        for wait in await runtime.approvals():
            await runtime.approve(wait.key, by="eva")


_ROLES = {"start": start, "resume": resume, "approve": approve}


if __name__ == "__main__":
    place, role, dies_in = sys.argv[1:]
    asyncio.run(_ROLES[role](World(folder=Path(place), dies_in=dies_in or None)))

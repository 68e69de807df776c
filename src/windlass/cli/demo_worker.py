"""One process of the demo: it starts the turn, or opens the file and goes on, or answers a wait.

Usage: python -m windlass.cli.demo_worker DIR start|go-on|approve [--dies-in TOOL]
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from windlass import Runtime
from windlass.cli import trip


async def start(world: trip.World, store: str) -> None:
    """Ask the question, and wait until the turn is done or waits for somebody."""
    async with Runtime(trip.agent(world), store=store, deps=lambda _turn: world) as runtime:
        await runtime.session(trip.SESSION).run(trip.QUESTION, turn_id=trip.TURN)


async def go_on(world: trip.World, store: str) -> None:
    """Ask nothing: to open the file is enough for the turn to go on. Wait as `start` does."""
    async with Runtime(trip.agent(world), store=store, deps=lambda _turn: world) as runtime:
        await runtime.turn(trip.SESSION, trip.TURN).result()


async def approve(_world: trip.World, store: str) -> None:
    """Say yes to what waits, from a process that has no agent and drives nothing."""
    async with Runtime(store=store) as runtime:
        for wait in await runtime.approvals():
            await runtime.approve(wait.key, by="eva")


_ROLES = {"start": start, "go-on": go_on, "approve": approve}


def main() -> int:
    """Play one role."""
    parser = argparse.ArgumentParser(prog="python -m windlass.cli.demo_worker")
    parser.add_argument("folder", type=Path)
    parser.add_argument("role", choices=_ROLES)
    parser.add_argument("--dies-in", choices=trip.TOOLS)
    options = parser.parse_args()
    world = trip.World(folder=options.folder, dies_in=options.dies_in)
    asyncio.run(_ROLES[options.role](world, trip.address(options.folder)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""A worker with a schedule of every second and a subscriber, as a real process; run with `python -m`, with the folder.

Each run and each delivery is a line in a file beside the store, synced: what was done is counted outside of the store.
"""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from windlass import ProcessContext, Runtime, Schedule, Source, Tick, on, schedule
from windlass.api.trigger import Subscription


def done(folder: Path) -> list[str]:
    """Return what was done, in all lives of all workers."""
    file = folder / "done"
    return file.read_text().splitlines() if file.exists() else []


def note(folder: str, what: str) -> None:
    """Write down what is done, once the disk has it."""
    with (Path(folder) / "done").open("a") as file:
        file.write(f"{what}\n")
        file.flush()
        os.fsync(file.fileno())


def work(folder: Path) -> tuple[Schedule, Subscription]:
    """Return the schedule and the subscriber."""
    place = str(folder)

    @schedule(every=timedelta(seconds=1), missed="all")
    async def second(ctx: Tick[Any]) -> None:
        await ctx.step(note, place, f"tick {int(ctx.due.timestamp())}")

    @on(Source("events", order_by="key"))
    async def handle(ctx: ProcessContext[Any], event: dict[str, Any]) -> None:
        await ctx.step(note, place, f"event {event['key']} {event['number']}")

    return second, handle


async def main(folder: Path) -> None:
    """Drive both until it is killed."""
    second, handle = work(folder)
    store = f"sqlite:///{folder / 'w.db'}"
    async with Runtime(
        store=store, schedules=[second], triggers=[handle], lease_s=1, durability="process"
    ):
        print("open", flush=True)  # noqa: T201 - read by the test
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))

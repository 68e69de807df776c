"""Lanes on a real file, a store that remembers, and a lock that somebody else holds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import msgspec

from tests.runtime import turns
from tests.runtime.turns import GENERATION, begin, intent, reply
from tests.unit_shortcuts import UnitShortcuts
from windlass.journal import Claimed
from windlass.ports import Store, Ticket, Unit, UnitReceipt, Wait, WaitAnswer
from windlass.runtime.lane import Lane, Submits
from windlass.stores.sqlite import SqliteStore

PASSES = 8
"""More than a lane's patience, few enough to be nothing."""


class Recording:
    """A store that remembers what it was handed."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self.units: list[Unit] = []
        self.tickets: list[Ticket[UnitReceipt]] = []

    def submit(
        self, unit: Unit, *, after: Ticket[UnitReceipt] | None = None
    ) -> Ticket[UnitReceipt]:
        self.units.append(unit)
        self.tickets.append(self.store.submit(unit, after=after))
        return self.tickets[-1]


async def passes(n: int = PASSES) -> None:
    for _ in range(n):
        await asyncio.sleep(0)


@contextmanager
def write_lock(path: Path) -> Iterator[None]:
    """Hold the file's write lock on another connection."""
    db = apsw.Connection(str(path))
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        db.execute("ROLLBACK")
        db.close()


def lane_of(store: Submits, session_id: str, **more: Any) -> Lane:
    return Lane(store, session_id, "t1", generation=GENERATION, **more)


def pages_on_disk(path: Path) -> int:
    """Return how many journal pages another connection sees."""
    return sum(strand > 0 for _, _, strand, *_ in turns.dump(path)["log"])  # type: ignore[operator]  # an integer


def wait_of(session_id: str, key: str) -> Wait:
    return Wait(key=key, kind="approval", session_id=session_id, turn_id="t1")


async def refused_lane(store: SqliteStore, **more: Any) -> Lane:
    """Return a lane that has just handed in something the store refuses."""
    worker = await store.join(until_ms=turns.UNTIL_MS, now_ms=0)
    await begin(store, "a", worker)
    await rejected_wait(store, "a")
    lane = lane_of(store, "a", **more)
    lane.add(reply("a", 0))
    await lane.durable()
    lane.add(reply("a", 1, text="another"))
    lane.add(refused_claim("a"))
    return lane


async def rejected_wait(store: Store, session_id: str) -> None:
    """Let a turn have an approval that was rejected: it allows no call."""
    wait = wait_of(session_id, f"no_{session_id}")
    await UnitShortcuts(store).open_wait(session_id, "t1", wait, generation=GENERATION)
    await store.resolve_wait(wait.key, WaitAnswer(status="rejected"))


def refused_claim(session_id: str) -> Claimed:
    """Return a claim that uses up the rejected approval: a store refuses it."""
    return msgspec.structs.replace(intent(session_id, 1), consumes=f"no_{session_id}")

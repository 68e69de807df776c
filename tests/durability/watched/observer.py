"""An observer that writes down each event it gets, and dies where it is told to."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from tests.durability.soak.ledger import Ledger
from tests.durability.watched.clerk import SESSION
from tests.durability.watched.seam_store import die
from windlass import Runtime
from windlass.kernel import Event, Retracted

Place: TypeAlias = Literal["elsewhere", "driver"]


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """How long an observer lives, and where: in a process of its own, or in the one that drives.

    dies_at: at which event, counted from 1; 0 lives on.
    counts: which events are counted.
    is_noted: whether the event is in the ledger when the process dies.
    is_restless: it leaves behind each event, and goes on by its cursor in the same process.
    """

    place: Place = "elsewhere"
    dies_at: int = 0
    counts: Literal["facts", "events"] = "facts"
    is_noted: bool = True
    is_restless: bool = False


def ledger_of(folder: Path) -> Ledger:
    """Return the ledger of a round."""
    return Ledger(folder / "ledger")


def file_of(folder: Path) -> Path:
    """Return the store's file of a round."""
    return folder / "watched.db"


def last_cursor(ledger: Ledger) -> str | None:
    """Return where the observers so far have come to."""
    lines = ledger.lines("watches", "event")
    return lines[-1].said["cursor"] if lines else None


def told(event: Event) -> str:
    """Return all that a fact says, but for the cursor that it came with."""
    return msgspec.json.encode(msgspec.structs.replace(event, cursor="")).decode()


async def observe(
    runtime: Runtime[Any], ledger: Ledger, watch: Watch, has_begun: asyncio.Event
) -> None:
    """Go on where the last observer was, until the end of the process."""
    seen = 0
    while True:
        async with runtime.session(SESSION).observe(last_cursor(ledger)) as observation:
            cursor, has_gap = observation.cursor, observation.has_gap
            ledger.write("watches", place=watch.place, cursor=cursor, has_gap=has_gap)
            has_begun.set()
            async for event in observation:
                seen += watch.counts == "events" or not event.preview
                is_last = 0 < seen == watch.dies_at
                if is_last and not watch.is_noted:
                    die(ledger, f"event {seen}")
                _note(ledger, event)
                if is_last:
                    die(ledger, f"event {seen}")
                if watch.is_restless:
                    break


def _note(ledger: Ledger, event: Event) -> None:
    ledger.write(
        "event",
        type=type(event).__name__,
        id=event.id,
        about=event.correlation_id,
        preview=event.preview,
        cursor=event.cursor,
        text=getattr(event, "text", ""),
        retracts=event.correlation_ids if isinstance(event, Retracted) else (),
        told="" if event.preview else told(event),
    )

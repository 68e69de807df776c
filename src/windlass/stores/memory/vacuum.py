"""Vacuum: journals of turns that ended long ago, and bytes that nothing refers to."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.ports import VacuumReport
from windlass.ports.inbox import blobs_in
from windlass.stores.memory.rows import ItemRow, SessionRow, Tables, TurnRow
from windlass.stores.memory.workers import Workers

# Somebody may have put bytes and not yet handed in the unit that refers to them.
BLOB_GRACE_MS = 24 * 60 * 60 * 1000


def vacuum(tables: Tables, workers: Workers, *, now_ms: int, retention_ms: int) -> VacuumReport:
    """Reclaim what nobody can ask for any more."""
    before_ms = now_ms - retention_ms
    journals = waits = items = 0
    for session in tables.live_sessions():
        items += _drop_items(session, before_ms)
        for turn in session.turns.values():
            if turn.state == "done" and turn.committed_ms < before_ms and turn.request is not None:
                waits += _drop_journal(tables, turn)
                journals += 1
    return VacuumReport(
        journals=journals,
        waits=waits,
        items=items,
        bodies=_drop_blobs(tables, now_ms - BLOB_GRACE_MS),
        workers=_drop_workers(tables, workers),
    )


def _drop_journal(tables: Tables, turn: TurnRow) -> int:
    n_waits = len(turn.waits)
    for key in turn.waits:
        del tables.waits[key]
    turn.waits.clear()
    turn.pages.clear()
    turn.blobs.clear()
    turn.request = None
    return n_waits


def _drop_items(session: SessionRow, before_ms: int) -> int:
    ended = [name for name, row in session.items.items() if _has_ended(session, row, before_ms)]
    for name in ended:
        del session.items[name]
    return len(ended)


def _has_ended(session: SessionRow, row: ItemRow, before_ms: int) -> bool:
    if row.state == "withdrawn":
        return row.enqueued_ms < before_ms
    if row.state != "settled" or row.turn_id is None:
        return False
    return session.turns[row.turn_id].committed_ms < before_ms


def _drop_blobs(tables: Tables, before_ms: int) -> int:
    referred = set(references(tables))
    unused = [
        digest
        for digest, blob in tables.blobs.items()
        if digest not in referred and blob.put_ms < before_ms
    ]
    for digest in unused:
        del tables.blobs[digest]
    return len(unused)


def _drop_workers(tables: Tables, workers: Workers) -> int:
    dead = workers.drop_dead()
    for session in tables.live_sessions():
        if session.owner in dead:
            session.owner = None
    return len(dead)


def references(tables: Tables) -> Iterator[str]:
    """Return the digests that journals, history and what waits in an inbox refer to."""
    for session in tables.sessions.values():
        for turn in session.turns.values():
            yield from turn.blobs
        for page in session.pages:
            yield from page.blobs
        for row in session.items.values():
            if row.state in ("pending", "taken"):
                yield from blobs_in(row.item.content)

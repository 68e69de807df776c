"""What goes, and when. The table at the head of schema.py says who owns each row.

A row goes in the transaction that takes its owner away; time may delay it, never cause it alone. Nothing is
removed because a listing failed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

import apsw

from windlass.ports.unit import SessionKind
from windlass.ports.views import DeleteReport, VacuumReport
from windlass.stores import rules
from windlass.stores.sqlite import connection, inbox, leases, news
from windlass.stores.sqlite.blobs import DAY_MS
from windlass.stores.sqlite.connection import first, select
from windlass.stores.sqlite.leases import Liveness
from windlass.stores.sqlite.pages import Deleted, delete_pages
from windlass.stores.sqlite.rows import IS_UNFINISHED, Rows, SessionRow
from windlass.stores.sqlite.writer import Operation

_UNFINISHED = f"SELECT 1 FROM sessions WHERE no = ? AND {IS_UNFINISHED}"  # noqa: S608 - a constant


# How many journals are reclaimed, and how many sessions deleted, before others may write.
_JOURNALS, _SESSIONS = 100, 20
F = TypeVar("F")


class Reclaimed(NamedTuple):
    """A report, and the blobs whose files may go now that no row names them."""

    report: DeleteReport | VacuumReport
    blobs: tuple[str, ...]
    workers: tuple[str, ...] = ()


def delete_session(rows: Rows, session_id: str, now_ms: int) -> Reclaimed:
    """Remove what a session and those that it began hold; their ids stay as tombstones."""
    earlier: Reclaimed | None = rows.earlier
    known = rows.find_session(session_id)
    if earlier is not None and known is not None and known.deleted_ms == now_ms:
        return earlier
    tree = rules.tree_of(rows.session(session_id), partial(_started, rows))
    for session in tree:
        if first(rows.db, _UNFINISHED, (session.no,)) is not None:
            raise rules.has_unfinished_turn(session)
    gone = _remove_all(rows, tree, now_ms)
    report = DeleteReport(session_id=session_id, pages=gone.pages, bodies=gone.bodies)
    return Reclaimed(report, gone.blobs)


def _remove_all(rows: Rows, sessions: Sequence[SessionRow], now_ms: int) -> Deleted:
    gone = [_remove(rows, session, now_ms) for session in sessions]
    rows.forget()
    pages, bodies = sum(one.pages for one in gone), sum(one.bodies for one in gone)
    return Deleted(pages, bodies, tuple(digest for one in gone for digest in one.blobs))


def _started(rows: Rows, session: SessionRow) -> list[SessionRow]:
    found = select(rows.db, "SELECT id FROM sessions WHERE started_by = ?", (session.no,))
    started = (rows.find_session(session_id) for (session_id,) in found)
    return [one for one in started if one is not None]


def _remove(rows: Rows, session: SessionRow, now_ms: int) -> Deleted:
    """Remove what one session holds."""
    for table in ("turns", "waits", "inbox"):
        rows.db.execute(f"DELETE FROM {table} WHERE session = ?", (session.no,))  # noqa: S608 - constants
    rows.db.execute(
        "UPDATE sessions SET deleted_ms = ?, owner = NULL, active = NULL, usage = NULL WHERE no = ?",
        (now_ms, session.no),
    )
    pages, bodies, blobs = 0, 0, list[str]()
    for number in _lineage(rows, session.no):
        gone = delete_pages(
            rows.db,
            "session = ? AND (strand <> 0 OR seq > ?)",
            (number, _shared_head(rows, number)),
            with_blobs=True,
        )
        pages, bodies = pages + gone.pages, bodies + gone.bodies
        blobs.extend(gone.blobs)
    news.tell(rows.db, "deleted", session=session.no)
    return Deleted(pages, bodies, tuple(blobs))


_OLD_SESSION = (
    "SELECT id FROM sessions WHERE kind = :kind AND kind <> 'chat' AND deleted_ms IS NULL{where}"  # noqa: S608 - constants
    f" AND NOT {IS_UNFINISHED}"
    " AND NOT EXISTS (SELECT 1 FROM turns WHERE session = sessions.no AND ended_ms >= :before)"
    f" AND NOT EXISTS (SELECT 1 FROM inbox WHERE session = sessions.no AND {inbox.ENTERS})"
    " AND NOT EXISTS (SELECT 1 FROM sessions AS below WHERE below.started_by = sessions.no"
    "  AND below.kind <> 'chat' AND below.deleted_ms IS NULL)"
    " AND (kind <> 'child' OR started_in IS NULL OR NOT EXISTS (SELECT 1 FROM log"
    "  WHERE session = sessions.started_by AND strand = -sessions.started_in))"
)


def find_old_sessions(
    rows: Rows, keep_ms: Mapping[SessionKind, int], now_ms: int
) -> tuple[tuple[str, SessionKind], ...]:
    """Find sessions that ended longer ago than their kind is kept, and have nothing but chats below them.

    It may take long, so it is for a reader. Each is looked at again before it goes.
    """
    return tuple(
        (session_id, kind)
        for kind, kept_ms in keep_ms.items()
        for (session_id,) in select(
            rows.db, _OLD_SESSION.format(where=""), {"kind": kind, "before": now_ms - kept_ms}
        )
    )


def delete_old(
    rows: Rows,
    found: Sequence[tuple[str, SessionKind]],
    keep_ms: Mapping[SessionKind, int],
    now_ms: int,
) -> Reclaimed:
    """Delete those of these sessions that are still old."""
    query = _OLD_SESSION.format(where=" AND id = :id")
    still = [
        rows.session(session_id)
        for session_id, kind in found
        if select(
            rows.db, query, {"kind": kind, "before": now_ms - keep_ms[kind], "id": session_id}
        )
    ]
    gone = _remove_all(rows, still, now_ms)
    return Reclaimed(VacuumReport(sessions=len(still), bodies=gone.bodies), gone.blobs)


class Times(NamedTuple):
    """The time, how long journals are kept, and how long sessions are, by kind."""

    now_ms: int
    retention_ms: int
    keep_ms: Mapping[SessionKind, int]


async def reclaim_in_steps(
    look: Callable[..., Awaitable[Any]],
    do: Callable[..., Operation[Any]],
    times: Times,
    gone: Liveness,
) -> Reclaimed:
    """Reclaim all that there is, some of it in each transaction: others may write in between."""
    now_ms, retention_ms, keep_ms = times
    old: Old = await look(find_old, now_ms, retention_ms)
    steps: list[Reclaimed] = []
    for some in _batches(old.turns, _JOURNALS):
        report = await do(reclaim_journals, some, now_ms - retention_ms).durable()
        steps.append(Reclaimed(report, ()))
    is_found = bool(keep_ms)
    while is_found:
        found = await look(find_old_sessions, keep_ms, now_ms)
        deleted = [
            await do(delete_old, some, keep_ms, now_ms).durable()
            for some in _batches(found, _SESSIONS)
        ]
        steps += deleted
        # What began those that are gone now may go next.
        is_found = any(step.report.sessions for step in deleted)
    last: Reclaimed = await do(reclaim_rest, old.blobs, now_ms, retention_ms, gone).durable()
    steps.append(last)
    report = summed([cast("VacuumReport", step.report) for step in steps])
    return Reclaimed(report, tuple(one for step in steps for one in step.blobs), last.workers)


def _batches(found: Sequence[F], size: int) -> Iterator[Sequence[F]]:
    return (found[at : at + size] for at in range(0, len(found), size))


class Old(NamedTuple):
    """What vacuum found beside the writer, by number. Each is looked at again before it goes."""

    turns: tuple[int, ...]
    blobs: tuple[int, ...]


_OLD_TURN = (
    "state = 'done' AND ended_ms < ?"
    " AND EXISTS (SELECT 1 FROM log WHERE log.session = turns.session AND log.strand = -turns.no)"
)
_UNUSED_BLOB = (
    "is_blob = 1 AND kept_ms < ? AND NOT EXISTS (SELECT 1 FROM uses WHERE body = bodies.no)"
)


_HAS_OPEN_WAIT = "EXISTS (SELECT 1 FROM waits WHERE waits.turn = turns.no AND waits.state = 'open')"
_FOR_NOTHING = (
    "SELECT sessions.id || '/' || turns.id FROM turns JOIN sessions ON sessions.no = turns.session"  # noqa: S608 - constants
    f" WHERE state = 'parked' AND NOT {_HAS_OPEN_WAIT} ORDER BY turns.no"
)


def find_old(rows: Rows, now_ms: int, retention_ms: int) -> Old:
    """Find journals that ended longer ago than the retention, and blobs that nothing refers to.

    It may take long, so it is for a reader: the writer would keep everybody waiting.
    """
    turns = select(rows.db, f"SELECT no FROM turns WHERE {_OLD_TURN}", (now_ms - retention_ms,))  # noqa: S608 - constants
    blobs = select(rows.db, f"SELECT no FROM bodies WHERE {_UNUSED_BLOB}", (now_ms - DAY_MS,))  # noqa: S608 - constants
    return Old(tuple(no for (no,) in turns), tuple(no for (no,) in blobs))


def reclaim_journals(rows: Rows, turns: Sequence[int], before_ms: int) -> VacuumReport:
    """Reclaim the journals of these turns, as far as they are still old."""
    journals = bodies = waits = 0
    for number in turns:
        query = f"SELECT session, strand FROM turns WHERE no = ? AND {_OLD_TURN}"  # noqa: S608 - constants
        found = first(rows.db, query, (number, before_ms))
        if found is None:
            continue
        session, strand = found
        place = (session, strand, -number)
        where = "session = ? AND strand IN (?, ?)"
        journals += 1
        bodies += delete_pages(rows.db, where, place, with_blobs=False).bodies
        rows.db.execute("DELETE FROM waits WHERE turn = ?", (number,))
        waits += rows.db.changes()
    rows.forget()
    return VacuumReport(journals=journals, bodies=bodies, waits=waits)


def reclaim_rest(
    rows: Rows, unused: Sequence[int], now_ms: int, retention_ms: int, gone: Liveness
) -> Reclaimed:
    """Reclaim what is neither a journal nor waits for one: items, blobs, workers, news."""
    # A signal is settled while its turn goes on. As any item, it is known until the turn has ended, and as long after.
    rows.db.execute(
        "DELETE FROM inbox WHERE state IN ('settled', 'withdrawn') AND CASE WHEN turn IS NULL THEN ended_ms"
        " ELSE (SELECT turns.ended_ms FROM turns WHERE turns.no = inbox.turn) END < ?",
        (now_ms - retention_ms,),
    )
    items = rows.db.changes()
    awaited = inbox.awaited_blobs(rows) if unused else frozenset()
    blobs = list[str]()
    for number in unused:
        query = f"SELECT digest FROM bodies WHERE no = ? AND {_UNUSED_BLOB}"  # noqa: S608 - constants
        found = first(rows.db, query, (number, now_ms - DAY_MS))
        if found is not None and found[0].hex() not in awaited:
            rows.db.execute("DELETE FROM bodies WHERE no = ?", (number,))
            blobs.append(found[0].hex())
    workers = _forget_workers(rows, gone)
    news.reclaim(rows.db)
    reopened = _reopen(rows)
    rows.forget()
    report = VacuumReport(items=items, bodies=len(blobs), workers=len(workers), reopened=reopened)
    return Reclaimed(report, tuple(blobs), workers)


def summed(reports: Sequence[VacuumReport]) -> VacuumReport:
    """Return what several steps reclaimed together."""
    fields = VacuumReport.__struct_fields__
    return VacuumReport(**{name: sum(getattr(one, name) for one in reports) for name in fields})


def parked_for_nothing(db: apsw.Connection) -> list[str]:
    """Return the turns that are parked and wait for nothing, as session/turn."""
    return [name for (name,) in select(db, _FOR_NOTHING)]


def _reopen(rows: Rows) -> int:
    """Make parked turns due that wait for nothing: their wait was lost, and their journal opens it anew.

    No turn of ours parks like that. To look for one costs a look at every parked turn, so it is not done for `due`.
    """
    rows.db.execute(
        f"UPDATE turns SET state = 'ready', answered = 1 WHERE state = 'parked' AND NOT {_HAS_OPEN_WAIT}"  # noqa: S608 - constants
    )
    return rows.db.changes()


def _forget_workers(rows: Rows, gone: Liveness) -> tuple[str, ...]:
    known = [worker for (worker,) in select(rows.db, "SELECT id FROM workers ORDER BY no")]
    dead = tuple(worker for worker in known if gone(worker))
    for worker in dead:
        leases.leave(rows, worker)
    return dead


def _lineage(rows: Rows, number: int) -> list[int]:
    """Return a session and those above it that are deleted: with it, their last reader may go."""
    found = [number]
    query = "SELECT no FROM sessions WHERE no = (SELECT parent FROM sessions WHERE no = ?) AND deleted_ms IS NOT NULL"
    while (above := first(rows.db, query, (found[-1],))) is not None:
        found.append(above[0])
    return found


def _shared_head(rows: Rows, number: int) -> int:
    """Return up to which page of a deleted session's history some living fork still reads."""
    needed = 0
    forks = select(
        rows.db, "SELECT no, parent_head, deleted_ms FROM sessions WHERE parent = ?", (number,)
    )
    for fork, parent_head, deleted_ms in forks:
        alive = parent_head if deleted_ms is None else min(parent_head, _shared_head(rows, fork))
        needed = max(needed, alive)
    return needed


# ---------------------------------------------------------------------- space on the disk


def give_back(connect: Callable[[], apsw.Connection], place: str, *, is_wanted: bool) -> int:
    """Compact the file if that is wanted or costs little; return how many bytes it is shorter."""
    try:
        with closing(connect()) as db:
            if not is_wanted and not connection.is_mostly_free(db):
                return 0
            freed = connection.compact(db)
            connection.scrub_log(db)
            return freed
    except (apsw.Error, OSError) as error:
        if not is_wanted:
            return 0  # the disk has no room for a copy, or another process writes: next time
        raise connection.as_windlass_error(error, place=place) from error


def scrub(connect: Callable[[], apsw.Connection]) -> None:
    """Empty the log. Best effort: while a reader is at work, the log keeps what it may still want to see."""
    with suppress(apsw.Error, OSError), closing(connect()) as db:
        connection.scrub_log(db)

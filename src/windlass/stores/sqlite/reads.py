"""Reading: whole views, each from one moment of the file, on connections that cannot write; and what is due.

What is due is asked for every moment, mostly when nothing is, so each query reads an index of what is unfinished; the
plus signs keep SQLite from walking the whole table in order of its numbers instead.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import Any, Literal, TypeAlias, TypeVar

import apsw

from windlass.journal import HistoryPage, JournalPage, check_link, strand_seed
from windlass.ports.unit import TurnRequest
from windlass.ports.views import (
    Due,
    DueCancel,
    DueInbox,
    DueTurn,
    DueWait,
    InboxView,
    SessionSummary,
    SessionView,
    TurnView,
)
from windlass.stores import facts
from windlass.stores.rules import WHY_DUE
from windlass.stores.sqlite import inbox, waits
from windlass.stores.sqlite.connection import (
    FileIdentity,
    as_windlass_error,
    corrupt,
    first,
    select,
)
from windlass.stores.sqlite.history import lineage, load_frame, load_history, load_page
from windlass.stores.sqlite.leases import Liveness
from windlass.stores.sqlite.pages import RequestPage, read_page
from windlass.stores.sqlite.rows import (
    Rows,
    SessionRow,
    TurnRow,
    check_state,
    load_pages,
    read_usage,
)

Wanted: TypeAlias = Literal["whole", "frame", "none"]
"""How much of a session's history is to be read."""

# How many turns of history may be read while the event loop waits.
_SHORT = 4


def glance_at_session(rows: Rows, session_id: str, wanted: Wanted) -> SessionView | None:
    """Return a session that is read in no time; None if its history wants a thread of its own."""
    session = rows.session(session_id)
    if wanted != "none" and session.head > _SHORT:
        return None
    return load_session(rows, session_id, wanted)


def load_session(rows: Rows, session_id: str, wanted: Wanted) -> SessionView:
    """Return a session with as much of its history as is wanted."""
    session = rows.session(session_id)
    pages: list[HistoryPage] = []
    if wanted != "none":
        pages = (load_frame if wanted == "frame" else load_history)(rows.db, session)
    return facts.session_view(
        session,
        pages,
        active=_active(rows.db, session),
        queued=_queued(rows.db, session),
        usage=read_usage(session),
        parent=_parent(rows.db, session),
        started_by=_name(rows.db, session, session.started_by),
        root=_name(rows.db, session, session.root),
    )


def _name(db: apsw.Connection, session: SessionRow, number: int | None) -> str | None:
    """Return the id of another session of a session's tree."""
    if number is None:
        return None
    found = first(db, "SELECT id FROM sessions WHERE no = ?", (number,))
    if found is None:
        raise corrupt(f"session {session.id}", "a session of its tree is missing")
    return str(found[0])


def _parent(db: apsw.Connection, session: SessionRow) -> str | None:
    if session.parent is None:
        return None
    *_, parent, _ = lineage(db, session)
    return parent.session_id


def _active(db: apsw.Connection, session: SessionRow) -> str | None:
    if session.active is None:
        return None
    query = "SELECT id FROM turns WHERE no = ? AND session = ?"
    found = first(db, query, (session.active, session.no))
    if found is None:
        raise corrupt(f"session {session.id}", "the turn that it is at is missing")
    return str(found[0])


def _queued(db: apsw.Connection, session: SessionRow) -> tuple[str, ...]:
    # That they are not done follows; it is said to have them from the index of those.
    query = (
        "SELECT id FROM turns WHERE session = ? AND state <> 'done' AND state = 'queued'"
        " ORDER BY arrived"
    )
    return tuple(turn_id for (turn_id,) in select(db, query, (session.no,)))


def load_turn(rows: Rows, session_id: str, turn_id: str) -> TurnView | None:
    """Return a turn, with its journal while that is kept; None if there is none of this id."""
    if rows.find_session(session_id) is None:
        return None
    session = rows.session(session_id)
    turn = rows.find_turn(session, turn_id)
    if turn is None:
        return None
    end = _end(rows.db, turn) if turn.state == "done" else None
    pages: list[JournalPage] = []
    if turn.strand is not None:
        pages, _ = load_pages(rows.db, turn)
    request = _request(rows.db, turn)
    if request is not None:  # else the journal was reclaimed with it
        _check_length(turn, len(pages))
    found = waits.of_turn(rows.db, turn)
    return facts.turn_view(turn, request=request, pages=pages, waits=found, end=end)


def _request(db: apsw.Connection, turn: TurnRow) -> TurnRequest | None:
    query = "SELECT link, page FROM log WHERE session = ? AND strand = ? AND seq = 0"
    found = first(db, query, (turn.session.no, -turn.no))
    place = f"request of {turn.session.id}/{turn.id}"
    if found is None:
        if turn.state != "done":
            raise corrupt(place, "is missing")
        return None
    link, data = found
    check_link(strand_seed(turn.session.id, f"{turn.id}/request"), data, link, place=place)
    return read_page(db, data, RequestPage, place=place).request


def _check_length(turn: TurnRow, pages: int) -> None:
    if turn.ended_pages not in (None, pages):
        place = f"journal of {turn.session.id}/{turn.id}"
        ended = turn.ended_pages
        raise corrupt(place, f"has {pages} pages, it ended with {ended}", found=pages, wanted=ended)


def _end(db: apsw.Connection, turn: TurnRow) -> HistoryPage:
    page = load_page(db, turn.session, turn.head)
    if page.turn_id != turn.id:
        place = f"end of {turn.session.id}/{turn.id}"
        raise corrupt(place, "the page there is of another turn")
    return page


def list_sessions(rows: Rows, after: str, limit: int) -> tuple[SessionSummary, ...]:
    """Return living sessions by id."""
    found = select(
        rows.db,
        "SELECT sessions.id, sessions.agent, sessions.created_ms, sessions.head, turns.id, sessions.kind, starter.id"
        " FROM sessions LEFT JOIN turns ON turns.no = sessions.active"
        " LEFT JOIN sessions AS starter ON starter.no = sessions.started_by"
        " WHERE sessions.id > ? AND sessions.deleted_ms IS NULL ORDER BY sessions.id LIMIT ?",
        (after, limit),
    )
    return tuple(
        SessionSummary(
            session_id=id_,
            agent=agent,
            created_ms=created,
            head=head,
            active=active,
            kind=kind,
            started_by=starter,
        )
        for id_, agent, created, head, active, kind, starter in found
    )


def load_inbox(rows: Rows, session_id: str) -> InboxView:
    """Return what waits to enter a session."""
    session = rows.session(session_id)
    return InboxView(queued_turns=_queued(rows.db, session), items=inbox.read_items(rows, session))


_TURNS = (
    "SELECT sessions.id, turns.id, turns.agent, turns.state, sessions.active, owner, until_ms FROM turns"
    " JOIN sessions ON sessions.no = turns.session LEFT JOIN workers ON workers.id = owner"
    " WHERE state <> 'done' AND state <> 'parked' ORDER BY +turns.no"
)
_CANCELS = (
    "SELECT sessions.id, turns.id, turns.agent, owner FROM turns"
    " JOIN sessions ON sessions.no = turns.session"
    " WHERE state = 'running' AND cancel IS NOT NULL ORDER BY +turns.no"
)
# That it waits says that it is one of both; it is said to have them from the index of those. Nothing enters a parked
# turn: what waits there is due when the turn goes on.
_INBOXES = (
    "SELECT sessions.id, sessions.agent, turns.id, is_now, oldest FROM"
    " (SELECT session, min(no) AS oldest, max(due = 'now') AS is_now FROM inbox"
    "  WHERE state IN ('pending', 'taken') AND state = 'pending' GROUP BY session) AS waiting"
    " JOIN sessions ON sessions.no = waiting.session LEFT JOIN turns ON turns.no = sessions.active"
    " WHERE turns.state IS NOT 'parked' ORDER BY oldest"
)
_WAITS = (
    "SELECT key, waits.kind, sessions.id, turns.id, expires_ms FROM waits"
    " JOIN sessions ON sessions.no = waits.session JOIN turns ON turns.no = waits.turn"
    " WHERE waits.state = 'open' AND expires_ms <= ? ORDER BY expires_ms, waits.no LIMIT ?"
)


def due(rows: Rows, now_ms: int, agents: Collection[str] | None, limit: int, gone: Liveness) -> Due:
    """Return what there is to do."""
    return Due(
        turns=_due_turns(rows, now_ms, agents, limit, gone),
        waits=_due_waits(rows, now_ms, limit),
        cancels=_due_cancels(rows, agents, limit),
        inboxes=_due_inboxes(rows, agents, limit),
    )


def _due_turns(
    rows: Rows, now_ms: int, agents: Collection[str] | None, limit: int, gone: Liveness
) -> tuple[DueTurn, ...]:
    turns: list[DueTurn] = []
    waiting: set[str] = set()
    is_dead = cache(gone)

    def is_free(owner: str | None, until_ms: int | None) -> bool:
        return owner is None or until_ms is None or until_ms <= now_ms or is_dead(owner)

    for session_id, turn_id, agent, state, active, owner, until_ms in select(rows.db, _TURNS):
        check_state(state, place=f"turn {session_id}/{turn_id}")
        why = WHY_DUE[state]
        is_behind = state == "queued" and (active is not None or session_id in waiting)
        waiting.add(session_id)
        if is_behind or (agents is not None and agent not in agents):
            continue
        if why == "queued" or is_free(owner, until_ms):
            turn = DueTurn(
                session_id=session_id,
                turn_id=turn_id,
                agent=agent,
                why=why,
                owner=owner,
            )
            turns.append(turn)
        if len(turns) == limit:
            break
    return tuple(turns)


def _due_cancels(rows: Rows, agents: Collection[str] | None, limit: int) -> tuple[DueCancel, ...]:
    cancels = [
        DueCancel(session_id=session_id, turn_id=turn_id, agent=agent, owner=owner)
        for session_id, turn_id, agent, owner in select(rows.db, _CANCELS)
        if agents is None or agent in agents
    ]
    return tuple(cancels[:limit])


def _due_inboxes(rows: Rows, agents: Collection[str] | None, limit: int) -> tuple[DueInbox, ...]:
    found = select(rows.db, _INBOXES)
    wanted = [row for row in found if agents is None or row[1] in agents]
    return tuple(
        DueInbox(
            session_id=session_id,
            agent=agent,
            active=active,
            now=bool(is_now),
            first=inbox.read_first(rows, session_id, oldest),
        )
        for session_id, agent, active, is_now, oldest in wanted[:limit]
    )


def _due_waits(rows: Rows, now_ms: int, limit: int) -> tuple[DueWait, ...]:
    return tuple(
        DueWait(key=key, kind=kind, session_id=session_id, turn_id=turn_id, expires_ms=expires_ms)
        for key, kind, session_id, turn_id, expires_ms in select(rows.db, _WAITS, (now_ms, limit))
    )


A = TypeVar("A")
_THREADS = 2
_BUSY_MS = 5_000


class Readers:
    """Runs reads, each from one moment of the file, on a connection that is free: to open one costs many reads."""

    def __init__(
        self, place: str, connect: Callable[[], apsw.Connection], file: FileIdentity
    ) -> None:
        self._place = place
        self._connect = connect
        self._file = file
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="windlass-reader")
        # For all threads: its operations are atomic, and the last to come, with the warmest cache, is the first to go.
        self._free: deque[apsw.Connection] = deque()

    async def read(self, look: Callable[..., A], args: tuple[Any, ...]) -> A:
        """Return what `look` finds, on a thread for that."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self.glance, look, args)

    def close(self) -> None:
        """Wait for the reads under way, then let go of the file."""
        self._threads.shutdown(wait=True)
        while self._free:
            with suppress(apsw.Error):
                self._free.pop().close()

    def glance(self, look: Callable[..., A], args: tuple[Any, ...]) -> A:
        """Return what `look` finds, on the caller's thread: for a row or two, which cost less than a hop."""
        self._file.check()
        try:
            return self._read(self._take(), look, args)
        except (apsw.Error, OSError) as error:
            raise as_windlass_error(error, place=self._place) from error

    def _read(self, db: apsw.Connection, look: Callable[..., A], args: tuple[Any, ...]) -> A:
        is_good = True
        try:
            db.execute("BEGIN")
            try:
                return look(Rows(db), *args)
            finally:
                if db.in_transaction:  # a fault of the disk ends it early
                    db.execute("ROLLBACK")
        except apsw.Error:
            # The next read opens the file anew; the trouble may be over by then.
            is_good = False
            with suppress(apsw.Error):
                db.close()
            raise
        finally:
            if is_good:
                self._free.append(db)

    def _take(self) -> apsw.Connection:
        try:
            return self._free.pop()
        except IndexError:
            db = self._connect()
            db.set_busy_timeout(_BUSY_MS)
            db.execute("PRAGMA query_only = ON")
            return db

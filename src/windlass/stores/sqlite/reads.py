"""Reading: whole views, each from one moment of the file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import apsw

from windlass.journal import HistoryPage, JournalPage, bodies, check_link, strand_seed
from windlass.ports.unit import TurnRequest
from windlass.ports.views import NO_PAGES, InboxView, SessionView, TurnView
from windlass.stores import facts
from windlass.stores.sqlite import history, inbox, waits
from windlass.stores.sqlite.connection import corrupt, first, select
from windlass.stores.sqlite.history import lineage, load_frame, load_page
from windlass.stores.sqlite.pages import RequestPage, read_page
from windlass.stores.sqlite.rows import Rows, SessionRow, TurnRow, load_pages, read_usage

Wanted: TypeAlias = Literal["whole", "frame", "none"]
"""How much of a session's history is to be read."""

# How many turns of history, and how long a request, may be read while the event loop waits.
_SHORT = 4
_SHORT_BYTES = 16_384

LONG: Final = "long"
"""The answer of a glance at a turn that wants a thread of its own."""


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
        pages = (load_frame if wanted == "frame" else history.load_history)(rows.db, session)
    return facts.session_view(
        session,
        pages,
        active=_active(rows.db, session),
        queued=_queued(rows.db, session),
        waiting=inbox.count_waiting(rows, session),
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
    # That they are neither done nor parked follows; it is said to have them from the index of those.
    query = (
        "SELECT id FROM turns WHERE session = ? AND state <> 'done' AND state <> 'parked'"
        " AND state = 'queued'"
        " ORDER BY arrived"
    )
    return tuple(turn_id for (turn_id,) in select(db, query, (session.no,)))


def glance_at_turn(
    rows: Rows, session_id: str, turn_id: str, since: int
) -> TurnView | Literal["long"] | None:
    """Return a turn without its journal, or that there is none, if that is read in no time; else LONG."""
    turn = _found_turn(rows, session_id, turn_id)
    if turn is None:
        return None
    if turn.state == "done" or (since < NO_PAGES and turn.strand is not None):
        return LONG
    # A long text has a row of its own, and the page refers to it.
    query = "SELECT length(page) > ? OR instr(page, ?) FROM log WHERE session = ? AND strand = ? AND seq = 0"
    found = first(rows.db, query, (_SHORT_BYTES, bodies.MARK, turn.session.no, -turn.no))
    if found is None or found[0]:
        return LONG
    return view_turn(rows, turn, (), since)


def load_turn(rows: Rows, session_id: str, turn_id: str, since: int = 0) -> TurnView | None:
    """Return a turn, with its journal from a page on while that is kept; None if there is none of this id."""
    turn = _found_turn(rows, session_id, turn_id)
    if turn is None:
        return None
    pages: list[JournalPage] = []
    if turn.strand is not None:
        pages, _ = load_pages(rows.db, turn, since)
    return view_turn(rows, turn, pages, since)


def _found_turn(rows: Rows, session_id: str, turn_id: str) -> TurnRow | None:
    if rows.find_session(session_id) is None:
        return None
    return rows.find_turn(rows.session(session_id), turn_id)


def view_turn(rows: Rows, turn: TurnRow, pages: Sequence[JournalPage], since: int = 0) -> TurnView:
    """Return a turn as it stands, with these pages of its journal."""
    end = _end(rows.db, turn) if turn.state == "done" else None
    request = _request(rows.db, turn)
    if request is not None:  # else the journal was reclaimed with it
        _check_length(turn, since, len(pages))
    found = waits.of_turn(rows.db, turn)
    return facts.turn_view(turn, request=request, pages=pages, waits=found, end=end, since=since)


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


def _check_length(turn: TurnRow, since: int, found: int) -> None:
    ended, pages = turn.ended_pages, since + found
    if ended not in (None, pages) and (found or since < ended):
        place = f"journal of {turn.session.id}/{turn.id}"
        raise corrupt(place, f"has {pages} pages, it ended with {ended}", found=pages, wanted=ended)


def _end(db: apsw.Connection, turn: TurnRow) -> HistoryPage:
    page = load_page(db, turn.session, turn.head)
    if page.turn_id != turn.id:
        place = f"end of {turn.session.id}/{turn.id}"
        raise corrupt(place, "the page there is of another turn")
    return page


def load_history(
    rows: Rows, session_id: str, before: int | None, limit: int | None, wanted: Wanted
) -> tuple[HistoryPage, ...]:
    """Return the last pages of a session's history before one of its turns."""
    is_frame = wanted == "frame"
    return history.load_part(rows.db, rows.session(session_id), before, limit, frame=is_frame)


def load_inbox(rows: Rows, session_id: str) -> InboxView:
    """Return what waits to enter a session."""
    session = rows.session(session_id)
    return InboxView(queued_turns=_queued(rows.db, session), items=inbox.read_items(rows, session))

"""What changed, in the order in which it was written: pages of the log, and news of what writes no page.

A row of `news` says behind which page of the log it was written, so both have one order. A turn without waits writes
none. A mark is the highest number of each table that was read; writers take turns, so whatever is committed later has
higher numbers. Law: no number of either table is ever given out again, or a mark would hide what has it now. The pages
see to it for the log, and `reclaim` here never takes the last row.

What is new is asked for all the time, so each query is held to the rowid: left to itself SQLite reads a whole index.
"""

from __future__ import annotations

from contextlib import suppress
from heapq import merge
from itertools import islice
from typing import Any, NamedTuple, cast

import apsw
import msgspec

from windlass.errors import ReplayError
from windlass.journal import JournalPage
from windlass.ports.views import Change, ChangeKind, Changes
from windlass.ports.waits import Wait
from windlass.stores.marks import read_mark, write_mark
from windlass.stores.sqlite.connection import first, select
from windlass.stores.sqlite.pages import Strand, unpack
from windlass.stores.sqlite.rows import Rows

_TELL = (
    "INSERT INTO news (after, kind, session, turn, wait, worker)"
    " VALUES (coalesce((SELECT max(no) FROM log NOT INDEXED), 0), ?, ?, ?, ?, ?)"
)
# How many rows of news vacuum leaves.
KEPT = 10_000


def tell(
    db: apsw.Connection,
    kind: ChangeKind,
    *,
    session: int | None = None,
    turn: int | None = None,
    wait: int | None = None,
    worker: str | None = None,
) -> None:
    """Note something that writes no page, in the transaction that does it."""
    db.execute(_TELL, (kind, session, turn, wait, worker))


def reclaim(db: apsw.Connection) -> None:
    """Remove old news, but never the last."""
    last = first(db, "SELECT max(no) FROM news")[0]
    if last is not None:
        db.execute("DELETE FROM news WHERE no <= ? AND no < ?", (last - KEPT, last))


_NEWEST = (
    "SELECT coalesce((SELECT max(no) FROM log NOT INDEXED), 0),"
    " coalesce((SELECT max(no) FROM news), 0)"
)
# A request lies under minus the number of its turn. A journal is that of the turn under way, or of one that has ended:
# then the page of history which has the number of its strand names it.
_PAGES = (
    "SELECT log.no, log.session, sessions.id, turns.id, log.strand, log.seq,"
    " CASE WHEN log.strand = 0 OR log.strand > 0 AND :pages THEN page END FROM log NOT INDEXED"
    " LEFT JOIN sessions ON sessions.no = log.session AND deleted_ms IS NULL"
    " LEFT JOIN turns ON turns.no = CASE WHEN log.strand < 0 THEN -log.strand ELSE active END"
    "  AND turns.session = log.session AND (log.strand < 0 OR turns.strand = log.strand)"
    " WHERE log.no > :log ORDER BY log.no LIMIT :limit"
)
_NEWS = (
    "SELECT news.after, news.no, news.kind, news.session, sessions.id, turns.id, worker, wait.wait"
    " FROM news LEFT JOIN sessions ON sessions.no = news.session"
    "  AND (deleted_ms IS NULL OR news.kind = 'deleted')"
    " LEFT JOIN turns ON turns.no = news.turn AND turns.session = news.session"
    " LEFT JOIN waits AS wait ON wait.no = news.wait AND wait.turn = news.turn AND wait.session = news.session"
    " WHERE news.no > :news ORDER BY news.no LIMIT :limit"
)
_END = "SELECT page FROM log WHERE session = ? AND strand = 0 AND seq = ?"


class _Ended(msgspec.Struct):
    """As much of a page of history as says whose it is."""

    turn_id: str


_read_end = msgspec.json.Decoder(_Ended).decode


class _Row(NamedTuple):
    """A row of either table, by its place in the one order."""

    at: int
    is_news: int
    no: int
    values: Any


def glance(rows: Rows, mark: str | None, store_id: str) -> Changes | None:
    """Return the mark of this moment, or that nothing is new behind one; None: something is.

    Raises:
        InvalidInput: no mark of this store.
    """
    now = _newest(rows)
    if mark is None:
        return Changes(mark=write_mark(store_id, *now))
    return Changes(mark=mark) if read_mark(mark, store_id, now) == now else None


def read(rows: Rows, mark: str, store_id: str, limit: int, with_pages: bool) -> Changes:  # noqa: FBT001 - handed on to a reader by place
    """Return what was written behind a mark.

    Raises:
        InvalidInput: no mark of this store.
    """
    log, news = read_mark(mark, store_id, _newest(rows))
    wanted = {"log": log, "news": news, "limit": limit + 1, "pages": with_pages}
    pages = (_Row(no, 0, no, values) for no, *values in select(rows.db, _PAGES, wanted))
    others = (_Row(after, 1, no, values) for after, no, *values in select(rows.db, _NEWS, wanted))
    found = list(islice(merge(pages, others, key=_place), limit + 1))
    told: list[Change] = []
    names: dict[tuple[int, int], str] = {}
    for row in found[:limit]:
        log, news = (log, row.no) if row.is_news else (row.no, news)
        change = _of_news(row.values) if row.is_news else _of_page(rows.db, row.values, names)
        if change is not None:
            told.append(change)
    return Changes(
        mark=write_mark(store_id, log, news), changes=tuple(told), has_more=len(found) > limit
    )


def _newest(rows: Rows) -> tuple[int, int]:
    log, news = first(rows.db, _NEWEST)
    return log, news


def _place(row: _Row) -> tuple[int, int, int]:
    return row[:3]


def _of_page(
    db: apsw.Connection,
    values: Any,  # noqa: ANN401 - a row of apsw's
    names: dict[tuple[int, int], str],
) -> Change | None:
    """Return what a page tells; None: its session is gone, or it only keeps its number."""
    session, session_id, turn_id, strand, seq, page = values
    if session_id is None:
        return None
    if strand < 0:
        return Change(kind="accepted", session_id=session_id, turn_id=turn_id or "")
    if strand == 0:
        return Change(kind="ended", session_id=session_id, turn_id=_turn_of(page))
    if turn_id is None and (session, strand) not in names:
        end = first(db, _END, (session, strand))
        names[session, strand] = "" if end is None else _turn_of(end[0])
    turn_id = turn_id or names[session, strand]
    read = None if page is None else _read_page(db, session_id, turn_id, seq, page)
    return Change(kind="page", session_id=session_id, turn_id=turn_id, position=seq, page=read)


def _turn_of(page: bytes) -> str:
    try:
        return _read_end(page).turn_id
    except msgspec.MsgspecError:
        return ""


def _read_page(
    db: apsw.Connection, session_id: str, turn_id: str, seq: int, page: bytes
) -> JournalPage | None:
    place = f"journal of {session_id}/{turn_id}"
    strand = Strand(db, place, JournalPage, link=b"", turn=(session_id, turn_id))
    # One page that is damaged does not keep the others from being told; its turn cannot be loaded, and says so.
    with suppress(ReplayError):
        return strand.read_one(page, seq)
    return None


def _of_news(values: Any) -> Change | None:  # noqa: ANN401 - a row of apsw's
    kind, session, session_id, turn_id, worker, stored = values
    if session is not None and session_id is None:
        return None
    wait: Wait | None = None
    if stored is not None:
        with suppress(ReplayError):
            wait = unpack(stored, Wait, place=f"wait of {session_id}/{turn_id}")
    return Change(
        kind=cast("ChangeKind", kind),
        session_id=session_id or "",
        turn_id=turn_id or "",
        wait=wait,
        worker_id=worker or "",
    )

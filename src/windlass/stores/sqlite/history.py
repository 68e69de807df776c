"""A session's history: pages of its own, and before them those of the sessions it was forked from."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import Any, NamedTuple

import apsw

from windlass.errors import JournalCorrupt
from windlass.journal import HistoryPage, check_link, strand_seed
from windlass.stores.sqlite.connection import corrupt, first
from windlass.stores.sqlite.pages import Strand, read_page
from windlass.stores.sqlite.rows import SessionRow

_PAGES = (
    "SELECT seq, link, page FROM log WHERE session = ? AND strand = 0 AND seq <= ? ORDER BY seq"
)
_PAGES_BACK = (
    "SELECT seq, link, page FROM log WHERE session = ? AND strand = 0 AND seq <= ?"
    " ORDER BY seq DESC"
)
_PAGE = "SELECT link, page FROM log WHERE session = ? AND strand = 0 AND seq = ?"
_PARENT = "SELECT id, parent, parent_head FROM sessions WHERE no = ?"


class Stretch(NamedTuple):
    """The pages that one session of a lineage gave: those up to `last` that the one above did not give."""

    session: int
    session_id: str
    last: int


def lineage(db: apsw.Connection, session: SessionRow) -> list[Stretch]:
    """Return the sessions whose pages make up this one's, oldest first.

    Raises:
        JournalCorrupt: one is missing.
    """
    found = [Stretch(session.no, session.id, session.head)]
    parent, last = session.parent, session.parent_head
    while parent is not None:
        above = first(db, _PARENT, (parent,))
        # Nothing is forked from what came later: a lineage that did not go back would never end.
        if above is None or parent >= found[-1].session or last is None:
            raise corrupt(f"session {found[-1].session_id}", "what it was forked from is missing")
        session_id, next_parent, next_last = above
        found.append(Stretch(parent, session_id, last))
        # A fork of a fork may go on from before the point where its parent began.
        parent, last = next_parent, None if next_last is None else min(next_last, last)
    return found[::-1]


def load_history(db: apsw.Connection, session: SessionRow) -> list[HistoryPage]:
    """Return all pages, each checked against its link and the last against the session's."""
    pages: list[HistoryPage] = []
    stretches = lineage(db, session)
    link = strand_seed(stretches[0].session_id)
    for number, session_id, last in stretches:
        strand = Strand(db, f"history of {session_id}", HistoryPage, link=link)
        pages += strand.read(db.execute(_PAGES, (number, last)), start=len(pages) + 1)
        link = strand.link
    if len(pages) != session.head or link != session.link:
        place = f"history of {session.id}"
        raise corrupt(place, f"ends at page {len(pages)}, its head is {session.head}")
    return pages


def load_frame(db: apsw.Connection, session: SessionRow) -> list[HistoryPage]:
    """Return the pages from the last beginning on: checked like all, and none before it is read."""
    return list(load_part(db, session, frame=True))


def load_part(
    db: apsw.Connection,
    session: SessionRow,
    before: int | None = None,
    limit: int | None = None,
    *,
    frame: bool = False,
) -> tuple[HistoryPage, ...]:
    """Return the last pages before one, oldest first; of a frame those from the last beginning on.

    Each is checked against its link, the last one of all against the session's.
    """
    last = session.head if before is None else min(before - 1, session.head)
    if limit == 0 or (before is not None and last < 1):
        return ()
    link = session.link if last == session.head else link_at(db, session, last)
    strand = Strand(db, f"history of {session.id}", HistoryPage, link=link)
    pages: list[HistoryPage] = []
    with closing(_newest_first(db, session, last)) as stored:
        for page in strand.read_back(stored, start=last):
            pages.append(page)
            if len(pages) == limit or (frame and page.is_beginning):
                break
    return tuple(reversed(pages))


def _newest_first(
    db: apsw.Connection, session: SessionRow, newest: int
) -> Generator[Any, None, None]:
    """Return the rows of all pages up to one, and below them the link that the first builds on."""
    stretches = lineage(db, session)
    for number, _, last in reversed(stretches):
        yield from db.execute(_PAGES_BACK, (number, min(last, newest)))
    yield 0, strand_seed(stretches[0].session_id), b""


def load_page(db: apsw.Connection, session: SessionRow, seq: int) -> HistoryPage:
    """Return one page, checked against its link."""
    _, data = _checked(db, session, seq)
    return read_page(db, data, HistoryPage, place=f"history of {session.id}, page {seq}")


def link_at(db: apsw.Connection, session: SessionRow, seq: int) -> bytes:
    """Return the link of one page, which was checked; of page 0, the one that the first page builds on.

    Raises:
        JournalCorrupt: the page is missing or not the one that was written, or not the session's last one
            although its number says so.
    """
    link = _checked(db, session, seq)[0] if seq else _stored(db, session, seq)[0]
    if seq == session.head and link != session.link:
        raise _not_its_head(session)
    return link


def check_head(db: apsw.Connection, session: SessionRow) -> None:
    """Compare a session's link with its last page's, before something is built on it.

    Once for each time that the row was read: what is built on it moves both.

    Raises:
        JournalCorrupt: they differ.
    """
    if session.head_checked:
        return
    if _stored(db, session, session.head)[0] != session.link:
        raise _not_its_head(session)
    session.head_checked = True


def _checked(db: apsw.Connection, session: SessionRow, seq: int) -> tuple[bytes, bytes]:
    link, data = _stored(db, session, seq)
    before, _ = _stored(db, session, seq - 1)
    return check_link(before, data, link, place=f"history of {session.id}, page {seq}"), data


def _stored(db: apsw.Connection, session: SessionRow, seq: int) -> tuple[bytes, bytes]:
    """Return link and bytes of a page, wherever up the lineage it lies."""
    stretches = lineage(db, session)
    if seq == 0:
        return strand_seed(stretches[0].session_id), b""
    number = next((stretch.session for stretch in stretches if seq <= stretch.last), session.no)
    found = first(db, _PAGE, (number, seq))
    if found is None:
        raise corrupt(f"history of {session.id}", f"page {seq} is missing")
    link, data = found
    return link, data


def _not_its_head(session: SessionRow) -> JournalCorrupt:
    return corrupt(f"history of {session.id}", "its last page is not the session's head")

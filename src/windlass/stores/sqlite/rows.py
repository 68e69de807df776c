"""Sessions and turns as the writer sees them, remembered between its transactions.

What a unit needs to know (the fence, the turn's journal, where the next page goes) was written by this very
connection a moment ago. It is kept here and read again only when another connection has written since:
SQLite tells by `data_version`. A turn's journal outlives even that, as long as its session's generation is the
same, for only the owner of a generation adds pages under it.

Law. Nothing here is believed after a transaction that failed: `forget` drops everything.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, get_args

import apsw

from windlass.errors import InvalidInput, JournalCorrupt, SessionDeleted, UnknownSession
from windlass.journal import JournalPage, TurnJournal, UsageLine, strand_seed
from windlass.ports.unit import TurnState
from windlass.ports.views import fold_journal
from windlass.stores.sqlite.packed import unpack
from windlass.stores.sqlite.pages import Strand
from windlass.stores.sqlite.query import first

_MAX_SESSIONS = 4_096

_SESSION = (
    "SELECT no, agent, created_ms, deleted_ms, generation, owner, head, link, active, arrivals,"
    " parent, parent_head, usage FROM sessions WHERE id = ?"
)
_TURN = (
    "SELECT no, id, state, arrived, strand, agent, digest, submitter, cancel, takeovers, takeover_mark,"
    " answered, head, commit_digest, pages, asked_by FROM turns WHERE "
)
_TURN_STATES = frozenset(get_args(TurnState))


class TurnRow:
    """A row of `turns`, and for an unfinished one its journal once it was needed."""

    __slots__ = (
        "agent", "answered", "arrived", "asked_by", "cancel", "commit_digest", "digest", "ended_pages", "head", "id", "journal",
        "link", "no", "pages", "session", "state", "strand", "submitter", "takeover_mark", "takeovers",
    )  # fmt: skip

    def __init__(self, session: SessionRow, values: Any) -> None:  # noqa: ANN401 - a row of apsw's
        self.session = session
        (
            self.no, self.id, self.state, self.arrived, self.strand, self.agent, self.digest, self.submitter,
            self.cancel, self.takeovers, self.takeover_mark, self.answered, self.head, self.commit_digest,
            self.ended_pages, self.asked_by,
        ) = values  # fmt: skip
        self.journal: TurnJournal | None = None
        self.link = b""
        self.pages = 0
        self._check()

    def _check(self) -> None:
        place = f"turn {self.session.id}/{self.id}"
        check_state(self.state, place=place)
        if (self.strand is None) != (self.state == "queued"):
            raise JournalCorrupt(
                f"{place}: is {self.state}, and its journal says otherwise", field=place
            )
        if self.state == "done" and (self.head is None or self.commit_digest is None):
            raise JournalCorrupt(f"{place}: has ended, and its end is missing", field=place)


def check_state(state: str, *, place: str) -> None:
    """Refuse a turn in a state that is none.

    Raises:
        JournalCorrupt: it is in one that no release has written.
    """
    if state not in _TURN_STATES:
        raise JournalCorrupt(f"{place}: is in a state that is none", field=place)


class SessionRow:
    """A row of `sessions`, with the turns that were asked for."""

    __slots__ = (
        "active", "agent", "arrivals", "created_ms", "deleted_ms", "generation", "head", "head_checked", "id",
        "link", "no", "owner", "parent", "parent_head", "seen", "turns", "usage",
    )  # fmt: skip

    def __init__(self, id: str) -> None:
        self.id = id
        self.turns: dict[str, TurnRow] = {}
        self.seen = -1

    def fill(self, values: Any) -> None:  # noqa: ANN401 - a row of apsw's
        """Take the values of the row as it is now."""
        (
            self.no, self.agent, self.created_ms, self.deleted_ms, self.generation, self.owner, self.head,
            self.link, self.active, self.arrivals, self.parent, self.parent_head, self.usage,
        ) = values  # fmt: skip
        self.head_checked = False


class Rows:
    """The writer's view of the file, inside its transaction."""

    __slots__ = ("_own_version", "_sessions", "_version", "db")

    def __init__(self, db: apsw.Connection) -> None:
        self.db = db
        self._sessions: OrderedDict[str, SessionRow] = OrderedDict()
        # Counts how often somebody else was found to have written.
        self._version = 0
        self._own_version = -1

    def begin(self) -> None:
        """Learn whether anybody else has written; called when a transaction has begun."""
        if self.db.data_version() != self._own_version:
            self._version += 1

    def committed(self) -> None:
        """Learn the version that is our own; called when a transaction was committed."""
        self._own_version = self.db.data_version()

    def forget(self) -> None:
        """Believe nothing any more."""
        self._sessions.clear()

    def forget_session(self, session_id: str | None) -> None:
        """Believe nothing of one session any more; of none in particular, nothing of any."""
        if session_id is None:
            self._sessions.clear()
        else:
            self._sessions.pop(session_id, None)

    def find_session(self, session_id: str) -> SessionRow | None:
        """Return a session, also a deleted one; None if the id was never used."""
        session = self._sessions.get(session_id)
        if session is not None and session.seen == self._version:
            return session
        values = first(self.db, _SESSION, (session_id,))
        if values is None:
            return None
        session = self._refresh(session, session_id, values)
        self._sessions[session_id] = session
        if len(self._sessions) > _MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return session

    def session(self, session_id: str) -> SessionRow:
        """Return a living session.

        Raises:
            UnknownSession, SessionDeleted: there is none, or no more.
        """
        session = self.find_session(session_id)
        if session is None:
            raise UnknownSession(
                f"session {session_id}: there is none of this id", field="session_id"
            )
        if session.deleted_ms is not None:
            raise SessionDeleted(f"session {session_id}: was deleted", field="session_id")
        return session

    def find_turn(self, session: SessionRow, turn_id: str) -> TurnRow | None:
        """Return a turn of a session, finished or not."""
        turn = session.turns.get(turn_id)
        if turn is None:
            query = _TURN + "session = ? AND id = ?"
            values = first(self.db, query, (session.no, turn_id))
            if values is None:
                return None
            turn = TurnRow(session, values)
            if turn.state != "done":  # of those a session can have any number
                session.turns[turn_id] = turn
        return turn

    def turn(self, session: SessionRow, turn_id: str) -> TurnRow:
        """Return a turn of a session.

        Raises:
            InvalidInput: there is none of that id.
        """
        turn = self.find_turn(session, turn_id)
        if turn is None:
            raise InvalidInput(f"turn {turn_id}: the session has none of this id", field="turn_id")
        return turn

    def journal(self, turn: TurnRow) -> TurnJournal:
        """Return the journal of a turn, read once and kept while its generation lasts."""
        if turn.journal is None:
            turn.journal, turn.link, turn.pages = load_journal(self.db, turn)
        return turn.journal

    def drop_turn(self, turn: TurnRow) -> None:
        """Stop remembering a turn, which has ended or whose rows changed behind this view."""
        turn.session.turns.pop(turn.id, None)

    def _refresh(self, session: SessionRow | None, session_id: str, values: Any) -> SessionRow:  # noqa: ANN401 - a row of apsw's
        if session is None:
            session = SessionRow(session_id)
        generation = session.generation if session.seen >= 0 else None
        kept = {turn.id: turn for turn in session.turns.values() if turn.journal is not None}
        session.turns.clear()
        session.fill(values)
        session.seen = self._version
        if generation == session.generation:
            for turn_id, old in kept.items():
                turn = self.find_turn(session, turn_id)
                if turn is not None and turn.strand == old.strand:
                    turn.journal, turn.link, turn.pages = old.journal, old.link, old.pages
        return session


def load_pages(db: apsw.Connection, turn: TurnRow) -> tuple[list[JournalPage], bytes]:
    """Return a turn's journal pages, each checked against its link, and the last link."""
    session = turn.session
    query = "SELECT seq, link, page FROM log WHERE session = ? AND strand = ? ORDER BY seq"
    strand = Strand(
        db,
        f"journal of {session.id}/{turn.id}",
        JournalPage,
        link=strand_seed(session.id, turn.id),
        turn=(session.id, turn.id),
    )
    pages = strand.read(db.execute(query, (session.no, turn.strand)), start=0)
    return pages, strand.link


def load_journal(db: apsw.Connection, turn: TurnRow) -> tuple[TurnJournal, bytes, int]:
    """Return a turn's journal, folded, the link of its last page, and how many pages it has."""
    if turn.strand is None:
        return TurnJournal(), strand_seed(turn.session.id, turn.id), 0
    pages, link = load_pages(db, turn)
    journal = fold_journal(pages, place=f"journal of {turn.session.id}/{turn.id}")
    return journal, link, len(pages)


def read_usage(session: SessionRow) -> tuple[UsageLine, ...]:
    """Return what a session has used in its committed turns."""
    if session.usage is None:
        return ()
    return unpack(session.usage, tuple[UsageLine, ...], place=f"usage of {session.id}")

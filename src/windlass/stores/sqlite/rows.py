"""Sessions and turns as the writer sees them, remembered between its transactions.

What a unit needs to know (the fence, and where the next page of the turn's journal goes) was written by this very
connection a moment ago. It is kept here and read again only when another connection has written since:
SQLite tells by `data_version`. Where the next page goes outlives even that, as long as the session's generation is
the same, because only the owner of a generation adds pages under it.

Law. Nothing here is believed after a transaction that failed: `forget` drops everything.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, get_args

import apsw

from windlass.journal import JournalPage, UsageLine, strand_seed
from windlass.ports.unit import SessionKind, TurnState
from windlass.stores import rules
from windlass.stores.sqlite.connection import corrupt, first
from windlass.stores.sqlite.pages import Strand, unpack

_MAX_SESSIONS = 4_096

SESSION_COLUMNS = (
    "no, agent, created_ms, deleted_ms, generation, owner, head, link, active, arrivals, parent, parent_head, usage,"
    " kind, started_by, root, label, started_in"
)
TURN_COLUMNS = (
    "no, id, state, arrived, strand, agent, digest, submitter, cancel, takeovers, takeover_mark, answered, head,"
    " commit_digest, pages, asked_by"
)
_SESSION = f"SELECT {SESSION_COLUMNS} FROM sessions WHERE id = ?"  # noqa: S608 - a constant
_TURN = f"SELECT {TURN_COLUMNS} FROM turns WHERE session = ? AND id = ?"  # noqa: S608 - a constant
_PAGE = "SELECT seq, link, page FROM log WHERE session = ? AND strand = ?"
_PAGE_COUNT = "SELECT count(*) FROM log WHERE session = ? AND strand = ?"
# Turns that are parked are in an index of their own, and both are said in the words of theirs.
IS_UNFINISHED = (
    "(EXISTS (SELECT 1 FROM turns WHERE session = sessions.no AND state <> 'done' AND state <> 'parked')"
    " OR EXISTS (SELECT 1 FROM turns WHERE session = sessions.no AND state = 'parked'))"
)
_TURN_STATES = frozenset(get_args(TurnState))
_KINDS = frozenset(get_args(SessionKind))


class TurnRow:
    """A row of `turns`, and where the next page of its journal goes once that was needed."""

    __slots__ = (
        "agent", "answered", "arrived", "asked_by", "cancel", "commit_digest", "digest", "ended_pages", "head", "id",
        "link", "no", "pages", "session", "state", "strand", "submitter", "takeover_mark", "takeovers",
    )  # fmt: skip

    def __init__(self, session: SessionRow, values: Any) -> None:  # noqa: ANN401 - a row of apsw's
        self.session = session
        self.link: bytes | None = None
        self.pages = 0
        (
            self.no, self.id, self.state, self.arrived, self.strand, self.agent, self.digest, self.submitter,
            self.cancel, self.takeovers, self.takeover_mark, self.answered, self.head, self.commit_digest,
            self.ended_pages, self.asked_by,
        ) = values  # fmt: skip

    def check(self) -> None:
        """Refuse a row whose cells contradict each other."""
        place = f"turn {self.session.id}/{self.id}"
        check_state(self.state, place=place)
        if (self.strand is None) != (self.state == "queued"):
            raise corrupt(place, f"is {self.state}, and its journal says otherwise")
        if self.state == "done" and (self.head is None or self.commit_digest is None):
            raise corrupt(place, "has ended, and its end is missing")


def check_state(state: str, *, place: str) -> None:
    """Refuse a turn in a state that is none.

    Raises:
        JournalCorrupt: it is in one that no release has written.
    """
    if state not in _TURN_STATES:
        raise corrupt(place, "is in a state that is none")


class SessionRow:
    """A row of `sessions`, with the turns that were asked for."""

    __slots__ = (
        "active", "agent", "arrivals", "created_ms", "deleted_ms", "generation", "head", "head_checked", "id", "kind",
        "label", "link", "no", "owner", "parent", "parent_head", "root", "seen", "started_by", "started_in", "turns",
        "usage",
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
            self.kind, self.started_by, self.root, self.label, self.started_in,
        ) = values  # fmt: skip
        if self.kind not in _KINDS:
            raise corrupt(f"session {self.id}", "is of a kind that is none")
        self.head_checked = False


class Rows:
    """The writer's view of the file, inside its transaction."""

    __slots__ = ("db", "earlier", "own_version", "sessions", "version")

    def __init__(self, db: apsw.Connection) -> None:
        self.db = db
        self.sessions: OrderedDict[str, SessionRow] = OrderedDict()
        # Counts how often another connection was found to have written.
        self.version = 0
        # What `data_version` was after our last commit.
        self.own_version = -1
        # What an attempt of the operation under way answered whose COMMIT failed: it may have landed all the same.
        self.earlier: Any = None

    def begin(self) -> None:
        """Learn whether another connection has written; called when a transaction has begun."""
        if self.db.data_version() != self.own_version:
            self.version += 1

    def forget(self) -> None:
        """Believe nothing any more."""
        self.sessions.clear()

    def forget_session(self, session_id: str | None) -> None:
        """Believe nothing of one session any more; of none in particular, nothing of any."""
        if session_id is None:
            self.sessions.clear()
        else:
            self.sessions.pop(session_id, None)

    def find_session(self, session_id: str) -> SessionRow | None:
        """Return a session, also a deleted one; None if the id was never used."""
        session = self.sessions.get(session_id)
        if session is not None and session.seen == self.version:
            return session
        values = first(self.db, _SESSION, (session_id,))
        if values is None:
            return None
        session = self._refresh(session, session_id, values)
        self.sessions[session_id] = session
        if len(self.sessions) > _MAX_SESSIONS:
            self.sessions.popitem(last=False)
        return session

    def session(self, session_id: str) -> SessionRow:
        """Return a living session.

        Raises:
            UnknownSession, SessionDeleted: there is none, or no more.
        """
        return rules.living(self.find_session(session_id), session_id)

    def find_turn(self, session: SessionRow, turn_id: str) -> TurnRow | None:
        """Return a turn of a session, finished or not."""
        turn = session.turns.get(turn_id)
        if turn is None:
            values = first(self.db, _TURN, (session.no, turn_id))
            if values is None:
                return None
            turn = TurnRow(session, values)
            turn.check()
            if turn.state != "done":  # of those a session can have any number
                session.turns[turn_id] = turn
        return turn

    def turn(self, session: SessionRow, turn_id: str) -> TurnRow:
        """Return a turn of a session.

        Raises:
            InvalidInput: there is none of that id.
        """
        return rules.existing(self.find_turn(session, turn_id), turn_id)

    def next_arrival(self, session: SessionRow) -> int:
        """Return the next place in the session's one queue of turns and items."""
        session.arrivals += 1
        self.db.execute(
            "UPDATE sessions SET arrivals = ? WHERE no = ?", (session.arrivals, session.no)
        )
        return int(session.arrivals)

    def find_tail(self, turn: TurnRow) -> None:
        """Learn where the next page of a turn's journal goes, from pages that are each checked against their links.

        Of a turn that has ended only how many pages are there: nothing is built on them.
        """
        if turn.state == "done":
            found = first(self.db, _PAGE_COUNT, (turn.session.no, turn.strand))
            turn.pages, turn.link = found[0], b""
        elif turn.strand is None:
            turn.pages, turn.link = 0, strand_seed(turn.session.id, turn.id)
        else:
            pages, turn.link = load_pages(self.db, turn)
            turn.pages = len(pages)

    def _refresh(self, session: SessionRow | None, session_id: str, values: Any) -> SessionRow:  # noqa: ANN401 - a row of apsw's
        if session is None:
            session = SessionRow(session_id)
        generation = session.generation if session.seen >= 0 else None
        kept = [turn for turn in session.turns.values() if turn.link is not None]
        session.turns.clear()
        session.fill(values)
        session.seen = self.version if session.deleted_ms is None else -1
        if generation == session.generation:
            # Only the owner of a generation adds pages under it, so where the next one goes has not changed.
            for old in kept:
                turn = self.find_turn(session, old.id)
                if turn is not None and turn.strand == old.strand:
                    turn.link, turn.pages = old.link, old.pages
        return session


def load_pages(
    db: apsw.Connection, turn: TurnRow, since: int = 0
) -> tuple[list[JournalPage], bytes]:
    """Return a turn's journal from a page on, each page checked against its link, and the last link."""
    session = turn.session
    place = (session.no, turn.strand)
    link = strand_seed(session.id, turn.id)
    if since > 0:
        # A page that is not there has none behind it either; if one is found, it does not fit this link.
        before = first(db, f"{_PAGE} AND seq = ?", (*place, since - 1))
        link = link if before is None else before[1]
    strand = Strand(
        db,
        f"journal of {session.id}/{turn.id}",
        JournalPage,
        link=link,
        turn=(session.id, turn.id),
    )
    stored = db.execute(f"{_PAGE} AND seq >= ? ORDER BY seq", (*place, since))
    pages = strand.read(stored, start=since)
    return pages, strand.link


def read_usage(session: SessionRow) -> tuple[UsageLine, ...]:
    """Return what a session has used in its committed turns."""
    if session.usage is None:
        return ()
    return unpack(session.usage, tuple[UsageLine, ...], place=f"usage of {session.id}")

"""Turns: accepted, parked, cancelled, committed; and sessions, made by their first turn or forked from another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from windlass.errors import IdempotencyConflict
from windlass.guards.ids import check_id
from windlass.journal import (
    HistoryPage,
    JournalPage,
    UsageLine,
    check_place,
    link_page,
    strand_seed,
)
from windlass.journal.usage import sum_usage
from windlass.kernel import canonical
from windlass.ports import CancelReceipt, NewItem, Wait, WaitAnswer
from windlass.ports.unit import (
    CHAT,
    CommitReceipt,
    ImportedSession,
    NewTurn,
    SessionKind,
    TurnReceipt,
    Unit,
    UnitReceipt,
)
from windlass.stores import rules
from windlass.stores.facts import history_page, receipt_of
from windlass.stores.sqlite import inbox, news, waits
from windlass.stores.sqlite.connection import first
from windlass.stores.sqlite.history import check_head, link_at
from windlass.stores.sqlite.pages import (
    Encoder,
    RequestPage,
    SplitPage,
    insert_page,
    insert_untold,
    pack,
    use_blobs,
)
from windlass.stores.sqlite.rows import (
    SESSION_COLUMNS,
    TURN_COLUMNS,
    Rows,
    SessionRow,
    TurnRow,
    read_usage,
)

# Pages are read on threads, where decoders cannot be made any more: two threads that make one at once would crash.
canonical.prepare(
    RequestPage, JournalPage, HistoryPage, Wait, WaitAnswer, NewItem, tuple[UsageLine, ...]
)


_INSERT_TURN = (
    "INSERT INTO turns (session, id, state, arrived, agent, digest, submitter, asked_by, takeovers, takeover_mark,"  # noqa: S608 - a constant
    f" answered) VALUES (?, ?, 'queued', ?, ?, ?, ?, ?, 0, 0, 0) RETURNING {TURN_COLUMNS}"
)
_INSERT_ENDED = (
    "INSERT INTO turns (session, id, state, arrived, strand, agent, digest, takeovers, takeover_mark, answered, head,"
    " commit_digest, pages, ended_ms) VALUES (?, ?, 'done', ?, ?, ?, ?, 0, 0, 0, ?, ?, 0, ?)"
)
_INSERT_SESSION = (
    "INSERT INTO sessions (id, agent, created_ms, generation, head, link, arrivals, parent, parent_head,"  # noqa: S608 - a constant
    " kind, started_by, started_in, root, label) VALUES (?, ?, ?, 0, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?)"
    f" RETURNING {SESSION_COLUMNS}"
)


class Origin(NamedTuple):
    """Where a session's history begins: at nothing, or behind a page of another's."""

    head: int
    link: bytes
    parent: int | None = None
    parent_head: int | None = None


class TreePlace(NamedTuple):
    """What a session is for, and where it belongs: the session and the turn that began it, and the one at the top."""

    kind: SessionKind = CHAT
    started_by: int | None = None
    started_in: int | None = None
    root: int | None = None
    label: str | None = None


class Begun(NamedTuple):
    """How an errand begins a session that is new, and what it asks of a tree before a new turn comes into it.

    `arrived` is the place in the line of the turn whose end accepts it, in its own session.
    """

    place: Callable[[], TreePlace]
    check_room: Callable[[SessionRow | None], None]
    arrived: int | None = None


def accept(
    rows: Rows, unit: Unit, turn: NewTurn, request: SplitPage | None, encoder: Encoder
) -> TurnReceipt | None:
    """Accept a turn that a caller asks for, in a session that is made if it is new."""
    assert request is not None  # noqa: S101 - it is encoded with the acceptance
    earlier: UnitReceipt | None = rows.earlier
    receipt = admit(rows, unit, turn, request, encoder)
    return earlier.accepted if receipt.known and earlier is not None else receipt


def admit(
    rows: Rows,
    unit: Unit,
    turn: NewTurn,
    request: SplitPage,
    encoder: Encoder,
    begun: Begun | None = None,
) -> TurnReceipt:
    """Accept a turn, in a session that is made if it is new; `begun` is told by an errand, else a caller asks."""
    check_place(unit.session_id, unit.turn_id)
    session_id, turn_id = unit.session_id, unit.turn_id
    session, digest = rows.find_session(session_id), turn.request.digest()
    if session is not None:
        rules.living(session, session_id)
        known = rows.find_turn(session, turn_id)
        if begun is None:
            is_known = known is not None and known.digest == digest
            rules.check_begins(session, turn, is_known=is_known)
        if known is not None:
            rules.check_same(known.digest, digest, f"turn {turn_id}", field="turn_id")
            return TurnReceipt(
                session_id=session_id, turn_id=turn_id, state=known.state, known=True
            )
    if begun is not None:
        begun.check_room(session)
    if session is None:
        origin = Origin(0, strand_seed(session_id))
        place = TreePlace() if begun is None else begun.place()
        session = create_session(rows, session_id, turn.agent, turn.now_ms, origin, place)
    # A turn that begins with items has arrived with the first of them.
    arrived = None if begun is None else begun.arrived
    if turn.takes:
        arrived = inbox.first_place(rows, session, turn.takes)
    if arrived is None:
        arrived = rows.next_arrival(session)
    submitter = encoder.words(turn.submitter or "") or None
    by = encoder.words(turn.by or "") or None
    values = (session.no, turn_id, arrived, turn.agent, digest, submitter, by)
    new = session.turns[turn_id] = TurnRow(session, first(rows.db, _INSERT_TURN, values))
    data, long_texts = request
    link = link_page(strand_seed(session_id, f"{turn_id}/request"), data)
    row = (session.no, -new.no, 0, link, data)
    page = insert_page(rows.db, row, long_texts, turn.now_ms)
    use_blobs(rows.db, page, unit.blobs)
    inbox.enter(rows, session, new.no, turn.takes)
    return TurnReceipt(session_id=session_id, turn_id=turn_id, state="queued")


def create_session(
    rows: Rows,
    session_id: str,
    agent: str,
    now_ms: int,
    origin: Origin,
    place: TreePlace = TreePlace(),  # noqa: B008 - a constant: a chat at the top of its tree
) -> SessionRow:
    """Make a session."""
    session = rows.sessions[session_id] = SessionRow(session_id)
    values = (session_id, agent, now_ms, *origin, *place)
    session.fill(first(rows.db, _INSERT_SESSION, values))
    session.seen, session.head_checked = rows.version, True
    return session


def set_running(rows: Rows, turn: TurnRow) -> None:
    """Mark a turn as running."""
    turn.answered = 0
    set_state(rows, turn, "running")


def set_state(rows: Rows, turn: TurnRow, state: str) -> None:
    """Change where a turn is."""
    rows.db.execute(
        "UPDATE turns SET state = ?, answered = ? WHERE no = ?", (state, turn.answered, turn.no)
    )
    if state == "parked" and turn.state != "parked":
        news.tell(rows.db, "parked", session=turn.session.no, turn=turn.no)
    turn.state = state


def request_cancel(rows: Rows, session_id: str, turn_id: str, reason: str) -> CancelReceipt:
    """Mark a turn as cancelled for a caller from outside."""
    earlier: CancelReceipt | None = rows.earlier
    session = rows.find_session(session_id)
    turn = None if session is None else rows.find_turn(session, turn_id)
    is_mine = turn is not None and turn.cancel == reason
    receipt = cancel(rows, turn, reason)
    is_again = receipt.status == "already" and is_mine
    return earlier if is_again and earlier is not None else receipt


def cancel(rows: Rows, turn: TurnRow | None, reason: str) -> CancelReceipt:
    """Mark a turn as cancelled."""
    receipt = rules.cancel_receipt(turn)
    if turn is None or receipt.status != "requested":
        return receipt
    rows.db.execute("UPDATE turns SET cancel = ? WHERE no = ?", (reason, turn.no))
    turn.cancel = reason
    news.tell(rows.db, "cancelled", session=turn.session.no, turn=turn.no)
    if turn.state == "parked":
        turn.answered = 1
        set_state(rows, turn, "ready")
    return receipt


def commit(rows: Rows, turn: TurnRow, unit: Unit, encoder: Encoder) -> CommitReceipt:
    """End a turn: history, head, outcome, inbox, follow-ups, all or nothing."""
    end = unit.commit
    assert end is not None  # noqa: S101 - the caller looked
    session = turn.session
    rules.check_end(turn, unit, end)
    check_head(rows.db, session)
    usage = end.usage
    head = session.head + 1
    data, long_texts = encoder.page(history_page(turn, end))
    link = link_page(session.link, data)
    number = insert_page(rows.db, (session.no, 0, head, link, data), long_texts, end.now_ms)
    if end.blobs is None:
        use_blobs(rows.db, number, unit.blobs)
        _carry_blobs(rows, turn, number)
    else:
        use_blobs(rows.db, number, end.blobs)
    total = sum_usage((*read_usage(session), *usage)) if usage else None
    packed = session.usage if total is None else pack(canonical.encode(total))
    digest = end.digest()
    rows.db.execute(
        "UPDATE sessions SET head = ?, link = ?, active = NULL, usage = ? WHERE no = ?",
        (head, link, packed, session.no),
    )
    rows.db.execute(
        "UPDATE turns SET state = 'done', head = ?, commit_digest = ?, pages = ?, ended_ms = ?"
        " WHERE no = ?",
        (head, digest, turn.pages, end.now_ms, turn.no),
    )
    inbox.settle(rows, turn, end.settle, end.now_ms)
    waits.supersede_open(rows, turn)
    for item in end.follow_ups:  # behind the waits: a signal is not for the turn that has ended
        inbox.enqueue(rows, session, item, encoder, end.now_ms)
    if end.agent is not None:
        _hand_over(rows, session, end.agent)
    session.head, session.link, session.active, session.usage = head, link, None, packed
    turn.head, turn.commit_digest = head, digest
    session.turns.pop(turn.id, None)  # of those that have ended a session can have any number
    return receipt_of(turn)


def _hand_over(rows: Rows, session: SessionRow, agent: str) -> None:
    """Give a session to another agent, with the turns that wait in it for the one that had it."""
    rows.db.execute("UPDATE sessions SET agent = ? WHERE no = ?", (agent, session.no))
    moved = "UPDATE turns SET agent = ? WHERE session = ? AND state <> 'done' AND state = 'queued' AND agent = ?"
    rows.db.execute(moved, (agent, session.no, session.agent))
    for turn in session.turns.values():
        if turn.state == "queued" and turn.agent == session.agent:
            turn.agent = agent
    session.agent = agent


def _carry_blobs(rows: Rows, turn: TurnRow, number: int) -> None:
    """Make the history hold on to what the journal held on to: it is kept longer."""
    rows.db.execute(
        "INSERT OR IGNORE INTO uses (log, body) SELECT ?, bodies.no FROM log"
        " JOIN uses ON uses.log = log.no JOIN bodies ON bodies.no = uses.body AND bodies.is_blob = 1"
        " WHERE log.session = ? AND log.strand IN (?, ?)",
        (number, turn.session.no, turn.strand, -turn.no),
    )


def import_session(
    rows: Rows, session: ImportedSession, pages: Sequence[SplitPage], now_ms: int
) -> bool:
    """Make a session with the history that it had in another store."""
    session_id, link = session.session_id, strand_seed(session.session_id)
    links = [link := link_page(link, data) for data, _ in pages]
    known = rows.find_session(session_id)
    if known is not None:
        rules.living(known, session_id, field="session_id")
        # The link covers all pages and the id.
        if (known.agent, known.head, known.link) == (session.agent, len(pages), link):
            return True
        raise IdempotencyConflict(f"session {session_id}: exists already", field="session_id")
    made = create_session(
        rows, session_id, session.agent, session.created_ms, Origin(len(pages), link)
    )
    for head, (turn, (data, long_texts)) in enumerate(zip(session.turns, pages, strict=True), 1):
        page = (made.no, 0, head, links[head - 1], data)
        number = insert_untold(rows.db, page, long_texts, now_ms)
        use_blobs(rows.db, number, turn.blobs)
        if turn.request_digest is None:
            continue
        digest, ended_ms = canonical.digest(turn.page), turn.page.committed_ms
        values = (turn.page.turn_id, head, head, session.agent, turn.request_digest, head, digest)
        rows.db.execute(_INSERT_ENDED, (made.no, *values, ended_ms))
    rows.db.execute("UPDATE sessions SET arrivals = ? WHERE no = ?", (len(pages), made.no))
    rows.forget_session(session_id)
    return True


class OwnPage(NamedTuple):
    """The page that a fork adds to what it shares, as it is stored, and the blobs that it refers to."""

    page: SplitPage
    blobs: tuple[str, ...]


def fork(
    rows: Rows, session_id: str, new_id: str, at: int | None, now_ms: int, own: OwnPage | None
) -> bool:
    """Begin a session behind the `at`-th turn of another; `own` is the page that it adds to them."""
    check_id(new_id, field="session_id")
    again, parent = bool(rows.earlier), rows.session(session_id)
    shared = rules.fork_head(parent, at)
    link, head = link_at(rows.db, parent, shared), shared
    if own is not None:
        link, head = link_page(link, own.page[0]), shared + 1
    known = rows.find_session(new_id)
    if known is not None:
        rules.living(known, new_id, field="new_id")
        is_same = (known.parent, known.parent_head) == (parent.no, shared)
        if again and is_same and (known.head, known.link) == (head, link):
            return True
        raise IdempotencyConflict(f"session {new_id}: exists already", field="new_id")
    origin = Origin(head, link, parent.no, shared)
    forked = create_session(rows, new_id, parent.agent, now_ms, origin)
    if own is not None:
        data, long_texts = own.page
        number = insert_untold(rows.db, (forked.no, 0, head, link, data), long_texts, now_ms)
        use_blobs(rows.db, number, own.blobs)
    return True

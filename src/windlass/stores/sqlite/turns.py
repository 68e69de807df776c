"""Turns: accepted, parked, cancelled, committed; and sessions, made by their first turn or forked from another."""

from __future__ import annotations

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
from windlass.ports.unit import CommitReceipt, NewTurn, TurnReceipt, Unit, UnitReceipt
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
_INSERT_SESSION = (
    "INSERT INTO sessions (id, agent, created_ms, generation, head, link, arrivals, parent, parent_head)"  # noqa: S608 - a constant
    f" VALUES (?, ?, ?, 0, ?, ?, 0, ?, ?) RETURNING {SESSION_COLUMNS}"
)


def when(unit: Unit) -> int:
    """Return the time that a unit says it is."""
    for part in (unit.commit, unit.start, unit.accept):
        if part is not None:
            return part.now_ms
    return 0


def accept(
    rows: Rows, unit: Unit, turn: NewTurn, request: SplitPage | None, encoder: Encoder
) -> TurnReceipt | None:
    """Accept a turn, in a session that is made if it is new."""
    assert request is not None  # noqa: S101 - it is encoded with the acceptance
    earlier: UnitReceipt | None = rows.earlier
    check_place(unit.session_id, unit.turn_id)
    session_id, turn_id = unit.session_id, unit.turn_id
    session = rows.find_session(session_id)
    if session is None:
        origin = Origin(0, strand_seed(session_id))
        session = create_session(rows, session_id, turn.agent, turn.now_ms, origin)
    rules.living(session, session_id)
    digest = turn.request.digest()
    known = rows.find_turn(session, turn_id)
    if known is not None:
        rules.check_same(known.digest, digest, f"turn {turn_id}", field="turn_id")
        again = TurnReceipt(session_id=session_id, turn_id=turn_id, state=known.state, known=True)
        return again if earlier is None else earlier.accepted
    arrived = rows.next_arrival(session)
    submitter = encoder.words(turn.submitter or "") or None
    by = encoder.words(turn.by or "") or None
    values = (session.no, turn_id, arrived, turn.agent, digest, submitter, by)
    known = session.turns[turn_id] = TurnRow(session, first(rows.db, _INSERT_TURN, values))
    data, long_texts = request
    link = link_page(strand_seed(session_id, f"{turn_id}/request"), data)
    row = (session.no, -known.no, 0, link, data)
    page = insert_page(rows.db, row, long_texts, turn.now_ms)
    use_blobs(rows.db, page, unit.blobs)
    inbox.enter(rows, session, known.no, turn.takes)
    return TurnReceipt(session_id=session_id, turn_id=turn_id, state="queued")


class Origin(NamedTuple):
    """Where a session's history begins: at nothing, or behind a page of another's."""

    head: int
    link: bytes
    parent: int | None = None
    parent_head: int | None = None


def create_session(
    rows: Rows, session_id: str, agent: str, now_ms: int, origin: Origin
) -> SessionRow:
    """Make a session."""
    session = rows.sessions[session_id] = SessionRow(session_id)
    session.fill(first(rows.db, _INSERT_SESSION, (session_id, agent, now_ms, *origin)))
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
    """Mark a turn as cancelled."""
    earlier: CancelReceipt | None = rows.earlier
    session = rows.find_session(session_id)
    turn = None if session is None else rows.find_turn(session, turn_id)
    receipt = rules.cancel_receipt(turn)
    if turn is None or receipt.status != "requested":
        is_mine = receipt.status == "already" and turn is not None and turn.cancel == reason
        return earlier if is_mine and earlier is not None else receipt
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
    for item in end.follow_ups:
        inbox.enqueue(rows, session, item, encoder, end.now_ms)
    waits.supersede_open(rows, turn)
    session.head, session.link, session.active, session.usage = head, link, None, packed
    turn.head, turn.commit_digest = head, digest
    session.turns.pop(turn.id, None)  # of those that have ended a session can have any number
    return receipt_of(turn)


def _carry_blobs(rows: Rows, turn: TurnRow, number: int) -> None:
    """Make the history hold on to what the journal held on to: it is kept longer."""
    rows.db.execute(
        "INSERT OR IGNORE INTO uses (log, body) SELECT ?, bodies.no FROM log"
        " JOIN uses ON uses.log = log.no JOIN bodies ON bodies.no = uses.body AND bodies.is_blob = 1"
        " WHERE log.session = ? AND log.strand IN (?, ?)",
        (number, turn.session.no, turn.strand, -turn.no),
    )


def fork(rows: Rows, session_id: str, new_id: str, at: int | None, now_ms: int) -> bool:
    """Begin a session behind the `at`-th turn of another."""
    check_id(new_id, field="session_id")
    again, parent = bool(rows.earlier), rows.session(session_id)
    head = rules.fork_head(parent, at)
    known = rows.find_session(new_id)
    if known is not None:
        rules.living(known, new_id, field="new_id")
        if again and (known.parent, known.parent_head) == (parent.no, head):
            return True
        raise IdempotencyConflict(f"session {new_id}: is there already", field="new_id")
    link = link_at(rows.db, parent, head)
    create_session(rows, new_id, parent.agent, now_ms, Origin(head, link, parent.no, head))
    return True

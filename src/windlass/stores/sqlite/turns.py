"""Turns: accepted, parked, cancelled, committed; and sessions, made by their first turn or forked from another."""

from __future__ import annotations

from typing import NamedTuple

from windlass.errors import (
    HeadMoved,
    IdempotencyConflict,
    InvalidInput,
    SessionDeleted,
    TurnCancelled,
)
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
from windlass.kernel.outcomes import Stopped
from windlass.ports.inbox import NewItem
from windlass.ports.unit import CommitReceipt, NewTurn, TurnCommit, TurnReceipt, Unit
from windlass.ports.views import CancelReceipt
from windlass.ports.waits import Wait, WaitAnswer
from windlass.stores.sqlite import inbox, waits
from windlass.stores.sqlite.history import check_head, link_at
from windlass.stores.sqlite.pages import (
    Encoder,
    RequestPage,
    SplitPage,
    insert_page,
    pack,
    use_blobs,
)
from windlass.stores.sqlite.rows import Rows, SessionRow, TurnRow, read_usage

# Pages are read on threads, where decoders cannot be made any more: two threads that make one at once would crash.
canonical.prepare(
    RequestPage, JournalPage, HistoryPage, Wait, WaitAnswer, NewItem, tuple[UsageLine, ...]
)


def when(unit: Unit) -> int:
    """Return the time that a unit says it is."""
    for part in (unit.commit, unit.start, unit.accept):
        if part is not None:
            return part.now_ms
    return 0


def accept(
    rows: Rows, unit: Unit, turn: NewTurn, request: SplitPage, encoder: Encoder
) -> TurnReceipt:
    """Accept a turn, in a session that is made if it is new."""
    check_place(unit.session_id, unit.turn_id)
    session_id, turn_id = unit.session_id, unit.turn_id
    session = rows.find_session(session_id)
    if session is None:
        session = create_session(rows, session_id, turn.agent, turn.now_ms)
    if session.deleted_ms is not None:
        raise SessionDeleted(f"session {session_id}: was deleted", field="session_id")
    digest = turn.request.digest()
    known = rows.find_turn(session, turn_id)
    if known is not None:
        if known.digest != digest:
            raise IdempotencyConflict(
                f"turn {turn_id}: is known with another request", field="turn_id"
            )
        return TurnReceipt(session_id=session_id, turn_id=turn_id, state=known.state, known=True)
    arrived = next_arrival(rows, session)
    submitter = encoder.words(turn.submitter or "") or None
    by = encoder.words(turn.by or "") or None
    rows.db.execute(
        "INSERT INTO turns (session, id, state, arrived, agent, digest, submitter, asked_by, takeovers,"
        " takeover_mark, answered) VALUES (?, ?, 'queued', ?, ?, ?, ?, ?, 0, 0, 0)",
        (session.no, turn_id, arrived, turn.agent, digest, submitter, by),
    )
    number = rows.db.last_insert_rowid()
    known = session.turns[turn_id] = TurnRow(session)
    known.fill(
        (
            number,
            turn_id,
            "queued",
            arrived,
            None,
            turn.agent,
            digest,
            submitter,
            None,
            0,
            0,
            0,
            None,
            None,
            None,
            by,
        )
    )
    data, long_texts = request
    link = link_page(strand_seed(session_id, f"{turn_id}/request"), data)
    row = (session.no, -number, 0, link, data)
    page = insert_page(rows.db, row, long_texts, turn.now_ms)
    use_blobs(rows.db, page, unit.blobs)
    inbox.enter(rows, session, number, turn.takes)
    return TurnReceipt(session_id=session_id, turn_id=turn_id, state="queued")


class Origin(NamedTuple):
    """Where a session's history begins: at nothing, or behind a page of another's."""

    head: int
    link: bytes
    parent: int | None = None


def create_session(
    rows: Rows, session_id: str, agent: str, now_ms: int, origin: Origin | None = None
) -> SessionRow:
    """Make a session."""
    head, link, parent = origin or Origin(0, strand_seed(session_id))
    rows.db.execute(
        "INSERT INTO sessions (id, agent, created_ms, generation, head, link, arrivals, parent, parent_head)"
        " VALUES (?, ?, ?, 0, ?, ?, 0, ?, ?)",
        (session_id, agent, now_ms, head, link, parent, None if parent is None else head),
    )
    session = rows.sessions[session_id] = SessionRow(session_id)
    parent_head = None if parent is None else head
    session.fill(
        (
            rows.db.last_insert_rowid(),
            agent,
            now_ms,
            None,
            0,
            None,
            head,
            link,
            None,
            0,
            parent,
            parent_head,
            None,
        )
    )
    session.seen, session.head_checked = rows.version, True
    return session


def next_arrival(rows: Rows, session: SessionRow) -> int:
    """Return the next place in the session's one queue of turns and items."""
    arrived: int = session.arrivals + 1
    rows.db.execute("UPDATE sessions SET arrivals = ? WHERE no = ?", (arrived, session.no))
    session.arrivals = arrived
    return arrived


def park(rows: Rows, turn: TurnRow) -> None:
    """Park a turn until one of its waits is answered; if one was meanwhile, it is ready again."""
    is_ready = turn.answered or turn.cancel is not None
    set_state(rows, turn, "ready" if is_ready else "parked")


def set_running(rows: Rows, turn: TurnRow) -> None:
    """Mark a turn as running."""
    turn.answered = 0
    set_state(rows, turn, "running")


def set_state(rows: Rows, turn: TurnRow, state: str) -> None:
    """Change where a turn is."""
    rows.db.execute(
        "UPDATE turns SET state = ?, answered = ? WHERE no = ?", (state, turn.answered, turn.no)
    )
    turn.state = state


def request_cancel(rows: Rows, session_id: str, turn_id: str, reason: str) -> CancelReceipt:
    """Mark a turn as cancelled."""
    earlier: CancelReceipt | None = rows.earlier
    session = rows.find_session(session_id)
    turn = None if session is None else rows.find_turn(session, turn_id)
    if turn is None:
        return CancelReceipt(status="unknown")
    if turn.state == "done":
        return CancelReceipt(status="finished")
    if turn.cancel is not None:
        mine = earlier is not None and turn.cancel == reason
        return earlier if mine and earlier else CancelReceipt(status="already")
    rows.db.execute("UPDATE turns SET cancel = ? WHERE no = ?", (reason, turn.no))
    turn.cancel = reason
    if turn.state == "parked":
        turn.answered = 1
        set_state(rows, turn, "ready")
    return CancelReceipt(status="requested")


def commit(rows: Rows, turn: TurnRow, unit: Unit, encoder: Encoder) -> CommitReceipt:
    """End a turn: history, head, outcome, inbox, follow-ups, all or nothing."""
    end = unit.commit
    assert end is not None  # noqa: S101 - the caller looked
    if unit.parks:
        raise InvalidInput("Unit.parks: a turn that commits does not park", field="Unit.parks")
    session = turn.session
    _check_end(session, turn, end)
    check_head(rows.db, session)
    usage = end.usage
    head = session.head + 1
    data, long_texts = encoder.page(
        HistoryPage(
            format=HistoryPage.FORMAT,
            turn_id=turn.id,
            nodes=end.nodes,
            outcome=end.outcome,
            usage=usage,
            events=end.events,
            committed_ms=end.now_ms,
            prefix=end.prefix,
        )
    )
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
    rows.drop_turn(turn)
    return CommitReceipt(session_id=session.id, turn_id=turn.id, head=head, digest=digest)


def receipt_of(turn: TurnRow) -> CommitReceipt:
    """Return the receipt of a turn that has ended."""
    return CommitReceipt(
        session_id=turn.session.id, turn_id=turn.id, head=turn.head, digest=turn.commit_digest
    )


def _check_end(session: SessionRow, turn: TurnRow, end: TurnCommit) -> None:
    cancelled = isinstance(end.outcome, Stopped) and end.outcome.reason == "cancelled"
    if turn.cancel is not None and not cancelled:
        raise TurnCancelled(f"turn {turn.id}: was cancelled; it can only end so")
    if end.expected_head != session.head:
        raise HeadMoved(
            f"session {session.id}: its head is {session.head}, this commit expects {end.expected_head}",
            field="expected_head",
            found=session.head,
            wanted=end.expected_head,
        )
    if not isinstance(end.nodes, tuple):
        raise InvalidInput("TurnCommit.nodes: wanted a tuple", field="TurnCommit.nodes")


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
    head = parent.head if at is None else at
    if type(head) is not int or not 0 <= head <= parent.head:
        raise InvalidInput(
            f"at: found {head!r}, wanted a turn of 0 to {parent.head}",
            field="at",
            found=head,
            wanted=f"0 to {parent.head}",
        )
    known = rows.find_session(new_id)
    if known is not None:
        if known.deleted_ms is not None:
            raise SessionDeleted(f"session {new_id}: was deleted", field="new_id")
        if again and (known.parent, known.parent_head) == (parent.no, head):
            return True
        raise IdempotencyConflict(f"session {new_id}: is there already", field="new_id")
    link = link_at(rows.db, parent, head)
    create_session(rows, new_id, parent.agent, now_ms, Origin(head, link, parent.no))
    return True

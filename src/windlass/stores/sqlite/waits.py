"""Waits: opened by a turn, answered once, from any process."""

from __future__ import annotations

from typing import Any, get_args

import apsw

from windlass.ports.waits import AnswerStatus, Wait, WaitAnswer, WaitReceipt, WaitState, WaitView
from windlass.stores import rules
from windlass.stores.sqlite import news
from windlass.stores.sqlite.connection import corrupt, first, select
from windlass.stores.sqlite.pages import Encoder, unpack
from windlass.stores.sqlite.rows import Rows, TurnRow

_WAITS = (
    "SELECT sessions.id, turns.id, key, waits.kind, expires_ms, waits.state, consumed, wait, answer, page FROM waits"
    " LEFT JOIN sessions ON sessions.no = waits.session LEFT JOIN turns ON turns.no = waits.turn "
)
_OPEN = "WHERE waits.state = 'open'"
_WHERE = {
    "kind": " AND waits.kind = :kind",
    # What is open is of the turn that its session is at.
    "session": " AND waits.turn = (SELECT active FROM sessions WHERE id = :session)",
    "turn": " AND waits.turn = (SELECT turns.no FROM sessions JOIN turns ON turns.session = sessions.no"
    " WHERE sessions.id = :session AND turns.id = :turn)",
    "key": " AND key = :key",
    "after": " AND waits.no > (SELECT no FROM waits WHERE key = :after)",
}
_OLDEST_FIRST = " ORDER BY +waits.no LIMIT :limit"
_STATES = frozenset(get_args(WaitState))
# A turn that ends supersedes its open waits, which then have no answer.
_UNANSWERED = frozenset({"open", "superseded"})


def open_wait(rows: Rows, turn: TurnRow, wait: Wait, encoder: Encoder) -> bool:
    """Open a wait; the same one again stays as it stands. Return whether it is new."""
    known = find(rows.db, wait.key)
    packed = encoder.pack(wait)
    if known is not None:
        rules.check_same(encoder.pack(known.wait), packed, "Wait.key", field="Wait.key")
        return False
    rules.check_wait(turn, wait)
    name = encoder.words(rules.awaited_signal(wait) or "") or None
    place = (wait.key, turn.session.no, turn.no, wait.kind, name, wait.expires_ms)
    rows.db.execute(
        "INSERT INTO waits (key, session, turn, kind, signal, state, consumed, expires_ms, wait, page)"
        " VALUES (?, ?, ?, ?, ?, 'open', 0, ?, ?, ?)",
        (*place, packed, turn.pages),
    )
    number = rows.db.last_insert_rowid()
    news.tell(rows.db, "opened", session=turn.session.no, turn=turn.no, wait=number)
    return True


def find(db: apsw.Connection, key: str) -> WaitView | None:
    """Return the wait of a key as it stands."""
    found = first(db, _WAITS + "WHERE key = ?", (key,))
    return None if found is None else _view(found)


def of_turn(db: apsw.Connection, turn: TurnRow) -> tuple[WaitView, ...]:
    """Return the waits of a turn, in the order in which they were opened."""
    return tuple(map(_view, select(db, _WAITS + "WHERE turn = ? ORDER BY waits.no", (turn.no,))))


def list_open(rows: Rows, wanted: dict[str, str | int | None]) -> tuple[WaitView, ...]:
    """Return the open waits, oldest first: of a kind, a session, a turn or a key, behind another, up to a limit."""
    after = wanted["after"]
    if after is not None and first(rows.db, "SELECT 1 FROM waits WHERE key = ?", (after,)) is None:
        raise rules.unknown_wait("after")
    where = "".join(one for name, one in _WHERE.items() if wanted[name] is not None)
    return tuple(map(_view, select(rows.db, _WAITS + _OPEN + where + _OLDEST_FIRST, wanted)))


def consume(rows: Rows, turn: TurnRow, key: str) -> None:
    """Use up the answer to a wait: it allows one call."""
    found = first(rows.db, _WAITS + "WHERE key = ? AND turn = ?", (key, turn.no))
    rules.usable(None if found is None else _view(found))
    rows.db.execute("UPDATE waits SET consumed = 1 WHERE key = ?", (key,))


def resolve(rows: Rows, key: str, answer: WaitAnswer, encoder: Encoder) -> WaitReceipt:
    """Answer a wait for a caller from outside; the first answer stands."""
    again = rows.earlier is not None
    view = rules.found_wait(find(rows.db, key))
    rules.check_answers(view.wait, answer)
    receipt, is_same = settle(rows, view, answer, encoder)
    if again and is_same:
        return rules.first_answer(rules.standing_answer(view.wait, answer), answer)
    return receipt


def settle(
    rows: Rows, view: WaitView, answer: WaitAnswer, encoder: Encoder
) -> tuple[WaitReceipt, bool]:
    """Answer a wait; return what became of the answer, and whether this very one stood before."""
    stands = rules.standing_answer(view.wait, answer)
    packed = encoder.pack(stands)
    if view.state != "open":
        return rules.late_answer(view), _has_answer(rows.db, view.wait.key, packed)
    end(rows, view.wait, stands.status, packed)
    return rules.first_answer(stands, answer), False


def end(rows: Rows, wait: Wait, status: AnswerStatus, packed: bytes) -> None:
    """End an open wait with an answer, of which these are the bytes."""
    ended = "UPDATE waits SET state = ?, answer = ? WHERE key = ? RETURNING session, turn, no"
    session, turn, number = first(rows.db, ended, (status, packed, wait.key))
    news.tell(rows.db, "answered", session=session, turn=turn, wait=number)
    _wake(rows, wait)


def supersede_open(rows: Rows, turn: TurnRow) -> None:
    """End the waits of a turn that has ended."""
    end = "UPDATE waits SET state = 'superseded' WHERE turn = ? AND state = 'open' RETURNING no"
    for (number,) in sorted(select(rows.db, end, (turn.no,))):
        news.tell(rows.db, "answered", session=turn.session.no, turn=turn.no, wait=number)


def _wake(rows: Rows, wait: Wait) -> None:
    session = rows.find_session(wait.session_id)
    turn = None if session is None else rows.find_turn(session, wait.turn_id)
    if turn is None or turn.state == "done":
        return
    turn.answered = 1
    turn.state = "ready" if turn.state == "parked" else turn.state
    rows.db.execute("UPDATE turns SET state = ?, answered = 1 WHERE no = ?", (turn.state, turn.no))


def _has_answer(db: apsw.Connection, key: str, packed: bytes) -> bool:
    """Whether these very bytes are the answer: what was kept may hold less than what was said."""
    query = "SELECT 1 FROM waits WHERE key = ? AND answer = ?"
    return first(db, query, (key, packed)) is not None


def _view(found: Any) -> WaitView:  # noqa: ANN401 - a row of apsw's
    session_id, turn_id, key, kind, expires_ms, state, consumed, stored, packed, page = found
    # Its key is a secret; its turn says where it is.
    place = f"wait of {session_id}/{turn_id}"
    wait = unpack(stored, Wait, place=place)
    answer = None if packed is None else unpack(packed, WaitAnswer, place=f"answer to a {place}")
    columns = (session_id, turn_id, key, kind, expires_ms)
    if columns != (wait.session_id, wait.turn_id, wait.key, wait.kind, wait.expires_ms):
        raise corrupt(place, "the row is of another wait")
    if state not in _STATES:
        raise corrupt(place, "is in a state that is none")
    unanswered = answer is None and state in _UNANSWERED
    answered = answer is not None and answer.status == state
    if not (unanswered or answered) or (consumed and state != "answered"):
        raise corrupt(place, f"is {state}, and its answer says otherwise")
    return WaitView(wait=wait, state=state, consumed=bool(consumed), answer=answer, page=page)

"""Waits: the first answer stands, and wakes the turn that waits for it."""

from __future__ import annotations

from typing import Literal

from windlass.errors import InvalidInput
from windlass.ports import CancelReceipt, WaitAnswer, WaitReceipt, WaitView
from windlass.stores.memory.rows import Tables

_ENDED: dict[str, Literal["expired", "superseded"]] = {
    "expired": "expired",
    "superseded": "superseded",
}


def resolve(tables: Tables, key: str, answer: WaitAnswer) -> WaitReceipt:
    """Answer a wait.

    Raises:
        InvalidInput: there is no such wait. Its key is a secret and stands in no message.
    """
    place = tables.waits.get(key)
    if place is None:
        raise InvalidInput("key: there is no wait of this key", field="key")
    _, turn = place
    row = turn.waits[key]
    if row.state != "open":
        return WaitReceipt(status=_ENDED.get(row.state, "already"), answer=row.answer)
    expires_ms = row.wait.expires_ms
    is_late = expires_ms is not None and answer.now_ms >= expires_ms
    if is_late and answer.status != "expired":
        row.state, row.answer = "expired", WaitAnswer(status="expired", now_ms=answer.now_ms)
    else:
        row.state, row.answer = answer.status, answer
    # A parked turn goes on; one that has yet to park will not stay so.
    turn.answered = True
    if turn.state == "parked":
        turn.state = "ready"
    is_accepted = row.answer is answer
    return WaitReceipt(status="accepted" if is_accepted else "expired", answer=row.answer)


def cancel(tables: Tables, session_id: str, turn_id: str, *, reason: str) -> CancelReceipt:
    """Mark a turn as cancelled."""
    found = tables.find_turn(session_id, turn_id)
    if found is None:
        return CancelReceipt(status="unknown")
    _, turn = found
    if turn.state == "done":
        return CancelReceipt(status="finished")
    if turn.cancel is not None:
        return CancelReceipt(status="already")
    turn.cancel = reason
    if turn.state == "parked":
        turn.state = "ready"
    return CancelReceipt(status="requested")


def open_waits(
    tables: Tables, *, kind: str | None, session_id: str | None, turn_id: str | None
) -> tuple[WaitView, ...]:
    """Return the open waits, oldest first."""
    rows = (turn.waits[key] for key, (_, turn) in tables.waits.items())
    found = [
        row
        for row in rows
        if row.state == "open"
        and (kind is None or row.wait.kind == kind)
        and (session_id is None or row.wait.session_id == session_id)
        and (turn_id is None or row.wait.turn_id == turn_id)
    ]
    return tuple(row.view() for row in sorted(found, key=lambda row: row.opened))

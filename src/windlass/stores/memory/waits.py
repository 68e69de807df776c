"""Waits, of which the first answer stands and wakes the turn; and what is due."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from operator import itemgetter
from typing import Literal, TypeVar

from windlass.errors import InvalidInput
from windlass.ports import (
    CancelReceipt,
    Due,
    DueCancel,
    DueInbox,
    DueTurn,
    DueWait,
    WaitAnswer,
    WaitReceipt,
    WaitView,
)
from windlass.stores.memory.leases import Workers
from windlass.stores.memory.rows import SessionRow, Tables, TurnRow

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


D = TypeVar("D", DueTurn, DueCancel, DueInbox)


def due(
    tables: Tables, workers: Workers, now_ms: int, *, agents: Collection[str] | None, limit: int
) -> Due:
    """Return what there is to do, oldest first."""

    def pick(found: Iterable[tuple[int, D]]) -> tuple[D, ...]:
        ordered = sorted(found, key=itemgetter(0))
        wanted = [item for _, item in ordered if agents is None or item.agent in agents]
        return tuple(wanted[:limit])

    waits = sorted(_due_waits(tables, now_ms), key=itemgetter(0))
    return Due(
        turns=pick(_due_turns(tables, workers, now_ms)),
        waits=tuple(wait for _, wait in waits[:limit]),
        cancels=pick(_due_cancels(tables)),
        inboxes=pick(_due_inboxes(tables)),
    )


def _due_turns(tables: Tables, workers: Workers, now_ms: int) -> Iterator[tuple[int, DueTurn]]:
    """At most one turn of a session is due: the one under way, or else the oldest that waits."""
    for session in tables.live_sessions():
        turn_id = session.active or next(iter(session.queue), None)
        if turn_id is None:
            continue
        turn = session.turns[turn_id]
        if turn.state == "queued":
            yield turn.accepted, _row(session, turn, why="queued")
        elif turn.state != "parked" and workers.is_free(session, now_ms):
            why = "answered" if turn.state == "ready" else "abandoned"
            yield turn.accepted, _row(session, turn, why=why)


def _row(session: SessionRow, turn: TurnRow, *, why: str) -> DueTurn:
    return DueTurn(
        session_id=session.session_id,
        turn_id=turn.turn_id,
        agent=turn.agent,
        why=why,  # type: ignore[arg-type]  # one of the three
        owner=session.owner,
    )


def _due_cancels(tables: Tables) -> Iterator[tuple[int, DueCancel]]:
    for session in tables.live_sessions():
        turn = session.turns[session.active] if session.active is not None else None
        if turn is not None and turn.state == "running" and turn.cancel is not None:
            yield (
                turn.accepted,
                DueCancel(
                    session_id=session.session_id,
                    turn_id=turn.turn_id,
                    agent=turn.agent,
                    owner=session.owner,
                ),
            )


def _due_inboxes(tables: Tables) -> Iterator[tuple[int, DueInbox]]:
    for session in tables.live_sessions():
        pending = [row for row in session.items.values() if row.state == "pending"]
        turn = session.turns[session.active] if session.active is not None else None
        # Nothing enters a parked turn: what waits there is due when the turn goes on.
        if pending and (turn is None or turn.state != "parked"):
            first = min(pending, key=lambda row: row.enqueued)
            yield (
                first.enqueued,
                DueInbox(
                    session_id=session.session_id,
                    agent=session.agent,
                    active=session.active,
                    now=any(row.item.when == "now" for row in pending),
                    first=first.view(),
                ),
            )


def _due_waits(tables: Tables, now_ms: int) -> Iterator[tuple[tuple[int, int], DueWait]]:
    for key, (session, turn) in tables.waits.items():
        row = turn.waits[key]
        expires_ms = row.wait.expires_ms
        if row.state == "open" and expires_ms is not None and expires_ms <= now_ms:
            yield (
                (expires_ms, row.opened),
                DueWait(
                    key=key,
                    kind=row.wait.kind,
                    session_id=session.session_id,
                    turn_id=turn.turn_id,
                    expires_ms=expires_ms,
                ),
            )

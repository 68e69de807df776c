"""Waits, of which the first answer stands and wakes the turn; and what is due."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from operator import attrgetter, itemgetter
from typing import TypeVar

from msgspec.structs import replace

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
from windlass.stores import rules
from windlass.stores.memory.leases import Workers
from windlass.stores.memory.rows import Changes, Tables, TurnRow


def resolve(tables: Tables, key: str, answer: WaitAnswer) -> WaitReceipt:
    """Answer a wait for a caller from outside."""
    turn, view = find(tables, key)
    rules.check_answers(view.wait, answer)
    receipt, _ = settle(turn, view, answer, Changes())
    return receipt


def find(tables: Tables, key: str) -> tuple[TurnRow, WaitView]:
    """Return a wait that is there, with its turn."""
    turn = tables.waits.get(key)
    view = rules.found_wait(None if turn is None else turn.waits[key])
    return tables.waits[key], view


def settle(
    turn: TurnRow, view: WaitView, answer: WaitAnswer, changes: Changes
) -> tuple[WaitReceipt, bool]:
    """Answer a wait; return what became of the answer, and whether this very one stood before."""
    stands = rules.standing_answer(view.wait, answer)
    if view.state != "open":
        return rules.late_answer(view), view.answer == stands
    changes.put(turn.waits, view.wait.key, replace(view, state=stands.status, answer=stands))
    # A parked turn goes on; one that has yet to park will not stay so.
    changes.set(turn, answered=True)
    _wake(turn, changes)
    return rules.first_answer(stands, answer), False


def cancel(turn: TurnRow | None, reason: str, changes: Changes) -> CancelReceipt:
    """Mark a turn as cancelled."""
    receipt = rules.cancel_receipt(turn)
    if turn is not None and receipt.status == "requested":
        changes.set(turn, cancel=reason)
        _wake(turn, changes)
    return receipt


def _wake(turn: TurnRow, changes: Changes) -> None:
    if turn.state == "parked":
        changes.set(turn, state="ready")


def open_waits(tables: Tables, wanted: dict[str, str | None]) -> Iterator[WaitView]:
    """Return the open waits whose fields are as wanted, where something is; oldest first."""
    told = [(name, value) for name, value in wanted.items() if value is not None]
    for key, turn in tables.waits.items():
        view = turn.waits[key]
        is_wanted = all(getattr(view.wait, name) == value for name, value in told)
        if view.state == "open" and is_wanted:
            yield view


D = TypeVar("D", DueTurn, DueCancel, DueInbox)


def due(
    tables: Tables, workers: Workers, now_ms: int, *, agents: Collection[str] | None, limit: int
) -> Due:
    """Return what there is to do, oldest first."""

    def pick(found: Iterable[tuple[int, D]]) -> tuple[D, ...]:
        ordered = sorted(found, key=itemgetter(0))
        wanted = [item for _, item in ordered if agents is None or item.agent in agents]
        return tuple(wanted[:limit])

    waits = sorted(_due_waits(tables, now_ms), key=attrgetter("expires_ms"))
    return Due(
        turns=pick(_due_turns(tables, workers, now_ms)),
        waits=tuple(waits[:limit]),
        cancels=pick(_due_cancels(tables)),
        inboxes=pick(_due_inboxes(tables)),
    )


def _due_turns(tables: Tables, workers: Workers, now_ms: int) -> Iterator[tuple[int, DueTurn]]:
    """At most one turn of a session is due: the one under way, or else the oldest that waits."""
    for session in tables.live_sessions():
        turn = session.next_turn
        why = None if turn is None else rules.WHY_DUE.get(turn.state)
        if turn is None or why is None:
            continue
        if why == "queued" or workers.is_free(session, now_ms):
            found = DueTurn(
                session_id=session.id,
                turn_id=turn.id,
                agent=turn.agent,
                why=why,
                owner=session.owner,
            )
            yield turn.no, found


def _due_cancels(tables: Tables) -> Iterator[tuple[int, DueCancel]]:
    for session in tables.live_sessions():
        turn = session.next_turn
        if turn is not None and turn.state == "running" and turn.cancel is not None:
            found = DueCancel(
                session_id=session.id, turn_id=turn.id, agent=turn.agent, owner=session.owner
            )
            yield turn.no, found


def _due_inboxes(tables: Tables) -> Iterator[tuple[int, DueInbox]]:
    for session in tables.live_sessions():
        pending = [row for row in session.items.values() if row.item.state == "pending"]
        turn = session.next_turn
        # Nothing enters a parked turn: what waits there is due when the turn goes on.
        if pending and (turn is None or turn.state != "parked"):
            first = min(pending, key=attrgetter("no"))
            found = DueInbox(
                session_id=session.id,
                agent=session.agent,
                active=session.active_id,
                now=any(row.item.when == "now" for row in pending),
                first=first.item,
            )
            yield first.no, found


def _due_waits(tables: Tables, now_ms: int) -> Iterator[DueWait]:
    for view in open_waits(tables, {}):
        wait = view.wait
        if wait.expires_ms is not None and wait.expires_ms <= now_ms:
            yield DueWait(
                key=wait.key,
                kind=wait.kind,
                session_id=wait.session_id,
                turn_id=wait.turn_id,
                expires_ms=wait.expires_ms,
            )

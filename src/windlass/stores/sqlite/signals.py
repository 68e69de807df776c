"""Signals: an item that a turn asks for by name, and the wait that asks, meet in whichever order they come."""

from __future__ import annotations

from windlass.ports import NewItem, Wait, WaitAnswer
from windlass.stores import rules
from windlass.stores.sqlite import waits
from windlass.stores.sqlite.connection import first
from windlass.stores.sqlite.pages import Encoder, unpack
from windlass.stores.sqlite.rows import Rows, SessionRow, TurnRow

# Each is the whole key of an index that holds only what is not over.
OLDEST_WAIT = (
    "SELECT key FROM waits WHERE turn = ? AND signal = ? AND state = 'open'"
    " AND (expires_ms IS NULL OR expires_ms > ?) ORDER BY no LIMIT 1"
)
OLDEST_ITEM = (
    "SELECT no, item FROM inbox WHERE session = ? AND signal = ? AND state = 'pending' AND due = 'asked'"
    " ORDER BY arrived LIMIT 1"
)
_SETTLE = "UPDATE inbox SET state = 'settled', turn = ?, ended_ms = ? WHERE no = ?"


def posted(rows: Rows, session: SessionRow, name: str, encoder: Encoder, now_ms: int) -> None:
    """Answer the oldest wait for a signal that has just arrived, unless its time is over."""
    if session.active is None:
        return
    found = first(rows.db, OLDEST_WAIT, (session.active, name, now_ms))
    if found is not None:
        view = rules.found_wait(waits.find(rows.db, found[0]))
        _give(rows, session, session.active, view.wait, (name, now_ms), encoder)


def opened(rows: Rows, turn: TurnRow, wait: Wait, encoder: Encoder) -> None:
    """Answer a wait that was just opened with the oldest signal of its name that is there."""
    name = rules.awaited_signal(wait)
    if name is not None:
        # It was there when the wait began, so also a wait without any time gets it.
        told = encoder.words(name), wait.created_ms
        _give(rows, turn.session, turn.no, wait, told, encoder)


def _give(
    rows: Rows,
    session: SessionRow,
    turn_no: int,
    wait: Wait,
    told: tuple[str, int],
    encoder: Encoder,
) -> None:
    """Answer a wait with the oldest signal of a name, if there is one."""
    name, now_ms = told
    found = first(rows.db, OLDEST_ITEM, (session.no, name))
    if found is None:
        return
    number, stored = found
    item = unpack(stored, NewItem, place=f"inbox of {session.id}, signal {name}")
    answer: WaitAnswer = rules.signal_answer(item.content, now_ms)
    waits.end(rows, wait, answer.status, encoder.pack(answer))
    rows.db.execute(_SETTLE, (turn_no, now_ms, number))

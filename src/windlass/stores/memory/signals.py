"""Signals: an item that a turn asks for by name, and the wait that asks, meet in whichever order they come."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from windlass.ports import NewItem, Wait, WaitAnswer
from windlass.stores import rules
from windlass.stores.memory import waits
from windlass.stores.memory.rows import Changes, ItemRow, SessionRow, Tables, TurnRow


def posted(
    tables: Tables, session: SessionRow, item: NewItem, changes: Changes, *, now_ms: int
) -> None:
    """Answer the oldest wait for a signal that has just arrived, unless its time is over."""
    name, turn = rules.signal_name(item), session.active_turn
    if name is None or turn is None:
        return
    asking = (
        view.wait
        for view in turn.waits.values()
        if view.state == "open" and rules.awaited_signal(view.wait) == name
    )
    wait = next((wait for wait in asking if not rules.is_over(wait, now_ms)), None)
    row = _oldest(session, name)
    if wait is not None and row is not None:
        _give(tables, turn, wait, row, rules.signal_answer(row.item.content, now_ms), changes)


def opened(tables: Tables, turn: TurnRow, wait: Wait, changes: Changes) -> None:
    """Answer a wait that was just opened with the oldest signal of its name that is there."""
    name = rules.awaited_signal(wait)
    row = None if name is None else _oldest(turn.session, name)
    if row is not None:
        # It was there when the wait began, so also a wait without any time gets it.
        answer = rules.signal_answer(row.item.content, wait.created_ms)
        _give(tables, turn, wait, row, answer, changes)


def _oldest(session: SessionRow, name: str) -> ItemRow | None:
    waiting = (row for row in session.open_items.values() if row.state == "pending")
    return next((row for row in waiting if rules.signal_name(row.item) == name), None)


def _give(
    tables: Tables, turn: TurnRow, wait: Wait, row: ItemRow, answer: WaitAnswer, changes: Changes
) -> None:
    waits.end(tables, turn, turn.waits[wait.key], answer, changes)
    item = replace(row.item, state="settled", turn_id=turn.id)
    changes.set(row, item=item)
    changes.at_last(partial(turn.session.open_items.pop, item.item_id))

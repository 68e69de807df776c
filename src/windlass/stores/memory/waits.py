"""Waits, of which the first answer stands and wakes the turn."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from windlass.ports import CancelReceipt, WaitAnswer, WaitReceipt, WaitView
from windlass.stores import rules
from windlass.stores.memory import news
from windlass.stores.memory.rows import Changes, Tables, TurnRow


def resolve(tables: Tables, key: str, answer: WaitAnswer) -> WaitReceipt:
    """Answer a wait for a caller from outside."""
    turn, view = find(tables, key)
    rules.check_answers(view.wait, answer)
    receipt, _ = settle(tables, turn, view, answer, Changes())
    return receipt


def find(tables: Tables, key: str) -> tuple[TurnRow, WaitView]:
    """Return a wait that is there, with its turn."""
    turn = tables.waits.get(key)
    view = rules.found_wait(None if turn is None else turn.waits[key])
    return tables.waits[key], view


def settle(
    tables: Tables, turn: TurnRow, view: WaitView, answer: WaitAnswer, changes: Changes
) -> tuple[WaitReceipt, bool]:
    """Answer a wait; return what became of the answer, and whether this very one stood before."""
    stands = rules.standing_answer(view.wait, answer)
    if view.state != "open":
        return rules.late_answer(view), view.answer == stands
    end(tables, turn, view, stands, changes)
    return rules.first_answer(stands, answer), False


def end(
    tables: Tables, turn: TurnRow, view: WaitView, stands: WaitAnswer, changes: Changes
) -> None:
    """End an open wait with this answer."""
    changes.put(turn.waits, view.wait.key, replace(view, state=stands.status, answer=stands))
    news.tell(tables, "answered", changes, turn=turn, wait=view.wait.key)
    # A parked turn goes on; one that has yet to park will not stay so.
    changes.set(turn, answered=True)
    _wake(turn, changes)


def cancel(tables: Tables, turn: TurnRow | None, reason: str, changes: Changes) -> CancelReceipt:
    """Mark a turn as cancelled."""
    receipt = rules.cancel_receipt(turn)
    if turn is not None and receipt.status == "requested":
        changes.set(turn, cancel=reason)
        news.tell(tables, "cancelled", changes, turn=turn)
        _wake(turn, changes)
    return receipt


def _wake(turn: TurnRow, changes: Changes) -> None:
    if turn.state == "parked":
        changes.set(turn, state="ready")


def open_waits(
    tables: Tables, wanted: dict[str, str | None], after: str | None = None
) -> Iterator[WaitView]:
    """Return the open waits whose fields are as wanted, where something is; oldest first, behind one of a key."""
    told = [(name, value) for name, value in wanted.items() if value is not None]
    if after is not None and after not in tables.waits:
        raise rules.unknown_wait("after")
    for key, turn in _behind(tables.waits, after):
        view = turn.waits[key]
        is_wanted = all(getattr(view.wait, name) == value for name, value in told)
        if view.state == "open" and is_wanted:
            yield view


def _behind(waits: dict[str, TurnRow], after: str | None) -> Iterator[tuple[str, TurnRow]]:
    found = iter(waits.items())
    for key, _ in found if after is not None else ():
        if key == after:
            break
    yield from found

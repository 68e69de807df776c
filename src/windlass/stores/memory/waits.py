"""Waits, of which the first answer stands and wakes the turn."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from windlass.ports import CancelReceipt, WaitAnswer, WaitReceipt, WaitView
from windlass.stores import rules
from windlass.stores.memory import news
from windlass.stores.memory.rows import Changes, Tables, TurnRow


def resolve(tables: Tables, key: str, answer: WaitAnswer) -> WaitReceipt:
    """Answer a wait."""
    turn = tables.waits.get(key)
    wait = rules.found_wait(None if turn is None else turn.waits[key])
    if turn is None or wait.state != "open":
        return rules.late_answer(wait)
    stands = rules.standing_answer(wait.wait, answer)
    turn.waits[key] = replace(wait, state=stands.status, answer=stands)
    news.tell(tables, "answered", Changes(), turn=turn, wait=key)
    # A parked turn goes on; one that has yet to park will not stay so.
    turn.answered = True
    _wake(turn)
    return rules.first_answer(stands, answer)


def cancel(tables: Tables, turn: TurnRow | None, reason: str) -> CancelReceipt:
    """Mark a turn as cancelled."""
    receipt = rules.cancel_receipt(turn)
    if turn is not None and receipt.status == "requested":
        turn.cancel = reason
        news.tell(tables, "cancelled", Changes(), turn=turn)
        _wake(turn)
    return receipt


def _wake(turn: TurnRow) -> None:
    if turn.state == "parked":
        turn.state = "ready"


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

"""The inbox: items in order of arrival, each pending, taken, settled or withdrawn."""

from __future__ import annotations

from functools import partial

from msgspec.structs import asdict, replace

from windlass.ports import InboxItem, InboxReceipt, InboxView, NewItem, WithdrawReceipt
from windlass.stores import rules
from windlass.stores.memory import news, signals
from windlass.stores.memory.rows import Changes, ItemRow, SessionRow, Tables, TurnRow


def put(
    tables: Tables, session: SessionRow, item: NewItem, changes: Changes, *, now_ms: int
) -> InboxReceipt:
    """Put an item in, once."""
    known, digest = session.items.get(item.item_id), item.digest()
    if known is not None:
        rules.check_same(known.digest, digest, f"item {item.item_id}", field="NewItem.item_id")
        return InboxReceipt(item_id=item.item_id, state=known.item.state, known=True)
    changes.set(session, arrivals=session.arrivals + 1)
    changes.set(tables, enqueued=tables.enqueued + 1)
    view = InboxItem(**asdict(item), arrived=session.arrivals)
    row = ItemRow(view, digest, tables.enqueued, now_ms)
    changes.put(session.items, item.item_id, row)
    changes.put(session.open_items, item.item_id, row)
    news.tell(tables, "arrived", changes, session=session)
    signals.posted(tables, session, item, changes, now_ms=now_ms)
    return InboxReceipt(item_id=item.item_id, state="pending")


def first_place(session: SessionRow, takes: tuple[str, ...]) -> int | None:
    """Return the place of the first of these items, which all wait; None of none."""
    waiting = [rules.entering(item_id, session.items.get(item_id)) for item_id in takes]
    return min((row.item.arrived for row in waiting), default=None)


def enter(turn: TurnRow, takes: tuple[str, ...], changes: Changes) -> None:
    """Take items into a turn that is being accepted; it has no generation yet."""
    items = turn.session.items
    for item_id in dict.fromkeys(takes):
        row = rules.entering(item_id, items.get(item_id))
        changes.set(row, item=replace(row.item, state="taken", turn_id=turn.id))


def take(turn: TurnRow, *, generation: int, limit: int) -> tuple[InboxItem, ...]:
    """Take what waits for now into the turn, and again what it took before."""
    rules.check_fence(turn.session, turn, generation)
    if turn.cancel is not None:
        return ()
    rows = [row for row in turn.session.open_items.values() if _is_for(row.item, turn.id)][:limit]
    for row in rows:
        row.item = replace(row.item, state="taken", turn_id=turn.id, generation=generation)
    return tuple(row.item for row in rows)


def _is_for(item: InboxItem, turn_id: str) -> bool:
    return item.when == "now" if item.state == "pending" else _is_taken(item, turn_id)


def _is_taken(item: InboxItem, turn_id: str) -> bool:
    return item.state == "taken" and item.turn_id == turn_id


def settle(turn: TurnRow, settled: tuple[str, ...], changes: Changes) -> None:
    """End the items that a turn used; what else it took waits again, in its old place."""
    items = turn.session.open_items
    taken = {name: row for name, row in items.items() if _is_taken(row.item, turn.id)}
    for item_id in settled:
        if item_id not in taken:
            raise rules.not_taken(item_id)
    for item_id, row in taken.items():
        if item_id in settled:
            changes.set(row, item=replace(row.item, state="settled"))
            changes.at_last(partial(items.pop, item_id))
        else:
            changes.set(row, item=replace(row.item, state="pending", turn_id=None, generation=None))


def withdraw(session: SessionRow, item_id: str) -> WithdrawReceipt:
    """Take an item back that no turn has taken."""
    row = session.items.get(item_id)
    receipt = rules.withdraw_receipt(None if row is None else row.item.state)
    if row is not None and receipt.status == "withdrawn":
        row.item = replace(row.item, state="withdrawn")
        del session.open_items[item_id]
    return receipt


def view(session: SessionRow) -> InboxView:
    """Return what is neither settled nor withdrawn."""
    waiting = tuple(row.item for row in session.open_items.values())
    return InboxView(queued_turns=session.queued, items=waiting)

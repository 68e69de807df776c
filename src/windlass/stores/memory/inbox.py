"""The inbox: items in order of arrival, each pending, taken, settled or withdrawn."""

from __future__ import annotations

from windlass.errors import IdempotencyConflict, InvalidInput
from windlass.ports import (
    InboxItem,
    InboxReceipt,
    InboxView,
    NewItem,
    WithdrawReceipt,
)
from windlass.stores.memory import leases
from windlass.stores.memory.rows import Changes, ItemRow, SessionRow, Tables


def put(tables: Tables, session: SessionRow, item: NewItem, *, now_ms: int) -> InboxReceipt:
    """Put an item in, once.

    Raises:
        IdempotencyConflict: its id is known with other content.
    """
    known = session.items.get(item.item_id)
    if known is None:
        session.arrivals += 1
        tables.enqueued += 1
        session.items[item.item_id] = ItemRow(
            item, session.arrivals, enqueued=tables.enqueued, enqueued_ms=now_ms
        )
        return InboxReceipt(item_id=item.item_id, state="pending")
    if known.item.digest() != item.digest():
        raise IdempotencyConflict(
            f"item {item.item_id}: is known with other content", field="NewItem.item_id"
        )
    return InboxReceipt(item_id=item.item_id, state=known.state, known=True)


def enter(session: SessionRow, turn_id: str, takes: tuple[str, ...], changes: Changes) -> None:
    """Take items into a turn that is being accepted; it has no generation yet.

    Raises:
        InvalidInput: there is no such item.
        IdempotencyConflict: it does not wait any more.
    """
    for item_id in dict.fromkeys(takes):
        row = session.items.get(item_id)
        if row is None:
            raise InvalidInput(
                f"NewTurn.takes: the inbox has no item {item_id}", field="NewTurn.takes"
            )
        if row.state != "pending":
            raise IdempotencyConflict(
                f"NewTurn.takes: item {item_id} is {row.state}",
                field="NewTurn.takes",
                found=row.state,
                wanted="pending",
            )
        changes.set(row, state="taken", turn_id=turn_id)


def take(
    session: SessionRow, turn_id: str, *, generation: int, limit: int
) -> tuple[InboxItem, ...]:
    """Take what waits for now into the turn, and again what it took before."""
    turn = session.turn(turn_id)
    leases.check_fence(session, generation)
    leases.check_active(session, turn)
    if turn.cancel is not None:
        return ()
    rows = [row for row in session.items.values() if _is_for(row, turn_id)][:limit]
    for row in rows:
        row.state, row.turn_id, row.generation = "taken", turn_id, generation
    return tuple(row.view() for row in rows)


def _is_for(row: ItemRow, turn_id: str) -> bool:
    if row.state == "pending":
        return row.item.when == "now"
    return row.state == "taken" and row.turn_id == turn_id


def settle(session: SessionRow, turn_id: str, settled: tuple[str, ...]) -> None:
    """End the items that a turn used; what else it took waits again, in its old place."""
    for item_id, row in session.items.items():
        if row.state != "taken" or row.turn_id != turn_id:
            continue
        if item_id in settled:
            row.state = "settled"
        else:
            row.state, row.turn_id, row.generation = "pending", None, None


def withdraw(session: SessionRow, item_id: str) -> WithdrawReceipt:
    """Take an item back that no turn has taken."""
    row = session.items.get(item_id)
    if row is None:
        return WithdrawReceipt(status="unknown")
    if row.state == "pending":
        row.state = "withdrawn"
        return WithdrawReceipt(status="withdrawn")
    return WithdrawReceipt(status="already" if row.state == "withdrawn" else row.state)


def view(session: SessionRow) -> InboxView:
    """Return what is neither settled nor withdrawn."""
    items = (row for row in session.items.values() if row.state in ("pending", "taken"))
    return InboxView(
        queued_turns=tuple(session.queue),
        items=tuple(row.view() for row in sorted(items, key=lambda row: row.arrived)),
    )

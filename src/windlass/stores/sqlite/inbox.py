"""What waits to enter a session."""

from __future__ import annotations

from typing import Any, NamedTuple, get_args

import msgspec

from windlass.ports.inbox import InboxItem, InboxReceipt, ItemState, NewItem, When, blobs_in
from windlass.ports.views import WithdrawReceipt
from windlass.stores import rules
from windlass.stores.sqlite import news, signals
from windlass.stores.sqlite.connection import corrupt, first, select
from windlass.stores.sqlite.pages import Encoder, unpack
from windlass.stores.sqlite.rows import Rows, SessionRow, TurnRow

_STATES = frozenset(get_args(ItemState))
# What is to enter and what is asked for are in an index each, and both are said in the words of theirs.
ENTERS = "state IN ('pending', 'taken') AND due <> 'asked'"
_ASKED = "state = 'pending' AND due = 'asked'"
_GIVE_BACK = (
    "UPDATE inbox SET state = 'pending', turn = NULL, generation = NULL"  # noqa: S608 - constants
    f" WHERE session = ? AND {ENTERS} AND turn = ? AND state = 'taken'"
)
_COUNT_WAITING = f"SELECT count(*) FROM inbox WHERE session = ? AND {ENTERS} AND state = 'pending'"  # noqa: S608 - constants
_OPEN_ITEMS = (
    "SELECT open.arrived, open.state, open.item, turns.id, open.generation FROM"  # noqa: S608 - constants
    f" (SELECT * FROM inbox WHERE session = ? AND {ENTERS}"
    f"  UNION ALL SELECT * FROM inbox WHERE session = ? AND {_ASKED}) AS open"
    " LEFT JOIN turns ON turns.no = open.turn ORDER BY open.arrived"
)


def enqueue_in(
    rows: Rows, session_id: str, item: NewItem, encoder: Encoder, now_ms: int
) -> InboxReceipt:
    """Keep an item of a caller from outside, once, in a session that is there."""
    earlier: InboxReceipt | None = rows.earlier
    session = rows.session(session_id)
    rules.check_enqueues(session, item)
    receipt = enqueue(rows, session, item, encoder, now_ms)
    return earlier if earlier is not None and receipt.known else receipt


def enqueue(
    rows: Rows, session: SessionRow, item: NewItem, encoder: Encoder, now_ms: int
) -> InboxReceipt:
    """Keep an item, once. One that is withdrawn ended when it came."""
    known, digest = _find(rows, session, item.item_id), item.digest()
    if known is not None:
        rules.check_same(known.digest, digest, f"item {item.item_id}", field="NewItem.item_id")
        return InboxReceipt(item_id=item.item_id, state=known.state, known=True)
    arrived = rows.next_arrival(session)
    name = encoder.words(rules.signal_name(item) or "") or None
    place = (session.no, item.item_id, arrived, item.when, name)
    rows.db.execute(
        "INSERT INTO inbox (session, id, arrived, state, due, signal, digest, ended_ms, item)"
        " VALUES (?, ?, ?, 'pending', ?, ?, ?, ?, ?)",
        (*place, digest, now_ms, encoder.pack(item)),
    )
    news.tell(rows.db, "arrived", session=session.no)
    if name is not None:
        signals.posted(rows, session, name, encoder, now_ms)
    return InboxReceipt(item_id=item.item_id, state="pending")


def first_place(rows: Rows, session: SessionRow, takes: tuple[str, ...]) -> int:
    """Return the place of the first of these items, which all wait."""
    waiting = [rules.entering(item_id, _find(rows, session, item_id)) for item_id in takes]
    return min(item.arrived for item in waiting)


def enter(rows: Rows, session: SessionRow, turn_no: int, takes: tuple[str, ...]) -> None:
    """Take items into a turn that is being accepted; it has no generation yet."""
    for item_id in dict.fromkeys(takes):
        known = rules.entering(item_id, _find(rows, session, item_id))
        taken = "UPDATE inbox SET state = 'taken', turn = ? WHERE no = ?"
        rows.db.execute(taken, (turn_no, known.no))


def take(
    rows: Rows, session_id: str, turn_id: str, generation: int, limit: int
) -> tuple[InboxItem, ...]:
    """Take what waits for now into a turn, and again what it took before."""
    session = rows.session(session_id)
    turn = rows.turn(session, turn_id)
    rules.check_fence(session, turn, generation)
    if turn.cancel is not None:
        return ()
    found = select(
        rows.db,
        f"SELECT no, arrived, item FROM inbox WHERE session = ? AND {ENTERS}"  # noqa: S608 - a constant
        " AND (state = 'pending' AND due = 'now' OR turn = ?) ORDER BY arrived LIMIT ?",
        (session.no, turn.no, limit),
    )
    taken = {"state": "taken", "turn_id": turn.id, "generation": session.generation}
    for number, *_ in found:
        rows.db.execute(
            "UPDATE inbox SET state = 'taken', turn = ?, generation = ? WHERE no = ?",
            (turn.no, session.generation, number),
        )
    return tuple(_item(session.id, stored, arrived, **taken) for _, arrived, stored in found)


def settle(rows: Rows, turn: TurnRow, settled: tuple[str, ...], now_ms: int) -> None:
    """Settle what the turn took in; what it took and did not use waits again."""
    for item_id in dict.fromkeys(settled):
        rows.db.execute(
            "UPDATE inbox SET state = 'settled', ended_ms = ?"
            " WHERE session = ? AND id = ? AND turn = ? AND state = 'taken'",
            (now_ms, turn.session.no, item_id, turn.no),
        )
        if not rows.db.changes():
            raise rules.not_taken(item_id)
    rows.db.execute(_GIVE_BACK, (turn.session.no, turn.no))


def withdraw(rows: Rows, session_id: str, item_id: str) -> WithdrawReceipt:
    """Take an item back that no turn has taken."""
    again, session = rows.earlier is not None, rows.session(session_id)
    known = _find(rows, session, item_id)
    if known is not None and known.state == "pending":
        rows.db.execute("UPDATE inbox SET state = 'withdrawn' WHERE no = ?", (known.no,))
    if known is not None and known.state == "withdrawn" and again:
        return WithdrawReceipt(status="withdrawn")
    return rules.withdraw_receipt(None if known is None else known.state)


def read_first(rows: Rows, session_id: str, number: int) -> InboxItem:
    """Return an item that waits, by its number."""
    query = "SELECT arrived, item FROM inbox WHERE no = ?"
    arrived, stored = first(rows.db, query, (number,))
    return _item(session_id, stored, arrived)


def count_waiting(rows: Rows, session: SessionRow) -> int:
    """Return how many items are to enter that no turn has taken."""
    (count,) = first(rows.db, _COUNT_WAITING, (session.no,))
    return int(count)


def read_items(rows: Rows, session: SessionRow) -> tuple[InboxItem, ...]:
    """Return what waits or was taken and not settled, in order of arrival."""
    found = select(rows.db, _OPEN_ITEMS, (session.no, session.no))
    return tuple(
        _item(session.id, stored, arrived, state=state, turn_id=turn_id, generation=generation)
        for arrived, state, stored, turn_id, generation in found
    )


class _Known(NamedTuple):
    no: int
    state: ItemState
    digest: str
    arrived: int
    when: When


def _find(rows: Rows, session: SessionRow, item_id: str) -> _Known | None:
    query = "SELECT no, state, digest, arrived, due FROM inbox WHERE session = ? AND id = ?"
    found = first(rows.db, query, (session.no, item_id))
    if found is None:
        return None
    known = _Known(*found)
    if known.state not in _STATES:
        raise corrupt(f"inbox of {session.id}, item {item_id}", "is in a state that is none")
    return known


def _item(session_id: str, stored: bytes, arrived: int, **shown: Any) -> InboxItem:
    item = unpack(stored, NewItem, place=f"inbox of {session_id}, item {arrived}")
    return InboxItem(**msgspec.structs.asdict(item), arrived=arrived, **shown)


def awaited_blobs(rows: Rows) -> frozenset[str]:
    """Return the digests that items which wait refer to: nothing else holds on to them yet."""
    query = (
        f"SELECT id, item FROM inbox WHERE {ENTERS}"  # noqa: S608 - constants
        f" UNION ALL SELECT id, item FROM inbox WHERE {_ASKED}"
    )
    items = (unpack(item, NewItem, place=f"item {name}") for name, item in select(rows.db, query))
    return frozenset(ref for item in items for ref in blobs_in(item.content))

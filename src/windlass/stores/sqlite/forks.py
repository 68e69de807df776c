"""A fork: a session that goes on from a point in another's history, without a copy of it."""

from __future__ import annotations

from windlass.errors import IdempotencyConflict, InvalidInput, SessionDeleted
from windlass.guards.ids import check_id
from windlass.stores.sqlite.history import link_at
from windlass.stores.sqlite.rows import Rows
from windlass.stores.sqlite.turns import Origin, create_session


def fork(rows: Rows, session_id: str, new_id: str, at: int | None, now_ms: int) -> bool:
    """Begin a session behind the `at`-th turn of another."""
    check_id(new_id, field="session_id")
    again, parent = bool(rows.earlier), rows.session(session_id)
    head = parent.head if at is None else at
    if type(head) is not int or not 0 <= head <= parent.head:
        raise InvalidInput(
            f"at: found {head!r}, wanted a turn of 0 to {parent.head}",
            field="at",
            found=head,
            wanted=f"0 to {parent.head}",
        )
    known = rows.find_session(new_id)
    if known is not None:
        if known.deleted_ms is not None:
            raise SessionDeleted(f"session {new_id}: was deleted", field="new_id")
        if again and (known.parent, known.parent_head) == (parent.no, head):
            return True
        raise IdempotencyConflict(f"session {new_id}: is there already", field="new_id")
    link = link_at(rows.db, parent, head)
    create_session(rows, new_id, parent.agent, now_ms, Origin(head, link, parent.no))
    return True

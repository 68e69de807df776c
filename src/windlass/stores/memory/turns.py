"""Turns on their way in: accepted by a caller or by an errand, with the files that they bring."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from windlass.journal import check_place
from windlass.ports import AcceptTurn, NewTurn, TurnReceipt, Unit
from windlass.stores import rules
from windlass.stores.memory import inbox, news
from windlass.stores.memory.rows import Changes, SessionRow, Tables, TurnRow


class Begun(NamedTuple):
    """How an errand begins a session that is new, and what it asks of a tree before a new turn comes into it.

    `arrived` is the place in the line of the turn whose end accepts it, in its own session.
    """

    errand: AcceptTurn
    place: Callable[[], TreePlace]
    check_room: Callable[[SessionRow | None], None]
    arrived: int | None = None


class TreePlace(NamedTuple):
    """Where a session belongs: the session and the turn that began it, and the session at the top."""

    started_by: SessionRow | None = None
    started_in: TurnRow | None = None
    root: SessionRow | None = None


def accept(
    tables: Tables, unit: Unit, new: NewTurn, changes: Changes, *, begun: Begun | None = None
) -> TurnReceipt:
    """Accept a turn, in a session that is made if it is new; `begun` is told by an errand, else a caller asks."""
    check_place(unit.session_id, unit.turn_id)
    session, digest = tables.sessions.get(unit.session_id), new.request.digest()
    if session is not None:
        known = rules.living(session, unit.session_id).turns.get(unit.turn_id)
        if begun is None:
            is_known = known is not None and known.digest == digest
            rules.check_begins(session, new, is_known=is_known)
        if known is not None:
            rules.check_same(known.digest, digest, f"turn {known.id}", field="turn_id")
            return _receipt(known, is_known=True)
    if begun is not None:
        begun.check_room(session)
    if session is None:
        session = _make_session(tables, unit.session_id, new, changes, begun)
    # A turn that begins with items has arrived with the first of them.
    arrived = inbox.first_place(session, new.takes)
    if arrived is None and begun is not None:
        arrived = begun.arrived
    if arrived is None:
        changes.set(session, arrivals=session.arrivals + 1)
        arrived = session.arrivals
    changes.set(tables, accepted=tables.accepted + 1)
    turn = TurnRow(
        session=session,
        no=tables.accepted,
        id=unit.turn_id,
        agent=new.agent,
        request=new.request,
        digest=digest,
        submitter=new.submitter,
        asked_by=new.by,
        arrived=arrived,
    )
    changes.put(session.turns, unit.turn_id, turn)
    session.line_up(turn, changes)
    news.tell(tables, "accepted", changes, turn=turn)
    inbox.enter(turn, new.takes, changes)
    return _receipt(turn)


def _make_session(
    tables: Tables, session_id: str, new: NewTurn, changes: Changes, begun: Begun | None
) -> SessionRow:
    made = SessionRow(session_id, agent=new.agent, created_ms=new.now_ms)
    if begun is not None:
        made.kind, made.label = begun.errand.kind, begun.errand.label
        made.started_by, made.started_in, made.root = begun.place()
    changes.put(tables.sessions, session_id, made)
    return made


def _receipt(turn: TurnRow, *, is_known: bool = False) -> TurnReceipt:
    return TurnReceipt(
        session_id=turn.session.id, turn_id=turn.id, state=turn.state, known=is_known
    )


def hold_blobs(tables: Tables, turn: TurnRow, digests: tuple[str, ...], changes: Changes) -> None:
    """Make a turn hold on to blobs.

    Raises:
        InvalidInput: one was never put.
    """
    tables.check_blobs(digests)
    for digest in digests:
        changes.put(turn.blobs, digest, None)

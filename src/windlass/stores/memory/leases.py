"""Leases: how a worker comes to own a session, and the fence before everything that it writes."""

from __future__ import annotations

from windlass.errors import HeadMoved, LeaseLost
from windlass.journal import count_recorded
from windlass.ports import Lease, Start, Unit
from windlass.stores.memory.changes import Changes
from windlass.stores.memory.rows import SessionRow, Tables, TurnRow
from windlass.stores.memory.workers import Workers


def check_generation(session: SessionRow, generation: int) -> None:
    """Refuse a generation that is not the session's."""
    if session.generation != generation:
        raise LeaseLost(
            f"session {session.session_id}: is at generation {session.generation}, "
            f"this is {generation}",
            found=generation,
            wanted=session.generation,
        )


def check_fence(session: SessionRow, generation: int) -> None:
    """Refuse a generation that is not the session's, and any while nobody owns it."""
    check_generation(session, generation)
    if session.owner is None:
        raise LeaseLost(f"session {session.session_id}: its worker gave it up")


def check_active(session: SessionRow, turn: TurnRow) -> None:
    """Refuse a turn that is not the one the session is at."""
    if session.active != turn.turn_id:
        raise HeadMoved(
            f"session {session.session_id}: turn {turn.turn_id} is {turn.state}, not under way"
        )


def start(
    workers: Workers, session: SessionRow, turn: TurnRow, unit: Unit, changes: Changes
) -> None:
    """Begin a turn.

    Raises:
        LeaseLost: another worker has the session, or had begun the turn.
        HeadMoved: another turn comes first.
    """
    wanted: Start | None = unit.start
    if wanted is None:
        return
    workers.check(wanted.worker_id)
    is_ours = session.owner == wanted.worker_id and session.generation == unit.generation
    if turn.state != "queued" and is_ours and turn.generation == unit.generation:
        return
    is_next = unit.generation == session.generation + 1
    if not is_ours and not (is_next and workers.is_free(session, wanted.now_ms)):
        raise LeaseLost(
            f"session {session.session_id}: is at generation {session.generation}"
            f"{' with another worker' if session.owner else ''}, this is {unit.generation}"
        )
    if turn.state != "queued":
        raise LeaseLost(
            f"session {session.session_id}: turn {turn.turn_id} was begun under another generation"
        )
    _check_first(session, turn)
    changes.set(session, owner=wanted.worker_id, generation=unit.generation)
    _begin(session, turn, changes)
    changes.at_last(lambda: workers.extend(wanted.worker_id, wanted.until_ms))


def _check_first(session: SessionRow, turn: TurnRow) -> None:
    first = session.active or next(iter(session.queue))
    if first != turn.turn_id:
        raise HeadMoved(f"session {session.session_id}: turn {first} comes before {turn.turn_id}")


def _begin(session: SessionRow, turn: TurnRow, changes: Changes) -> None:
    changes.remove(session.queue, turn.turn_id)
    changes.set(session, active=turn.turn_id)
    changes.set(
        turn,
        state="running",
        generation=session.generation,
        turn_index=session.head + 1,
        answered=False,
    )


def take_over(
    tables: Tables, workers: Workers, session_id: str, turn_id: str, *, wanted: Start
) -> Lease:
    """Own the session of an unfinished turn, under a new generation."""
    session = tables.session(session_id)
    turn = session.turn(turn_id)
    workers.check(wanted.worker_id)
    if turn.state == "done":
        raise HeadMoved(f"session {session_id}: turn {turn_id} is done")
    if session.owner != wanted.worker_id and not workers.is_free(session, wanted.now_ms):
        raise LeaseLost(f"session {session_id}: its worker is alive and holds it")
    changes = Changes()
    if turn.state == "queued":
        _check_first(session, turn)
        session.owner, session.generation = wanted.worker_id, session.generation + 1
        _begin(session, turn, changes)
    else:
        session.owner, session.generation = wanted.worker_id, session.generation + 1
        recorded = count_recorded(turn.read_pages())
        if turn.state != "running":
            turn.takeovers = 0  # it goes on after an answer, not after a death
        else:
            turn.takeovers = 1 if recorded > turn.recorded_at_takeover else turn.takeovers + 1
        turn.recorded_at_takeover = recorded
        turn.state, turn.generation, turn.answered = "running", session.generation, False
    changes.keep()
    return Lease(
        session_id=session_id,
        turn_id=turn_id,
        worker_id=wanted.worker_id,
        generation=session.generation,
        until_ms=workers.extend(wanted.worker_id, wanted.until_ms),
        takeovers=turn.takeovers,
    )

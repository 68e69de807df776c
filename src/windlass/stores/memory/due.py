"""What is due: turns that somebody should drive, waits whose time is over."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from windlass.ports import Due, DueTurn, DueWait
from windlass.stores.memory.rows import SessionRow, Tables, TurnRow
from windlass.stores.memory.workers import Workers


def due(
    tables: Tables, workers: Workers, now_ms: int, *, agents: Collection[str] | None, limit: int
) -> Due:
    """Return what there is to do, oldest first."""
    turns: list[tuple[int, DueTurn]] = []
    for session in tables.live_sessions():
        turn = _due_turn(session, workers, now_ms)
        if turn is not None and (agents is None or turn.agent in agents):
            turns.append((session.turns[turn.turn_id].accepted, turn))
    turns.sort(key=lambda found: found[0])
    waits = sorted(_due_waits(tables, now_ms), key=lambda found: found[0])
    return Due(
        turns=tuple(turn for _, turn in turns[:limit]),
        waits=tuple(wait for _, wait in waits[:limit]),
    )


def _due_turn(session: SessionRow, workers: Workers, now_ms: int) -> DueTurn | None:
    """At most one turn of a session is due: the one under way, or else the oldest that waits."""
    turn_id = session.active or next(iter(session.queue), None)
    if turn_id is None:
        return None
    turn = session.turns[turn_id]
    if turn.state == "queued":
        return _row(session, turn, why="queued")
    if turn.state == "parked" or not workers.is_free(session, now_ms):
        return None
    return _row(session, turn, why="answered" if turn.state == "ready" else "abandoned")


def _row(session: SessionRow, turn: TurnRow, *, why: str) -> DueTurn:
    return DueTurn(
        session_id=session.session_id,
        turn_id=turn.turn_id,
        agent=turn.agent,
        why=why,  # type: ignore[arg-type]  # one of the three
    )


def _due_waits(tables: Tables, now_ms: int) -> Iterator[tuple[tuple[int, int], DueWait]]:
    for key, (session, turn) in tables.waits.items():
        row = turn.waits[key]
        expires_ms = row.wait.expires_ms
        if row.state == "open" and expires_ms is not None and expires_ms <= now_ms:
            yield (
                (expires_ms, row.opened),
                DueWait(
                    key=key,
                    kind=row.wait.kind,
                    session_id=session.session_id,
                    turn_id=turn.turn_id,
                    expires_ms=expires_ms,
                ),
            )

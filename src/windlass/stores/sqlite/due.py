"""What is due: turns to drive or to end, waits whose time is over, inboxes with something in.

It is asked for every moment, mostly when nothing is, so each query reads an index of what is unfinished; the plus
signs keep SQLite from walking the whole table in order of its numbers instead.
"""

from __future__ import annotations

from collections.abc import Collection

from windlass.ports.views import Due, DueCancel, DueInbox, DueTurn, DueWait
from windlass.stores.sqlite import inbox
from windlass.stores.sqlite.leases import Liveness
from windlass.stores.sqlite.query import select
from windlass.stores.sqlite.rows import Rows, check_state

_TURNS = (
    "SELECT sessions.id, turns.id, turns.agent, turns.state, sessions.active, owner, until_ms FROM turns"
    " JOIN sessions ON sessions.no = turns.session LEFT JOIN workers ON workers.id = owner"
    " WHERE state <> 'done' AND state <> 'parked' ORDER BY +turns.no"
)
_CANCELS = (
    "SELECT sessions.id, turns.id, turns.agent, owner FROM turns"
    " JOIN sessions ON sessions.no = turns.session"
    " WHERE state = 'running' AND cancel IS NOT NULL ORDER BY +turns.no"
)
# That it waits says that it is one of both; it is said to have them from the index of those. Nothing enters a parked
# turn: what waits there is due when the turn goes on.
_INBOXES = (
    "SELECT sessions.id, sessions.agent, turns.id, is_now, oldest FROM"
    " (SELECT session, min(no) AS oldest, max(due = 'now') AS is_now FROM inbox"
    "  WHERE state IN ('pending', 'taken') AND state = 'pending' GROUP BY session) AS waiting"
    " JOIN sessions ON sessions.no = waiting.session LEFT JOIN turns ON turns.no = sessions.active"
    " WHERE turns.state IS NOT 'parked' ORDER BY oldest"
)
_WAITS = (
    "SELECT key, kind, sessions.id, turns.id, expires_ms FROM waits"
    " JOIN sessions ON sessions.no = waits.session JOIN turns ON turns.no = waits.turn"
    " WHERE waits.state = 'open' AND expires_ms <= ? ORDER BY expires_ms, waits.no LIMIT ?"
)


def due(rows: Rows, now_ms: int, agents: Collection[str] | None, limit: int, gone: Liveness) -> Due:
    """Return what there is to do."""
    return Due(
        turns=_due_turns(rows, now_ms, agents, limit, gone),
        waits=_due_waits(rows, now_ms, limit),
        cancels=_due_cancels(rows, agents, limit),
        inboxes=_due_inboxes(rows, agents, limit),
    )


def _due_turns(
    rows: Rows, now_ms: int, agents: Collection[str] | None, limit: int, gone: Liveness
) -> tuple[DueTurn, ...]:
    turns: list[DueTurn] = []
    waiting: set[str] = set()
    dead: dict[str, bool] = {}

    def is_free(owner: str | None, until_ms: int | None) -> bool:
        if owner is None or until_ms is None or until_ms <= now_ms:
            return True
        return dead.setdefault(owner, gone(owner)) if owner not in dead else dead[owner]

    for session_id, turn_id, agent, state, active, owner, until_ms in select(rows.db, _TURNS):
        check_state(state, place=f"turn {session_id}/{turn_id}")
        why = _why(state, has_active=active is not None, is_first=session_id not in waiting)
        waiting.add(session_id)
        if why is None or (agents is not None and agent not in agents):
            continue
        if why == "queued" or is_free(owner, until_ms):
            turn = DueTurn(
                session_id=session_id,
                turn_id=turn_id,
                agent=agent,
                why=why,  # type: ignore[arg-type]  # one of _why's
                owner=owner,
            )
            turns.append(turn)
        if len(turns) == limit:
            break
    return tuple(turns)


def _why(state: str, *, has_active: bool, is_first: bool) -> str | None:
    if state == "queued":
        return "queued" if is_first and not has_active else None
    return "answered" if state == "ready" else "abandoned"


def _due_cancels(rows: Rows, agents: Collection[str] | None, limit: int) -> tuple[DueCancel, ...]:
    cancels = [
        DueCancel(session_id=session_id, turn_id=turn_id, agent=agent, owner=owner)
        for session_id, turn_id, agent, owner in select(rows.db, _CANCELS)
        if agents is None or agent in agents
    ]
    return tuple(cancels[:limit])


def _due_inboxes(rows: Rows, agents: Collection[str] | None, limit: int) -> tuple[DueInbox, ...]:
    found = select(rows.db, _INBOXES)
    wanted = [row for row in found if agents is None or row[1] in agents]
    return tuple(
        DueInbox(
            session_id=session_id,
            agent=agent,
            active=active,
            now=bool(is_now),
            first=inbox.read_first(rows, session_id, oldest),
        )
        for session_id, agent, active, is_now, oldest in wanted[:limit]
    )


def _due_waits(rows: Rows, now_ms: int, limit: int) -> tuple[DueWait, ...]:
    return tuple(
        DueWait(key=key, kind=kind, session_id=session_id, turn_id=turn_id, expires_ms=expires_ms)
        for key, kind, session_id, turn_id, expires_ms in select(rows.db, _WAITS, (now_ms, limit))
    )

"""Lists: sessions by id, turns the newest first, workers by id; each a page of what there is."""

from __future__ import annotations

from typing import Any, NamedTuple

from windlass.ports.unit import CHAT
from windlass.ports.views import SessionSummary, TurnSummary, WorkerView
from windlass.stores.sqlite.connection import select
from windlass.stores.sqlite.leases import Liveness
from windlass.stores.sqlite.rows import Rows, check_state

_SESSIONS = (
    "SELECT sessions.id, sessions.agent, sessions.created_ms, sessions.head, turns.id, sessions.kind, starter.id,"
    " top.id, sessions.label FROM sessions LEFT JOIN turns ON turns.no = sessions.active"
    " LEFT JOIN sessions AS starter ON starter.no = sessions.started_by"
    " LEFT JOIN sessions AS top ON top.no = sessions.root"
    " WHERE sessions.id > :after AND sessions.deleted_ms IS NULL{where}"
    " ORDER BY sessions.id LIMIT :limit"
)
_WHICH_SESSIONS = {
    "agent": " AND sessions.agent = :agent",
    "kind": " AND sessions.kind = :kind",
    "started_by": " AND sessions.started_by = (SELECT no FROM sessions WHERE id = :started_by)",
    "root": " AND sessions.root = (SELECT no FROM sessions WHERE id = :root)",
    "label": " AND sessions.label = :label",
}
# Said to have those of a kind from the index of all that are not chats, of which there may be few.
_NOT_CHATS = " AND sessions.kind <> 'chat'"
# Unfinished turns are found by their index, which says all that is asked, and a session's by its own. All others are
# walked back by number; the plus sign keeps SQLite from doing that where an index is better.
_TURNS = (
    "SELECT turns.no, sessions.id, turns.id, turns.agent, turns.state, asked_by, cancel,"
    " CASE WHEN sessions.active = turns.no THEN owner END, ended_ms FROM"
    " (SELECT no FROM turns{index} WHERE {number} < :before{where} ORDER BY {number} DESC LIMIT :limit) AS page"
    " CROSS JOIN turns ON turns.no = page.no JOIN sessions ON sessions.no = turns.session"
    " ORDER BY page.no DESC"
)
_WHICH_TURNS = {
    "state": " AND state = :state",
    "agent": " AND agent = :agent",
    "session_id": " AND session = (SELECT no FROM sessions WHERE id = :session_id)",
}
_NEWEST = 2**63 - 1


class WantedTurns(NamedTuple):
    """Which turns are listed; None means all."""

    state: str | None
    agent: str | None
    session_id: str | None
    before: int | None
    limit: int


def sessions_query(wanted: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the query for living sessions, and its values."""
    where, values = _where(_WHICH_SESSIONS, wanted)
    if wanted["kind"] not in (None, CHAT):
        where += _NOT_CHATS
    return _SESSIONS.format(where=where), values


def list_sessions(rows: Rows, wanted: dict[str, Any]) -> tuple[SessionSummary, ...]:
    """Return living sessions by id."""
    query, values = sessions_query(wanted)
    return tuple(
        SessionSummary(
            session_id=session_id,
            agent=agent,
            created_ms=created_ms,
            head=head,
            active=active,
            kind=kind,
            started_by=started_by,
            root=root,
            label=label,
        )
        for session_id, agent, created_ms, head, active, kind, started_by, root, label in select(
            rows.db, query, values
        )
    )


def list_turns(rows: Rows, wanted: WantedTurns) -> tuple[TurnSummary, ...]:
    """Return turns, the newest first."""
    named = wanted._replace(before=_NEWEST if wanted.before is None else wanted.before)
    where, values = _where(_WHICH_TURNS, named._asdict())
    index, number = "", "no"
    if wanted.state not in (None, "done"):
        is_parked = wanted.state == "parked"
        index, number = f" INDEXED BY turns_{'parked' if is_parked else 'open'}", "+no"
        where += (
            " AND state = 'parked'" if is_parked else " AND state <> 'done' AND state <> 'parked'"
        )
    elif wanted.session_id is not None:
        index, number = " INDEXED BY turns_by_id", "+no"
    found = select(rows.db, _TURNS.format(index=index, number=number, where=where), values)
    return tuple(map(_summary, found))


def _summary(found: Any) -> TurnSummary:  # noqa: ANN401 - a row of apsw's
    no, session_id, turn_id, agent, state, by, cancel, owner, ended_ms = found
    check_state(state, place=f"turn {session_id}/{turn_id}")
    return TurnSummary(
        no=no,
        session_id=session_id,
        turn_id=turn_id,
        agent=agent,
        state=state,
        by=by,
        cancel=cancel,
        owner=owner,
        ended_ms=ended_ms,
    )


def list_workers(rows: Rows, now_ms: int, gone: Liveness) -> tuple[WorkerView, ...]:
    """Return the workers that have joined, by id."""
    return tuple(
        WorkerView(
            worker_id=worker_id,
            until_ms=until_ms,
            is_present=until_ms > now_ms and not gone(worker_id),
        )
        for worker_id, until_ms in select(rows.db, "SELECT id, until_ms FROM workers ORDER BY id")
    )


def _where(which: dict[str, str], wanted: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the conditions on what is wanted, and the values of those."""
    told = {name: value for name, value in wanted.items() if value is not None}
    return "".join(one for name, one in which.items() if name in told), told

"""What there is to do, and taking turns to drive them.

What is due is asked for every moment, mostly when nothing is, so each query reads an index of what is unfinished. That
of turns says enough to pass over those of other agents without reading them, and those of ours are read one by one, the
oldest first, until there are enough: the subquery is kept apart by its LIMIT, and joined in order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import cache
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from windlass.errors import ReplayError
from windlass.kernel import canonical
from windlass.ports.views import (
    ClaimedTurn,
    Due,
    DueCancel,
    DueInbox,
    DueTurn,
    DueWait,
)
from windlass.stores.rules import WHY_DUE, WantedTurns
from windlass.stores.sqlite import inbox, leases, reads
from windlass.stores.sqlite.connection import first, select
from windlass.stores.sqlite.leases import Liveness
from windlass.stores.sqlite.rows import Rows, check_state

Agents: TypeAlias = Collection[str] | None
"""The agents whose turns are wanted; None: of all."""

# A queued turn is next if none of its session is under way, no older one is queued, and no item that arrived earlier waits.
# Those that are parked are in none of the indexes that are walked here.
_TURNS = (
    "SELECT open.no, sessions.id, turns.id, turns.agent, open.state, owner, until_ms FROM"
    " (SELECT no, session, arrived, state FROM turns INDEXED BY turns_open"
    "  WHERE state <> 'done' AND state <> 'parked'{where} ORDER BY no LIMIT -1) AS open"
    " CROSS JOIN sessions ON sessions.no = open.session CROSS JOIN turns ON turns.no = open.no"
    " LEFT JOIN workers ON workers.id = owner"
    " WHERE open.state <> 'queued' OR sessions.active IS NULL"
    " AND NOT EXISTS (SELECT 1 FROM turns AS older INDEXED BY turns_open WHERE older.session = open.session"
    "  AND older.arrived < open.arrived AND older.state <> 'done' AND older.state <> 'parked')"
    " AND NOT EXISTS (SELECT 1 FROM inbox WHERE inbox.session = open.session AND inbox.arrived < open.arrived"
    "  AND inbox.state IN ('pending', 'taken') AND inbox.due <> 'asked' AND inbox.state = 'pending')"
)
_OURS = " AND agent IN (SELECT value FROM json_each(:agents))"
_OF_SESSION = " AND session = (SELECT no FROM sessions WHERE id = :session)"
_OF_OTHERS = " AND state = 'queued' AND agent NOT IN (SELECT value FROM json_each(:agents))"
# A worker that has few sessions looks at each; with many, it looks at each turn of others.
_IN_FEW = " AND session IN (SELECT no FROM sessions WHERE owner = :worker)"
_IN_MANY = (
    " AND EXISTS (SELECT 1 FROM sessions INDEXED BY sessions_by_owner"
    " WHERE owner = :worker AND sessions.no = turns.session)"
)
_FEW = 1_000
_OWNED = "SELECT count(*) FROM (SELECT 1 FROM sessions WHERE owner = ? LIMIT ?)"
_CANCELS = (
    "SELECT sessions.id, turns.id, turns.agent, owner FROM turns"
    " JOIN sessions ON sessions.no = turns.session"
    " WHERE state = 'running' AND cancel IS NOT NULL{where} ORDER BY +turns.no LIMIT :limit"
)
_CANCELS_OF_OURS = " AND turns.agent IN (SELECT value FROM json_each(:agents))"
# That it waits says that it is one of both; it is said to have them from the index of those. Nothing enters a parked
# turn, but for one that waits for nothing but children or a time: what waits there is due when the turn goes on. Where
# no turn is under way, nothing enters before a turn that arrived earlier has begun.
_LEAF = "waits.turn = turns.no AND waits.state = 'open' AND waits.kind {kinds} ('child', 'timer')"
_INBOXES = (
    "SELECT sessions.id, sessions.agent, turns.id, is_now, oldest FROM"  # noqa: S608 - a constant
    " (SELECT session, min(no) AS oldest, min(arrived) AS place, max(due = 'now') AS is_now FROM inbox"
    "  WHERE state IN ('pending', 'taken') AND due <> 'asked' AND state = 'pending' GROUP BY session) AS waiting"
    " JOIN sessions ON sessions.no = waiting.session LEFT JOIN turns ON turns.no = sessions.active"
    " WHERE (turns.state <> 'parked'"
    "  OR sessions.active IS NULL AND NOT EXISTS (SELECT 1 FROM turns AS queued INDEXED BY turns_open"
    "   WHERE queued.session = waiting.session AND queued.arrived < place AND queued.state <> 'done'"
    "    AND queued.state <> 'parked')"
    f"  OR is_now AND EXISTS (SELECT 1 FROM waits WHERE {_LEAF.format(kinds='IN')})"
    f"  AND NOT EXISTS (SELECT 1 FROM waits WHERE {_LEAF.format(kinds='NOT IN')})"
    " ){where} ORDER BY oldest LIMIT :limit"
)
_INBOXES_OF_OURS = " AND sessions.agent IN (SELECT value FROM json_each(:agents))"
_WAITS = (
    "SELECT key, waits.kind, sessions.id, turns.id, expires_ms FROM waits"
    " JOIN sessions ON sessions.no = waits.session JOIN turns ON turns.no = waits.turn"
    " WHERE waits.state = 'open' AND expires_ms <= ? ORDER BY expires_ms, waits.no LIMIT ?"
)


class Asked(NamedTuple):
    """Who asks for what is due: at what time, for which agents, as which worker."""

    now_ms: int
    agents: Agents
    worker_id: str | None
    limit: int
    gone: Liveness


def _names(agents: Collection[str]) -> str:
    """Return agents as the queries want them."""
    return canonical.encode(list(agents)).decode()


def due(rows: Rows, asked: Asked) -> Due:
    """Return what there is to do."""
    return Due(
        turns=_due_turns(rows, asked),
        waits=_due_waits(rows, asked),
        cancels=_due_cancels(rows, asked),
        inboxes=_due_inboxes(rows, asked),
    )


class _Open(NamedTuple):
    """An unfinished turn that is the next of its session, and the worker that has the session."""

    no: int
    session_id: str
    turn_id: str
    agent: str
    state: str
    owner: str | None
    until_ms: int | None


def _open_turns(rows: Rows, where: str, values: dict[str, Any]) -> Iterator[_Open]:
    """Return turns that are the next of their session and not parked, the oldest first."""
    return map(_Open._make, rows.db.execute(_TURNS.format(where=where), values))


def _checked(turn: _Open) -> _Open:
    check_state(turn.state, place=f"turn {turn.session_id}/{turn.turn_id}")
    return turn


def _freedom(now_ms: int, gone: Liveness) -> Callable[[_Open], bool]:
    """Return what says whether any worker may take the session of a turn; each worker is looked at once."""
    is_dead = cache(gone)

    def is_free(turn: _Open) -> bool:
        owner, until_ms = turn.owner, turn.until_ms
        return owner is None or until_ms is None or until_ms <= now_ms or is_dead(owner)

    return is_free


def _due_turns(rows: Rows, asked: Asked) -> tuple[DueTurn, ...]:
    is_free = _freedom(asked.now_ms, asked.gone)
    wanted = {} if asked.agents is None else {"agents": _names(asked.agents)}
    ours = map(_checked, _open_turns(rows, _OURS if wanted else "", wanted))
    found = list(
        islice((turn for turn in ours if turn.state == "queued" or is_free(turn)), asked.limit)
    )
    if wanted and asked.worker_id is not None:
        wanted["worker"] = asked.worker_id
        (owned,) = first(rows.db, _OWNED, (asked.worker_id, _FEW + 1))
        where = _OF_OTHERS + (_IN_FEW if owned <= _FEW else _IN_MANY)
        found += islice(_open_turns(rows, where, wanted), asked.limit)
        found.sort()
    return tuple(
        DueTurn(
            session_id=turn.session_id,
            turn_id=turn.turn_id,
            agent=turn.agent,
            why=WHY_DUE[turn.state],
            owner=turn.owner,
        )
        for turn in found
    )


def _due_cancels(rows: Rows, asked: Asked) -> tuple[DueCancel, ...]:
    return tuple(
        DueCancel(session_id=session_id, turn_id=turn_id, agent=agent, owner=owner)
        for session_id, turn_id, agent, owner in _of_agents(rows, asked, _CANCELS, _CANCELS_OF_OURS)
    )


def _due_inboxes(rows: Rows, asked: Asked) -> tuple[DueInbox, ...]:
    return tuple(
        DueInbox(
            session_id=session_id,
            agent=agent,
            active=active,
            now=bool(is_now),
            first=inbox.read_first(rows, session_id, oldest),
        )
        for session_id, agent, active, is_now, oldest in _of_agents(
            rows, asked, _INBOXES, _INBOXES_OF_OURS
        )
    )


def _of_agents(rows: Rows, asked: Asked, query: str, of_ours: str) -> list[Any]:
    if asked.agents is None:
        return select(rows.db, query.format(where=""), {"limit": asked.limit})
    values = {"limit": asked.limit, "agents": _names(asked.agents)}
    return select(rows.db, query.format(where=of_ours), values)


def _due_waits(rows: Rows, asked: Asked) -> tuple[DueWait, ...]:
    return tuple(
        DueWait(key=key, kind=kind, session_id=session_id, turn_id=turn_id, expires_ms=expires_ms)
        for key, kind, session_id, turn_id, expires_ms in select(
            rows.db, _WAITS, (asked.now_ms, asked.limit)
        )
    )


def claim(rows: Rows, wanted: WantedTurns, gone: Liveness) -> tuple[ClaimedTurn, ...]:
    """Take turns that no worker drives, each under a new generation.

    Raises:
        InvalidInput: the worker has not joined.
        JournalCorrupt, FormatUnsupported: the turn of the session that was named cannot be read.
    """
    earlier: tuple[ClaimedTurn, ...] = rows.earlier or ()
    landed = tuple(one for one in earlier if leases.is_held(rows, one.lease))
    if landed:
        return landed
    leases.check_joined(rows, wanted.start.worker_id)
    claimed: list[ClaimedTurn] = []
    but = set(wanted.but)
    while (room := wanted.limit - len(claimed)) > 0:
        # Found before the first is taken: what is taken moves in the index that is read.
        found = list(islice(_free_turns(rows, wanted, but, gone), room))
        taken = [_take(rows, turn, wanted, gone) for turn in found]
        claimed += [one for one in taken if one is not None]
        but.update(turn.session_id for turn in found)
        if len(found) < room:
            break
    return tuple(claimed)


def _free_turns(
    rows: Rows, wanted: WantedTurns, but: Collection[str], gone: Liveness
) -> Iterator[_Open]:
    is_free = _freedom(wanted.start.now_ms, gone)
    values: dict[str, Any] = {"agents": _names(wanted.agents)}
    where = _OURS
    if wanted.session_id is not None:
        where += _OF_SESSION
        values["session"] = wanted.session_id
    for turn in _open_turns(rows, where, values):
        # Its own session a worker may go on with, unless it drives a turn there.
        is_own = turn.owner == wanted.start.worker_id and turn.state == "queued"
        if turn.session_id not in but and (is_own or is_free(turn)):
            yield turn


def _take(rows: Rows, found: _Open, wanted: WantedTurns, gone: Liveness) -> ClaimedTurn | None:
    """Take one turn; None: it cannot be read. Then it is left as it was, and keeps no other from being taken."""
    rows.db.execute("SAVEPOINT taken")
    try:
        claimed = _take_up(rows, found, wanted, gone)
    except ReplayError:
        rows.forget_session(found.session_id)
        rows.db.execute("ROLLBACK TO taken")
        rows.db.execute("RELEASE taken")
        if wanted.session_id is not None:
            raise
        return None
    rows.db.execute("RELEASE taken")
    return claimed


def _take_up(rows: Rows, found: _Open, wanted: WantedTurns, gone: Liveness) -> ClaimedTurn:
    session_id, turn_id = found.session_id, found.turn_id
    _checked(found)
    lease, turn, pages = leases.take(rows, session_id, turn_id, wanted.start, gone)
    is_known = wanted.known.get(session_id) == turn.session.head
    return ClaimedTurn(
        lease=lease,
        turn=reads.view_turn(rows, turn, pages),
        session=reads.load_session(rows, session_id, "none" if is_known else "frame"),
    )

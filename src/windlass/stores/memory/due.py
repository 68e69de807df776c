"""What there is to do, and taking turns to drive them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from operator import attrgetter, itemgetter
from typing import NamedTuple, TypeVar

from windlass.ports import (
    ClaimedTurn,
    Due,
    DueCancel,
    DueInbox,
    DueTurn,
    DueWait,
)
from windlass.ports.waits import waits_for_itself
from windlass.stores import rules
from windlass.stores.memory import leases, sessions
from windlass.stores.memory.leases import Workers
from windlass.stores.memory.rows import SessionRow, Tables, TurnRow
from windlass.stores.memory.waits import open_waits
from windlass.stores.rules import WantedTurns

D = TypeVar("D", DueTurn, DueCancel, DueInbox)


class Asked(NamedTuple):
    """Who asks for what is due: at what time, for which agents (None: all), as which worker."""

    now_ms: int
    agents: Collection[str] | None
    worker_id: str | None
    limit: int

    def wants(self, agent: str) -> bool:
        """Whether something of this agent is asked for."""
        return self.agents is None or agent in self.agents


def due(tables: Tables, workers: Workers, asked: Asked) -> Due:
    """Return what there is to do, oldest first."""

    def pick(found: Iterable[tuple[int, D]], wants: Callable[[D], bool]) -> list[tuple[int, D]]:
        wanted = sorted((one for one in found if wants(one[1])), key=itemgetter(0))
        return wanted[: asked.limit]

    def is_ours(one: DueTurn | DueCancel | DueInbox) -> bool:
        return asked.wants(one.agent)

    def is_to_be_released(one: DueTurn) -> bool:
        is_mine = asked.worker_id is not None and one.owner == asked.worker_id
        return is_mine and one.why == "queued" and not is_ours(one)

    turns = list(_due_turns(tables, workers, asked.now_ms))
    found = sorted([*pick(turns, is_ours), *pick(turns, is_to_be_released)], key=itemgetter(0))
    waits = sorted(_due_waits(tables, asked.now_ms), key=attrgetter("expires_ms"))
    return Due(
        turns=tuple(turn for _, turn in found),
        waits=tuple(waits[: asked.limit]),
        cancels=tuple(one for _, one in pick(_due_cancels(tables), is_ours)),
        inboxes=tuple(one for _, one in pick(_due_inboxes(tables), is_ours)),
    )


def _due_turns(tables: Tables, workers: Workers, now_ms: int) -> Iterator[tuple[int, DueTurn]]:
    """At most one turn of a session is due: the one under way, or else the first of all that waits."""
    for session in tables.live_sessions():
        turn = session.next_turn
        why = None if turn is None else rules.WHY_DUE.get(turn.state)
        if turn is None or why is None:
            continue
        if session.comes_next(turn) if why == "queued" else workers.is_free(session, now_ms):
            found = DueTurn(
                session_id=session.id,
                turn_id=turn.id,
                agent=turn.agent,
                why=why,
                owner=session.owner,
            )
            yield turn.no, found


def _due_cancels(tables: Tables) -> Iterator[tuple[int, DueCancel]]:
    for session in tables.live_sessions():
        turn = session.next_turn
        if turn is not None and turn.state == "running" and turn.cancel is not None:
            found = DueCancel(
                session_id=session.id, turn_id=turn.id, agent=turn.agent, owner=session.owner
            )
            yield turn.no, found


def _due_inboxes(tables: Tables) -> Iterator[tuple[int, DueInbox]]:
    for session in tables.live_sessions():
        pending = session.pending
        is_now = any(row.item.when == "now" for row in pending)
        if pending and _can_enter(session, is_now=is_now):
            first = pending[0]
            found = DueInbox(
                session_id=session.id,
                agent=session.agent,
                active=session.active_id,
                now=is_now,
                first=first.item,
            )
            yield first.no, found


def _can_enter(session: SessionRow, *, is_now: bool) -> bool:
    """Whether items may enter: a turn that is not parked, or one that waits for nothing but children or a time.

    Where no turn is under way, the first of them begins one when it comes next.
    """
    turn = session.next_turn
    if turn is not None and turn.state == "queued":
        return not session.comes_next(turn)
    if turn is None or turn.state != "parked":
        return True
    return is_now and waits_for_itself(turn.waits.values())


def _due_waits(tables: Tables, now_ms: int) -> Iterator[DueWait]:
    for view in open_waits(tables, {}):
        wait = view.wait
        if wait.expires_ms is not None and wait.expires_ms <= now_ms:
            yield DueWait(
                key=wait.key,
                kind=wait.kind,
                session_id=wait.session_id,
                turn_id=wait.turn_id,
                expires_ms=wait.expires_ms,
            )


def claim(tables: Tables, workers: Workers, wanted: WantedTurns) -> tuple[ClaimedTurn, ...]:
    """Take turns that no worker drives, each under a new generation."""
    workers.check(wanted.start.worker_id)
    found = sorted(_free_turns(tables, workers, wanted), key=attrgetter("no"))
    return tuple(
        ClaimedTurn(
            lease=leases.take_over(workers, turn, wanted.start),
            turn=sessions.view_turn(turn),
            session=sessions.view(
                turn.session,
                history=wanted.known.get(turn.session.id) != turn.session.head,
                frame=True,
            ),
        )
        for turn in islice(found, max(wanted.limit, 0))
    )


def _free_turns(tables: Tables, workers: Workers, wanted: WantedTurns) -> Iterator[TurnRow]:
    start = wanted.start
    for session in tables.live_sessions():
        turn = session.next_turn
        is_named = wanted.session_id in (None, session.id) and session.id not in wanted.but
        if turn is None or not is_named or turn.agent not in wanted.agents:
            continue
        if turn.state == "queued" and not session.comes_next(turn):
            continue
        # Its own session a worker may go on with, unless it drives a turn there.
        is_own = session.owner == start.worker_id and turn.state == "queued"
        if turn.state in rules.WHY_DUE and (is_own or workers.is_free(session, start.now_ms)):
            yield turn

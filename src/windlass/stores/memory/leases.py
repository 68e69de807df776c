"""Workers and leases: who is there and until when, and how a worker comes to own a session."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from threading import Lock

from windlass.errors import InvalidInput, LeaseLost
from windlass.journal import count_recorded
from windlass.ports import Lease, Start, Unit, WorkerView
from windlass.stores import rules
from windlass.stores.memory.rows import Changes, SessionRow, TurnRow


@dataclass(slots=True)
class _Worker:
    until_ms: int
    is_dead: bool = False


class Workers:
    """The workers of a store. Leases are renewed from any thread, so a lock stands before them."""

    __slots__ = ("_count", "_lock", "_workers")

    def __init__(self) -> None:
        self._lock = Lock()
        self._workers: dict[str, _Worker] = {}
        self._count = 0

    def join(self, until_ms: int) -> str:
        with self._lock:
            self._count += 1
            worker_id = f"w{self._count}"
            self._workers[worker_id] = _Worker(until_ms)
            return worker_id

    def leave(self, worker_id: str) -> bool:
        """Forget a worker; say whether it had joined."""
        with self._lock:
            return self._workers.pop(worker_id, None) is not None

    def view(self, now_ms: int) -> tuple[WorkerView, ...]:
        """Return the workers that have joined, by id."""
        with self._lock:
            found = sorted(self._workers.items(), key=itemgetter(0))
        return tuple(
            WorkerView(
                worker_id=worker_id,
                until_ms=worker.until_ms,
                is_present=not worker.is_dead and worker.until_ms > now_ms,
            )
            for worker_id, worker in found
        )

    def kill(self, worker_id: str) -> None:
        """Mark a worker's process as dead."""
        with self._lock:
            worker = self._workers.get(worker_id)
            if worker is not None:
                worker.is_dead = True

    def extend(self, worker_id: str, until_ms: int) -> int:
        """Hold on until then, or as long as before if that is longer; return until when.

        Raises:
            LeaseLost: no worker of that id has joined.
        """
        with self._lock:
            worker = self._workers.get(worker_id)
            if worker is None:
                raise rules.not_joined(worker_id, LeaseLost)
            worker.until_ms = max(worker.until_ms, until_ms)
            return worker.until_ms

    def check(self, worker_id: str) -> None:
        """Refuse a worker that has not joined."""
        if worker_id not in self._workers:
            raise rules.not_joined(worker_id, InvalidInput)

    def is_present(self, worker_id: str, now_ms: int) -> bool:
        """Whether the worker has joined, lives, and its lease is not over."""
        with self._lock:
            worker = self._workers.get(worker_id)
            return worker is not None and not worker.is_dead and worker.until_ms > now_ms

    def is_free(self, session: SessionRow, now_ms: int) -> bool:
        """Whether the session has no owner, or one that is dead or whose lease is over."""
        return session.owner is None or not self.is_present(session.owner, now_ms)

    def drop_dead(self) -> tuple[str, ...]:
        """Forget workers whose process is dead; return their ids in the order in which they joined."""
        with self._lock:
            dead = tuple(name for name, worker in self._workers.items() if worker.is_dead)
            for name in dead:
                del self._workers[name]
            return dead


def begin(workers: Workers, turn: TurnRow, start: Start, unit: Unit, changes: Changes) -> None:
    """Begin the turn of a unit under its generation."""
    workers.check(start.worker_id)
    is_free = partial(workers.is_free, turn.session, start.now_ms)
    if rules.may_begin(turn, start, unit.generation, is_free):
        if rules.may_go_first(turn, unit):
            _go_first(turn, changes)
        _own(turn, start.worker_id, unit.generation, changes)
        changes.at_last(partial(workers.extend, start.worker_id, start.until_ms))


def take_over(workers: Workers, turn: TurnRow, wanted: Start) -> Lease:
    """Own the session of an unfinished turn, under a new generation."""
    session, worker_id = turn.session, wanted.worker_id
    workers.check(worker_id)
    rules.check_takeover(turn, worker_id, partial(workers.is_free, session, wanted.now_ms))
    if turn.state != "queued":
        rules.count_takeover(turn, count_recorded(turn.read_pages()))
    _own(turn, worker_id, session.generation + 1, Changes())
    return rules.lease_of(turn, worker_id, workers.extend(worker_id, wanted.until_ms))


def _go_first(turn: TurnRow, changes: Changes) -> None:
    """Move a turn before all that waits."""
    session = turn.session
    if not session.comes_next(turn):
        waiting = [one.arrived for one in session.unfinished.values()]
        waiting += [row.item.arrived for row in session.pending]
        changes.set(turn, arrived=min(waiting) - 1)
        session.line_up(turn, changes)


def _own(turn: TurnRow, worker_id: str, generation: int, changes: Changes) -> None:
    session = turn.session
    is_next = session.comes_next(turn) if turn.state == "queued" else session.next_turn is turn
    if not is_next:
        raise rules.comes_later(turn)
    changes.set(session, owner=worker_id, generation=generation)
    changes.set(turn, state="running", strand=session.head + 1, answered=False)

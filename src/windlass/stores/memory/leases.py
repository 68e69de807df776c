"""Workers and leases: who is there and until when, how a worker comes to own a session, and the fence before its writes."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock

from windlass.errors import HeadMoved, InvalidInput, LeaseLost
from windlass.journal import count_recorded
from windlass.ports import Lease, Start, Unit
from windlass.stores.memory.rows import Changes, SessionRow, Tables, TurnRow


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

    def leave(self, worker_id: str) -> None:
        with self._lock:
            self._workers.pop(worker_id, None)

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
                raise LeaseLost(f"worker {worker_id}: is not here any more")
            worker.until_ms = max(worker.until_ms, until_ms)
            return worker.until_ms

    def check(self, worker_id: str) -> None:
        """Refuse a worker that has not joined."""
        if worker_id not in self._workers:
            raise InvalidInput(f"worker_id: {worker_id} has not joined", field="worker_id")

    def is_present(self, worker_id: str, now_ms: int) -> bool:
        """Whether the worker has joined, lives, and its lease is not over."""
        with self._lock:
            worker = self._workers.get(worker_id)
            return worker is not None and not worker.is_dead and worker.until_ms > now_ms

    def is_free(self, session: SessionRow, now_ms: int) -> bool:
        """Whether the session has no owner, or one that is dead or whose lease is over."""
        return session.owner is None or not self.is_present(session.owner, now_ms)

    def drop_dead(self) -> frozenset[str]:
        """Forget workers whose process is dead; return their ids."""
        with self._lock:
            dead = frozenset(name for name, worker in self._workers.items() if worker.is_dead)
            for name in dead:
                del self._workers[name]
            return dead


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
    """Refuse a generation that is not the session's, and any while the session has no owner."""
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

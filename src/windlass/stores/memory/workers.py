"""Workers: who is there, until when, and whether a session is free for another."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock

from windlass.errors import InvalidInput, LeaseLost
from windlass.stores.memory.rows import SessionRow


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
        """Let a worker's process be dead."""
        with self._lock:
            worker = self._workers.get(worker_id)
            if worker is not None:
                worker.is_dead = True

    def extend(self, worker_id: str, until_ms: int) -> int:
        """Hold on until then, or as long as before if that is longer; return until when.

        Raises:
            LeaseLost: nobody of that name is here.
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
        """Whether nobody has the session, or somebody who is dead or whose lease is over."""
        return session.owner is None or not self.is_present(session.owner, now_ms)

    def drop_dead(self) -> frozenset[str]:
        """Forget workers whose process is dead; return their ids."""
        with self._lock:
            dead = frozenset(name for name, worker in self._workers.items() if worker.is_dead)
            for name in dead:
                del self._workers[name]
            return dead

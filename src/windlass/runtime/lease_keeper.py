"""Leases: renewed from a thread of their own, so that a busy event loop does not lose its sessions."""

from __future__ import annotations

import threading
from collections.abc import Callable

from windlass.errors import LeaseLost, WindlassError
from windlass.ports import Store
from windlass.ports.clock import Clock


class LeaseKeeper:
    """Holds on to a worker's sessions while its process lives."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        worker_id: str,
        *,
        lease_ms: int,
        is_needed: Callable[[], bool],
        on_lost: Callable[[WindlassError], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._worker_id = worker_id
        self._lease_ms = lease_ms
        self._is_needed = is_needed
        self._on_lost = on_lost
        self._is_over = threading.Event()
        self._thread = threading.Thread(
            target=self._keep, name=f"windlass-lease-{worker_id}", daemon=True
        )

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, without waiting for the next round."""
        self._is_over.set()

    def _keep(self) -> None:
        # Three tries fit into one lease.
        while not self._is_over.wait(self._lease_ms / 3000):
            if not self._is_needed():
                continue  # an idle worker writes nothing; its next turn brings its lease along
            try:
                until_ms = self._clock.now_ms() + self._lease_ms
                self._store.renew(self._worker_id, until_ms=until_ms)
            except WindlassError as error:
                self._on_lost(error)
                if isinstance(error, LeaseLost):
                    return  # others have the sessions; every write of ours says so

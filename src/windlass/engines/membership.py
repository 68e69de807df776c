"""Membership: a process among the workers of a store, so that others can tell whether it lives.

The lease is renewed from a thread of its own: an event loop that is busy does not lose its sessions.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress

from windlass.errors import LeaseLost, StoreError, WindlassError
from windlass.runtime.services import Services

_log = logging.getLogger("windlass")


class Membership:
    """Joins the store's workers once, renews the lease while `is_busy`, and gives it up at the end."""

    def __init__(self, services: Services, *, is_busy: Callable[[], bool]) -> None:
        self._services = services
        self._is_busy = is_busy
        self._joining = asyncio.Lock()
        self._is_over = threading.Event()

    async def join(self) -> str:
        """Become a worker of the store; return its id."""
        if self._services.worker_id:
            return self._services.worker_id
        async with self._joining:
            return self._services.worker_id or await self._join()

    async def _join(self) -> str:
        services = self._services
        worker_id = await services.store.join(
            until_ms=services.until_ms(), now_ms=services.clock.now_ms()
        )
        threading.Thread(
            target=self._keep_lease,
            args=(worker_id, asyncio.get_running_loop()),
            name=f"windlass-lease-{worker_id}",
            daemon=True,
        ).start()
        services.worker_id = worker_id
        return worker_id

    def _keep_lease(self, worker_id: str, loop: asyncio.AbstractEventLoop) -> None:
        services = self._services
        # Three attempts fit into one lease.
        while not self._is_over.wait(services.lease_ms / 3000):
            # An idle worker writes nothing: its next turn brings its lease along. A loop that was closed under its
            # turns does not drive them any more, so other workers may.
            if not self._is_busy() or loop.is_closed():
                continue
            try:
                services.store.renew(worker_id, until_ms=services.until_ms())
            except WindlassError as error:
                _log.warning("lease: %s", error.code)
                if isinstance(error, LeaseLost):
                    return  # other workers have the sessions; every write of ours is refused

    async def stop(self) -> None:
        """Give the sessions up, so that other workers need not wait for the lease to end."""
        self._is_over.set()
        if self._services.worker_id:
            with suppress(StoreError):
                await self._services.store.leave(self._services.worker_id)

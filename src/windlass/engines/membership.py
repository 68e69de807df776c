"""Membership: a process among the workers of a store, so that others can tell whether it lives."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from windlass.errors import StoreError
from windlass.runtime.lease_keeper import LeaseKeeper
from windlass.runtime.services import Services

_log = logging.getLogger("windlass")


class Membership:
    """Joins once, holds on, and leaves."""

    def __init__(self, services: Services, *, is_busy: Callable[[], bool]) -> None:
        self._services = services
        self._is_busy = is_busy
        self._keeper: LeaseKeeper | None = None
        self._joining = asyncio.Lock()

    async def join(self) -> str:
        """Be a worker of the store; return its id."""
        if self._services.worker_id:
            return self._services.worker_id
        async with self._joining:
            return self._services.worker_id or await self._join()

    async def _join(self) -> str:
        services = self._services
        worker_id = await services.store.join(
            until_ms=services.until_ms(), now_ms=services.clock.now_ms()
        )
        loop = asyncio.get_running_loop()
        self._keeper = LeaseKeeper(
            services.store,
            services.clock,
            worker_id,
            lease_ms=services.lease_ms,
            # A loop that was closed under its turns drives them no further: others may.
            is_needed=lambda: self._is_busy() and not loop.is_closed(),
            on_lost=lambda error: _log.warning("lease: %s", error.code),
        )
        self._keeper.start()
        services.worker_id = worker_id
        return worker_id

    async def leave(self) -> None:
        """Give the sessions up, so that others need not wait."""
        if self._keeper is not None:
            self._keeper.stop()
        if self._services.worker_id:
            with suppress(StoreError):
                await self._services.store.leave(self._services.worker_id)

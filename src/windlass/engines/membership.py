"""Membership: a process among the workers of a store, so that others can tell whether it lives."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from windlass.errors import StoreError
from windlass.runtime.lease_keeper import LeaseKeeper
from windlass.runtime.world import World

_log = logging.getLogger("windlass")


class Membership:
    """Joins once, holds on, and leaves."""

    def __init__(self, world: World, *, is_busy: Callable[[], bool]) -> None:
        self._world = world
        self._is_busy = is_busy
        self._keeper: LeaseKeeper | None = None
        self._joining = asyncio.Lock()

    async def join(self) -> str:
        """Be a worker of the store; return its id."""
        if self._world.worker_id:
            return self._world.worker_id
        async with self._joining:
            return self._world.worker_id or await self._join()

    async def _join(self) -> str:
        world = self._world
        worker_id = await world.store.join(until_ms=world.until_ms(), now_ms=world.clock.now_ms())
        loop = asyncio.get_running_loop()
        self._keeper = LeaseKeeper(
            world.store,
            world.clock,
            worker_id,
            lease_ms=world.lease_ms,
            # A loop that was closed under its turns drives them no further: others may.
            is_needed=lambda: self._is_busy() and not loop.is_closed(),
            on_lost=lambda error: _log.warning("lease: %s", error.code),
        )
        self._keeper.start()
        world.worker_id = worker_id
        return worker_id

    async def leave(self) -> None:
        """Give the sessions up, so that others need not wait."""
        if self._keeper is not None:
            self._keeper.stop()
        if self._world.worker_id:
            with suppress(StoreError):
                await self._world.store.leave(self._world.worker_id)

"""The local engine: the worker looks whenever something happened here, and otherwise as often as the store wants."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from windlass.errors import StoreError
from windlass.ports import Store, Work

_log = logging.getLogger("windlass")
# A store that is looked at this often needs no bell; and no bell makes a worker look more often than this.
_OFTEN_S = 0.25


class LocalEngine:
    """A timer in this process, with nothing but a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kick = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._leave_bell: Callable[[], None] | None = None
        self._looked_at = 0.0

    async def open(self, work: Work) -> None:
        """Let the worker look from now on."""
        loop = asyncio.get_running_loop()
        self._looking = loop.create_task(self._keep_looking(work), name="windlass-scan")
        if self._store.scan_s > _OFTEN_S:
            self._leave_bell = self._store.watch(self._ring)

    def kick(self, session_id: str | None = None) -> None:  # noqa: ARG002 - the port's: one look finds all
        """Let the worker look now."""
        self._kick.set()

    async def close(self) -> None:
        """Let the worker look no more."""
        if self._leave_bell is not None:
            self._leave_bell()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait({self._looking})

    def _ring(self) -> None:
        loop = asyncio.get_running_loop()
        pause_s = self._looked_at + _OFTEN_S - loop.time()
        if pause_s <= 0:
            self._kick.set()
        else:
            loop.call_later(pause_s, self._kick.set)

    async def _keep_looking(self, work: Work) -> None:
        loop = asyncio.get_running_loop()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._store.scan_s):
                    await self._kick.wait()
            self._kick.clear()
            self._looked_at = loop.time()
            try:
                await work.look()
            except StoreError as error:
                _log.warning("looking for work: %s", error.code)
            except Exception:  # noqa: BLE001 - a worker that looks alive has to go on looking
                _log.exception("looking for work")

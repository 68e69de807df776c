"""Housekeeping: journals of turns that ended long ago are reclaimed without anybody asking.

A worker looks once it has been there for a minute, so that scripts which come and go do not pay for it, and then every few
hours. What is reclaimed and when is the store's business; this only says that it is time.
"""

from __future__ import annotations

import logging

from windlass.errors import StoreError
from windlass.runtime.services import Services

_log = logging.getLogger("windlass")
_FIRST_MS = 60_000
_EVERY_MS = 6 * 3_600_000


class Housekeeping:
    """Reclaims what retention no longer covers."""

    def __init__(self, services: Services, *, retention_ms: int) -> None:
        self._services = services
        self._retention_ms = retention_ms
        self._due_ms = services.clock.now_ms() + _FIRST_MS

    async def tidy(self) -> None:
        """Reclaim, if it is time. A store that cannot now is asked again next time."""
        now_ms = self._services.clock.now_ms()
        if now_ms < self._due_ms:
            return
        self._due_ms = now_ms + _EVERY_MS
        try:
            await self._services.store.vacuum(now_ms=now_ms, retention_ms=self._retention_ms)
        except StoreError as error:
            _log.warning("housekeeping: %s", error.code)

"""The clock of this machine."""

from __future__ import annotations

import asyncio
import time


class SystemClock:
    """Real time."""

    def now_ms(self) -> int:
        """Return the time in milliseconds since 1970, UTC."""
        return time.time_ns() // 1_000_000  # noqa: TID251 - this is the clock port

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

"""The clock: what time it is, and waiting. Nothing else in windlass reads one."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Tells the time."""

    def now_ms(self) -> int:
        """Return the time in milliseconds since 1970, UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

"""Places: so many turns are driven at a time, first come, first served.

A turn whose tool waits for another turn does nothing meanwhile, so its place is lent. Without that, as many such turns as
there are places would wait for each other for ever. What was lent is taken back at once, not when there is room again: for
a moment there may be one turn more than places, and nobody waits to go on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class Places:
    """Counts them; below zero when more was lent than is free again."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[asyncio.Future[None]] = deque()

    def locked(self) -> bool:
        """Whether whoever comes now has to wait."""
        return self._free <= 0 or bool(self._waiting)

    async def acquire(self) -> None:
        """Wait for a place, and take it."""
        if not self.locked():
            self._free -= 1
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled():
                self.release()  # it was given one, and has no use for it
            raise

    def release(self) -> None:
        """Give a place back, or to whoever waits for one."""
        self._free += 1
        while self._free > 0 and self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                self._free -= 1
                waiter.set_result(None)

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Let somebody else have the caller's place for a while."""
        self.release()
        try:
            yield
        finally:
            self._free -= 1

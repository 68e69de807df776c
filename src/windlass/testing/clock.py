"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import heapq
import math
from threading import Lock

from windlass.errors import InvalidInput

_US_PER_S = 1_000_000
_US_PER_MS = 1_000


class VirtualClock:
    """A `windlass.ports` clock for tests: time passes when `advance` is called, and only then.

    Sleepers wake in the order of their due times; those due together, in the order in which they lay
    down. `now_ms` and `advance` may be called from any thread.

    Args:
        start_ms: Where it stands at first, in milliseconds since 1970, UTC.
    """

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        self._lock = Lock()
        self._now_us = start_ms * _US_PER_MS
        self._laid_down = 0
        # By due time, then by order; the future itself is never compared.
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._watchers: list[tuple[int, asyncio.Future[None]]] = []

    def now_ms(self) -> int:
        """Return the time in milliseconds since 1970, UTC."""
        with self._lock:
            return self._now_us // _US_PER_MS

    @property
    def sleepers(self) -> int:
        """How many are asleep now."""
        with self._lock:
            return len(self._sleepers)

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock was moved past that time; nothing to wait for is over at once.

        Args:
            seconds: How far the clock must be moved before this returns.
        """
        asleep = asyncio.get_running_loop().create_future()
        with self._lock:
            if seconds <= 0:
                asleep.set_result(None)
            else:
                self._laid_down += 1
                due_us = self._now_us + max(1, round(seconds * _US_PER_S))
                heapq.heappush(self._sleepers, (due_us, self._laid_down, asleep))
            watching = [future for count, future in self._watchers if count <= len(self._sleepers)]
        _wake(watching)
        if asleep.done():
            # Others go first all the same, as with any other sleep.
            await asyncio.sleep(0)
            return
        try:
            await asleep
        finally:
            with self._lock:
                left = [sleeper for sleeper in self._sleepers if sleeper[2] is not asleep]
                if len(left) < len(self._sleepers):
                    heapq.heapify(left)
                    self._sleepers = left

    def advance(self, seconds: float) -> None:
        """Move the clock on and wake every sleeper that is due by then.

        Args:
            seconds: How far to move the clock, 0 or more.
        """
        if not 0 <= seconds < math.inf:
            raise InvalidInput.at("seconds", seconds, "0 or more")
        due: list[asyncio.Future[None]] = []
        with self._lock:
            self._now_us += round(seconds * _US_PER_S)
            while self._sleepers and self._sleepers[0][0] <= self._now_us:
                due.append(heapq.heappop(self._sleepers)[2])
        _wake(due)

    async def until_asleep(self, count: int = 1) -> None:
        """Wait, without time, until at least `count` are asleep: then `advance` finds them.

        Args:
            count: How many sleepers to wait for; 1 if nothing is said.
        """
        watching = asyncio.get_running_loop().create_future()
        watcher = (count, watching)
        with self._lock:
            if len(self._sleepers) >= count:
                return
            self._watchers.append(watcher)
        try:
            await watching
        finally:
            with self._lock:
                self._watchers.remove(watcher)


def virtual_clock(start_ms: int = 1_700_000_000_000) -> VirtualClock:
    """Return a clock that stands at `start_ms` until it is moved.

    Args:
        start_ms: Where it stands at first, in milliseconds since 1970, UTC.
    """
    return VirtualClock(start_ms)


def _wake(futures: list[asyncio.Future[None]]) -> None:
    try:
        here = asyncio.get_running_loop()
    except RuntimeError:
        here = None
    for future in futures:
        loop = future.get_loop()
        if loop is here:
            _set(future)
        else:
            loop.call_soon_threadsafe(_set, future)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)

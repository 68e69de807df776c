"""The calls of one reply, together: who runs, who waits, and when only waiting is left.

Law 1. While one call waits for a person, its siblings run.
Law 2. When every call that has not ended waits, the turn parks; what was recorded stays recorded.
Law 3. A sequential tool's body runs while no other body does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext

from windlass.ports import WaitView
from windlass.runtime.turn_in_hand import TurnInHand
from windlass.runtime.turn_signals import ParkTurn


class CallBatch:
    """Keeps count of the calls of one effect."""

    def __init__(self, hand: TurnInHand, n_calls: int) -> None:
        self._hand = hand
        self.is_alone = n_calls == 1
        self._running = n_calls
        self._news = asyncio.Event()
        self._gate = None if self.is_alone else BodyGate(hand.limits.max_parallel)

    def wake(self) -> None:
        """Let whoever waits look again."""
        self._news.set()

    def ended(self) -> None:
        """Say that a call has its result."""
        self._running -= 1
        self._news.set()

    async def barrier(self) -> None:
        """Wait until all that was added is durable; siblings that are ready join the same unit."""
        if not self.is_alone:
            await asyncio.sleep(0)
        await self._hand.lane.durable()

    async def answered(self, key: str) -> WaitView:
        """Wait until a wait has its answer.

        Raises:
            ParkTurn: all the other calls wait as well, or have ended.
        """
        hand = self._hand
        self._running -= 1
        self._news.set()
        while hand.waits[key].state == "open":
            self._news.clear()
            if self._running == 0:
                self._news.set()
                raise ParkTurn
            await self._news.wait()
            await hand.reload_waits()
        self._running += 1
        return hand.waits[key]

    def body(self, *, alone: bool) -> AbstractAsyncContextManager[None]:
        """Hold a place to run in."""
        return _NO_GATE if self._gate is None else self._gate.place(alone=alone)


class BodyGate:
    """Lets so many bodies run at a time, or one that is to run alone."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._changed = asyncio.Condition()
        self._bodies = 0
        self._has_exclusive = False

    @asynccontextmanager
    async def place(self, *, alone: bool) -> AsyncIterator[None]:
        """Wait for a place, and hold it."""
        limit = 1 if alone else self._limit
        async with self._changed:
            await self._changed.wait_for(lambda: not self._has_exclusive and self._bodies < limit)
            self._bodies += 1
            self._has_exclusive = alone
        try:
            yield
        finally:
            async with self._changed:
                self._bodies -= 1
                self._has_exclusive = False
                self._changed.notify_all()


_NO_GATE: AbstractAsyncContextManager[None] = nullcontext()

"""The calls of one reply, together: who runs, who waits, and when only waiting is left.

Law 1. While one call waits for a person, its siblings run.
Law 2. When every call that has not ended waits, the turn parks; what was recorded stays recorded.
Law 3. A sequential tool's body runs while no other body does.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext

from windlass.ports import WaitView
from windlass.runtime.turn import Turn
from windlass.runtime.turn_signals import ParkTurn


class CallBatch:
    """Keeps count of the calls of one effect."""

    def __init__(self, hand: Turn, n_calls: int) -> None:
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
        self.limit = limit
        self.bodies = 0
        self.has_exclusive = False
        self.changed = asyncio.Event()

    def place(self, *, alone: bool) -> AbstractAsyncContextManager[None]:
        """Wait for a place, and hold it."""
        return _Place(self, alone=alone)


class _Place(AbstractAsyncContextManager[None]):
    """A place to run in, from when it is free until its body has ended."""

    def __init__(self, gate: BodyGate, *, alone: bool) -> None:
        self._gate = gate
        self._alone = alone

    async def __aenter__(self) -> None:
        gate = self._gate
        limit = 1 if self._alone else gate.limit
        # Between the last look and the taking nobody else has a turn.
        while gate.has_exclusive or gate.bodies >= limit:
            gate.changed.clear()
            await gate.changed.wait()
        gate.bodies += 1
        gate.has_exclusive = self._alone

    async def __aexit__(self, *_: object) -> None:
        gate = self._gate
        gate.bodies -= 1
        gate.has_exclusive = False
        gate.changed.set()


_NO_GATE: AbstractAsyncContextManager[None] = nullcontext()

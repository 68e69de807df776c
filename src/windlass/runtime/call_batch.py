"""The calls of one reply, together: which run, which wait, and when only waiting is left."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

from windlass.ports import WaitView
from windlass.runtime.turn import Turn
from windlass.runtime.turn_signals import ParkTurn, StopTurn


class CallBatch:
    """Keeps count of the calls of one effect."""

    __slots__ = ("_gate", "_news", "_running", "_turn", "is_alone")

    def __init__(self, turn: Turn, n_calls: int) -> None:
        self._turn = turn
        self.is_alone = n_calls == 1
        self._running = n_calls
        self._news: asyncio.Event | None = None
        self._gate = None if self.is_alone else _BodyGate(turn.limits.max_parallel)

    def wake(self) -> None:
        """Make calls that wait look again."""
        self.tell_news()

    def next_news(self) -> asyncio.Event:
        """Return what is set when there is something to look at; take it before looking, and nothing is missed."""
        news = self._news
        if news is None:
            news = self._news = asyncio.Event()
        return news

    def tell_news(self) -> None:
        """Wake those that wait for news."""
        news, self._news = self._news, None
        if news is not None:
            news.set()

    def ended(self) -> None:
        """Note that a call has its result."""
        self._running -= 1
        if self._news is not None:
            self.tell_news()

    async def barrier(self) -> None:
        """Wait until all that was added is durable; siblings that are ready join the same unit."""
        lane = self._turn.lane
        if not self.is_alone:
            mark = lane.mark()
            await asyncio.sleep(0)
            if lane.is_durable(mark):
                return  # a sibling has brought it along
        if not lane.commit_now():
            await lane.durable()

    async def answered(self, key: str) -> WaitView:
        """Wait until a wait has its answer.

        Raises:
            ParkTurn: all the other calls wait as well, or have ended.
        """
        turn = self._turn
        self._running -= 1
        self.tell_news()
        news = self.next_news()
        while turn.waits[key].state == "open":
            if self._running == 0:
                self.tell_news()
                raise ParkTurn
            await news.wait()
            news = self.next_news()
            await turn.reload_waits()
        self._running += 1
        return turn.waits[key]

    async def heard(self, key: str, asked: asyncio.Future[Any]) -> None:
        """Wait until a wait has its answer, or the one who is asked about it here has ended. The call counts as running.

        Raises:
            StopTurn: the worker stops.
        """
        turn = self._turn
        asked.add_done_callback(lambda _: self.tell_news())
        news = self.next_news()
        while turn.waits[key].state == "open" and not asked.done():
            if turn.is_stopping:
                raise StopTurn
            await news.wait()
            news = self.next_news()
            await turn.reload_waits()

    def body(self, *, alone: bool) -> AbstractAsyncContextManager[None] | None:
        """Return the slot that a body holds while it runs; None: the call has no siblings, so it needs none."""
        return None if self._gate is None else _Slot(self._gate, alone=alone)


class _BodyGate:
    """Admits so many bodies at a time, or one that is to run alone."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bodies = 0
        self.has_exclusive = False
        self.changed = asyncio.Event()


class _Slot(AbstractAsyncContextManager[None]):
    """Room to run in, from when it is free until its body has ended."""

    def __init__(self, gate: _BodyGate, *, alone: bool) -> None:
        self._gate = gate
        self._alone = alone

    async def __aenter__(self) -> None:
        gate = self._gate
        limit = 1 if self._alone else gate.limit
        # Nothing else runs between the last look and the taking.
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

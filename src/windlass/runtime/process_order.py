"""The order in which the operations of a process return, and how to notice that nothing moves.

A function may begin operations in parallel and act on the first that ends. So the journal records the order of their ends.
In a drive that replays the journal all ends are known at once, and this class returns them in the recorded order.

Law 1. What follows from one end happens before the next operation returns: a few passes of the loop lie between two ends,
    both live and in a replay.
Law 2. Recorded operations return first. Then come operations that are known to have ended, in the order of their ends.
Law 3. An end that the function no longer asks for holds up nothing: after a while without a move the next one returns.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

# Within this many passes of the loop a task that got its result resumes the tasks that await it, and they ask for their
# next operations.
PASSES = 8
_PATIENCE = 64


class ReturnOrder:
    """Lets operations return to the function, one at a time.

    `ended` has the positions with a recorded end, in that order; `on_still` is called when nothing has moved for a few
    passes.
    """

    __slots__ = (
        "_asked",
        "_gone",
        "_is_ticking",
        "_on_still",
        "_recorded",
        "_still",
        "_waiting",
        "_watchers",
    )

    def __init__(self, ended: Iterable[str], on_still: Callable[[], None]) -> None:
        self._recorded = deque(ended)
        # Recorded operations that the function has asked for, and operations that returned before their turn.
        self._asked: set[str] = set()
        self._gone: set[str] = set()
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._watchers: list[asyncio.Future[None]] = []
        self._on_still = on_still
        # For how many passes nothing has moved; counted only while ticking.
        self._still = 0
        self._is_ticking = False

    def moved(self) -> None:
        """Note that something happened: an operation began, waits or has ended."""
        self._still = min(self._still, 0)
        if not self._is_ticking:
            self._is_ticking = True
            asyncio.get_running_loop().call_soon(self._tick)

    def began(self, position: str) -> None:
        """Note that the function asks for an operation."""
        if self._recorded:
            self._asked.add(position)

    def ended(self, position: str) -> None:
        """Note that an operation has ended: it returns after all that are known to have ended."""
        self._recorded.append(position)

    def returns_now(self, position: str) -> bool:
        """Whether this operation may return at once: it is the next one, and no other has just returned."""
        recorded = self._recorded
        if self._waiting or self._still < 0:
            return False
        return not recorded or recorded[0] == position

    async def returns(self, position: str) -> None:
        """Wait until it is this operation's turn to return."""
        future = self._waiting[position] = asyncio.get_running_loop().create_future()
        self.moved()
        try:
            await future
        finally:
            self._waiting.pop(position, None)

    def returned(self, position: str, *, is_alone: bool) -> None:
        """Note that an operation has returned, or was abandoned."""
        recorded, gone = self._recorded, self._gone
        if recorded:
            gone.add(position)
            while recorded and recorded[0] in gone:
                gone.discard(recorded.popleft())
        if not is_alone:
            self.moved()
            self._still = -PASSES

    def let_go(self) -> None:
        """Let all operations return: the function is unwound."""
        self._recorded.clear()
        for future in (*self._waiting.values(), *self._watchers):
            if not future.done():
                future.set_result(None)
        self._waiting.clear()
        self._watchers.clear()

    def close(self) -> None:
        """Release everything: the drive is over."""
        self.let_go()
        self._on_still = _do_nothing

    async def quiet(self) -> None:
        """Wait until nothing has moved for a few passes."""
        watcher = asyncio.get_running_loop().create_future()
        self._watchers.append(watcher)
        self.moved()
        await watcher

    def _tick(self) -> None:
        """Count a pass of the loop; let the next operation return if it is time."""
        self._is_ticking = False
        self._still += 1
        if self._still >= 0 and self._waiting:
            self._give()
        if self._still < PASSES or (self._waiting and not self._is_under_way):
            self._is_ticking = True
            asyncio.get_running_loop().call_soon(self._tick)
            return
        for watcher in self._watchers:
            if not watcher.done():
                watcher.set_result(None)
        self._watchers.clear()
        self._on_still()

    @property
    def _is_under_way(self) -> bool:
        """Whether the next operation was asked for but is not ready to return, for example while it reads the store."""
        recorded = self._recorded
        return bool(recorded) and recorded[0] in self._asked and recorded[0] not in self._waiting

    def _give(self) -> None:
        waiting, recorded = self._waiting, self._recorded
        if not recorded:
            chosen = next(iter(waiting))
        elif recorded[0] in waiting:
            chosen = recorded[0]
        elif recorded[0] in self._asked or self._still < _PATIENCE:
            return
        else:
            chosen = next((one for one in recorded if one in waiting), next(iter(waiting)))
        future = waiting.pop(chosen)
        if not future.done():
            future.set_result(None)
        self._still = -PASSES


def _do_nothing() -> None:
    pass

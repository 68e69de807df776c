"""The fuse: told of every moment at which the process may die, and burns at one of them."""

from __future__ import annotations

from asyncio import CancelledError
from collections import Counter
from collections.abc import Callable

from windlass.testing.crashing.crash_point import CrashPoint, nth


class Buried(CancelledError):
    """Raised where a dead life stood still, when all is over: so that its tasks can be cleared away."""


class Fuse:
    """Counts the moments of one life; at the chosen one it calls `crash`, which does not return."""

    def __init__(self, at: str | None, crash: Callable[[CrashPoint], None]) -> None:
        self._at = at
        self._crash = crash
        self._times: Counter[str] = Counter()
        self.seen: list[CrashPoint] = []
        self.is_burnt = False

    def reach(self, where: str, what: str = "") -> None:
        """Say that the process is here now.

        Raises:
            Buried: the process is dead already.
        """
        if self.is_burnt:
            raise Buried
        self._times[where] += 1
        times = self._times[where]
        name = where if times == 1 else f"{where} ({nth(times)} time)"
        point = CrashPoint(where=name, what=what)
        self.seen.append(point)
        if name == self._at:
            self.is_burnt = True
            self._crash(point)

"""A crash point: a moment of a scenario at which its process may die, and the fuse that burns at one of them."""

from __future__ import annotations

from asyncio import CancelledError
from collections import Counter
from collections.abc import Callable

from windlass.kernel.value import Value


class CrashPoint(Value, kw_only=True):
    """A moment at which a process may die.

    Attributes:
        where: Its name, the same in every run of the scenario.
        what: What is written there, in words for people.
        first: The crash before it, when a process is crashed that recovers from one; else None.
    """

    where: str
    what: str = ""
    first: CrashPoint | None = None

    def __str__(self) -> str:
        here = f"{self.where}: {self.what}" if self.what else self.where
        return here if self.first is None else f"{self.first}; started again, then {here}"

    @property
    def path(self) -> tuple[str, ...]:
        """The names of the moments at which one process after the other dies."""
        return (*(() if self.first is None else self.first.path), self.where)


def nth(number: int) -> str:
    """Return a number as people count: 1st, 2nd, 3rd, 4th."""
    is_teen = 11 <= number % 100 <= 13
    ending = "th" if is_teen else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


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

"""A crash point: a moment of a scenario at which its process may die."""

from __future__ import annotations

from windlass.kernel.value import Value


class CrashPoint(Value, kw_only=True):
    """A moment at which a process may die.

    `where` is its name, the same in every run of the scenario; `what` says what is written there. `first` is the
    crash before it, when a process is crashed that recovers from one.
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

"""Seams: the numbered moments at which a process may die, and all that it can do to the world.

Law 1. Whatever reaches the world goes through here: what was done is in the ledger, which outlives the process.
Law 2. At the seam that was named, the process dies. Nothing of it happens afterwards: what comes to a seam
    waits there for ever, what is to be noted is not.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from typing import TYPE_CHECKING, Any, NoReturn

from tests.durability.matrix.steps import SESSION, TURN
from windlass.testing import VirtualClock

if TYPE_CHECKING:
    from tests.durability.matrix.ledger import Ledger
    from windlass import Runtime

START_MS = 1_700_000_000_000
BACKOFF_MS = 2_000
BACK = "provider back"


class Outside:
    """The world as one life of a process meets it; `dies_at` is the seam of its death, or its number."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        dies_at: int | str | None = None,
        for_real: bool = False,
        cancels_at: str | None = None,
        says_no: bool = False,
    ) -> None:
        self.ledger = ledger
        self.trace: list[str] = []
        self.clock = VirtualClock(START_MS + BACKOFF_MS * ledger.count(BACK))
        self.is_dead = False
        self.died = asyncio.Event()
        self.runtime: Runtime[Any] | None = None
        self.says_no = says_no
        self._cancels_at = cancels_at
        self._dies_at = dies_at
        self._for_real = for_real
        self._seen: Counter[str] = Counter()
        ledger.append("life")

    def at(self, seam: str) -> bool:
        """Pass a seam; False: the process is dead."""
        if self.is_dead:
            return False
        self._seen[seam] += 1
        number = self._seen[seam]
        self.trace.append(seam if number == 1 else f"{seam} ({number})")
        if self._dies_at not in (len(self.trace) - 1, self.trace[-1]):
            return True
        if self._for_real:
            os.kill(os.getpid(), signal.SIGKILL)
        self.is_dead = True
        self.died.set()
        return False

    async def passes(self, seam: str) -> None:
        """Pass a seam, or die there; the turn may be cancelled meanwhile."""
        if not self.at(seam):
            await forever()
        if seam == self._cancels_at and self.runtime is not None:
            await self.runtime.cancel(SESSION, TURN, "enough")

    async def note(self, line: str) -> None:
        """Write down what the world sees, unless the process is dead."""
        if self.is_dead:
            await forever()
        self.ledger.append(line)

    def provider_is_back(self) -> None:
        """Move the clock until the model can be reached again."""
        self.ledger.append(BACK)
        self.clock.advance(BACKOFF_MS / 1000)


class Closed(Outside):
    """A world that must not be touched: for a turn whose journal knows it all. Its time is the other world's."""

    def __init__(self, ledger: Ledger, like: Ledger) -> None:
        for _ in range(like.count(BACK)):
            ledger.append(BACK)
        super().__init__(ledger)
        self.touched: list[str] = []

    async def note(self, line: str) -> None:
        """Refuse: an act is announced first."""
        self.touched.append(line)
        raise AssertionError(f"executed: {line}")


async def forever() -> NoReturn:
    """Wait for what never comes, as the code of a dead process does."""
    await asyncio.get_running_loop().create_future()
    raise AssertionError("it came")

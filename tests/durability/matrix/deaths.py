"""Level B, from outside: one process after another, each takes over what the last one left."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Self

from tests.durability.matrix.beneath import KeptInFile
from tests.durability.matrix.ledger import Ledger
from tests.durability.matrix.redrive import end_of
from tests.durability.matrix.verdict import End
from tests.durability.soak.lives import Nursery


class Deaths:
    """Processes that die in folders, in order."""

    def __init__(self, log: Path, *, mutant: str | None = None) -> None:
        self._options = [] if mutant is None else ["--mutant", mutant]
        self._log = log
        self._nursery = Nursery(log, "tests.durability.matrix.nursery")
        self._to_finish: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._nursery.__exit__()

    def die(self, folder: Path, *seams: str) -> None:
        """Kill one process after another in a folder; the next one elsewhere finishes there first."""
        folder.mkdir()
        for seam in seams:
            code = self._run([*self._to_finish, f"{folder}={seam}"])
            said = self._log.read_text()
            assert code == -signal.SIGKILL, f"{seam}: ended with {code}: {said}"
            self._to_finish = []
        self._to_finish = [f"{folder}="]

    def finish(self) -> None:
        """End the last turn, too."""
        assert self._run(self._to_finish) == 0, self._log.read_text()

    def _run(self, lives: list[str]) -> int:
        self._nursery.start(*self._options, *lives)
        return self._nursery.ended()


def found_in(folder: Path) -> tuple[Ledger, End]:
    """Return what is left in a folder."""
    return Ledger(folder / "ledger"), asyncio.run(end_of(KeptInFile(folder / "w.db")))

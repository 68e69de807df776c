"""Level B, from outside: one process after another, each takes over what the last one left."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.durability.matrix.beneath import KeptInFile
from tests.durability.matrix.ledger import Ledger
from tests.durability.matrix.redrive import end_of
from tests.durability.matrix.verdict import End
from tests.limits import HANGS_S

ROOT = Path(__file__).parents[3]


class Deaths:
    """Processes that die in folders, in order."""

    def __init__(self, cache: Path, *, mutant: str | None = None) -> None:
        self._options = [] if mutant is None else ["--mutant", mutant]
        # Compiled once for all of them, whatever is usual here.
        self._settings = {**os.environ, "PYTHONPYCACHEPREFIX": str(cache)}
        self._settings.pop("PYTHONDONTWRITEBYTECODE", None)
        self._to_finish: list[str] = []
        self.processes = 0

    def die(self, folder: Path, *seams: str) -> None:
        """Let one process after another die in a folder; the next one elsewhere finishes there first."""
        folder.mkdir()
        for seam in seams:
            code, said = self._run([*self._to_finish, f"{folder}={seam}"])
            assert code == -signal.SIGKILL, f"{seam}: ended with {code}: {said}"
            self._to_finish = []
        self._to_finish = [f"{folder}="]

    def finish(self) -> None:
        """Let the last turn be ended, too."""
        code, said = self._run(self._to_finish)
        assert code == 0, said

    def _run(self, lives: list[str]) -> tuple[int, str]:
        self.processes += 1
        done = subprocess.run(
            [sys.executable, "-m", "tests.durability.matrix.child", *self._options, *lives],
            cwd=ROOT,
            env=self._settings,
            capture_output=True,
            text=True,
            timeout=HANGS_S,
            check=False,
        )
        return done.returncode, done.stderr


def found_in(folder: Path) -> tuple[Ledger, End]:
    """Return what is left in a folder."""
    return Ledger(folder / "ledger"), asyncio.run(end_of(KeptInFile(folder / "w.db")))

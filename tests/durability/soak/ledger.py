"""What happened outside the store: one line for each thing that a worker did to the world, in one order.

Every process appends to the same file, so that the lines of all of them stand in the order in which things
happened. A line is handed to the system in one write; it outlives the process that wrote it. A process that is killed
inside that write may leave the beginning of a line: what it was about to say did not happen. So each line begins anew.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple


class Line(NamedTuple):
    """One thing that happened. `life` tells processes apart, `at_s` is the machine's own clock."""

    kind: str
    life: str
    pid: int
    at_s: float
    session: str
    call: str
    said: dict[str, Any]


class Ledger:
    """The file, for one process to write to and for any to read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.life = token_hex(4)
        self._fd: int | None = None
        self._count = 0

    def write(self, kind: str, session: str = "", call: str = "", **said: object) -> None:
        """Append a line."""
        if self._fd is None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._fd = os.open(self.path, flags, 0o644)
        line = [kind, self.life, os.getpid(), time.monotonic(), session, call, said]
        os.write(self._fd, f"\n{json.dumps(line)}\n".encode())

    def mint(self) -> str:
        """Return a word that was not written before: what was made twice differs."""
        self._count += 1
        return f"{self.life}.{self._count}"

    def lines(self, *kinds: str) -> list[Line]:
        """Return the lines so far, of these kinds or of all."""
        if not self.path.exists():
            return []
        pieces = self.path.read_text().split("\n")[:-1]  # the last may still be growing
        found = [line for text in pieces if (line := _read(text)) is not None]
        return [line for line in found if not kinds or line.kind in kinds]

    def size(self) -> int:
        """Return how much was written so far."""
        return self.path.stat().st_size if self.path.exists() else 0

    def close(self) -> None:
        """Close the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _read(text: str) -> Line | None:
    try:
        return Line(*json.loads(text)) if text else None
    except json.JSONDecodeError:
        return None  # cut off

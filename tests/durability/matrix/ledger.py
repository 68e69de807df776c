"""What the world outside has seen: a file that is only appended to and outlives every process."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path


class Ledger:
    """Lines in a file. One write each, at the end: a killed process leaves whole lines."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, line: str) -> None:
        """Write a line down before anything else happens."""
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(fd, f"{line}\n".encode())
        finally:
            os.close(fd)

    def lines(self) -> list[str]:
        """Return all lines, oldest first."""
        return self.path.read_text().splitlines() if self.path.exists() else []

    def copied_to(self, path: Path) -> Ledger:
        """Return another ledger that begins as this one."""
        path.write_bytes(self.path.read_bytes())
        return Ledger(path)

    def count(self, line: str) -> int:
        """Return how often something was seen."""
        return self.lines().count(line)

    def counts(self, word: str) -> Counter[str]:
        """Return how often each thing was seen of which the word is said: `started send` by `send`."""
        found = (line.split() for line in self.lines())
        return Counter(words[1] for words in found if words[0] == word)

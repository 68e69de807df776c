"""A writer as a real process, and what it has said."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Self

from tests.durability.workload import Mark
from tests.limits import HANGS_S

ROOT = Path(__file__).parents[2]
MARKS = ("accept", "start", "item", "blob", "unit", "commit")


class WritingProcess:
    """Starts `tests.durability.writer` and reads its lines as they come."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.durability.writer", *arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self.stderr = ""
        self._news = threading.Condition()
        self._is_silent = False
        self._readers = [
            threading.Thread(target=self._read_lines, daemon=True),
            threading.Thread(target=self._read_stderr, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.wait()

    @property
    def marks(self) -> list[Mark]:
        return [Mark.read(line) for line in self.lines if line.split()[0] in MARKS]

    def said(self, word: str) -> list[list[str]]:
        """Return the lines that begin with a word, without it."""
        return [line.split()[1:] for line in tuple(self.lines) if line.split()[0] == word]

    def wait_for(self, n_lines: int = 1, *, word: str = "") -> bool:
        """Wait for so many lines that begin with the word; whether they came before its end."""
        with self._news:
            return self._news.wait_for(
                lambda: self._count(word) >= n_lines or self._is_silent, HANGS_S
            ) and (self._count(word) >= n_lines)

    def order(self, line: str) -> None:
        """Tell it something."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """End it as a crash does, and read what it had said."""
        self.process.send_signal(signal.SIGKILL)
        self.wait()

    def pause(self) -> None:
        """Stop it where it is; return once it stands still."""
        self.process.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + HANGS_S
        while not self._stands_still():
            assert time.monotonic() < deadline
            time.sleep(0.001)

    def go_on(self) -> None:
        """Resume it."""
        self.process.send_signal(signal.SIGCONT)

    def wait(self, works_s: float = 0) -> int:
        """Wait for its end, which is so many seconds of work away; return its exit code."""
        code = self.process.wait(works_s + HANGS_S)
        for reader in self._readers:
            reader.join(HANGS_S)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        return code

    def _stands_still(self) -> bool:
        stat = Path(f"/proc/{self.process.pid}/stat")
        if not stat.exists():  # not Linux
            pid, status = os.waitpid(self.process.pid, os.WNOHANG | os.WUNTRACED)
            return pid != 0 and os.WIFSTOPPED(status)
        return stat.read_text().rpartition(")")[2].split()[0] == "T"

    def _count(self, word: str) -> int:
        return sum(line.startswith(word) for line in self.lines)

    def _read_lines(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._news:
                self.lines.append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self._is_silent = True
            self._news.notify_all()

    def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        self.stderr = self.process.stderr.read()

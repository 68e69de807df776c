"""A member as a real process: started, ordered about, stopped, killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import apsw

from tests.durability.soak.ledger import Ledger, Line
from tests.limits import HANGS_S

ROOT = Path(__file__).parents[3]


class Member:
    """Starts `tests.durability.soak.member` on a folder."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.ledger = Ledger(folder / "ledger")
        self._file = folder / "gang.db"
        self._log = folder / f"stderr.{time.monotonic_ns()}"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.durability.soak.member", str(folder), *arguments],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stderr=log,
            )
        self.pid = self.process.pid

    def __enter__(self) -> Self:
        self.await_line("ready")
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def stderr(self) -> str:
        """What it complained about."""
        return self._log.read_text()

    def lines(self, *kinds: str) -> list[Line]:
        """Return the lines that it wrote itself."""
        return [line for line in self.ledger.lines(*kinds) if line.pid == self.pid]

    def looks_between(self, after_s: float, until_s: float) -> int:
        """Return how often it looked for work in between."""
        return sum(after_s < line.at_s < until_s for line in self.lines("looked"))

    def await_line(self, kind: str, session: str = "", call: str = "", count: int = 1) -> Line:
        """Wait for a line of its own and return it."""

        def found() -> list[Line]:
            return [
                line
                for line in self.lines(kind)
                if session in ("", line.session) and line.call.endswith(call)
            ]

        try:
            wait_until(lambda: len(found()) >= count, f"{kind} {session} {call}")
        except AssertionError as error:
            error.add_note(self.stderr)
            raise
        return found()[count - 1]

    def order(self, session: str, turn: str, task: str, times: int = 1) -> None:
        """Make it run a turn."""
        assert self.process.stdin is not None
        order = {"session": session, "turn": turn, "task": task, "times": times}
        self.process.stdin.write(f"{json.dumps(order)}\n".encode())
        self.process.stdin.flush()

    def kill(self) -> float:
        """End it as a crash does; return when."""
        at_s = time.monotonic()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(HANGS_S)
        if self.process.stdin is not None and not self.process.stdin.closed:
            self.process.stdin.close()
        return at_s

    def leave(self) -> int:
        """Ask it to leave; return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(HANGS_S)

    def pause(self) -> float:
        """Stop it where it is, but not while it holds the file's lock; return when it stood still."""
        return pause(self.pid, self._file)

    def go_on(self) -> float:
        """Resume it; return when."""
        self.process.send_signal(signal.SIGCONT)
        return time.monotonic()


def pause(pid: int, file: Path) -> float:
    """Stop a process where it is, but not while it holds the lock of a file; return when it stood still."""
    while True:
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: _stands_still(pid), "it goes on")
        at_s = time.monotonic()
        if _may_write(file):
            return at_s
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.01)


def _stands_still(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():  # not Linux
        found, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
        return found != 0 and os.WIFSTOPPED(status)
    return stat.read_text().rpartition(")")[2].split()[0] == "T"


def _may_write(file: Path) -> bool:
    db = apsw.Connection(str(file))
    try:
        db.execute("BEGIN IMMEDIATE; ROLLBACK")
    except apsw.BusyError:
        return False
    finally:
        db.close()
    return True


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Wait for something that another process brings about."""
    deadline = time.monotonic() + HANGS_S
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.005)

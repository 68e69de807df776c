"""What the model says and what the tool does: the same for everybody, before and after a restart.

The reply follows from the last question and from how many results came after it. So the script keeps no state,
costs the same at any length of history, and says the same to a process that was started again.
"""

from __future__ import annotations

import asyncio
import os
import signal
from itertools import count
from pathlib import Path
from time import monotonic_ns

_WORDS = "The tide turns twice a day, and the windlass holds what the crew has won. " * 6
_QUESTION_LENGTH = 200
_RESULT_LENGTH = 200
ANSWER = f"It holds. {_WORDS}"[:400]

TEXT = "text"

Args = dict[str, int]


def loop(n: int) -> str:
    """Return the plan of a turn with so many iterations of one call each."""
    return f"loop:{n}"


def par(n: int) -> str:
    """Return the plan of a turn with so many calls in one reply."""
    return f"par:{n}"


def question(plan: str) -> str:
    """Return what a user asks so that a turn follows this plan."""
    return f"{plan} {_WORDS}"[:_QUESTION_LENGTH]


def n_calls_of(asked: str) -> int:
    """Return how many tool calls a question leads to."""
    _, _, n = asked.split(" ", 1)[0].partition(":")
    return int(n or 0)


class Script:
    """The model and the tool of one process, and the diary of what they really did."""

    def __init__(
        self,
        diary: Path | None = None,
        *,
        hang_at: int = -1,
        dies: bool = False,
        think_s: float = 0.0,
    ) -> None:
        self._diary = diary
        self._think_s = think_s
        self._hang_at = hang_at
        self._dies = dies
        self._call_ids = count()
        self.called = asyncio.Event()
        self.n_calls = 0
        self.n_replies = 0
        self.n_seen = 0

    @classmethod
    def from_environment(cls) -> Script:
        """Return the script that the parent process asked for."""
        diary = os.environ.get("BENCH_DIARY")
        return cls(
            Path(diary) if diary else None,
            hang_at=int(os.environ.get("BENCH_HANG_AT", "-1")),
            dies="BENCH_DIES" in os.environ,
            think_s=float(os.environ.get("BENCH_THINK_S", "0")),
        )

    def reply(self, asked: str, n_results: int, n_seen: int) -> str | list[Args]:
        """Return the arguments of the calls that the model asks for, or its answer."""
        self.n_seen = n_seen
        self.n_replies += 1
        self.note(f"model {n_results}")
        plan, _, n = asked.split(" ", 1)[0].partition(":")
        if plan == "loop" and n_results < int(n):
            return [{"i": n_results}]
        if plan == "par" and not n_results:
            return [{"i": at} for at in range(int(n))]
        return ANSWER

    def call_id(self) -> str:
        """Return an id for a call, as a provider would; no two of a process are equal."""
        return f"call_{os.getpid():x}_{next(self._call_ids):016x}"

    async def run_tool(self, i: int) -> str:
        """Do next to nothing, or whatever the parent process wants to see killed."""
        self.n_calls += 1
        self.called.set()
        self.note(f"start {i}")
        if i == self._hang_at:
            if self._dies:
                os.kill(os.getpid(), signal.SIGKILL)
            await asyncio.sleep(3_600)
        self.note(f"end {i}")
        return f"{i}: {_WORDS}"[:_RESULT_LENGTH]

    async def think(self) -> None:
        """Take as long as the parent process wants a model to take."""
        if self._think_s:
            await asyncio.sleep(self._think_s)

    def note(self, line: str) -> None:
        """Write a line down that survives a kill."""
        if self._diary is None:
            return
        file = os.open(self._diary, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{line} {monotonic_ns()}\n".encode())
        os.close(file)


class Diary:
    """What the processes of a turn noted: which replies were bought, which calls ran, and when."""

    def __init__(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        lines = [line.split() for line in text.splitlines()]
        self.lines = [(kind, int(at), int(ns)) for kind, at, ns in lines]

    def numbers(self, kind: str) -> list[int]:
        """Return the numbers of all lines of a kind, in order."""
        return [number for each, number, _ in self.lines if each == kind]

    def moment_ns(self, *kinds: str) -> int:
        """Return the moment of the first line of one of these kinds."""
        return next(ns for kind, _, ns in self.lines if kind in kinds)


script = Script.from_environment()

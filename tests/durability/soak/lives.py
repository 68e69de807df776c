"""Lives of a worker, one after another, each ended by a kill at a random moment of its work."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple, Self

from tests.durability.soak.audit import Report, audit
from tests.durability.soak.ledger import Ledger, Line
from tests.durability.soak.worker import file_of, ledger_of
from tests.limits import HANGS_S

ROOT = Path(__file__).parents[3]
# How long a worker may work before it is killed.
SHORTEST_S, LONGEST_S = 0.020, 0.400


class Round(NamedTuple):
    """One file: how often its worker was killed, which turns rested on the way, and the audit."""

    folder: Path
    kills: int
    parked: list[Line]
    report: Report


class Nursery:
    """Starts workers and says how they ended."""

    def __init__(self, log: Path, module: str = "tests.durability.soak.nursery") -> None:
        self._log = log.open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._child: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            os.kill(self._child, signal.SIGKILL)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(HANGS_S)
        self._process.stdout.close()
        self._log.close()

    def start(self, *arguments: str) -> int:
        """Start a worker and return its pid."""
        self._child = self._ask(shlex.join(arguments))
        return self._child

    def kill(self) -> None:
        """Kill the worker, or what is left of it."""
        assert self._child is not None
        os.kill(self._child, signal.SIGKILL)

    def ended(self) -> int:
        """Wait for the worker's end and return its exit code."""
        code = self._ask("")
        self._child = None
        return code

    def _ask(self, line: str) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


def rounds(folder: Path, seed: int, kills: int, mutant: str = "") -> Iterator[Round]:
    """Kill workers so many times, each at work; whenever all turns of a file are done, take a new file."""
    random = Random(seed)
    done = number = 0
    folder.mkdir()
    with Nursery(folder / "stderr") as nursery:
        while done < kills:
            place = folder / f"{seed}.{number}"
            place.mkdir()
            spent = play(nursery, place, random, kills - done, mutant)
            done, number = done + spent, number + 1
            ledger = ledger_of(place)
            report = asyncio.run(audit(file_of(place), ledger))
            yield Round(place, spent, ledger.lines("parked"), report)
    complaints = (folder / "stderr").read_text()
    assert not complaints, complaints


def play(nursery: Nursery, place: Path, random: Random, kills: int, mutant: str = "") -> int:
    """Run workers on the turns of one file, and kill them on the way; return how often."""
    ledger = ledger_of(place)
    done = 0
    while True:
        size = ledger.size()
        pid = nursery.start(str(place), mutant)
        work_s = random.uniform(SHORTEST_S, LONGEST_S)
        if done < kills and begins(ledger, size, pid):
            time.sleep(work_s)
            nursery.kill()
        code = nursery.ended()
        is_over = any(line.pid == pid for line in ledger.lines("over"))
        if is_over:
            return done
        assert code == -signal.SIGKILL, f"{place}: a worker ended with {code}"
        done += 1


def begins(ledger: Ledger, size: int, pid: int) -> bool:
    """Wait until a worker has begun to work: it buys, does or is shown something of a turn."""
    deadline = time.monotonic() + HANGS_S
    while time.monotonic() < deadline:
        if ledger.size() > size and any(
            line.pid == pid and line.kind != "accepted" for line in ledger.lines()
        ):
            return True
        time.sleep(0.002)
    raise AssertionError(f"worker {pid} did not begin to work")

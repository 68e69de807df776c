"""A round: turns are driven and watched by processes that die, one after another, until every end was told.

There is one driver and one observer at a time. A driver that dies is followed by another; so is an observer, in a
process of its own or in the one that drives, and it goes on by the last cursor of the ledger. An approval is answered from
here once the ledger holds that it is waited for.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from tests.durability.soak.ledger import Line
from tests.durability.soak.lives import Nursery
from tests.durability.watched.clerk import SESSION, TASKS
from tests.durability.watched.life import CLOSE, OBSERVE, ORDERS, Life
from tests.durability.watched.observer import Watch, file_of, ledger_of
from tests.limits import HANGS_S
from windlass import Runtime

_MODULE = "tests.durability.watched.nursery"
_LOOK_S = 0.002
_MAX_WAITS = 20
TO_THE_END = Watch()


class Kill(NamedTuple):
    """A kill from outside: when, in seconds after it is watched, and of which process."""

    at_s: float
    role: str


class Plan(NamedTuple):
    """How a round goes: where its first driver dies, the lives of its observers, kills from outside, a fault."""

    dies_at: str | None = None
    watches: Iterable[Watch] = ()
    kills: tuple[Kill, ...] = ()
    mutant: str = ""
    patience_s: float = HANGS_S


class Played(NamedTuple):
    """What became of a round: how many processes were killed; whether every end was told."""

    folder: Path
    kills: int
    is_over: bool


class Nurseries:
    """Where the processes of all rounds come from: two loaded interpreters."""

    def __init__(self, folder: Path) -> None:
        self.logs = (folder / "drivers.log", folder / "observers.log")
        self.drivers, self.observers = (Nursery(log, _MODULE) for log in self.logs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.drivers.__exit__()
        self.observers.__exit__()

    def play(self, folder: Path, plan: Plan) -> Played:
        """Play a round in a new folder."""
        folder.mkdir()
        return _Round(self, folder, plan).play()


class _Round:
    """A round under way. `observer` and `driver` are pids; 0 while there is none."""

    def __init__(self, nurseries: Nurseries, folder: Path, plan: Plan) -> None:
        self._nurseries = nurseries
        self._folder = folder
        self._plan = plan
        self._ledger = ledger_of(folder)
        self._watches: Iterator[Watch] = iter(plan.watches)
        self._watch = TO_THE_END
        self._driver = self._observer = 0
        # The first driver is to die at a write of its own: until then no observer kills it.
        self._is_doomed = plan.dies_at is not None
        # The driver that can be told to observe, and whether it is to be told.
        self._ready = 0
        self._is_asked = False
        self._answered: set[str] = set()
        self._size = self._read = 0
        self._kills = self._ends = 0
        self._is_watched = self._has_failed = False

    def play(self) -> Played:
        """Let processes live and die until every end was told, or nothing is for too long."""
        kills = list(self._plan.kills)
        begun = last = time.monotonic()
        self._begin()
        while self._ends < len(TASKS) and not self._has_failed:
            now = time.monotonic()
            if not self._is_watched:
                begun = now
            elif kills and now - begun >= kills[0].at_s:
                self._kill(kills.pop(0).role)
            if news := self._news():
                last = now
                for line in news:
                    self._hear(line)
            elif now - last > self._plan.patience_s:
                break
            else:
                time.sleep(_LOOK_S)
        is_over = self._ends == len(TASKS)
        self._end(is_over=is_over)
        return Played(self._folder, self._kills, is_over)

    # ------------------------------------------------------------------ lives

    def _begin(self) -> None:
        self._next_watch()
        self._start_driver(self._plan.dies_at)

    def _start_driver(self, dies_at: str | None = None) -> None:
        if self._observer and not self._is_watched:
            self._await("watches")  # from before the first turn on: there is no cursor yet
        watches, self._is_asked = self._is_asked, False
        self._driver = self._nurseries.drivers.start(
            self._told(role="driver", dies_at=dies_at, watches=watches)
        )

    def _next_watch(self) -> None:
        self._watch, self._is_asked = next(self._watches, TO_THE_END), False
        if self._watch.place == "driver" and self._is_doomed:
            self._watch = msgspec.structs.replace(self._watch, dies_at=0)
        (self._folder / ORDERS).write_bytes(msgspec.json.encode(self._watch))
        if self._watch.place == "elsewhere":
            self._observer = self._nurseries.observers.start(self._told(role="observer"))
        elif self._ready:
            os.kill(self._ready, OBSERVE)
        else:
            self._is_asked = True

    def _told(self, **life: object) -> str:
        asked = msgspec.convert(
            {"folder": str(self._folder), "mutant": self._plan.mutant, **life}, Life
        )
        return msgspec.json.encode(asked).decode()

    def _kill(self, role: str) -> None:
        pid = self._observer if role == "observer" else self._driver
        if pid:
            nursery = self._nurseries.observers if role == "observer" else self._nurseries.drivers
            nursery.kill()
            self._buried(pid)

    def _buried(self, pid: int) -> None:
        """Go on behind a death."""
        self._kills += 1
        if pid == self._observer:
            self._nurseries.observers.ended()
            self._observer = 0
            self._next_watch()
            return
        self._nurseries.drivers.ended()
        self._driver = self._ready = 0
        self._is_doomed = False
        if self._watch.place == "driver":
            self._next_watch()  # it died with its driver
        self._start_driver()

    def _end(self, *, is_over: bool) -> None:
        """End the processes that are left: the driver by its own closing, if it can."""
        if is_over and self._driver:
            if not self._ready:
                self._await("lives", "dies")
            os.kill(self._driver, CLOSE)
            last = self._await("over", "dies")
            self._kills += last.kind == "dies"
            self._nurseries.drivers.ended()
        elif self._driver:
            self._nurseries.drivers.kill()
            self._nurseries.drivers.ended()
        if self._observer:
            self._nurseries.observers.kill()
            self._nurseries.observers.ended()

    # ------------------------------------------------------------------ the ledger

    def _news(self) -> list[Line]:
        """Return the lines that came since."""
        size = self._ledger.size()
        if size == self._size:
            return []
        self._size = size
        lines = self._ledger.lines()
        news, self._read = lines[self._read :], len(lines)
        self._is_watched = self._is_watched or any(line.kind == "watches" for line in news)
        return news

    def _await(self, *kinds: str) -> Line:
        """Wait for a line of a process that lives; others are heard, too."""
        deadline = time.monotonic() + HANGS_S
        while time.monotonic() < deadline:
            for line in self._news():
                if line.kind in kinds and line.pid in (self._driver, self._observer):
                    return line
                self._hear(line)
            time.sleep(_LOOK_S)
        raise AssertionError(f"{self._folder}: there was none of {kinds}")

    def _hear(self, line: Line) -> None:
        if line.kind == "fails":
            self._has_failed = True
        elif line.kind == "dies" and line.pid in (self._driver, self._observer):
            self._buried(line.pid)
        elif line.kind == "lives" and line.pid == self._driver:
            self._ready = line.pid
            if self._is_asked:
                self._is_asked = False
                os.kill(line.pid, OBSERVE)
        elif line.kind == "event" and line.said["type"] == "TurnEnded":
            self._ends += 1
        elif line.kind == "event" and line.said["type"] == "WaitOpened":
            self._answered.add(line.said["id"])
            assert len(self._answered) < _MAX_WAITS, f"{self._folder}: too many waits"
            asyncio.run(_answer(self._folder))


async def _answer(folder: Path) -> None:
    """Say yes to all that is asked, as a person elsewhere does; a turn that is thought to be poison is tried again."""
    async with Runtime(store=f"sqlite:///{file_of(folder)}", durability="process") as runtime:
        for wait in await runtime.waits():
            if wait.kind == "poison":
                await runtime.retry(SESSION, wait.turn_id)
            else:
                await runtime.approve(wait.key, by="eva")

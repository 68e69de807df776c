"""A stage: one store on which runtimes come, die and come again, under one clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

from tests.limits import HANGS_S
from windlass import Agent, Runtime
from windlass.stores.memory import MemoryStore
from windlass.testing import VirtualClock, virtual_clock

STORES = ("memory", "sqlite")
DAY_S = 86_400.0


class Stage:
    """Where the turns of one test happen. `kind` is one of `STORES`."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.path = folder / "stage.db"
        self.clock: VirtualClock = virtual_clock()
        self._store: str | MemoryStore = f"sqlite:///{self.path}"
        if kind == "memory":
            self._store = MemoryStore()

    def runtime(self, *agents: Agent[Any, Any], **settings: Any) -> Runtime[Any]:
        """Return a runtime on the stage's store; any two of them are two processes to each other."""
        settings.setdefault("clock", self.clock)
        # Nobody cuts the power here; whether the disk was waited for is asked by other tests.
        settings.setdefault("durability", "process")
        return Runtime(*agents, store=self._store, **settings)

    def kill(self, runtime: Runtime[Any]) -> None:
        """Let a runtime's process be dead for all others. What it still does comes too late."""
        world = runtime._services
        worker_id, store = world.worker_id, cast("Any", world.store)
        if self.kind == "memory":
            store.kill_worker(worker_id)
        else:
            # What the operating system does when a process ends.
            store._locks.pop(worker_id).release()

    def later(self, seconds: float, *runtimes: Runtime[Any]) -> None:
        """Let time pass, and let these look at the clock."""
        self.clock.advance(seconds)
        for runtime in runtimes:
            runtime._worker.kick()


class Desk:
    """What a tool of a test did: every run of its body, and a gate in the middle of it."""

    def __init__(self, *, is_open: bool = True) -> None:
        self.runs: list[Any] = []
        self.entered = asyncio.Event()
        self.gate = asyncio.Event()
        if is_open:
            self.gate.set()

    async def work(self, about: object = None) -> None:
        """Note a run, and go through the gate when it is open."""
        self.runs.append(about)
        self.entered.set()
        await self.gate.wait()


async def until(holds: Callable[[], Awaitable[bool] | bool], *, within_s: float = HANGS_S) -> None:
    """Wait until something that another runtime does is visible here.

    Raises:
        TimeoutError: it did not come to be.
    """
    async with asyncio.timeout(within_s):
        while True:
            found = holds()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0.01)

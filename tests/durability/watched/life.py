"""One life of a process: it drives the turns of a folder, or observes them, until it is killed or told to close.

A driver begins to observe, too, when it is told so by SIGUSR1; SIGUSR2 tells it to close.
"""

from __future__ import annotations

import asyncio
import signal
import traceback
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from tests.durability.soak.ledger import Ledger
from tests.durability.watched import mutants
from tests.durability.watched.clerk import SESSION, TASKS, clerk
from tests.durability.watched.observer import Watch, file_of, ledger_of, observe
from tests.durability.watched.seam_store import SeamStore
from windlass import Runtime
from windlass.ports import Store
from windlass.stores import bell
from windlass.stores.sqlite import SqliteStore

OBSERVE, CLOSE = signal.SIGUSR1, signal.SIGUSR2
ORDERS = "orders"
"""The file in which a driver finds how it is to observe."""


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """What a process is told. `dies_at`: the point of the store; `watches`: from its beginning on."""

    role: Literal["driver", "observer"]
    folder: str
    dies_at: str | None = None
    watches: bool = False
    mutant: str = ""


class _Driver:
    """Drives both turns."""

    def __init__(self, folder: Path, life: Life) -> None:
        self._folder = folder
        self._life = life
        self._ledger = ledger_of(folder)
        self._is_over = asyncio.Event()
        self._is_observed = asyncio.Event()
        self._observing: asyncio.Task[None] | None = None

    async def live(self) -> None:
        """Drive until told to close."""
        file = SqliteStore(file_of(self._folder), durability="process")
        await file.open()
        store = cast("Store", SeamStore(file, self._ledger, self._life.dies_at))
        async with Runtime(clerk(self._ledger), store=store) as runtime:
            if self._life.watches:
                self._observe(runtime)
                await self._is_observed.wait()
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(OBSERVE, self._observe, runtime)
            loop.add_signal_handler(CLOSE, self._is_over.set)
            self._ledger.write("lives")
            for turn_id, task in TASKS.items():
                await runtime.session(SESSION).submit(task, turn_id=turn_id)
            await self._is_over.wait()
            # From here on nobody begins to observe a runtime that is about to close.
            loop.add_signal_handler(OBSERVE, lambda: None)
            if self._observing is not None:
                self._observing.cancel()
                await asyncio.wait({self._observing})
        await file.close()
        self._ledger.write("over")

    def _observe(self, runtime: Runtime[Any]) -> None:
        watching = _watching(runtime, self._ledger, self._folder, self._is_observed)
        self._observing = asyncio.get_running_loop().create_task(watching)


async def _watching(
    runtime: Runtime[Any], ledger: Ledger, folder: Path, has_begun: asyncio.Event
) -> None:
    """Observe as the orders say; a failure ends the round."""
    watch = msgspec.json.decode((folder / ORDERS).read_bytes(), type=Watch)
    try:
        await observe(runtime, ledger, watch, has_begun)
    except Exception:  # noqa: BLE001 - whatever it is, it is told
        ledger.write("fails", why=traceback.format_exc())
        has_begun.set()


async def _elsewhere(folder: Path) -> None:
    """Observe without any agent."""
    async with Runtime(store=f"sqlite:///{file_of(folder)}", durability="process") as runtime:
        await _watching(runtime, ledger_of(folder), folder, asyncio.Event())


def main(told: str) -> None:
    """Live as told."""
    life = msgspec.json.decode(told, type=Life)
    # Rounds are many: what others write is looked for ten times as often.
    bell.PERIOD_S = 0.01
    if life.mutant:
        mutants.MUTANTS[life.mutant]()
    folder = Path(life.folder)
    try:
        if life.role == "driver":
            asyncio.run(_Driver(folder, life).live())
        else:
            asyncio.run(_elsewhere(folder))
    except Exception:
        ledger_of(folder).write("fails", why=traceback.format_exc())
        raise

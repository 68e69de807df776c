"""The stores under the seams: what is left of them when a process dies, and how they look the moment before a commit."""

from __future__ import annotations

import asyncio
import os
from dataclasses import fields, is_dataclass
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import apsw

from windlass.journal import TurnJournal
from windlass.ports import Store, Ticket, UnitReceipt
from windlass.stores.memory import MemoryStore
from windlass.stores.memory.rows import Tables
from windlass.stores.sqlite import SqliteStore, leases
from windlass.stores.sqlite.store import Durability

_STORES = count(1)


class Kept(Protocol):
    """A store over several lives."""

    @property
    def store(self) -> Store: ...

    async def open(self) -> None: ...

    def settle(self, ticket: Ticket[UnitReceipt]) -> None: ...

    def keep_copy(self) -> None: ...

    async def die(self, worker_id: str) -> None:
        """Treat the process that has it open as dead."""
        ...

    async def close(self) -> None: ...

    def copied(self) -> Kept:
        """Return the state that was kept last."""
        ...


class KeptInMemory:
    """Rows that outlive a worker, if not the process."""

    def __init__(self, tables: Tables | None = None) -> None:
        self.store = MemoryStore(store_id="st-matrix", secret=b"matrix" * 6)
        if tables is not None:
            self.store._tables = tables
            # The ids of other stores' workers are not given out again.
            self.store._workers._count = 1_000 * next(_STORES)
        self._copy: Tables | None = None

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def settle(self, ticket: Ticket[UnitReceipt]) -> None: ...

    def keep_copy(self) -> None:
        self._copy = _copy_of(self.store._tables, {})

    async def die(self, worker_id: str) -> None:
        self.store.kill_worker(worker_id)

    def copied(self) -> KeptInMemory:
        """Return a store with the rows as they were; its worker is none that anybody knows."""
        assert self._copy is not None
        return KeptInMemory(_copy_of(self._copy, {}))

    def left_behind(self) -> KeptInMemory:
        """Return a store with the rows as they are now, for one of several who take over from here."""
        return KeptInMemory(_copy_of(self.store._tables, {}))


class KeptInFile:
    """One file; each life opens it anew."""

    def __init__(self, path: Path, durability: Durability = "process") -> None:
        self.path = path
        self._durability: Durability = durability
        self.store: SqliteStore = SqliteStore(path, durability=durability)
        self._copies = 0

    async def open(self) -> None:
        self.store = SqliteStore(self.path, durability=self._durability)
        await self.store.open()

    async def close(self) -> None:
        await self.store.close()

    def settle(self, ticket: Ticket[UnitReceipt]) -> None:
        # What the writer's thread would do; if it was faster, there is nothing left to be written.
        self.store._writer._serve()
        assert ticket.is_settled

    def keep_copy(self) -> None:
        if self._durability == "power":
            return  # of another process; what it would keep is lost with it
        self._copies += 1
        db = apsw.Connection(str(self.path))
        try:
            db.execute("VACUUM INTO ?", (str(self._copy_path),))
        finally:
            db.close()

    @property
    def _copy_path(self) -> Path:
        return self.path.with_name(f"{self.path.name}.{self._copies}")

    async def die(self, worker_id: str) -> None:
        """Release the file and the workers' locks, as the system does for a dead process."""
        store = self.store
        for lock in store._locks.values():
            leases._HELD.discard(lock._fd)
            os.close(lock._fd)
        store._locks.clear()
        store._pid = None
        await asyncio.to_thread(store._close_file)

    def copied(self) -> KeptInFile:
        assert self._copies
        return KeptInFile(self._copy_path)


def _copy_of(found: Any, known: dict[int, Any]) -> Any:  # noqa: ANN401 - rows of all kinds
    """Copy rows as far as they change in place; values do not, so they are shared."""
    if id(found) in known:
        return known[id(found)]
    made: Any
    if type(found) is dict:
        made = known[id(found)] = {}
        made.update((key, _copy_of(value, known)) for key, value in found.items())
    elif type(found) is list:
        made = known[id(found)] = []
        made.extend(_copy_of(value, known) for value in found)
    elif type(found) is tuple:
        made = tuple(_copy_of(value, known) for value in found)
    elif is_dataclass(found) or type(found) is TurnJournal:
        made = known[id(found)] = object.__new__(type(found))
        names = [one.name for one in fields(found)] if is_dataclass(found) else found.__slots__
        for name in names:
            setattr(made, name, _copy_of(getattr(found, name), known))
    else:
        made = found
    return made

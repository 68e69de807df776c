"""What survives a crash: the data of a scenario, handed from one life to the next."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from windlass.ports import Store
from windlass.stores.memory import MemoryStore


class Disk(Protocol):
    """The data of one world."""

    async def open(self) -> Store:
        """Return a store on the data, for one life."""
        ...

    async def close(self, store: Store) -> None:
        """Let go of a store in an orderly way."""
        ...

    def lose(self, workers: Sequence[str]) -> None:
        """Let the process of these workers be dead, with the data as they are at this moment."""
        ...


class MemoryDisk:
    """Rows in this process. The same store id in every world, so that the same call has the same key."""

    def __init__(self) -> None:
        self._store = MemoryStore(store_id="scenario", secret=bytes(32))

    async def open(self) -> Store:
        return self._store

    async def close(self, store: Store) -> None: ...

    def lose(self, workers: Sequence[str]) -> None:
        for worker in workers:
            self._store.kill_worker(worker)


class SqliteDisk:
    """A file. A crash copies it as it is at that moment: the dead process keeps the old one, and its locks.

    `blank` is a file without sessions that all worlds begin with, for the sake of its store id.
    """

    def __init__(self, folder: Path, blank: Path) -> None:
        self._folder = folder
        self._lives = 0
        self._copy(blank)

    @property
    def _path(self) -> Path:
        return self._folder / f"life-{self._lives}.db"

    async def open(self) -> Store:
        from windlass.stores.sqlite import SqliteStore  # noqa: PLC0415 - brings SQLite along

        store = SqliteStore(self._path, durability="process")
        await store.open()
        return store

    async def close(self, store: Store) -> None:
        await store.close()

    def lose(self, workers: Sequence[str]) -> None:  # noqa: ARG002 - their locks are beside the old file
        self._copy(self._path)

    def _copy(self, path: Path) -> None:
        self._lives += 1
        # Files of bytes come last: a row may name one only when it is there.
        for suffix in ("", "-wal"):
            old = path.with_name(path.name + suffix)
            if old.exists():
                shutil.copyfile(old, self._path.with_name(self._path.name + suffix))
        blobs = path.with_name(f"{path.name}-blobs")
        if blobs.exists():
            shutil.copytree(blobs, self._path.with_name(f"{self._path.name}-blobs"))


async def make_blank(path: Path) -> None:
    """Make a file without sessions."""
    from windlass.stores.sqlite import SqliteStore  # noqa: PLC0415 - brings SQLite along

    store = SqliteStore(path, durability="process")
    await store.open()
    await store.close()

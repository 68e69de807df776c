"""A harness for each store of windlass."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from windlass.ports import Store
from windlass.stores.memory import MemoryStore
from windlass.stores.sqlite import SqliteStore


class MemoryHarness:
    """Stores in memory, which leave nothing behind."""

    is_durable = False

    async def make(self) -> MemoryStore:
        store = MemoryStore()
        await store.open()
        return store

    async def reopen(self, store: Store) -> None:
        return None

    async def second(self, store: Store) -> None:
        return None

    async def kill_worker(self, store: Store, worker_id: str) -> None:
        assert isinstance(store, MemoryStore)
        store.kill_worker(worker_id)

    async def close(self) -> None:
        pass


def _copy(path: Path, folder: Path) -> None:
    for suffix in ("", "-wal"):
        source = Path(f"{path}{suffix}")
        if source.exists():
            shutil.copyfile(source, folder / source.name)
    blobs = Path(f"{path}-blobs")
    if blobs.exists():
        shutil.copytree(blobs, folder / blobs.name)


class SqliteHarness:
    """Stores in files of a folder that goes with the harness."""

    is_durable = True

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="windlass-stores-"))
        self._stores: list[SqliteStore] = []

    async def make(self) -> SqliteStore:
        return await self._open(self._next_folder())

    async def reopen(self, store: Store) -> SqliteStore:
        # What the files hold at this moment, taken without asking the process that holds them: as after a kill.
        # The workers' locks are not among them, so those workers are dead.
        assert isinstance(store, SqliteStore)
        folder = self._next_folder()
        _copy(store.path, folder)
        return await self._open(folder)

    async def second(self, store: Store) -> SqliteStore:
        assert isinstance(store, SqliteStore)
        return await self._open(store.path.parent)

    async def kill_worker(self, store: Store, worker_id: str) -> None:
        assert isinstance(store, SqliteStore)
        lock = store._locks.pop(worker_id, None)
        if lock is not None:
            lock.release()

    async def close(self) -> None:
        for store in self._stores:
            await store.close()
        self._stores.clear()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _next_folder(self) -> Path:
        folder = self._folder / str(len(self._stores))
        folder.mkdir(parents=True)
        return folder

    async def _open(self, folder: Path) -> SqliteStore:
        # The page cache of the operating system outlives what is killed here.
        store = SqliteStore(folder / "store.db", durability="process")
        await store.open()
        self._stores.append(store)
        return store

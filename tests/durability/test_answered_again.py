"""What was written but not synced is submitted again: it is answered when it is on the disk, not when it can be read.

A log that is read after a crash shows commits whose writer never came to sync them. They can be read, so an
operation that is submitted again finds itself there; the power may still take them.
"""

from __future__ import annotations

import asyncio
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest

from tests.durability.crash_images import Disk
from tests.durability.recording_vfs import (
    Acknowledged,
    Event,
    RecordingVfs,
    Synced,
    Written,
    unregistered_name,
)
from tests.durability.store_operations import OPERATIONS, StoreOperation, prepare
from tests.durability.workload import Worker
from windlass.errors import StoreUnavailable
from windlass.stores.sqlite import SqliteStore, blobs

N_IMAGES = 12
UNFENCED = tuple(o for o in OPERATIONS if not o.is_fenced and o.name != "start")


def check_images(events: list[Event], operation: StoreOperation, folder: Path) -> None:
    """Check that the operation has landed in every image of a power loss at this moment."""
    disk = Disk()
    for event in events:
        disk.feed(event)

    async def landed(file: Path) -> int:
        # The image is only read, so nothing of it need be synced.
        store = SqliteStore(file, durability="process")
        await store.open()
        try:
            return await operation.landed(store)
        finally:
            await store.close()

    lost = 0
    for seed in range(N_IMAGES):
        disk.crash(Random(seed)).write(folder / str(seed))
        lost += asyncio.run(landed(folder / str(seed) / "w.db")) != 1
    assert lost == 0, f"acknowledged, and lost in {lost} of {N_IMAGES} images"


def died_before_its_sync(operation: StoreOperation, folder: Path) -> list[Event]:
    """Return the log of a process that was killed after it wrote the operation and before it synced it."""
    vfs = RecordingVfs(unregistered_name())

    async def run() -> None:
        store = SqliteStore(folder / "w.db", vfs=vfs.name)
        await store.open()
        worker = await prepare(store)
        vfs.acknowledge("before")
        await operation.run(store, worker, 1)
        vfs.acknowledge("after")
        await store.close()

    asyncio.run(run())
    begins = vfs.events.index(Acknowledged(mark="before"))
    ends = vfs.events.index(Acknowledged(mark="after"))
    during = vfs.events[begins:ends]
    last_sync = max(i for i, event in enumerate(during) if isinstance(event, Synced))
    assert any(isinstance(event, Written) for event in during[:last_sync])
    return vfs.events[: begins + last_sync]


@pytest.mark.parametrize("operation", UNFENCED, ids=lambda operation: operation.name)
def test_what_a_dead_process_wrote_without_a_sync_is_synced_before_it_is_answered(
    tmp_path: Path, operation: StoreOperation
) -> None:
    """Law 4."""
    (tmp_path / "first").mkdir()
    before = died_before_its_sync(operation, tmp_path / "first")
    disk = Disk()
    for event in before:
        disk.feed(event)
    (tmp_path / "second").mkdir()
    for name, content in disk.seen().items():
        (tmp_path / "second" / name).write_bytes(content)
    vfs = RecordingVfs(unregistered_name(), before=before)

    async def run() -> list[Event]:
        store = SqliteStore(tmp_path / "second" / "w.db", vfs=vfs.name)
        await store.open()
        await operation.run(store, Worker("no worker"), 1)
        answered = list(vfs.events)
        await store.close()
        return answered

    check_images(asyncio.run(run()), operation, tmp_path / "images")


@pytest.mark.parametrize("is_read", [True, False], ids=["read", "unread"])
@pytest.mark.parametrize("n_failures", [1, 2, 3])
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_what_a_failed_sync_left_behind_is_written_again_before_it_is_answered(
    tmp_path: Path, operation: StoreOperation, n_failures: int, is_read: bool
) -> None:
    """Law 4: after a failed sync the system reads what it could not write as if all were well.

    While another process has the file open, the log's index outlives the writer's connection; unread, it does not.
    """
    vfs = RecordingVfs(unregistered_name())
    (tmp_path / "first").mkdir()

    async def run() -> list[Event]:
        store = SqliteStore(tmp_path / "first" / "w.db", vfs=vfs.name)
        await store.open()
        await prepare(store)
        await store.close()
        store = SqliteStore(tmp_path / "first" / "w.db", vfs=vfs.name)
        await store.open()
        worker = Worker(await store.join(until_ms=3_601_000, now_ms=1_000))
        lease = await store.take_over(
            "s0", "t0", worker_id=worker.worker_id, until_ms=3_601_000, now_ms=1_000
        )
        if is_read:
            await store.load_session("s0")
        vfs.fail_syncs = n_failures
        try:
            await operation.run(store, worker, lease.generation)
        except StoreUnavailable:
            vfs.fail_syncs = 0
            await operation.run(store, worker, lease.generation)
        vfs.fail_syncs = 0
        answered = list(vfs.events)
        await store.close()
        return answered

    check_images(asyncio.run(run()), operation, tmp_path / "images")


def test_a_large_blob_that_a_dead_process_left_is_synced_before_it_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was renamed into its place and the process died: the name is not durable yet."""
    data = b"large" * 300_000
    synced: list[str] = []

    async def run() -> None:
        store = SqliteStore(tmp_path / "w.db")
        await store.open()
        (tmp_path / "w.db-blobs").mkdir()
        (tmp_path / "w.db-blobs" / sha256(data).hexdigest()).write_bytes(data)
        monkeypatch.setattr(blobs, "_sync", lambda folder: synced.append(folder.name))
        await store.put_blob(data, now_ms=0)
        await store.close()

    asyncio.run(run())
    assert "w.db-blobs" in synced

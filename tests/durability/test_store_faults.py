"""Every disk call of every write fails once, or from then on: a typed error, nothing by halves, and the same
call lands once when the fault is over.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest

from tests.durability.faulty_vfs import CallKind, Fault, FaultyVfs
from tests.durability.recording_vfs import unregistered_name
from tests.durability.store_operations import CLAIM, OPERATIONS, StoreOperation, prepare
from tests.durability.workload import Worker
from windlass.errors import Retry, StoreContended, StoreUnavailable, WindlassError
from windlass.stores.sqlite import SqliteStore

MAX_N = 200
# Where the same calls fail with another code, some of them do.
SOME_N = (1, 2, 3, 5, 8, 13, 21, 34, 55, 89)
BUSY_S = 0.05
# How each is reported by the disk. The first five a write can meet on a file that is open.
FAULTS: dict[str, tuple[CallKind, int]] = {
    "write-error": ("write", apsw.SQLITE_IOERR_WRITE),
    "disk-full": ("write", apsw.SQLITE_FULL),
    "read-only": ("write", apsw.SQLITE_READONLY),
    "sync-error": ("sync", apsw.SQLITE_IOERR_FSYNC),
    "read-error": ("read", apsw.SQLITE_IOERR_READ),
    "truncate-error": ("truncate", apsw.SQLITE_IOERR_TRUNCATE),
    "size-error": ("size", apsw.SQLITE_IOERR_FSTAT),
    "access-error": ("access", apsw.SQLITE_IOERR_ACCESS),
    "cannot-open": ("open", apsw.SQLITE_CANTOPEN),
    "lock-error": ("lock", apsw.SQLITE_IOERR_LOCK),
}
WHILE_OPEN = ("write-error", "disk-full", "read-only", "sync-error", "read-error")
BREAKS_EVERY_COMMIT = ("write-error", "disk-full", "read-only", "sync-error")
SYNC_FAILS_ONCE = Fault(kind="sync", code=apsw.SQLITE_IOERR_FSYNC)
MUST_OUTLIVE_A_RESTART = ("submit", "errands", "commit", "accept", "resolve_wait")


@pytest.fixture(autouse=True)
def _second_faults_are_not_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """apsw cannot raise a second fault while the first one propagates."""
    tell = sys.unraisablehook
    monkeypatch.setattr(
        sys,
        "unraisablehook",
        lambda found: None if isinstance(found.exc_value, apsw.Error) else tell(found),
    )


class Trial(NamedTuple):
    """How one run went."""

    fired: int
    refusal: WindlassError | None


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new file with nothing in it: making one takes longer than all that is done to it here."""
    folder = tmp_path_factory.mktemp("template")

    async def make() -> None:
        store = SqliteStore(folder / "w.db")
        await store.open()
        await store.close()

    asyncio.run(make())
    return folder


class Bench:
    """A fresh copy of the file for each trial."""

    def __init__(self, template: Path, folder: Path) -> None:
        self.template = template
        self.folder = folder
        self.vfs = FaultyVfs(unregistered_name())
        # Never armed; it leaves the syncs out, which is all that takes long.
        self.sound = FaultyVfs(unregistered_name())
        self.n_files = 0
        self.refusals = 0
        self.trials = 0
        self.highest_n = 0

    def file(self) -> Path:
        self.n_files += 1
        folder = self.folder / str(self.n_files)
        folder.mkdir()
        for path in self.template.glob("w.db*"):
            if path.is_file() and not path.name.endswith("-shm"):
                shutil.copy(path, folder / path.name)
        return folder / "w.db"


@pytest.fixture
def bench(template: Path, tmp_path: Path) -> Bench:
    return Bench(template, tmp_path)


def dump(file: Path, vfs: FaultyVfs) -> list[object]:
    """Return all rows but those that name a worker, and the mark of the last opening."""
    db = apsw.Connection(str(file), vfs=vfs.name)
    try:
        assert db.pragma("integrity_check") == "ok"
        names = [
            str(name)
            for (name,) in db.execute("select name from sqlite_schema where type = 'table'")
        ]
        return [
            (name, [row for row in db.execute(f'select * from "{name}"') if row[0] != "opened"])
            for name in sorted(names)
            if name not in ("workers", "news")
        ] + [db.execute("select after, kind, turn, wait from news where worker is null").fetchall()]
    finally:
        db.close()


async def try_once(
    store: SqliteStore, bench: Bench, operation: StoreOperation, worker: Worker, *faults: Fault
) -> Trial:
    """Run the operation under the fault, and lift it."""
    refusal: WindlassError | None = None
    bench.vfs.arm(*faults)
    try:
        await operation.run(store, worker, 1)
    except WindlassError as error:
        refusal = error
    finally:
        bench.vfs.lift()
    fired = bench.vfs.fired
    bench.trials += 1
    bench.highest_n = max(bench.highest_n, faults[0].nth)
    if refusal is not None:
        assert fired > 0
        bench.refusals += 1
        assert type(refusal) is StoreUnavailable, repr(refusal)
        assert refusal.retry is Retry.LATER
    return Trial(fired, refusal)


async def retry_on_the_same_store(
    bench: Bench, operation: StoreOperation, clean: list[object], *faults: Fault
) -> Trial:
    """The store that met the fault is asked again."""
    file = bench.file()
    store = SqliteStore(file, vfs=bench.vfs.name, busy_s=BUSY_S)
    await store.open()
    worker = await prepare(store)
    trial = await try_once(store, bench, operation, worker, *faults)
    landed = await operation.landed(store)
    assert landed == 1 if trial.refusal is None else landed in (0, 1)
    await operation.run(store, worker, 1)
    assert await operation.landed(store) == 1
    await store.close()
    assert dump(file, bench.sound) == clean
    return trial


async def retry_with_company(
    bench: Bench, operation: StoreOperation, fault: Fault, clean: list[object]
) -> Trial:
    """The store that met the fault has read nothing yet, and others have the file open."""
    file = bench.file()
    home = SqliteStore(file, vfs=bench.sound.name, busy_s=BUSY_S)
    await home.open()
    worker = await prepare(home)
    store = SqliteStore(file, vfs=bench.vfs.name, busy_s=BUSY_S)
    await store.open()
    trial = await try_once(store, bench, operation, worker, fault)
    # Others see it whole or not at all, and what was answered they see.
    landed = await operation.landed(home)
    assert landed == 1 if trial.refusal is None else landed in (0, 1)
    await operation.run(store, worker, 1)
    assert await operation.landed(home) == 1
    await store.close()
    await home.close()
    assert dump(file, bench.sound) == clean
    return trial


async def retry_on_another_store(bench: Bench, operation: StoreOperation, fault: Fault) -> Trial:
    """The store that met the fault is closed, and another one is asked."""
    file = bench.file()
    store = SqliteStore(file, vfs=bench.vfs.name, busy_s=BUSY_S)
    await store.open()
    worker = await prepare(store)
    trial = await try_once(store, bench, operation, worker, fault)
    await store.close()
    store = SqliteStore(file, vfs=bench.sound.name)
    await store.open()
    landed = await operation.landed(store)
    assert landed == 1 if trial.refusal is None else landed in (0, 1)
    worker = Worker(await store.join(until_ms=3_601_000, now_ms=1_000))
    generation = 1
    if operation.is_fenced and not landed:
        lease = await store.take_over(
            "s0", "t0", worker_id=worker.worker_id, until_ms=3_601_000, now_ms=1_000
        )
        generation = lease.generation
    if operation.name != "start" or not landed:
        await operation.run(store, worker, generation)
    assert await operation.landed(store) == 1
    await store.close()
    dump(file, bench.sound)
    return trial


async def run_clean(bench: Bench, operation: StoreOperation) -> list[object]:
    """Return the rows when nothing goes wrong."""
    file = bench.file()
    store = SqliteStore(file, vfs=bench.sound.name)
    await store.open()
    worker = await prepare(store)
    assert await operation.landed(store) == 0
    await operation.run(store, worker, 1)
    assert await operation.landed(store) == 1
    await store.close()
    return dump(file, bench.sound)


@pytest.mark.parametrize("stays", [False, True], ids=["once", "stays"])
@pytest.mark.parametrize("name", WHILE_OPEN)
@pytest.mark.parametrize("operation", [*OPERATIONS, CLAIM], ids=lambda operation: operation.name)
def test_a_fault_at_any_disk_call_is_a_typed_refusal_and_the_same_call_then_lands_once(
    bench: Bench, operation: StoreOperation, name: str, stays: bool
) -> None:
    """I9, T7: the n-th call fails, for n = 1, 2, ... until none does."""
    kind, code = FAULTS[name]
    places = ["same", "company"]
    if operation.name in MUST_OUTLIVE_A_RESTART:
        places.append("another")

    async def run(place: str, fault: Fault, clean: list[object]) -> Trial:
        match place:
            case "same":
                return await retry_on_the_same_store(bench, operation, clean, fault)
            case "company":
                return await retry_with_company(bench, operation, fault, clean)
            case _:
                return await retry_on_another_store(bench, operation, fault)

    clean = asyncio.run(run_clean(bench, operation))
    for place in places:
        for n in SOME_N if name in ("disk-full", "read-only") else range(1, MAX_N):
            fault = Fault(kind=kind, code=code, nth=n, stays=stays)
            try:
                trial = asyncio.run(run(place, fault, clean))
            except Exception as error:
                error.add_note(f"{place}, {fault}")
                raise
            if trial.fired == 0:
                break
        else:
            pytest.fail(f"{MAX_N} calls and no end")
    if name in BREAKS_EVERY_COMMIT:
        assert bench.highest_n > 1
        assert bench.refusals > 0 or not stays


@pytest.mark.parametrize("stays", [False, True], ids=["once", "stays"])
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_while_the_writer_recovers_from_another_is_a_typed_refusal_too(
    bench: Bench, name: str, stays: bool
) -> None:
    """The commit fails, and then the n-th call of what the writer does about it."""
    kind, code = FAULTS[name]
    operation = OPERATIONS[0]

    clean = asyncio.run(run_clean(bench, operation))
    for n in range(1, MAX_N):
        # A sync that fails again is a fault of the same kind: the first one counts for both.
        fault = Fault(kind=kind, code=code, nth=n + (kind == "sync"), stays=stays)
        trial = asyncio.run(
            retry_on_the_same_store(bench, operation, clean, SYNC_FAILS_ONCE, fault)
        )
        if trial.fired <= 1:
            break
    else:
        pytest.fail(f"{MAX_N} calls and no end")


@pytest.mark.parametrize("stays", [False, True], ids=["once", "stays"])
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_while_a_store_opens_is_a_typed_refusal_and_it_opens_later(
    bench: Bench, name: str, stays: bool
) -> None:
    kind, code = FAULTS[name]

    async def run(n: int) -> int:
        file = bench.folder / f"new-{n}.db"
        store = SqliteStore(file, vfs=bench.vfs.name, busy_s=BUSY_S)
        bench.vfs.arm(Fault(kind=kind, code=code, nth=n, stays=stays))
        refusal: BaseException | None = None
        try:
            await store.open()
        except (apsw.Error, WindlassError) as error:
            refusal = error
        bench.vfs.lift()
        assert refusal is None or type(refusal) is StoreUnavailable, f"{refusal!r}, n={n}"
        if refusal is not None:
            await store.open()
        fired = bench.vfs.fired
        await prepare(store)
        await store.close()
        assert dump(file, bench.sound)
        return fired

    # Making a file fills its log, with thousands of writes that are all alike.
    for n in (*range(1, 21), 40, 100, 1_000, 2_100, 5_000):
        if asyncio.run(run(n)) == 0:
            break
    else:
        pytest.fail("no end")


@pytest.mark.parametrize("operation", [*OPERATIONS, CLAIM], ids=lambda operation: operation.name)
def test_a_lock_that_is_never_released_is_contention_and_the_same_call_then_lands_once(
    bench: Bench, operation: StoreOperation
) -> None:
    async def run() -> None:
        clean = await run_clean(bench, operation)
        file = bench.file()
        store = SqliteStore(file, busy_s=BUSY_S)
        await store.open()
        worker = await prepare(store)
        other = apsw.Connection(str(file))
        other.execute("begin immediate")
        with pytest.raises(StoreContended) as refused:
            await operation.run(store, worker, 1)
        assert refused.value.retry is Retry.SAME
        assert await operation.landed(store) == 0
        other.execute("rollback")
        other.close()
        await operation.run(store, worker, 1)
        assert await operation.landed(store) == 1
        await store.close()
        assert dump(file, bench.sound) == clean

    asyncio.run(run())


@pytest.mark.parametrize("operation", [*OPERATIONS, CLAIM], ids=lambda operation: operation.name)
def test_a_lock_that_is_released_in_time_is_not_noticed(
    bench: Bench, operation: StoreOperation
) -> None:
    async def run() -> None:
        file = bench.file()
        store = SqliteStore(file)
        await store.open()
        worker = await prepare(store)
        other = apsw.Connection(str(file))
        other.execute("begin immediate")
        asyncio.get_running_loop().call_later(0.05, other.execute, "rollback")
        await operation.run(store, worker, 1)
        assert await operation.landed(store) == 1
        other.close()
        await store.close()

    asyncio.run(run())

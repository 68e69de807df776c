"""A file that is taken away, closed, forked, locked, or made by two processes at once."""

# ruff: noqa: ASYNC222, ASYNC240 - files and processes are what these tests are about

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import apsw
import pytest

from tests.limits import HANGS_S
from tests.runtime import turns
from tests.runtime.lanes import write_lock
from tests.runtime.turns import UNTIL_MS, begin, new_turn, reply, unit
from tests.stores.files import closed_file, everything
from windlass.errors import (
    ConfigError,
    StoreContended,
    StoreUnavailable,
    WindlassError,
)
from windlass.ports import NewItem
from windlass.stores.sqlite import SqliteStore, connection
from windlass.stores.sqlite.leases import _HELD, is_gone

# How many bytes the head of the log's index has.
_HEAD = 48

# --- taken away ------------------------------------------------------------------------------------


def rows_with(path: Path, word: bytes) -> bool:
    return any(word in found.read_bytes() for found in (path, path.with_name(f"{path.name}-wal")))


async def test_nothing_is_written_to_a_file_that_was_deleted(path: Path) -> None:
    """Case 61."""
    store = SqliteStore(path)
    await store.open()
    await store.accept("a", "t1", new_turn("first"))
    kept = path.with_name("kept.db")
    for suffix in ("", "-wal"):
        os.link(f"{path}{suffix}", f"{kept}{suffix}")
    path.unlink()

    with pytest.raises(StoreUnavailable, match="deleted or replaced"):
        await store.accept("b", "t1", new_turn("orphaned words"))

    assert not rows_with(kept, b"orphaned words")
    await store.close()
    assert not path.exists()


async def test_reading_does_not_bring_a_deleted_file_back(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    await store.accept("a", "t1", new_turn())
    path.unlink()

    with pytest.raises(StoreUnavailable):
        await store.load_session("a")

    await store.close()
    assert not path.exists()


async def test_nothing_is_written_to_a_file_that_was_replaced_nor_to_the_new_one(
    tmp_path: Path, path: Path
) -> None:
    await closed_file(tmp_path / "other.db")
    store = SqliteStore(path)
    await store.open()
    await store.accept("a", "t1", new_turn("first"))
    path.rename(tmp_path / "kept.db")
    (tmp_path / "other.db").rename(path)

    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="deleted or replaced"):
            await store.accept("b", "t1", new_turn("orphaned words"))

    assert not any(b"orphaned words" in found for found in everything(tmp_path).values())
    await store.close()


async def test_a_store_reads_nothing_from_a_file_that_was_replaced(
    tmp_path: Path, path: Path
) -> None:
    """What it showed would be of a file that it cannot write to, or of another one."""
    await closed_file(tmp_path / "other.db")
    store = SqliteStore(path)
    await store.open()
    await store.accept("mine", "t1", new_turn())
    await store.load_session("mine")
    path.rename(tmp_path / "kept.db")
    (tmp_path / "other.db").rename(path)

    with pytest.raises(StoreUnavailable):
        await store.load_session("mine")
    with pytest.raises(StoreUnavailable):
        await store.load_session("a")
    await store.close()


# --- closed and forked ------------------------------------------------------------------------------


async def test_a_store_that_is_not_open_says_so_at_every_door(path: Path) -> None:
    closed = SqliteStore(path)
    await closed.open()
    await closed.close()
    doors: list[Callable[[SqliteStore], Awaitable[object]]] = [
        lambda store: store.accept("a", "t1", new_turn()),
        lambda store: store.load_session("a"),
        lambda store: store.load_turn("a", "t1"),
        lambda store: store.list_sessions(),
        lambda store: store.due(0),
        lambda store: store.claim("w-1", agents=["helper"], limit=1, until_ms=1, now_ms=0),
        lambda store: store.changes(None),
        lambda store: store.list_turns(),
        lambda store: store.list_workers(now_ms=0),
        lambda store: store.load_history("a"),
        lambda store: store.inbox("a"),
        lambda store: store.enqueue("a", NewItem(item_id="i")),
        lambda store: store.put_blob(b"x", now_ms=0),
        lambda store: store.get_blob("00" * 32),
        lambda store: store.join(until_ms=1, now_ms=0),
        lambda store: store.leave("w-1"),
        lambda store: store.vacuum(now_ms=0, retention_ms=0),
        lambda store: store.delete_session("a", now_ms=0),
    ]
    for store in (SqliteStore(path), closed):
        for door in doors:
            with pytest.raises(StoreUnavailable):
                await door(store)
        with pytest.raises(StoreUnavailable):
            store.submit(unit("a", 0, reply("a", 0)))
        with pytest.raises(StoreUnavailable):
            store.renew("w-1", until_ms=1)


async def test_a_closed_store_opens_again_or_says_that_it_does_not(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    await store.accept("a", "t1", new_turn())
    await store.close()
    try:
        await store.open()
    except WindlassError:
        return
    try:
        await store.accept("b", "t1", new_turn())
        assert (await store.load_session("a")).agent == "helper"
    finally:
        await store.close()


def in_child(do: Callable[[], str]) -> str:
    """Return what a forked child says."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = do()
        except BaseException as error:  # noqa: BLE001 - the child must not go on as the test
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as pipe:
        return pipe.read()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
async def test_a_forked_child_is_refused_and_its_parent_unharmed(
    path: Path, store: SqliteStore
) -> None:
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    await begin(store, "a", worker)
    folder = path.with_name("w.db-workers")

    def submit() -> str:
        try:
            store.submit(unit("a", 0, reply("a", 0)))
        except ConfigError:
            return "ConfigError"
        return "accepted"

    def renew() -> str:
        try:
            store.renew(worker, until_ms=1)
        except ConfigError:
            return "ConfigError"
        return "accepted"

    assert in_child(submit) == "ConfigError"
    assert in_child(renew) == "ConfigError"
    # The child has ended. Had it shared the lock, or closed it, it would not be the parent's.
    assert not is_gone(folder, worker)
    await store.submit(unit("a", 0, reply("a", 0))).durable()
    assert turns.said(await store.load_turn("a", "t1")) == ["reply 0"]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
async def test_a_child_that_outlives_its_parents_lock_does_not_keep_it(
    path: Path, store: SqliteStore
) -> None:
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    folder = path.with_name("w.db-workers")
    asked, answer = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(asked[1])
        os.write(answer[1], b"born")
        os.read(asked[0], 1)  # until the parent has looked
        os._exit(0)
    lock = store._locks[worker]
    try:
        assert os.read(answer[0], 4) == b"born"
        os.close(lock._fd)  # as the system does when a process dies
        assert is_gone(folder, worker)
    finally:
        os.close(asked[1])
        os.waitpid(child, 0)
        for fd in (asked[0], *answer):
            os.close(fd)
        lock._fd = os.open(folder / worker, os.O_RDWR)
        _HELD.add(lock._fd)


# --- locked by others --------------------------------------------------------------------------------


async def test_a_file_that_is_locked_too_long_is_contended_and_then_works(path: Path) -> None:
    """Case 60, with a shorter patience."""
    store = SqliteStore(path, busy_s=0.2)
    await store.open()
    await store.accept("a", "t1", new_turn())
    with write_lock(path):
        with pytest.raises(StoreContended):
            await store.accept("b", "t1", new_turn())
        assert (await store.load_session("a")).head == 0

    await store.accept("b", "t1", new_turn())
    assert [found.session_id for found in await store.list_sessions()] == ["a", "b"]
    await store.close()


async def test_a_file_that_is_locked_for_a_while_is_waited_for(path: Path) -> None:
    store = SqliteStore(path, busy_s=10)
    await store.open()
    with write_lock(path):
        waits = asyncio.get_running_loop().create_task(store.accept("b", "t1", new_turn()))
        done, _ = await asyncio.wait({waits}, timeout=0.3)
        assert not done

    assert not (await waits).known
    await store.close()


async def test_a_connection_that_opens_in_the_middle_of_a_commit_waits_for_its_end(
    path: Path,
) -> None:
    """A commit writes the head of the log's index twice; here the second one is late."""
    store = SqliteStore(path)
    await store.open()
    db = apsw.Connection(str(path))
    assert db.execute("SELECT count(*) FROM sessions").get == 0
    with write_lock(path), path.with_name(f"{path.name}-shm").open("r+b", buffering=0) as index:
        kept = os.pread(index.fileno(), _HEAD, _HEAD)
        os.pwrite(index.fileno(), bytes(_HEAD), _HEAD)
        with pytest.raises(apsw.BusyError):
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)

        late = threading.Timer(0.2, os.pwrite, (index.fileno(), kept, _HEAD))
        late.start()
        connection._check_log(db, path)
        late.join()
    db.close()
    await store.close()


CREATE = """
import asyncio, sys
from windlass.stores.sqlite import SqliteStore

async def main(path, name):
    store = SqliteStore(path)
    print("ready", flush=True)
    sys.stdin.readline()
    await store.open()
    from windlass.ports import NewTurn, TurnRequest
    await store.accept(name, "t1", NewTurn(agent="x", request=TurnRequest()))
    print(store.store_id, store.secret.hex(), flush=True)
    await store.close()

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


@pytest.mark.slow
def test_two_processes_make_one_file_at_once(tmp_path: Path) -> None:
    """Case 62."""
    for n in range(10):
        path = tmp_path / f"{n}.db"
        started = [
            subprocess.Popen(
                [sys.executable, "-c", CREATE, path, name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for name in ("a", "b")
        ]
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in started:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        said = [process.communicate(timeout=HANGS_S) for process in started]
        assert [process.returncode for process in started] == [0, 0], said
        assert len({out for out, _ in said}) == 1
        assert sorted(str(row[1]) for row in turns.dump(path)["sessions"]) == ["a", "b"]

"""A file that is only opened to be read: not a byte of it changes, and every write is refused."""

# ruff: noqa: ASYNC240 - files are what these tests are about

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path

import apsw
import pytest

from tests.limits import HANGS_S
from tests.runtime.turns import GENERATION, UNTIL_MS, begin, ending, new_turn, reply, said, unit
from tests.stores.files import closed_file, everything, raw
from tests.stores.test_frozen_files import thawed
from tests.stores.test_sqlite_file import ReadOnlyDisk
from tests.unit_shortcuts import UnitShortcuts
from windlass.errors import ConfigError, FormatUnsupported, StoreUnavailable
from windlass.kernel.outcomes import Finished
from windlass.ports import NewItem, Unit, WaitAnswer
from windlass.stores.sqlite import SqliteStore
from windlass.stores.sqlite.schema import MIGRATIONS, VERSION

MEMORY = "-shm"
"""SQLite's shared memory lies in a file that every reader writes; it holds nothing that is not in the others."""


def data(folder: Path) -> dict[str, str]:
    found = everything(folder)
    return {name: sha256(found[name]).hexdigest() for name in found if not name.endswith(MEMORY)}


async def opened(path: Path) -> SqliteStore:
    store = SqliteStore(path, read_only=True)
    await store.open()
    return store


async def look_at_all(store: SqliteStore) -> list[object]:
    """Return all that can be seen of a store, asked for in every way that there is."""
    seen: list[object] = [store.store_id, store.secret, await store.due(UNTIL_MS * 9)]
    seen += [await store.list_turns(), await store.list_waits(), await store.changes(None)]
    seen += [await store.list_workers(now_ms=0), await store.is_present("w", now_ms=0)]
    for line in await store.list_sessions(kind=None):
        name = line.session_id
        seen += [line, await store.load_session(name), await store.inbox(name)]
        seen.append(await store.load_history(name, limit=1))
    for turn in await store.list_turns():
        seen.append(await store.load_turn(turn.session_id, turn.turn_id))
    return seen


async def worked_in(path: Path) -> None:
    """Make a file with turns, an item and a blob in it, and close it."""
    store = SqliteStore(path)
    await store.open()
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    await begin(store, "a", worker)
    await store.submit(unit("a", 0, reply("a", 0))).durable()
    await begin(store, "done", worker)
    await UnitShortcuts(store).commit("done", "t1", ending("well"), generation=GENERATION)
    await store.enqueue("a", NewItem(item_id="i1"))
    await store.put_blob(b"bytes", now_ms=1)
    await store.close()


def take_log_away(path: Path) -> None:
    """Leave the file without its log, as in a copy."""
    for suffix in ("-wal", "-shm"):
        path.with_name(f"{path.name}{suffix}").unlink()


@pytest.mark.parametrize("has_log", [True, False])
async def test_reading_a_file_changes_not_a_byte(tmp_path: Path, path: Path, has_log: bool) -> None:
    await worked_in(path)
    if not has_log:
        take_log_away(path)
    names, before = sorted(everything(tmp_path)), data(tmp_path)
    folders = sorted(found.name for found in tmp_path.iterdir() if found.is_dir())

    store = await opened(path)
    seen = await look_at_all(store)
    blob = await store.get_blob(sha256(b"bytes").hexdigest())
    await store.close()

    assert data(tmp_path) == before
    assert sorted(everything(tmp_path)) == names
    assert sorted(found.name for found in tmp_path.iterdir() if found.is_dir()) == folders
    assert blob == b"bytes"
    other = SqliteStore(path)
    await other.open()
    assert await look_at_all(other) == seen
    await other.close()


async def test_a_store_that_writes_would_be_noticed(tmp_path: Path, path: Path) -> None:
    await worked_in(path)
    before = data(tmp_path)

    store = SqliteStore(path)
    await store.open()
    await store.leave("nobody")
    await store.close()

    assert data(tmp_path) != before


@pytest.mark.parametrize("has_log", [True, False])
async def test_a_file_on_a_disk_that_lets_nothing_be_written_is_read(
    path: Path, has_log: bool
) -> None:
    await worked_in(path)
    if not has_log:
        take_log_away(path)
    disk = ReadOnlyDisk()

    store = SqliteStore(path, vfs="read-only", read_only=True)
    await store.open()
    session = await store.load_session("done")
    await store.close()
    disk.unregister()

    assert session.pages[0].outcome == Finished(text="well")


WRITES: dict[str, Callable[[SqliteStore], Awaitable[object]]] = {
    "accept": lambda store: store.accept("b", "t1", new_turn()),
    "join": lambda store: store.join(until_ms=1, now_ms=0),
    "leave": lambda store: store.leave("w"),
    "release": lambda store: store.release("a", generation=1),
    "take over": lambda store: store.take_over("a", "t1", worker_id="w", until_ms=1, now_ms=0),
    "claim": lambda store: store.claim("w", agents=["helper"], limit=1, until_ms=1, now_ms=0),
    "cancel": lambda store: store.request_cancel("a", "t1"),
    "fork": lambda store: store.fork("done", "f"),
    "delete": lambda store: store.delete_session("done", now_ms=0),
    "enqueue": lambda store: store.enqueue("a", NewItem(item_id="i")),
    "take inbox": lambda store: store.take_inbox("a", "t1", generation=1),
    "withdraw": lambda store: store.withdraw("a", "i1"),
    "resolve": lambda store: store.resolve_wait("w", WaitAnswer()),
    "put blob": lambda store: store.put_blob(b"x", now_ms=0),
    "put a long blob": lambda store: store.put_blob(bytes(2_000_000), now_ms=0),
    "vacuum": lambda store: store.vacuum(now_ms=10**12, retention_ms=0),
}


@pytest.mark.parametrize("name", WRITES)
async def test_every_write_is_refused(tmp_path: Path, path: Path, name: str) -> None:
    await worked_in(path)
    before = data(tmp_path)
    store = await opened(path)

    with pytest.raises(StoreUnavailable, match="opened read-only"):
        await WRITES[name](store)

    await store.close()
    assert data(tmp_path) == before


async def test_units_and_renewals_are_refused_as_they_are_handed_in(path: Path) -> None:
    await worked_in(path)
    store = await opened(path)

    with pytest.raises(StoreUnavailable, match="opened read-only"):
        store.submit(Unit.accepting("b", "t1", new_turn()))
    with pytest.raises(StoreUnavailable, match="opened read-only"):
        store.renew("w", until_ms=1)
    await store.close()


async def test_what_others_write_meanwhile_is_seen_and_told(path: Path) -> None:
    await worked_in(path)
    store, rung = await opened(path), asyncio.Event()
    mark = (await store.changes(None)).mark
    leave = store.watch(rung.set)
    async with asyncio.timeout(HANGS_S):
        await rung.wait()
    rung.clear()

    writer = SqliteStore(path)
    await writer.open()
    await writer.accept("new", "t1", new_turn())

    async with asyncio.timeout(HANGS_S):
        await rung.wait()
    leave()
    found = await store.changes(mark)
    assert [(one.kind, one.session_id) for one in found.changes] == [("accepted", "new")]
    assert (await store.load_session("new")).queued == ("t1",)
    await writer.close()
    assert (await store.load_session("new")).queued == ("t1",)
    await store.close()


async def test_a_file_that_nothing_had_open_is_read_with_what_a_process_begins_to_write(
    path: Path,
) -> None:
    await worked_in(path)
    take_log_away(path)
    store, rung = await opened(path), asyncio.Event()
    mark = (await store.changes(None)).mark
    leave = store.watch(rung.set)
    async with asyncio.timeout(HANGS_S):
        await rung.wait()
    rung.clear()

    writer = SqliteStore(path)
    await writer.open()
    await writer.accept("new", "t1", new_turn())

    async with asyncio.timeout(HANGS_S):
        await rung.wait()
    leave()
    assert (await store.changes(mark)).sessions == ("new",)
    await writer.close()
    await store.close()


async def test_what_is_read_while_a_process_begins_to_write_is_read_again(path: Path) -> None:
    await worked_in(path)
    take_log_away(path)
    store = await opened(path)
    looks: list[str] = []

    def look(rows: object) -> int:
        looks.append("look")
        if len(looks) == 1:  # a process comes in the middle of the first look
            path.with_name(f"{path.name}-wal").touch()
            raise StoreUnavailable("what was seen is torn")
        return len(looks)

    assert store._readers.glance(look, ()) == 2
    assert store._readers.glance(look, ()) == 3
    await store.close()


async def test_there_has_to_be_a_file(path: Path) -> None:
    for missing in (path, path.with_name("folder") / "w.db"):
        with pytest.raises(ConfigError) as refusal:
            await SqliteStore(missing, read_only=True).open()
        assert refusal.value.field == "path"
    assert not path.exists()


@pytest.mark.parametrize("content", [b"", b"words, and not a database" * 50])
async def test_what_is_no_store_is_refused_and_not_touched(
    tmp_path: Path, path: Path, content: bytes
) -> None:
    path.write_bytes(content)

    with pytest.raises(Exception, match=path.name) as refusal:
        await SqliteStore(path, read_only=True).open()

    assert type(refusal.value).__module__ == "windlass.errors"
    assert everything(tmp_path) == {path.name: content}


async def test_a_database_of_another_program_is_refused_and_not_touched(
    tmp_path: Path, path: Path
) -> None:
    db = raw(path)
    db.execute("CREATE TABLE theirs (a)")
    db.close()
    before = everything(tmp_path)

    with pytest.raises(ConfigError, match="another program"):
        await SqliteStore(path, read_only=True).open()

    assert everything(tmp_path) == before


# --- files of earlier releases ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["format-1-finished", "format-2-finished", "schema-1", "schema-2"])
async def test_a_file_of_an_older_schema_is_read_and_stays_what_it_is(
    tmp_path: Path, name: str
) -> None:
    path = thawed(tmp_path, name)
    before = everything(tmp_path)

    store = await opened(path)
    seen = await look_at_all(store)
    with pytest.raises(StoreUnavailable, match="opened read-only"):
        await store.accept("b", "t1", new_turn())
    await store.close()

    assert everything(tmp_path) == before
    folder = tmp_path / "written"
    folder.mkdir()
    other = SqliteStore(shutil.copy(path, folder))
    await other.open()
    assert await look_at_all(other) == seen
    await other.close()


async def test_a_turn_of_an_older_schema_that_waits_is_read(tmp_path: Path) -> None:
    path = thawed(tmp_path, "format-2-unfinished")

    store = await opened(path)
    (wait,) = await store.list_waits()
    turn = await store.load_turn("open", "t9")
    await store.close()

    assert (wait.wait.session_id, wait.state) == ("open", "open")
    assert said(turn)


async def test_a_file_of_an_older_schema_that_is_in_use_is_read_with_its_log(
    tmp_path: Path, path: Path
) -> None:
    writer = raw(path)
    writer.pragma("journal_mode", "wal")
    for step in MIGRATIONS[:3]:
        writer.execute(step)
    writer.execute("PRAGMA user_version = 3; PRAGMA application_id = 0x776E646C")
    writer.execute("INSERT INTO meta VALUES ('store_id', x'73742d31'), ('secret', x'00')")
    before = data(tmp_path)
    assert VERSION > 3

    store = await opened(path)
    assert (store.store_id, await store.list_sessions()) == ("st-1", ())
    await store.close()
    assert data(tmp_path) == before

    writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    alone = shutil.copy(path, tmp_path / "alone.db")
    writer.close()
    store = await opened(Path(alone))
    assert (store.store_id, await store.list_sessions()) == ("st-1", ())
    await store.close()


async def test_unfinished_turns_of_an_earlier_format_are_refused_as_ever(tmp_path: Path) -> None:
    path = thawed(tmp_path, "format-1-unfinished")
    before = everything(tmp_path)

    with pytest.raises(FormatUnsupported, match="open/t9"):
        await SqliteStore(path, read_only=True).open()

    assert everything(tmp_path) == before


async def test_nothing_is_left_open(path: Path) -> None:
    await closed_file(path)
    fds = Path("/proc/self/fd")
    before = len(list(fds.iterdir()))

    for _ in range(3):
        store = await opened(path)
        await look_at_all(store)
        await store.close()

    assert len(list(fds.iterdir())) == before

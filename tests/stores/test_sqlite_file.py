"""The file itself: made, reopened, refused, and brought up to date."""

# ruff: noqa: ASYNC240 - files and processes are what these tests are about

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from tests.runtime import turns
from tests.runtime.turns import GENERATION, UNTIL_MS, begin, ending, new_turn, reply, unit
from tests.stores.files import closed_file, everything, raw, refused
from tests.unit_shortcuts import UnitShortcuts
from windlass.errors import (
    ConfigError,
    FormatUnsupported,
    JournalCorrupt,
    StoreUnavailable,
    WindlassError,
)
from windlass.stores.sqlite import SqliteStore, connection
from windlass.stores.sqlite.blobs import MAX_ROW_BYTES
from windlass.stores.sqlite.schema import APPLICATION_ID, MIGRATIONS, TABLES, VERSION

# --- made and reopened ---------------------------------------------------------------------------


async def test_a_new_file_is_windlasss_own(path: Path, store: SqliteStore) -> None:
    db = raw(path)
    assert db.pragma("application_id") == APPLICATION_ID == 0x776E646C
    assert db.pragma("user_version") == VERSION
    assert db.pragma("journal_mode") == "wal"
    assert set(turns.dump(path)) == TABLES
    assert store.store_id.startswith("st-")
    assert len(store.secret) == 32
    db.close()


async def test_name_and_secret_of_a_file_stay(path: Path) -> None:
    found = set()
    for _ in range(3):
        store = SqliteStore(path)
        await store.open()
        found.add((store.store_id, store.secret))
        await store.close()

    assert len(found) == 1


async def test_two_files_have_two_names_and_two_secrets(tmp_path: Path) -> None:
    stores = [SqliteStore(tmp_path / name) for name in ("1.db", "2.db")]
    for store in stores:
        await store.open()

    assert stores[0].store_id != stores[1].store_id
    assert stores[0].secret != stores[1].secret
    for store in stores:
        await store.close()


async def test_what_was_written_is_there_when_the_file_is_opened_again(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    await begin(store, "a", worker)
    await store.submit(unit("a", 0, reply("a", 0))).durable()
    await UnitShortcuts(store).commit("a", "t1", ending("bye"), generation=GENERATION)
    session, turn = await store.load_session("a"), await store.load_turn("a", "t1")
    await store.close()

    again = SqliteStore(path)
    await again.open()
    reopened = await again.load_session("a")
    # Its worker left with the store.
    assert (reopened.owner, reopened.head, reopened.pages) == (None, 1, session.pages)
    assert await again.load_turn("a", "t1") == turn
    await again.close()


async def test_the_log_is_warm_from_the_start_and_over_a_close(path: Path) -> None:
    log = path.with_name("w.db-wal")
    store = SqliteStore(path)
    await store.open()
    warm = log.stat().st_size
    assert warm >= connection.WAL_PAGES * 4096

    await store.accept("a", "t1", new_turn())
    assert log.stat().st_size == warm
    await store.close()
    assert log.stat().st_size == warm

    again = SqliteStore(path)
    await again.open()
    await again.accept("b", "t1", new_turn())
    assert log.stat().st_size == warm
    await again.close()


# --- refused -------------------------------------------------------------------------------------


def of_another_program(db: apsw.Connection) -> None:
    db.execute("CREATE TABLE customers (name)")
    db.execute("INSERT INTO customers VALUES ('ann')")


def with_another_application_id(db: apsw.Connection) -> None:
    db.execute("PRAGMA application_id = 12345")


def with_a_user_version(db: apsw.Connection) -> None:
    db.execute("PRAGMA user_version = 7")


def in_wal_mode(db: apsw.Connection) -> None:
    db.execute("PRAGMA journal_mode = WAL")
    of_another_program(db)


@pytest.mark.parametrize(
    "make", [of_another_program, with_another_application_id, with_a_user_version, in_wal_mode]
)
async def test_a_database_of_another_program_is_refused_and_not_touched(
    tmp_path: Path, path: Path, make: Callable[[apsw.Connection], None]
) -> None:
    """Case 63."""
    db = raw(path)
    make(db)
    db.close()
    before = everything(tmp_path)

    refusal = await refused(path, ConfigError)

    assert "another program" in str(refusal)
    after = everything(tmp_path)
    assert after["w.db"] == before["w.db"]
    # Who reads a file with a log needs one beside it; there is nothing in it.
    assert {name for name, found in after.items() if found and not name.endswith("-shm")} == {
        "w.db"
    }


async def test_what_is_no_database_is_refused_and_not_touched(tmp_path: Path, path: Path) -> None:
    path.write_bytes(b"Dear diary, " * 500)
    before = everything(tmp_path)

    await refused(path, JournalCorrupt)

    assert everything(tmp_path) == before


async def test_a_file_of_a_newer_release_is_refused_and_not_changed(
    tmp_path: Path, path: Path
) -> None:
    """Case 58."""
    await closed_file(path)
    db = raw(path)
    db.execute(f"PRAGMA user_version = {VERSION + 1}")
    db.close()
    before = turns.dump(path)

    refusal = await refused(path, FormatUnsupported)

    assert (refusal.found, refusal.wanted) == (VERSION + 1, VERSION)
    assert turns.dump(path) == before
    assert raw(path).pragma("user_version") == VERSION + 1


@pytest.mark.parametrize("table", sorted(TABLES))
async def test_a_file_that_lacks_a_table_is_refused_by_name(path: Path, table: str) -> None:
    """Case 62."""
    await closed_file(path)
    db = raw(path)
    db.execute(f"DROP TABLE {table}")
    db.close()
    before = turns.dump(path)

    refusal = await refused(path, JournalCorrupt)

    assert table in str(refusal)
    assert turns.dump(path) == before


@pytest.mark.parametrize("value", [b"st-\xff\xfe", b"", b"st-\n"], ids=repr)
@pytest.mark.parametrize("read_only", [False, True], ids=["to-write", "to-read"])
async def test_a_damaged_store_id_is_told_as_damage(
    path: Path, value: bytes, read_only: bool
) -> None:
    await closed_file(path)
    db = raw(path)
    db.execute("UPDATE meta SET value = ? WHERE name = 'store_id'", (value,))
    db.close()

    store = SqliteStore(path, read_only=read_only)
    with pytest.raises(JournalCorrupt, match="store_id is damaged; restore the file from a backup"):
        await store.open()


async def test_an_empty_secret_is_told_as_damage(path: Path) -> None:
    await closed_file(path)
    db = raw(path)
    db.execute("UPDATE meta SET value = x'' WHERE name = 'secret'")
    db.close()
    error = await refused(path, JournalCorrupt)
    assert "its secret is damaged" in str(error)


@pytest.mark.parametrize("name", ["store_id", "secret"])
async def test_a_file_that_does_not_say_its_name_is_refused(path: Path, name: str) -> None:
    await closed_file(path)
    db = raw(path)
    db.execute("DELETE FROM meta WHERE name = ?", (name,))
    db.close()

    assert name in str(await refused(path, JournalCorrupt))


async def test_a_missing_folder_is_a_wrong_setting(tmp_path: Path) -> None:
    refusal = await refused(tmp_path / "nowhere" / "w.db", ConfigError)

    assert refusal.field == "path"
    assert not (tmp_path / "nowhere").exists()


async def test_a_folder_is_no_file(tmp_path: Path) -> None:
    folder = tmp_path / "w.db"
    folder.mkdir()

    with pytest.raises((ConfigError, StoreUnavailable)):
        await SqliteStore(folder).open()

    assert list(folder.iterdir()) == []


def test_an_unknown_durability_is_a_wrong_setting(path: Path) -> None:
    with pytest.raises(ConfigError) as refusal:
        SqliteStore(path, durability="some")  # type: ignore[arg-type]  # what is tried
    assert refusal.value.field == "durability"


# --- read-only ------------------------------------------------------------------------------------


class ReadOnlyDisk(apsw.VFS):
    """Opens nothing for writing and makes no file, whoever asks; root writes through permissions."""

    def __init__(self) -> None:
        super().__init__("read-only", "")

    def xOpen(  # noqa: N802 - apsw's name
        self, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> apsw.VFSFile:
        flags[0] &= ~(apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
        flags[0] |= apsw.SQLITE_OPEN_READONLY
        return super().xOpen(name, flags)


@pytest.fixture
def read_only() -> Iterator[str]:
    disk = ReadOnlyDisk()
    yield "read-only"
    disk.unregister()


async def write_to(path: Path, vfs: str) -> None:
    store = SqliteStore(path, vfs=vfs)
    await store.open()
    try:
        await store.accept("b", "t1", new_turn())
    finally:
        await store.close()


async def test_a_new_file_on_a_read_only_disk_is_refused(tmp_path: Path, read_only: str) -> None:
    """Case 61."""
    with pytest.raises(StoreUnavailable):
        await write_to(tmp_path / "w.db", read_only)

    assert list(tmp_path.iterdir()) == []


async def test_a_read_only_file_is_refused_and_not_changed(path: Path, read_only: str) -> None:
    await closed_file(path)
    before = path.read_bytes()
    # Whether it is told when opening or by the first write, it is told.
    with pytest.raises(StoreUnavailable):
        await write_to(path, read_only)

    assert path.read_bytes() == before
    again = SqliteStore(path)
    await again.open()
    assert [found.session_id for found in await again.list_sessions()] == ["a"]
    await again.close()


# --- migrations -----------------------------------------------------------------------------------------


def plant(monkeypatch: pytest.MonkeyPatch, *steps: str) -> None:
    monkeypatch.setattr(connection, "MIGRATIONS", (*MIGRATIONS, *steps))
    monkeypatch.setattr(connection, "VERSION", VERSION + len(steps))


async def test_a_migration_that_fails_leaves_the_file_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await closed_file(path)
    before = turns.dump(path)
    with monkeypatch.context() as patch:
        plant(
            patch,
            "CREATE TABLE notes (text); INSERT INTO notes VALUES ('x'); DROP TABLE inbox",
            "CREATE TABLE more (text); INSERT INTO no_such_table VALUES (1)",
        )
        with pytest.raises(WindlassError):
            await SqliteStore(path).open()

    assert turns.dump(path) == before
    assert raw(path).pragma("user_version") == VERSION
    store = SqliteStore(path)
    await store.open()
    assert (await store.load_session("a")).agent == "helper"
    await store.close()


async def test_a_new_file_whose_migration_fails_can_be_made_later(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        plant(patch, "CREATE TABLE notes (text); INSERT INTO no_such_table VALUES (1)")
        with pytest.raises(WindlassError):
            await SqliteStore(path).open()
    assert turns.dump(path) == {}

    store = SqliteStore(path)
    await store.open()
    assert set(turns.dump(path)) == TABLES
    await store.close()


async def test_a_migration_runs_once_and_keeps_what_is_there(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await closed_file(path)
    plant(monkeypatch, "CREATE TABLE notes (text); INSERT INTO notes VALUES ('x')")
    for _ in range(2):
        store = SqliteStore(path)
        await store.open()
        assert (await store.load_session("a")).agent == "helper"
        await store.close()

    assert turns.dump(path)["notes"] == [("x",)]
    assert raw(path).pragma("user_version") == VERSION + 1


async def test_what_stands_where_the_workers_and_the_blobs_would_lie_is_named(
    path: Path, store: SqliteStore
) -> None:
    digest = await store.put_blob(b"x" * (MAX_ROW_BYTES + 1), now_ms=0)
    file = path.with_name(f"{path.name}-blobs") / digest
    file.unlink()
    file.mkdir()
    with pytest.raises(StoreUnavailable, match=f"{path.name}-blobs: the file system refused"):
        await store.get_blob(digest)

    path.with_name(f"{path.name}-workers").touch()
    with pytest.raises(StoreUnavailable, match=f"{path.name}-workers: the file system refused"):
        await store.join(until_ms=1, now_ms=0)

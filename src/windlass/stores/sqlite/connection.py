"""The file: connections to it with their pragmas and migrations, what it is known by, what goes wrong with it.

`synchronous=FULL` makes every commit wait for the disk. What it waits for depends on the log: a commit that
makes the log file longer costs the disk two writes, one that fills a place used before costs one. So the log is
filled once when the file is made and kept from then on, also over the last close.

Only this module knows the exceptions of apsw. Messages name the file's trouble and what to do next, never SQL,
values or payloads.
"""

from __future__ import annotations

import ctypes
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, TypeVar

import apsw

from windlass.errors import (
    ConfigError,
    FormatUnsupported,
    JournalCorrupt,
    StoreContended,
    StoreUnavailable,
    WindlassBug,
    WindlassError,
)
from windlass.stores.sqlite.files import log_not_there, private
from windlass.stores.sqlite.schema import APPLICATION_ID, GOES_ON_FROM, MIGRATIONS, TABLES, VERSION

A = TypeVar("A")

# Releases before this can damage a file when two connections checkpoint at the same moment.
MIN_SQLITE = (3, 51, 3)
# A file is compacted by itself if that frees as much and copies no more: for tens of megabytes writers wait a second or two.
_MUCH_FREE_BYTES = 4 * 1024 * 1024
_QUICK_COPY_BYTES = 64 * 1024 * 1024
# SQLite's own default: the log is folded back into the file each time it has this many pages.
WAL_PAGES = 1_000
_BUSY_MS = 5_000
_MIGRATE_MS = 30_000
_WARM_MS = 1_000
_SWITCH_S = 30.0
_PAUSE_S = 0.005
_LOG_LOOKS = 5
# How a log is laid out: a head, then pages with a head each.
_LOG_HEAD, _FRAME_HEAD = 32, 24
_STORE_ID = re.compile(rb"[\w.-]{1,64}")
_SECRET_BYTES = 32
# How many unfinished turns of an older format are named.
_NAMED = 10

_clock = time.perf_counter  # noqa: TID251 - measures a wait for a lock; nothing stored depends on it


def connect(
    path: Path, *, vfs: str | None = None, synchronous: str = "FULL", create: bool = False
) -> apsw.Connection:
    """Return a connection with windlass's pragmas; it makes the file only if told to, and no tables.

    Whose file it is comes first: some of the pragmas write.

    Raises:
        ConfigError: a file of another program; it is as it was.
        FormatUnsupported: a file of a newer release.
        JournalCorrupt: a windlass file without some of its tables.
        StoreUnavailable: its log was taken away under another process that has it open.
    """
    had_log = path.with_name(f"{path.name}-wal").exists()
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
    with private(path) if create else nullcontext():
        db = apsw.Connection(str(path), flags=flags, vfs=vfs)
        try:
            with _patience(db, _BUSY_MS):
                _check_owner(db, path.name, had_log=had_log)
                _as_soon_as_free(lambda: db.execute("PRAGMA journal_mode = WAL"))
                _check_log(db, path)
                db.execute(f"PRAGMA synchronous = {synchronous}")
                db.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")
                # What was deleted is overwritten, not merely forgotten.
                db.execute("PRAGMA secure_delete = ON")
                db.execute("PRAGMA cache_size = -16384")
                _keep_log(db)
        except BaseException:
            with suppress(apsw.Error):  # what was wrong before says more
                db.close()
            raise
    return db


def check_release() -> str:
    """Return the release of SQLite; refuse one with the bug that damages files under two writers.

    Raises:
        ConfigError: naming both releases.
    """
    release = apsw.sqlite_lib_version()
    if tuple(int(part) for part in release.split(".")) < MIN_SQLITE:
        wanted = ".".join(map(str, MIN_SQLITE))
        raise ConfigError.at("sqlite", release, f"{wanted} or newer; pip install -U apsw")
    return release


def prepare(db: apsw.Connection, *, place: str) -> None:
    """Bring the tables up to date, and make them in a new file.

    Raises:
        ConfigError: a file of another program; nothing was created in it.
        FormatUnsupported: a file of a newer release.
        JournalCorrupt: a windlass file without some of its tables.
    """
    with _patience(db, _MIGRATE_MS):
        if read_version(db, place) == VERSION:
            return
        db.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have been faster between the look and the lock.
            version = read_version(db, place)
            is_new = version == 0
            for number in range(version, VERSION):
                db.execute(MIGRATIONS[number])
            if is_new:
                _name_file(db)
            db.execute(f"PRAGMA user_version = {VERSION}")
            db.execute("COMMIT")
        except BaseException:
            with suppress(apsw.Error):
                db.execute("ROLLBACK")
            raise
    if is_new:
        _warm_log(db)


def is_mostly_free(db: apsw.Connection) -> bool:
    """Whether to compact the file frees more than it copies, and copies so little that others hardly notice."""
    page = int(db.pragma("page_size"))
    free = int(db.pragma("freelist_count")) * page
    used = int(db.pragma("page_count")) * page - free
    return free >= _MUCH_FREE_BYTES and free > used and used <= _QUICK_COPY_BYTES


def compact(db: apsw.Connection) -> int:
    """Write the file anew without its free pages; return how many bytes that gives back once the log is folded.

    Readers go on; those who write wait until it is done, about as long as it takes to copy what is in use.
    """
    before = int(db.pragma("page_count"))
    with _patience(db, _MIGRATE_MS):
        db.execute("VACUUM")
    return (before - int(db.pragma("page_count"))) * int(db.pragma("page_size"))


def scrub_log(db: apsw.Connection) -> bool:
    """Empty the log, in which deleted rows can still be read; False: another connection is reading it."""
    with _patience(db, _WARM_MS):
        try:
            busy, *_ = db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.BusyError:
            return False
    if not busy:
        _warm_log(db)
    return not busy


def read_identity(db: apsw.Connection, *, place: str) -> tuple[str, bytes]:
    """Return what a file is known by: its id, and the secret that wait keys are made with.

    Raises:
        JournalCorrupt: one of them is missing or damaged.
    """
    store_id, secret = _read_meta(db, "store_id", place), _read_meta(db, "secret", place)
    if not _STORE_ID.fullmatch(store_id):
        raise corrupt(place, "its store_id is damaged; restore the file from a backup")
    if not secret:
        raise corrupt(place, "its secret is damaged; restore the file from a backup")
    return store_id.decode(), secret


def _read_meta(db: apsw.Connection, name: str, place: str) -> bytes:
    with _patience(db, _BUSY_MS):
        found = first(db, "SELECT value FROM meta WHERE name = ?", (name,))
    if found is None or not isinstance(found[0], bytes):
        raise corrupt(place, f"the file does not say its {name}; restore it from a backup")
    return found[0]


@contextmanager
def _patience(db: apsw.Connection, wait_ms: int) -> Iterator[None]:
    """Make SQLite wait for locks. Otherwise the caller waits itself, so that it can stop."""
    db.set_busy_timeout(wait_ms)
    try:
        yield
    finally:
        db.set_busy_timeout(0)


@contextmanager
def _one_moment(db: apsw.Connection) -> Iterator[None]:
    """See the file as it is at one moment, inside a transaction or with one of its own."""
    if db.in_transaction:
        yield
        return
    db.execute("BEGIN")
    try:
        yield
    finally:
        if db.in_transaction:  # a fault of the disk ends it early
            db.execute("ROLLBACK")


def _check_log(db: apsw.Connection, path: Path) -> None:
    """Refuse a log that lacks what the others who have the file open wrote into it: it was taken away under them."""
    for _ in range(_LOG_LOOKS):
        frames, folded = _as_soon_as_free(
            lambda: db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
        )
        if frames <= folded:
            return
        n_bytes = path.with_name(f"{path.name}-wal").stat().st_size
        if n_bytes >= _LOG_HEAD + frames * (db.pragma("page_size") + _FRAME_HEAD):
            return
        threading.Event().wait(_PAUSE_S)  # another process may just have emptied it
    raise log_not_there(path.name, "-wal")


def _check_owner(db: apsw.Connection, place: str, *, had_log: bool) -> None:
    try:
        read_version(db, place)
    except WindlassError:
        if had_log:
            # What lies in a foreign log is its program's to fold back. A log that this look made goes with it.
            db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        raise


def _as_soon_as_free(act: Callable[[], A]) -> A:
    """Do what SQLite refuses at once while others switch the log or are just writing to it."""
    deadline = _clock() + _SWITCH_S
    while True:
        try:
            return act()
        except (apsw.BusyError, apsw.LockedError, apsw.ProtocolError):
            if _clock() >= deadline:
                raise
        threading.Event().wait(_PAUSE_S)


def read_version(db: apsw.Connection, place: str) -> int:
    """Return the schema of a file; 0 of one that is empty.

    Raises:
        ConfigError: a file of another program.
        FormatUnsupported: a file of a newer release, or with unfinished turns of an older format.
        JournalCorrupt: a windlass file without some of its tables.
    """
    with _one_moment(db):  # another process may be making the file
        found = db.pragma("application_id")
        version = int(db.pragma("user_version"))
        names = select(db, "SELECT name FROM sqlite_schema WHERE type = 'table'")
    tables = {name for (name,) in names}
    if found != APPLICATION_ID:
        if found or tables or version:
            raise ConfigError(
                f"{place}: this is the database of another program; choose another path",
                field="path",
                wanted="a new file or one made by windlass",
            )
        return 0
    if version > VERSION:
        raise FormatUnsupported(
            f"{place}: found schema {version}, this release knows {VERSION}; update windlass",
            field="schema",
            found=version,
            wanted=VERSION,
        )
    if 0 < version < GOES_ON_FROM:
        _check_finished(db, place)
    if version == VERSION and not tables >= TABLES:
        missing = ", ".join(sorted(TABLES - tables))
        raise corrupt(place, f"the file lacks its tables {missing}")
    return version


def _check_finished(db: apsw.Connection, place: str) -> None:
    """Refuse a file with turns that another release began and this one cannot go on with."""
    query = (
        "SELECT sessions.id || '/' || turns.id FROM turns JOIN sessions ON sessions.no = turns.session"
        " WHERE state <> 'done' AND EXISTS (SELECT 1 FROM log WHERE log.session = turns.session"
        " AND log.strand = turns.strand) ORDER BY turns.no"
    )
    found = [name for (name,) in select(db, query)]
    if not found:
        return
    more = f" and {len(found) - _NAMED:,} more" if len(found) > _NAMED else ""
    raise FormatUnsupported(
        f"{place}: found unfinished turns of an older format: {', '.join(found[:_NAMED])}{more}; finish or cancel"
        " them with the release that began them, then open the file with this one",
        field="format",
        found=1,
        wanted=2,
    )


def _name_file(db: apsw.Connection) -> None:
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    put = "INSERT INTO meta VALUES (?, ?)"
    db.execute(put, ("store_id", f"st-{secrets.token_hex(8)}".encode()))
    db.execute(put, ("secret", secrets.token_bytes(_SECRET_BYTES)))


def _keep_log(db: apsw.Connection) -> None:
    keep = ctypes.c_int(1)
    with suppress(apsw.Error):  # a foreign file layer may not know it; the log is then only colder
        db.file_control("main", apsw.SQLITE_FCNTL_PERSIST_WAL, ctypes.addressof(keep))


def _warm_log(db: apsw.Connection) -> None:
    """Fill the log once with commits that need not reach the disk, unless other processes keep the file busy.

    Each writes the file's own mark over itself: a process that is killed in between leaves nothing behind.
    """
    synchronous = db.pragma("synchronous")
    with _patience(db, _WARM_MS), suppress(apsw.BusyError):
        try:
            db.execute("PRAGMA synchronous = OFF")
            db.execute("PRAGMA wal_autocheckpoint = 0")
            for _ in range(WAL_PAGES + 24):
                db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        finally:
            db.execute(f"PRAGMA synchronous = {synchronous}")
            db.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)


def is_reading(db: apsw.Connection) -> bool:
    """Whether a connection stands at a moment of the file, outside of a transaction too: a query is not read to its end."""
    return db.txn_state() != apsw.SQLITE_TXN_NONE


def select(
    db: apsw.Connection, sql: str, values: tuple[Any, ...] | dict[str, Any] = ()
) -> list[Any]:
    """Return all rows of a query."""
    return db.execute(sql, values).fetchall()


def first(db: apsw.Connection, sql: str, values: tuple[Any, ...] = ()) -> Any:  # noqa: ANN401 - a row, or None
    """Return the first row of a query; None if there is none."""
    return db.execute(sql, values).fetchone()


_CONTENDED = (apsw.BusyError, apsw.LockedError)
_MEANINGS: tuple[tuple[type[Exception], type[WindlassError], str], ...] = (
    (apsw.BusyError, StoreContended, "another process holds the write lock; nothing was written"),
    (apsw.LockedError, StoreContended, "another connection holds the lock; nothing was written"),
    (apsw.FullError, StoreUnavailable, "the disk is full; free some space and try again"),
    (apsw.IOError, StoreUnavailable, "the disk reported an I/O error"),
    (apsw.CantOpenError, StoreUnavailable, "the file cannot be opened; may its folder be written?"),
    (apsw.ReadOnlyError, StoreUnavailable, "the file is read-only for this process"),
    (apsw.PermissionsError, StoreUnavailable, "the file may not be used by this process"),
    (apsw.NoMemError, StoreUnavailable, "there is not enough memory"),
    (apsw.ProtocolError, StoreUnavailable, "another process is opening the file at this moment"),
    (apsw.InterruptError, StoreUnavailable, "the operation was interrupted"),
    (apsw.NoLFSError, StoreUnavailable, "the file system cannot hold a file of this size"),
    (apsw.ConnectionClosedError, StoreUnavailable, "the store is closed"),
    (apsw.NotADBError, JournalCorrupt, "the file is not an SQLite database"),
    (apsw.CorruptError, JournalCorrupt, "the file is damaged; restore it from a backup"),
    (apsw.Error, WindlassBug, "SQLite refused a statement"),
    (OSError, StoreUnavailable, "the file system refused"),
)


def is_contention(error: BaseException) -> bool:
    """Whether another connection merely holds the lock."""
    return isinstance(error, _CONTENDED)


def as_windlass_error(error: BaseException, *, place: str) -> WindlassError:
    """Return the error that a caller gets for what SQLite or the file system raised."""
    if isinstance(error, WindlassError):
        return error
    for foreign, ours, meaning in _MEANINGS:
        if isinstance(error, foreign):
            return ours(f"{place}: {meaning} ({type(error).__name__})")
    return WindlassBug(f"{place}: {type(error).__name__}")


def corrupt(place: str, what: str, **told: object) -> JournalCorrupt:
    """Return the error for a place in the file that does not hold what was written there."""
    return JournalCorrupt(f"{place}: {what}", field=place, **told)

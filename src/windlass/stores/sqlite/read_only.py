"""A file that is only read: not a byte of it is written, and none beside it but SQLite's own shared memory.

A file without a log is open in no process. SQLite would make a log all the same, and a log is a file that was not
there; so it is read as one that cannot change. A process that begins to write makes a log first: what was read until it
is there is good, and what was read while it came is read again.

A file of an older schema is copied into memory and brought up to date there. It shows what was there when it was
opened.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar

import apsw

from windlass.errors import ConfigError, StoreUnavailable, WindlassError
from windlass.stores.sqlite import connection
from windlass.stores.sqlite.connection import read_identity
from windlass.stores.sqlite.files import FileIdentity
from windlass.stores.sqlite.readers import FileVersion, Readers
from windlass.stores.sqlite.rows import Rows
from windlass.stores.sqlite.schema import VERSION
from windlass.stores.sqlite.writer import Writer

A = TypeVar("A")
_READ = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
# Where a file says that it is read and written by way of a log, and how it says that it is not.
_LOG_MODE, _NO_LOG = slice(18, 20), b"\x01\x01"
_MAKE = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI


class Identity(NamedTuple):
    """What a file says about itself, and whether it had to be copied to be read."""

    store_id: str
    secret: bytes
    is_copied: bool


class ReadOnlyFile:
    """Opens connections that cannot write, to the file or to a copy of it in memory."""

    def __init__(self, path: Path, file: FileIdentity, *, vfs: str | None) -> None:
        self._path = path
        self._file = file
        self._vfs = vfs
        self._log = path.with_name(f"{path.name}-wal")
        self._copy = f"file:/windlass-{secrets.token_hex(8)}?vfs=memdb"
        self._kept: apsw.Connection | None = None
        self.version = FileVersion(self.connect, file)

    def open(self) -> tuple[Identity, Readers]:
        """Return what the file is, and what reads it.

        Raises:
            ConfigError: there is no such file, or it is not a store.
            FormatUnsupported: a file of a newer release, or one with unfinished turns of an older format.
        """
        place = self._path.name
        if not self._path.is_file():
            raise ConfigError(f"path: {place} does not exist", field="path")
        self._file.learn(has_log=False)
        readers = _LiveOrStill(self, place, self._file)
        try:
            found = readers.glance(self._identify, ())
        finally:
            readers.close()
        if found.is_copied:
            return found, Readers(place, self._connect_copy, self._file)
        return found, _LiveOrStill(self, place, self._file)

    def close(self) -> None:
        """Let go of the file and of the copy."""
        self.version.let_go()
        kept, self._kept = self._kept, None
        if kept is not None:
            with suppress(apsw.Error):
                kept.close()

    @property
    def has_log(self) -> bool:
        """Whether a process has opened it to write."""
        return self._log.exists()

    def version_now(self) -> object:
        """Return what is another value once something was written."""
        if self._kept is not None or not self.has_log:
            return "still"
        return self.version.read()

    def connect(self) -> apsw.Connection:
        """Return a connection that sees what others write."""
        return self._open(f"{self._path.as_uri()}?mode=ro")

    def connect_still(self) -> apsw.Connection:
        """Return a connection to a file that nothing changes."""
        return self._open(f"{self._path.as_uri()}?mode=ro&immutable=1")

    def _open(self, uri: str) -> apsw.Connection:
        db = apsw.Connection(uri, flags=_READ, vfs=self._vfs)
        # What lies in the log is for those who write to fold back.
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        return db

    def _connect_copy(self) -> apsw.Connection:
        return apsw.Connection(self._copy, flags=_READ)

    def _identify(self, rows: Rows) -> Identity:
        place = self._path.name
        version = connection.read_version(rows.db, place)
        if version == 0:
            raise ConfigError(f"path: {place} is empty, not a store", field="path")
        if version < VERSION:
            self._copy_from(rows.db)
        return Identity(*read_identity(rows.db, place=place), version < VERSION)

    def _copy_from(self, db: apsw.Connection) -> None:
        """Copy the file, and bring the copy up to date. It lives as long as this connection to it."""
        self.close()  # of a look that is made again
        self._kept = apsw.Connection(self._copy, flags=_MAKE)
        data = bytearray(db.serialize("main"))
        data[_LOG_MODE] = (
            _NO_LOG  # memory has no place for a log, and a file that wants one cannot be opened there
        )
        with closing(apsw.Connection(":memory:")) as source:
            source.deserialize("main", bytes(data))
            with self._kept.backup("main", source, "main") as copy:
                copy.step()
        connection.prepare(self._kept, place=self._path.name)


class _LiveOrStill(Readers):
    """Reads the file with its log once there is one, and as one that cannot change until then."""

    def __init__(self, opened: ReadOnlyFile, place: str, file: FileIdentity) -> None:
        super().__init__(place, opened.connect, file)
        self._opened = opened
        self._still = Readers(place, opened.connect_still, file)

    def glance(self, look: Callable[..., A], args: tuple[Any, ...]) -> A:
        while not self._opened.has_log:
            try:
                found = self._still.glance(look, args)
            except WindlassError:
                if not self._opened.has_log:
                    raise
            else:
                if not self._opened.has_log:
                    return found
        return super().glance(look, args)

    def close(self) -> None:
        super().close()
        self._still.close()


def refusal(place: str) -> StoreUnavailable:
    """Return the refusal of a write."""
    return StoreUnavailable(f"{place}: the store was opened read-only; nothing is written to it")


class NoWriter(Writer):
    """Stands where the writer would, and refuses."""

    def hand_in(self, *_: object, **__: object) -> NoReturn:
        """Refuse a write.

        Raises:
            StoreUnavailable: always.
        """
        raise refusal(self._place)

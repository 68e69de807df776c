"""Connections that read, each from one moment of the file, and cannot write."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

import apsw

from windlass.stores.sqlite.connection import as_windlass_error, is_reading
from windlass.stores.sqlite.files import FileIdentity
from windlass.stores.sqlite.rows import Rows

A = TypeVar("A")
_THREADS = 2
_BUSY_MS = 5_000


class Readers:
    """Runs reads, each from one moment of the file, on a connection that is free: to open one costs many reads."""

    def __init__(
        self, place: str, connect: Callable[[], apsw.Connection], file: FileIdentity
    ) -> None:
        self._place = place
        self._connect = connect
        self._file = file
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="windlass-reader")
        # For all threads: its operations are atomic, and the last to come, with the warmest cache, is the first to go.
        self._free: deque[apsw.Connection] = deque()

    async def read(self, look: Callable[..., A], args: tuple[Any, ...]) -> A:
        """Return what `look` finds, on a thread for that."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self.glance, look, args)

    def close(self) -> None:
        """Wait for the reads under way, then let go of the file."""
        self._threads.shutdown(wait=True)
        while self._free:
            with suppress(apsw.Error):
                self._free.pop().close()

    def glance(self, look: Callable[..., A], args: tuple[Any, ...]) -> A:
        """Return what `look` finds, on the caller's thread: for a row or two, which cost less than a hop."""
        self._file.check()
        try:
            return self._read(self._take(), look, args)
        except (apsw.Error, OSError) as error:
            raise as_windlass_error(error, place=self._place) from error

    def _read(self, db: apsw.Connection, look: Callable[..., A], args: tuple[Any, ...]) -> A:
        is_good = True
        try:
            db.execute("BEGIN")
            try:
                return look(Rows(db), *args)
            finally:
                if db.in_transaction:  # a fault of the disk ends it early
                    db.execute("ROLLBACK")
                # A refusal in the middle of a query keeps the query open, and the connection at that moment of the file.
                is_good = not is_reading(db)
        except apsw.Error:
            # The next read opens the file anew; the trouble may be over by then.
            is_good = False
            raise
        finally:
            if is_good:
                self._free.append(db)
            else:
                with suppress(apsw.Error):
                    db.close()

    def _take(self) -> apsw.Connection:
        try:
            return self._free.pop()
        except IndexError:
            db = self._connect()
            db.set_busy_timeout(_BUSY_MS)
            db.execute("PRAGMA query_only = ON")
            return db


class FileVersion:
    """Asks whether anything was written, by this process or another, on a connection that does nothing else."""

    __slots__ = ("_connect", "_db", "_file")

    def __init__(self, connect: Callable[[], apsw.Connection], file: FileIdentity) -> None:
        self._connect = connect
        self._file = file
        self._db: apsw.Connection | None = None

    def read(self) -> object:
        """Return what is another value once something was written.

        Raises:
            WindlassError, apsw.Error: the file is gone, or cannot be read now.
        """
        self._file.check()
        if self._db is None:
            self._db = self._connect()
        return self._db.pragma("data_version")

    def let_go(self) -> None:
        """Close the connection; the next look opens another."""
        db, self._db = self._db, None
        if db is not None:
            with suppress(apsw.Error):
                db.close()

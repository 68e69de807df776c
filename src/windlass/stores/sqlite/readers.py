"""The readers: two threads with a connection each, beside the writer and never in its way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

import apsw

from windlass.stores.sqlite.connection import FileIdentity
from windlass.stores.sqlite.rows import Rows

A = TypeVar("A")
_THREADS = 2
_BUSY_MS = 5_000


class Readers:
    """Runs reads on threads of their own, each from one moment of the file."""

    def __init__(self, connect: Callable[[], apsw.Connection], file: FileIdentity) -> None:
        self._connect = connect
        self._file = file
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="windlass-reader")
        self._mine = threading.local()
        self._open: list[apsw.Connection] = []

    async def read(self, look: Callable[..., A], args: tuple[Any, ...]) -> A:
        """Return what `look` finds."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self.glance, look, args)

    def close(self) -> None:
        """Wait for the reads under way, then let go of the file."""
        self._threads.shutdown(wait=True)
        while self._open:
            with suppress(apsw.Error):
                self._open.pop().close()

    def glance(self, look: Callable[..., A], args: tuple[Any, ...]) -> A:
        """Return what `look` finds, on the caller's thread: for a row or two, which cost less than a hop."""
        self._file.check()
        db = self._connection()
        try:
            db.execute("BEGIN")
            try:
                return look(Rows(db), *args)
            finally:
                if db.in_transaction:  # a fault of the disk ends it early
                    db.execute("ROLLBACK")
        except apsw.Error:
            self._give_up(db)
            raise

    def _connection(self) -> apsw.Connection:
        db: apsw.Connection | None = getattr(self._mine, "db", None)
        if db is None:
            db = self._connect()
            db.set_busy_timeout(_BUSY_MS)
            db.execute("PRAGMA query_only = ON")
            self._mine.db = db
            self._open.append(db)
        return db

    def _give_up(self, db: apsw.Connection) -> None:
        # The next read opens the file anew; the trouble may be over by then.
        self._mine.db = None
        with suppress(ValueError):
            self._open.remove(db)
        with suppress(apsw.Error):
            db.close()

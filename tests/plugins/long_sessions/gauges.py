"""Gauges: what a turn writes to the disk, and what it executes. The same on every run, so they can be held against bars."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple, Self, cast

import apsw

import windlass
from bench.store_bytes import CountingVfs
from tests.scenarios.stage import Stage
from windlass.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from _typeshed import TraceFunction

_OURS = str(Path(windlass.__file__).parent)


class Written(NamedTuple):
    """What was written: bytes of the write-ahead log, and those of the rows that stand for turns, without kept files."""

    log_bytes: int
    row_bytes: int


class MeasuredStage(Stage):
    """A stage on a SQLite file, with a count of what is written there."""

    def __init__(self, folder: Path) -> None:
        super().__init__("sqlite", folder)
        self._vfs = CountingVfs()
        self._file = SqliteStore(self.path, durability="process", vfs=self._vfs.name)
        self._store = self._file  # type: ignore[assignment] # any store will do
        self._log_bytes = 0
        self._last = {"log": 0, "bodies": 0}

    async def __aenter__(self) -> Self:
        await self._file.open()
        self._reader = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)
        return self

    async def __aexit__(self, *_raised: object) -> None:
        self._reader.close()
        await self._file.close()
        self._vfs.unregister()

    def news(self) -> Written:
        """Return what was written since this was last asked."""
        before, self._log_bytes = self._log_bytes, self._vfs.log_bytes
        rows = self._new("log", "length(page)") + self._new("bodies", "(NOT is_blob) * size")
        return Written(self._log_bytes - before, rows)

    def _new(self, table: str, size: str) -> int:
        found = self._reader.execute(
            f"SELECT coalesce(sum({size}), 0), max(no) FROM {table} WHERE no > ?",
            (self._last[table],),
        )
        ((n_bytes, last),) = cast("list[tuple[int, int | None]]", found.fetchall())
        self._last[table] = last or self._last[table]
        return n_bytes


class Instructions:
    """Counts the bytecode instructions of windlass on this thread, while it is told to."""

    def __init__(self) -> None:
        self.n = 0

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count what is executed here."""
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            yield
        finally:
            sys.settrace(before)

    @staticmethod
    @contextmanager
    def pause() -> Iterator[None]:
        """Leave out what a test does on its own behalf."""
        before = sys.gettrace()
        sys.settrace(None)
        try:
            yield
        finally:
            sys.settrace(before)

    def _trace(self, frame: FrameType, event: str, _argument: object) -> TraceFunction | None:
        if event == "opcode":
            self.n += 1
        elif not frame.f_code.co_filename.startswith(_OURS):
            return None
        else:
            frame.f_trace_opcodes = True
            frame.f_trace_lines = False
        return self._trace

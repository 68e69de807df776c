"""Gauges: what a turn writes to the disk, and what it executes. The same on every run, so they can be held against bars."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Self

import windlass
from bench.store_bytes import CountingVfs
from tests.scenarios.stage import Stage
from windlass.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from _typeshed import TraceFunction

_OURS = str(Path(windlass.__file__).parent)


class MeasuredStage(Stage):
    """A stage on a SQLite file whose every written byte is counted."""

    def __init__(self, folder: Path) -> None:
        super().__init__("sqlite", folder)
        self._vfs = CountingVfs()
        self._folder = folder
        self._file = SqliteStore(self.path, durability="process", vfs=self._vfs.name)
        self._store = self._file  # type: ignore[assignment] # any store will do

    async def __aenter__(self) -> Self:
        await self._file.open()
        return self

    async def __aexit__(self, *_raised: object) -> None:
        await self._file.close()
        self._vfs.unregister()

    @property
    def n_bytes(self) -> int:
        """What was written to the log so far, and to files beside it, which are there for good."""
        beside = sum(
            one.stat().st_size for one in self._folder.rglob("*") if one.parent != self._folder
        )
        return self._vfs.log_bytes + beside


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

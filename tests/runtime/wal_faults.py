"""A disk on which a commit goes wrong once, at one of the places where it can."""

from __future__ import annotations

import threading
from itertools import count
from typing import Literal, TypeAlias

import apsw

# commit frame: the last write of a transaction never reaches the log, so nothing of it landed.
# sync: all of it was written, and the disk says that it cannot promise it.
Spot: TypeAlias = Literal["commit frame", "sync"]

_FRAME_HEAD = 24
_NUMBERS = count(1)


class WalFaults(apsw.VFS):
    """The default disk; `fail_once` arms one failure in the write-ahead log."""

    def __init__(self) -> None:
        self.name = f"wal-faults-{next(_NUMBERS)}"
        super().__init__(self.name, "")
        self.fired = 0
        self._spot: Spot | None = None
        self._lock = threading.Lock()

    def fail_once(self, spot: Spot) -> None:
        with self._lock:
            self._spot = spot

    def pass_or_fail(self, spot: Spot) -> None:
        """Fail if this is where it was asked to.

        Raises:
            apsw.IOError: once.
        """
        with self._lock:
            if self._spot != spot:
                return
            self._spot = None
            self.fired += 1
        code = apsw.SQLITE_IOERR_FSYNC if spot == "sync" else apsw.SQLITE_IOERR_WRITE
        raise apsw.exception_for(code)

    def xOpen(  # noqa: N802  # SQLite's name
        self, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> apsw.VFSFile:
        return _File(self, name, flags)


class _File(apsw.VFSFile):
    def __init__(
        self, vfs: WalFaults, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> None:
        super().__init__("", name, flags)
        self._vfs = vfs
        self._is_log = bool(flags[0] & apsw.SQLITE_OPEN_WAL)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802  # SQLite's name
        # The frame that commits says in its head how large the database is from now on.
        if self._is_log and len(data) == _FRAME_HEAD and data[4:8] != b"\0\0\0\0":
            self._vfs.pass_or_fail("commit frame")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802  # SQLite's name
        if self._is_log:
            self._vfs.pass_or_fail("sync")
        super().xSync(flags)

"""A disk whose n-th call of a kind fails, once or from then on. Its syncs are answered and left out."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from typing import Literal, TypeAlias

import apsw

CallKind: TypeAlias = Literal[
    "open", "read", "write", "sync", "truncate", "delete", "size", "lock", "access"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What goes wrong: the n-th call of this kind, counted from when the fault is armed."""

    kind: CallKind
    code: int
    nth: int = 1
    stays: bool = False

    def hits(self, kind: CallKind, n: int) -> bool:
        return kind == self.kind and (n >= self.nth if self.stays else n == self.nth)


class FaultyVfs(apsw.VFS):
    """The default disk, until a fault is armed."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "")
        self.name = name
        self.fired = 0
        self._faults: tuple[Fault, ...] = ()
        self._n_calls: Counter[CallKind] = Counter()
        self._lock = threading.Lock()

    def arm(self, *faults: Fault) -> None:
        """Make the calls fail that the faults name."""
        with self._lock:
            self._faults, self.fired = faults, 0
            self._n_calls.clear()

    def lift(self) -> None:
        """End every fault."""
        with self._lock:
            self._faults = ()

    def pass_or_fail(self, kind: CallKind) -> None:
        """Count a call, and fail it if it is the one.

        Raises:
            apsw.Error: of the fault's code.
        """
        with self._lock:
            self._n_calls[kind] += 1
            n = self._n_calls[kind]
            fault = next((fault for fault in self._faults if fault.hits(kind, n)), None)
            if fault is None:
                return
            self.fired += 1
        raise apsw.exception_for(fault.code)

    def xOpen(  # noqa: N802  # SQLite's name
        self, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> apsw.VFSFile:
        self.pass_or_fail("open")
        return FaultyFile(self, name, flags)

    def xDelete(self, name: str, syncdir: bool) -> None:  # noqa: N802  # SQLite's name
        self.pass_or_fail("delete")
        super().xDelete(name, syncdir)

    def xAccess(self, pathname: str, flags: int) -> bool:  # noqa: N802  # SQLite's name
        self.pass_or_fail("access")
        return super().xAccess(pathname, flags)


class FaultyFile(apsw.VFSFile):
    """One file of a faulty disk. Unlocking and closing always work: a caller could not repeat them."""

    def __init__(
        self, vfs: FaultyVfs, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> None:
        super().__init__("", name, flags)
        self.vfs = vfs

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802  # SQLite's name
        self.vfs.pass_or_fail("read")
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802  # SQLite's name
        self.vfs.pass_or_fail("write")
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802  # SQLite's name
        self.vfs.pass_or_fail("truncate")
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802  # SQLite's name
        self.vfs.pass_or_fail("sync")

    def xFileSize(self) -> int:  # noqa: N802  # SQLite's name
        self.vfs.pass_or_fail("size")
        return super().xFileSize()

    def xLock(self, level: int) -> None:  # noqa: N802  # SQLite's name
        self.vfs.pass_or_fail("lock")
        super().xLock(level)

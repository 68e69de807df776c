"""A disk that remembers: every write, truncate, sync, creation and deletion, in one global order.

SQLite runs on it as on any other disk: calls are recorded and passed on. The shared memory of a WAL goes
straight to the file below and is not recorded; it does not outlive a crash. The test puts in its own marks, so
that it is known what had been acknowledged at each place of the log.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import apsw

# SQLite syncs the directory with the first sync of one of these, if it has made the file.
_SYNCS_ITS_DIRECTORY = (
    apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """A name came into the directory. `syncs_directory`: the file's first sync makes that durable."""

    name: str
    file: int
    syncs_directory: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A file that was there before the log began, with what was in it."""

    name: str
    file: int
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Bytes at a place of a file."""

    file: int
    offset: int
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncated:
    """A file got another length."""

    file: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """What was written to the file so far is durable."""

    file: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncFailed:
    """What was written to the file so far may never come to the disk, and no later sync will say so.

    That is what Linux does: the pages that could not be written count as clean from then on, and are
    read as if all were well.
    """

    file: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """A name left the directory."""

    name: str
    is_durable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """The test was told that this is durable."""

    mark: Hashable


Event: TypeAlias = (
    Created | Found | Written | Truncated | Synced | SyncFailed | Deleted | Acknowledged
)


class RecordingVfs(apsw.VFS):
    """The default disk, with a log.

    `lies`: syncs are answered and forgotten, as with synchronous=OFF. `before` is the log of an earlier process
    that left the files in another folder: this one goes on with it. `fail_syncs` lets so many syncs fail.
    """

    def __init__(self, name: str, *, lies: bool = False, before: Sequence[Event] = ()) -> None:
        super().__init__(name, "")
        self.name = name
        self.lies = lies
        self.events: list[Event] = list(before)
        self.fail_syncs = 0
        self._lock = threading.Lock()
        self._files: dict[str, int] = {}
        self._n_files = 0
        for event in before:
            if isinstance(event, Created | Found):
                self._files[event.name] = self._n_files = event.file
            elif isinstance(event, Deleted):
                self._files.pop(event.name, None)

    def acknowledge(self, mark: Hashable) -> None:
        """Note that the test was told of something being durable."""
        self.note(Acknowledged(mark=mark))

    def note(self, event: Event) -> None:
        """Append to the log."""
        with self._lock:
            self.events.append(event)

    def xOpen(  # noqa: N802  # SQLite's name
        self, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> apsw.VFSFile:
        if name is None:
            return apsw.VFSFile("", name, flags)
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        short = Path(path).name
        # An empty file that was not seen before was made a moment ago, beside this layer: its name may be lost as well.
        was_there = Path(path).exists() and (
            short in self._files or bool(Path(path).stat().st_size)
        )
        file = RecordingFile(self, name, flags)
        with self._lock:
            if short not in self._files or not was_there:
                self._n_files += 1
                self._files[short] = self._n_files
                self.events.append(
                    Found(name=short, file=self._n_files, content=Path(path).read_bytes())
                    if was_there
                    else Created(
                        name=short,
                        file=self._n_files,
                        syncs_directory=bool(flags[0] & _SYNCS_ITS_DIRECTORY),
                    )
                )
            file.number = self._files[short]
        return file

    def xDelete(self, name: str, syncdir: bool) -> None:  # noqa: N802  # SQLite's name
        super().xDelete(name, syncdir)
        with self._lock:
            self._files.pop(Path(name).name, None)
            self.events.append(Deleted(name=Path(name).name, is_durable=syncdir and not self.lies))


class RecordingFile(apsw.VFSFile):
    """One file of a recording disk."""

    def __init__(self, vfs: RecordingVfs, name: str | apsw.URIFilename, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self.vfs = vfs
        self.number = 0

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802  # SQLite's name
        super().xWrite(data, offset)
        self.vfs.note(Written(file=self.number, offset=offset, content=bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802  # SQLite's name
        super().xTruncate(newsize)
        self.vfs.note(Truncated(file=self.number, size=newsize))

    def xSync(self, flags: int) -> None:  # noqa: N802  # SQLite's name
        if self.vfs.fail_syncs > 0:
            self.vfs.fail_syncs -= 1
            self.vfs.note(SyncFailed(file=self.number))
            raise apsw.exception_for(apsw.SQLITE_IOERR_FSYNC)
        # The real sync is left out: the log says what would be on the disk, and it is quicker.
        if not self.vfs.lies:
            self.vfs.note(Synced(file=self.number))


def unregistered_name() -> str:
    """Return a name that no disk of this process has yet."""
    taken = set(apsw.vfs_names())
    return next(name for n in range(1_000_000) if (name := f"disk-{os.getpid()}-{n}") not in taken)

"""The files of a store: who may read them, and whether they are still those that were opened.

A new file is its owner's alone; what is made beside one gets its rights, as SQLite does with the log. Rights that an
operator gave stay.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from operator import itemgetter
from os import stat
from pathlib import Path

from windlass.errors import StoreError, StoreUnavailable

# The rights of a new file and of a new folder.
_PRIVATE, _PRIVATE_FOLDER = 0o600, 0o700

_inode = itemgetter(slice(1, 3))  # and its device, of what `stat` returns


class FileIdentity:
    """Device and inode of the file, and of the log and the shared memory beside it, learned when it was opened.

    The log is kept while the file is open, so one that is missing was taken away: what was written since it was folded
    back lies in it alone, and a process that opens the file now would begin another.
    """

    __slots__ = ("_known", "_name", "_path", "_paths")

    def __init__(self, path: Path) -> None:
        self._name = path.name
        self._path = str(path)
        self._paths: tuple[str, ...] = ()
        self._known: tuple[tuple[int, ...], ...] = ()

    def learn(self, *, has_log: bool = True) -> None:
        """Remember the files that the path names now; a file that is only read may have no log, or a new one.

        Raises:
            StoreUnavailable: it names none any more.
        """
        ends = ("", "-wal", "-shm") if has_log else ("",)
        self._paths = tuple(self._path + end for end in ends)
        try:
            self._known = tuple(map(_inode, map(stat, self._paths)))
        except OSError:
            raise _not_there(self._name) from None

    def check(self) -> None:
        """Refuse to go on with other files.

        Raises:
            StoreUnavailable: the path names another file, or none; or so does that of its log.
        """
        # Asked for every commit: neither a Path nor a loop in Python.
        try:
            if tuple(map(_inode, map(stat, self._paths))) == self._known:
                return
        except OSError:
            pass
        raise self._what_is_wrong()

    def _what_is_wrong(self) -> StoreError:
        for path, known in zip(self._paths, self._known, strict=True):
            with suppress(OSError):
                if _inode(Path(path).stat()) == known:
                    continue
            end = path.removeprefix(self._path)
            return log_not_there(self._name, end) if end else _not_there(self._name)
        return _not_there(self._name)  # and it is back already


_making = threading.Lock()


@contextmanager
def private(path: Path) -> Iterator[None]:
    """Make a file that its owner alone can read, if there is none; SQLite gives its log and shared memory the same rights.

    Closing a file takes away this process's locks on it. So no other thread may be at it before it is closed here.
    """
    is_made = False
    with _making, suppress(OSError):  # it is there; or SQLite says better what is wrong
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _PRIVATE))
        is_made = True
    try:
        yield
    except BaseException:
        if is_made and not path.stat().st_size:
            path.unlink()
        raise


def make_folder(folder: Path, *, beside: Path) -> None:
    """Make a folder beside the file, if there is none. All who can read the file can read it, and no others."""
    rights = _rights_of(beside)
    with suppress(FileExistsError):
        folder.mkdir(mode=_PRIVATE_FOLDER)
        folder.chmod(rights | (rights & 0o444) >> 2)


def create_file(path: Path | str, flags: int, *, beside: Path) -> int:
    """Open a new file, and return its descriptor. All who can read the file beside it can read it, and no others."""
    rights = _rights_of(beside)
    fd = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, _PRIVATE)
    os.fchmod(fd, rights)  # what the umask took away, the file may still have
    return fd


def _rights_of(path: Path) -> int:
    return path.stat().st_mode & 0o666


def _not_there(place: str) -> StoreError:
    """Return the error for a file that was deleted or replaced while it was open."""
    return StoreUnavailable(
        f"{place}: the file was deleted or replaced while it was open; nothing more is written to it"
    )


def log_not_there(place: str, end: str) -> StoreError:
    """Return the error for a log that was deleted or replaced while the file was open."""
    return StoreUnavailable(
        f"{place}: {place}{end} was deleted or replaced while the file was open; nothing more is written to it. Close"
        " every process that has it open, without killing them: the last one brings what it can into the file. Then open"
        " it again"
    )

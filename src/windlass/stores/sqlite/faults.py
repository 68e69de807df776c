"""What SQLite raises, told in windlass's errors. The only place that knows apsw's exceptions.

Messages name the file's trouble and what to do next, never SQL, values or payloads.
"""

from __future__ import annotations

import apsw

from windlass.errors import (
    JournalCorrupt,
    StoreContended,
    StoreError,
    StoreUnavailable,
    WindlassBug,
    WindlassError,
)

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
    """Whether somebody else merely holds the lock."""
    return isinstance(error, _CONTENDED)


def as_windlass_error(error: BaseException, *, place: str) -> WindlassError:
    """Return the error that a caller gets for what SQLite or the file system raised."""
    if isinstance(error, WindlassError):
        return error
    for foreign, ours, meaning in _MEANINGS:
        if isinstance(error, foreign):
            return ours(f"{place}: {meaning} ({type(error).__name__})")
    return WindlassBug(f"{place}: {type(error).__name__}")


def not_there(place: str) -> StoreError:
    """Return the error for a file that was deleted or replaced while it was open."""
    return StoreUnavailable(
        f"{place}: the file was deleted or replaced while it was open; nothing more is written to it"
    )

"""The folder `.windlass` below a root: what writing files needs for itself.

    .windlass/halves/…       new content that has no place yet
    .windlass/calls/ab/cdef… what a call is about to do, under the digest of its key
    .windlass/lock           keeps other writers out

Law 1. It is never reached through a link, and never another user's folder: other programs work in the same root.
Law 2. What is put here is whole or not there, and durable when that returns.
Law 3. What no call will ask for again is removed, a little with each call: content that a killed process left, and
    records that are older than any call that will run again.
Law 4. A call waits for other writers only so long, and not once its turn was cancelled.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from math import inf
from typing import ClassVar, Final

from windlass.errors import PathDenied, ToolError, ToolUncertain, WindlassError
from windlass.kernel import Value, canonical
from windlass.toolkit.files.folder import Folder, denied
from windlass.toolkit.files.permissions import HandedOn, Permissions, keep_to_itself

STATE: Final = ".windlass"
KEPT_DAYS: Final = 30
_MAX_RECORD_BYTES: Final = 256 * 1024
_MAX_SWEPT: Final = 1_000
_LOOK_S: Final = 0.02
_N_LOOKS: Final = 1_000
_CLOSED: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FOLDER: Final = os.O_RDONLY | _CLOSED | getattr(os, "O_DIRECTORY", 0)
_OLD: Final = os.O_RDONLY | _CLOSED | getattr(os, "O_NONBLOCK", 0)
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CLOSED
_UNREADABLE: Final = (
    "It is not known how much of this call was done, because its record cannot be read. "
    "Read the files and go on from there."
)


_BEGUN: Final = (
    "An earlier attempt of this call may have changed files: read them and go on from there."
)


class Changed(Value):
    """What a call does to one file: its digests before and after, and how many lines differ."""

    path: str
    before: str
    after: str
    added: int
    removed: int


class CallRecord(Value):
    """What a call is about to do."""

    FORMAT: ClassVar[int] = 1

    format: int
    files: tuple[Changed, ...]


class State:
    """The open folder, while other writers are kept out."""

    def __init__(self, root_fd: int, fd: int, half_fd: int, call_fd: int) -> None:
        self._root_fd = root_fd
        self.fd = fd
        self.half_fd = half_fd
        self._call_fd = call_fd

    @classmethod
    @contextmanager
    def opened(
        cls, folder: Folder, key: str, is_cancelled: Callable[[], bool], attempt: int
    ) -> Iterator[tuple[State, CallRecord | None]]:
        """Open it for an attempt of a call, and make what is missing; with it goes what an earlier one recorded.

        Raises:
            PathDenied: something else stands in its place.
            ToolError: it cannot be opened, others write for too long, or the turn was cancelled meanwhile.
            ToolUncertain: so it is, and an earlier attempt of this call may have begun.
        """
        with ExitStack() as opened:
            try:
                root_fd = opened.enter_context(folder.opened(()))
                fd = opened.enter_context(_own_folder(root_fd, STATE, is_private=False))
                half_fd = opened.enter_context(_own_folder(fd, "halves"))
                keep_to_itself(half_fd)
                call_fd = opened.enter_context(_own_folder(fd, "calls"))
                state = cls(root_fd, fd, half_fd, call_fd)
                try:
                    opened.enter_context(_locked(fd, is_cancelled))
                except _Kept as kept:
                    if attempt > 1 or (key and state.record(key) is not None):
                        raise ToolUncertain(f"{kept}. {_BEGUN}") from None
                    raise ToolError(f"{kept}; nothing was changed") from None
                # Content waits for its place only under the lock: who left this was killed.
                _sweep(half_fd)
                state._keep_out_of_repositories()
                record = state.record(key) if key else None
            except (OSError, PathDenied, ToolError) as error:
                raise _unopened(error, attempt) from None
            yield state, record

    # ------------------------------------------------------------------------------------ halves

    @contextmanager
    def half(self, content: bytes, rights: Permissions | HandedOn | None = None) -> Iterator[str]:
        """Write content that waits for its place. If it is not moved there, it is removed.

        Args:
            content: All of it.
            rights: Those of the file that it replaces, or what the folder of a new one hands on.

        Raises:
            ToolError: it cannot be written.
        """
        name = secrets.token_hex(16)
        try:
            try:
                self._write(name, content, rights)
            except OSError as error:
                raise ToolError(f"It cannot be written ({error.strerror})") from None
            yield name
        finally:
            with suppress(OSError):
                os.unlink(name, dir_fd=self.half_fd)

    def _write(self, name: str, content: bytes, rights: Permissions | HandedOn | None) -> None:
        # No other user can open it here, so a new file has its permissions from the beginning.
        mode = 0o600 if isinstance(rights, Permissions) else 0o666
        file = os.open(name, _NEW, mode, dir_fd=self.half_fd)
        try:
            left = memoryview(content)
            while left:
                left = left[os.write(file, left) :]
            if rights is not None:
                rights.give(file)
            os.fsync(file)
        finally:
            os.close(file)

    def reaches(self, folder: int) -> bool:
        """Whether what waits can be moved to a folder: no rename leaves a mount, even for another one of its disk."""
        name = secrets.token_hex(16)
        try:
            os.rename(name, name, src_dir_fd=self.half_fd, dst_dir_fd=folder)
        except OSError as error:  # there is no such name, but that is asked last
            return error.errno != errno.EXDEV
        return True

    # ----------------------------------------------------------------------------------- records

    def record(self, key: str) -> CallRecord | None:
        """Return what was recorded under a key.

        Raises:
            ToolUncertain: there is a record, and it cannot be read.
        """
        bucket, name = _places_of(key)
        try:
            with _own_folder(self._call_fd, bucket, make=False) as folder:
                file = os.open(name, _OLD, dir_fd=folder)
        except FileNotFoundError:
            return None
        except OSError:
            raise ToolUncertain(_UNREADABLE) from None
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_RECORD_BYTES:
                raise ToolUncertain(_UNREADABLE)
            return canonical.decode(os.read(file, _MAX_RECORD_BYTES), CallRecord)
        except (OSError, WindlassError):
            raise ToolUncertain(_UNREADABLE) from None
        finally:
            os.close(file)

    def keep(self, key: str, record: CallRecord) -> None:
        """Record what a call is about to do; when this returns, that is durable.

        Raises:
            ToolError: it cannot be written.
        """
        bucket, name = _places_of(key)
        try:
            with _own_folder(self._call_fd, bucket) as folder:
                self._put(name, canonical.encode(record), folder)
                self._sync(folder)
        except OSError as error:
            raise ToolError(f"{STATE}: cannot be written ({error.strerror})") from None

    def keep_found(self, key: str) -> None:
        """Make durable what an earlier attempt recorded: it may have been killed before it had done so.

        Raises:
            ToolError: that fails.
        """
        bucket, _ = _places_of(key)
        try:
            with _own_folder(self._call_fd, bucket, make=False) as folder:
                self._sync(folder)
        except OSError as error:
            raise ToolError(f"{STATE}: cannot be written ({error.strerror})") from None

    def sweep(self, key: str) -> None:
        """Remove the records that are too old and share a folder with this call's."""
        bucket, name = _places_of(key)
        with (
            suppress(OSError, WindlassError),
            _own_folder(self._call_fd, bucket, make=False) as folder,
        ):
            # The disk's own clock: what time it was when this call was recorded.
            now_s = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime
            _sweep(folder, now_s - KEPT_DAYS * 24 * 3600)

    def _keep_out_of_repositories(self) -> None:
        try:
            os.stat(".gitignore", dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            with suppress(OSError, ToolError):  # the next call tries again
                self._put(".gitignore", b"*\n", self.fd)

    def _put(self, name: str, content: bytes, folder: int) -> None:
        with self.half(content) as half:
            os.rename(half, name, src_dir_fd=self.half_fd, dst_dir_fd=folder)

    def _sync(self, bucket: int) -> None:
        # Each of these folders may have been made by a process that was killed before it had synced the one above.
        for folder in (bucket, self._call_fd, self.fd, self._root_fd):
            os.fsync(folder)


def _unopened(error: OSError | PathDenied | ToolError, attempt: int) -> PathDenied | ToolError:
    """Return what a call is told that did not come as far as to know what it had done before."""
    if isinstance(error, ToolUncertain):
        return error
    if isinstance(error, OSError):
        told = f"{STATE}: cannot be opened ({error.strerror}); this attempt changed nothing"
        error = ToolError(told)
    return ToolUncertain(f"{error}. {_BEGUN}") if attempt > 1 else error


def _places_of(key: str) -> tuple[str, str]:
    # In 256 folders, so that each is small enough to be swept whole.
    digest = sha256(key.encode()).hexdigest()
    return digest[:2], digest[2:]


@contextmanager
def _own_folder(
    parent: int, name: str, *, make: bool = True, is_private: bool = True
) -> Iterator[int]:
    """Open a folder of ours; `is_private` refuses one that others may write to."""
    try:
        fd = os.open(name, _FOLDER, dir_fd=parent)
    except FileNotFoundError:
        if not make:
            raise
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=parent)
        fd = os.open(name, _FOLDER, dir_fd=parent)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
            raise
        raise denied(STATE, "a link or a file in its place, wanted a folder") from None
    try:
        found = os.fstat(fd)
        if found.st_uid != os.geteuid():
            raise ToolError(f"{STATE}: found a folder of another user, wanted one of our own")
        if is_private and found.st_mode & 0o022:
            raise ToolError(f"{STATE}: found a folder that other users may write to")
        yield fd
    finally:
        os.close(fd)


class _Kept(Exception):
    """The lock was not had: the message says why."""


@contextmanager
def _locked(folder: int, is_cancelled: Callable[[], bool]) -> Iterator[None]:
    import fcntl  # noqa: PLC0415 - not on every system; this one was checked when the tools were made

    file = os.open("lock", os.O_RDWR | os.O_CREAT | _CLOSED | _OLD, 0o600, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise denied(STATE, "something else in place of its lock, wanted a file")
        # Let go of when it is closed, also by the death of the process. Asked for again and again, because nobody can
        # stop a thread that the system holds until it has it.
        for _ in range(_N_LOOKS):
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            if is_cancelled():
                break
            threading.Event().wait(_LOOK_S)
        else:
            raise _Kept("another program is writing in this folder")
        if is_cancelled():
            raise _Kept("the turn was cancelled")
        yield
    finally:
        os.close(file)


def _sweep(folder: int, before_s: float = inf) -> None:
    with os.scandir(folder) as entries:
        for _, entry in zip(range(_MAX_SWEPT), entries, strict=False):
            with suppress(OSError):
                if entry.stat(follow_symlinks=False).st_mtime < before_s:
                    os.unlink(entry.name, dir_fd=folder)

"""Is a worker's process alive? It holds a lock that the operating system lets go when it dies.

One small file per worker beside the database. Nobody but the kernel can release it early, so a dead process is
known at once and a live one, however slow, is never taken for dead. (SQLite's own locks would be lost if
this process opened the database file a second time; these files are never the database's.)
"""

from __future__ import annotations

import fcntl
import os
import secrets
from contextlib import suppress
from pathlib import Path

_HELD: set[int] = set()


def _let_go_after_fork() -> None:
    # A forked child shares the lock; if it kept the file open, the parent would outlive its own death.
    for fd in tuple(_HELD):
        with suppress(OSError):
            os.close(fd)
    _HELD.clear()


os.register_at_fork(after_in_child=_let_go_after_fork)


class WorkerLock:
    """Held from `take` until `release`, or until the process ends."""

    __slots__ = ("_fd", "path", "worker_id")

    def __init__(self, folder: Path, worker_id: str, fd: int) -> None:
        self.path = folder / worker_id
        self.worker_id = worker_id
        self._fd = fd

    @classmethod
    def take(cls, folder: Path) -> WorkerLock:
        """Make a worker id that nobody had, and hold its lock.

        Raises:
            OSError: the folder cannot be made or written.
        """
        folder.mkdir(exist_ok=True)
        worker_id = f"w-{secrets.token_hex(8)}"
        fd = os.open(folder / worker_id, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _HELD.add(fd)
        return cls(folder, worker_id, fd)

    def release(self) -> None:
        """Let go, and remove the file."""
        if self._fd in _HELD:
            _HELD.discard(self._fd)
            # Removed while still held: whoever opens the name after that makes a new file.
            with suppress(OSError):
                self.path.unlink()
            os.close(self._fd)


def is_gone(folder: Path, worker_id: str) -> bool:
    """Whether the process of this worker has ended."""
    try:
        fd = os.open(folder / worker_id, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def sweep(folder: Path, worker_id: str) -> None:
    """Remove the file of a worker that is gone."""
    with suppress(OSError):
        (folder / worker_id).unlink()

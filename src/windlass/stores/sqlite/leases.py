"""Who may write a session: one worker, under one generation, until its lease is over or its process dead.

A worker's process holds a lock that the operating system lets go when it dies: one small file per worker beside the
database. Only the kernel can release it early, so a dead process is known at once and a live one, however slow, is
never taken for dead. (SQLite's own locks would be lost if this process opened the database file a second time; these
files are never the database's.)
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

from windlass.errors import InvalidInput, LeaseLost
from windlass.journal import JournalPage, count_recorded
from windlass.ports.unit import Lease, Start, Unit
from windlass.stores import rules
from windlass.stores.sqlite import news
from windlass.stores.sqlite.connection import first
from windlass.stores.sqlite.files import create_file, make_folder
from windlass.stores.sqlite.rows import Rows, SessionRow, TurnRow, load_pages

Liveness: TypeAlias = Callable[[str], bool]
"""Says of a worker id whether its process has ended."""


def start_turn(rows: Rows, turn: TurnRow, start: Start, unit: Unit, gone: Liveness) -> None:
    """Begin the turn of a unit under its generation."""
    until_ms = _lease(rows, start.worker_id)
    is_free = partial(_is_free, rows, turn.session, start.now_ms, gone)
    if rules.may_begin(turn, start, unit.generation, is_free):
        waiting = _first_before(rows, turn)
        if waiting is not None:
            if not rules.may_go_first(turn, unit):
                raise rules.comes_later(turn)
            _go_before(rows, turn, waiting)
        _own(rows, turn, start.worker_id, unit.generation)
        _extend(rows, start.worker_id, until_ms, start.until_ms)


def take_over(rows: Rows, session_id: str, turn_id: str, wanted: Start, gone: Liveness) -> Lease:
    """Own the session of an unfinished turn under a new generation."""
    earlier: Lease | None = rows.earlier
    if earlier is not None and is_held(rows, earlier):
        return earlier
    return take(rows, session_id, turn_id, wanted, gone).lease


class Taken(NamedTuple):
    """A turn that a worker has taken, with the pages of its journal."""

    lease: Lease
    turn: TurnRow
    pages: list[JournalPage]


def take(rows: Rows, session_id: str, turn_id: str, wanted: Start, gone: Liveness) -> Taken:
    """Own the session of an unfinished turn, and read its journal."""
    worker_id = wanted.worker_id
    session = rows.session(session_id)
    turn = rows.turn(session, turn_id)
    held_ms = _lease(rows, worker_id)
    is_free = partial(_is_free, rows, session, wanted.now_ms, gone)
    rules.check_takeover(turn, worker_id, is_free)
    pages: list[JournalPage] = []
    if turn.state == "queued":
        if _first_before(rows, turn) is not None:
            raise rules.comes_later(turn)
    else:
        pages, turn.link = load_pages(rows.db, turn)
        turn.pages = len(pages)
        rules.count_takeover(turn, count_recorded(pages))
    _own(rows, turn, worker_id, session.generation + 1)
    until_ms = _extend(rows, worker_id, held_ms, wanted.until_ms)
    return Taken(rules.lease_of(turn, worker_id, until_ms), turn, pages)


def is_held(rows: Rows, lease: Lease) -> bool:
    """Whether a lease was given and stands."""
    session = rows.find_session(lease.session_id)
    return session is not None and (session.owner, session.generation) == (
        lease.worker_id,
        lease.generation,
    )


def _is_free(rows: Rows, session: SessionRow, now_ms: int, gone: Liveness) -> bool:
    """Whether any worker may take a session: it has no owner, or its owner is dead or overdue."""
    return session.owner is None or not is_present(rows, session.owner, now_ms, gone)


def is_present(rows: Rows, worker_id: str, now_ms: int, gone: Liveness) -> bool:
    """Whether a worker has joined, its process lives, and its lease is not over."""
    found = first(rows.db, "SELECT until_ms FROM workers WHERE id = ?", (worker_id,))
    return found is not None and found[0] > now_ms and not gone(worker_id)


def join(rows: Rows, worker_id: str, until_ms: int) -> None:
    """Register a worker."""
    rows.db.execute(
        "INSERT INTO workers (id, until_ms) VALUES (?, ?) ON CONFLICT (id) DO NOTHING",
        (worker_id, until_ms),
    )
    if rows.db.changes():
        news.tell(rows.db, "joined", worker=worker_id)


def leave(rows: Rows, worker_id: str) -> None:
    """Give up all that a worker holds."""
    rows.db.execute("UPDATE sessions SET owner = NULL WHERE owner = ?", (worker_id,))
    rows.db.execute("DELETE FROM workers WHERE id = ?", (worker_id,))
    if rows.db.changes():
        news.tell(rows.db, "left", worker=worker_id)
    rows.forget()


def renew(rows: Rows, worker_id: str, until_ms: int) -> None:
    """Hold on to all sessions of a worker."""
    _extend(rows, worker_id, _lease(rows, worker_id, LeaseLost), until_ms)


def release(rows: Rows, session_id: str, generation: int) -> None:
    """Give up one session."""
    session = rows.session(session_id)
    if session.generation != generation:
        raise rules.lease_lost(session, generation)
    if session.owner is None:
        return
    rows.db.execute("UPDATE sessions SET owner = NULL WHERE no = ?", (session.no,))
    session.owner = None


def check_joined(rows: Rows, worker_id: str) -> None:
    """Refuse a worker that has not joined."""
    _lease(rows, worker_id)


def _lease(rows: Rows, worker_id: str, error: type[LeaseLost | InvalidInput] = InvalidInput) -> int:
    """Return until when a worker that has joined holds its sessions."""
    found = first(rows.db, "SELECT until_ms FROM workers WHERE id = ?", (worker_id,))
    if found is None:
        raise rules.not_joined(worker_id, error)
    return int(found[0])


# That an item is pending says that it is one of both; it is said to have them from the index of those.
_WAITING = (
    "SELECT min(arrived) FROM"
    " (SELECT min(arrived) AS arrived FROM turns WHERE session = ? AND arrived < ?"
    "   AND state <> 'done' AND state <> 'parked'"
    "  UNION ALL SELECT min(arrived) FROM inbox WHERE session = ? AND arrived < ?"
    "   AND state IN ('pending', 'taken') AND due <> 'asked' AND state = 'pending')"
)


def _first_before(rows: Rows, turn: TurnRow) -> int | None:
    """Return the place of the first that comes before a queued turn, turn or item; None if the turn comes next."""
    session = turn.session
    if session.active is not None:
        return int(turn.arrived)
    (found,) = first(rows.db, _WAITING, (session.no, turn.arrived) * 2)
    return None if found is None else int(found)


def _go_before(rows: Rows, turn: TurnRow, waiting: int) -> None:
    """Move a turn before all that waits."""
    turn.arrived = waiting - 1
    rows.db.execute("UPDATE turns SET arrived = ? WHERE no = ?", (turn.arrived, turn.no))


def _own(rows: Rows, turn: TurnRow, worker_id: str, generation: int) -> None:
    session = turn.session
    if (session.owner, session.generation) == (worker_id, generation):
        # The owner's next turn: to name the same owner again would touch its index for nothing.
        rows.db.execute("UPDATE sessions SET active = ? WHERE no = ?", (turn.no, session.no))
    else:
        rows.db.execute(
            "UPDATE sessions SET generation = ?, owner = ?, active = ? WHERE no = ?",
            (generation, worker_id, turn.no, session.no),
        )
    strand = session.head + 1
    rows.db.execute(
        "UPDATE turns SET state = 'running', strand = ?, answered = 0, takeovers = ?, takeover_mark = ?"
        " WHERE no = ?",
        (strand, turn.takeovers, turn.takeover_mark, turn.no),
    )
    session.generation, session.owner, session.active = generation, worker_id, turn.no
    turn.state, turn.strand, turn.answered = "running", strand, 0


def _extend(rows: Rows, worker_id: str, held_ms: int, until_ms: int) -> int:
    """Extend a worker's lease until then, unless it lasts longer already."""
    if held_ms >= until_ms:
        return held_ms
    rows.db.execute("UPDATE workers SET until_ms = ? WHERE id = ?", (until_ms, worker_id))
    return until_ms


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
    def take(cls, folder: Path, *, beside: Path) -> WorkerLock:
        """Make a new worker id, and hold its lock, in a folder beside the database file.

        Raises:
            OSError: the folder cannot be made or written.
        """
        make_folder(folder, beside=beside)
        worker_id = f"w-{secrets.token_hex(8)}"
        fd = create_file(folder / worker_id, os.O_RDWR | os.O_EXCL, beside=beside)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _HELD.add(fd)
        return cls(folder, worker_id, fd)

    def release(self) -> None:
        """Let go, and remove the file."""
        if self._fd in _HELD:
            _HELD.discard(self._fd)
            # Removed while still held: opening the name after that makes a new file.
            with suppress(OSError):
                self.path.unlink()
            with suppress(OSError):
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

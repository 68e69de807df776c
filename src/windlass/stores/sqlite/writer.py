"""The writer: everything that is ready together goes to disk together.

Law 1. Operations take effect in the order in which they were handed in.
Law 2. All that wait when a transaction begins share it, and its one wait for the disk; each has its savepoint, so
    one that is refused takes none along but those that said they come after it.
Law 3. A COMMIT that fails says nothing about what landed. The writer rolls back, forgets what it believed and applies
    every operation of it once more; each knows what it wrote before, so nothing is lost and nothing doubled.
    It keeps the connection: opened anew, SQLite would take over from the log what a failed sync never brought to
    the disk, and show it as written.
Law 4. An operation is answered when it is on disk, and not before. A process that was killed between its write and its
    sync leaves work in the log that looks committed; so the first transaction of a connection always writes, and
    its sync covers what was found there.
Law 5. The loop is never held up: its thread commits only when a single turn is at work, the lock is free and the
    disk has been fast. It does so one pass of the loop later, so that other turns can join, or at once for a
    caller that knows of no others (`settle_now`).

Length: a write and the queue that it waits in know each other.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import get_ident
from typing import Any, Generic, TypeVar

import apsw

from windlass.errors import StoreUnavailable, WindlassBug, WindlassError
from windlass.stores.sqlite.connection import as_windlass_error, is_contention, is_reading
from windlass.stores.sqlite.files import FileIdentity
from windlass.stores.sqlite.rows import Rows

A = TypeVar("A")


class Operation(Generic[A]):
    """A function of the rows that waits for its transaction: the ticket that its caller holds."""

    attempts = 0
    is_settled = False
    refusal: WindlassError | None = None
    _answer: A | None = None
    _listeners: tuple[Callable[[], None], ...] = ()
    _waiters: tuple[asyncio.Future[None], ...] = ()

    def __init__(
        self,
        writer: Writer,
        apply: Callable[..., A],
        args: tuple[Any, ...],
        session_id: str | None,
        after: Operation[Any] | None,
    ) -> None:
        self._writer = writer
        self._apply = apply
        self._args = args
        self.session_id = session_id
        self.after = after

    @property
    def receipt(self) -> A | None:
        """What it was answered with, once it is on disk."""
        return self._answer if self.is_settled and self.refusal is None else None

    def settle_now(self) -> bool:
        """Commit in this call if nothing has to be waited for; else soon, as without it."""
        return self._writer.settle_now(self)

    async def durable(self) -> A:
        """Wait until it is on disk and return its answer."""
        if not self.is_settled:
            self._writer.schedule()
            if self._writer.is_alone:
                # The writer decides in this pass of the loop, before this task has its next turn.
                await asyncio.sleep(0)
        if not self.is_settled:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters += (waiter,)
            await waiter
        return self._outcome()

    def when_settled(self, tell: Callable[[], None]) -> None:
        """Call `tell` on the loop once it is known how it ended; soon, if it is already."""
        if self.is_settled:
            asyncio.get_running_loop().call_soon(tell)
        else:
            self._writer.schedule()
            self._listeners += (tell,)

    def apply(self, rows: Rows) -> None:
        """Take effect inside the transaction; a refusal is kept as its end."""
        after = self.after
        self.refusal = None if after is None else after.refusal
        if self.refusal is not None:
            return
        rows.earlier = self._answer
        try:
            self._answer = self._apply(rows, *self._args)
        except WindlassError as refusal:
            self.refusal = refusal
        except (apsw.Error, OSError):
            raise
        except Exception as fault:  # noqa: BLE001 - the other operations and the writer go on
            self.refusal = WindlassBug(f"a write failed with {type(fault).__name__}")
            self.refusal.__cause__ = fault

    def mark_settled(self) -> None:
        """Mark it as settled; may be called from the writer's thread."""
        self.is_settled = True
        self.after = None

    def wake_tasks(self) -> None:
        """Tell the listeners, then wake the tasks that wait; called on the loop."""
        if not self._listeners and not self._waiters:
            return
        listeners, self._listeners = self._listeners, ()
        for tell in listeners:
            try:
                tell()
            except Exception as error:  # noqa: BLE001 - the other listeners are told
                report = {"message": "a listener of a write failed", "exception": error}
                asyncio.get_running_loop().call_exception_handler(report)
        waiters, self._waiters = self._waiters, ()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _outcome(self) -> A:
        if self.refusal is not None:
            raise self.refusal
        return self._answer  # type: ignore[return-value]  # settled without refusal: it is there


# Up to this many queued operations count as a single active turn.
_ALONE = 2
# Slower than this and the loop's other tasks would notice.
_FAST_DISK_S = 0.0005
_SLOWEST_S = 2 * _FAST_DISK_S
_FIRST_PAUSE_S = 0.00025
_LONGEST_PAUSE_S = 0.01
_COMMIT_ATTEMPTS = 3

_clock = time.perf_counter  # noqa: TID251 - measures the disk and a wait for a lock; nothing stored depends on it


class Writer:
    """Owns the writing connection and the order of writes."""

    def __init__(
        self,
        place: str,
        connect: Callable[[], apsw.Connection],
        file: FileIdentity,
        *,
        busy_s: float,
    ) -> None:
        self._place = place
        self._connect = connect
        self._file = file
        self._busy_s = busy_s
        self._rows: Rows | None = None
        self._spent: apsw.Connection | None = None
        self._queue: deque[Operation[Any]] = deque()
        self._wake = threading.Condition()
        self._at_work = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread = 0
        self._thread: threading.Thread | None = None
        self._deciding = False
        self._closing = False
        self._is_new = True
        self._pace_s = _FAST_DISK_S
        self.commits_in_loop = 0
        self.commits_in_thread = 0

    def open(self, db: apsw.Connection) -> None:
        """Start with a connection that is ready; called on the loop."""
        self._loop = asyncio.get_running_loop()
        self._loop_thread = get_ident()
        self._adopt(db)
        self._thread = threading.Thread(target=self._run, name="windlass-writer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write what is waiting, then stop; called off the loop."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join()
        # What a disk refuses while it closes is in the log, and found there when the file is opened again.
        self._let_go()
        self._close_spent()

    def hand_in(
        self,
        apply: Callable[..., A],
        args: tuple[Any, ...] = (),
        session_id: str | None = None,
        after: Operation[Any] | None = None,
    ) -> Operation[A]:
        """Queue a write; it takes effect with all others that are ready by then.

        On the loop it is scheduled when its ticket is asked for, so that `settle_now` leaves nothing to be undone.
        """
        operation = Operation(self, apply, args, session_id, after)
        if self._closing:
            raise StoreUnavailable("the store is closed")
        self._queue.append(operation)
        if get_ident() != self._loop_thread:
            self._call_thread()
        return operation

    def leave_to_thread(self) -> None:
        """Let the writer's thread commit, as on a slow disk, until the disk has been fast for some commits.

        What is handed in next is large: the loop would have to wait for it.
        """
        self._pace_s = _SLOWEST_S

    def settle_now(self, operation: Operation[Any]) -> bool:
        """Write what is queued in this call, if Law 5 allows it; say whether this operation is settled.

        If it is not, it will be soon, as without this call.
        """
        if self._queue and get_ident() == self._loop_thread:
            if len(self._queue) > 1 or self._is_new:
                self._write_here()
            elif self._write_one() is operation:
                return True
        if operation.is_settled:
            operation.wake_tasks()  # the writer's thread may have been faster, and the listeners not told yet
            return True
        self.schedule()
        return False

    def schedule(self) -> None:
        """Have what is queued written, by this loop in its next pass or by the writer's thread."""
        if get_ident() != self._loop_thread:
            self._call_thread()
        elif not self._deciding:
            self._deciding = True
            self._loop.call_soon(self._decide)  # type: ignore[union-attr]  # it is our thread's

    # ------------------------------------------------------------- who commits: the loop or the thread

    @property
    def commits(self) -> int:
        """How many transactions were written."""
        return self.commits_in_loop + self.commits_in_thread

    @property
    def is_alone(self) -> bool:
        """Whether a single turn is at work, on a disk that is fast enough for the loop to wait for."""
        return len(self._queue) <= _ALONE and self._pace_s < _FAST_DISK_S and self._rows is not None

    def _decide(self) -> None:
        self._deciding = False
        if self._queue and not self._write_here():  # empty: the thread was faster
            self._call_thread()

    def _write_here(self) -> bool:
        """Write what is queued on this thread, the loop's; False: the writer's thread has to."""
        if not self.is_alone or not self._at_work.acquire(blocking=False):
            return False
        batch: list[Operation[Any]] = []
        try:
            if not self._begin():
                return False
            batch = self._drain()
            self.commits_in_loop += bool(batch)
            if not self._attempt(batch):
                # Opening the file anew may have to wait, and a loop must not.
                self._queue.extendleft(reversed(batch))
                batch = []
                return False
        finally:
            self._at_work.release()
        self._settle(batch)
        return True

    def _write_one(self) -> Operation[Any] | None:
        """Write the one operation that is queued, as `_write_here` would, and return it.

        A turn that is driven alone spends its time here, so the way is short. Whatever is unusual is undone and met
        again on the general way, which knows what to do about it.
        """
        rows, queue = self._rows, self._queue
        if rows is None or self._pace_s >= _FAST_DISK_S or not self._at_work.acquire(False):  # noqa: FBT003 - a lock's
            return None
        try:
            if not queue:  # the thread was faster
                return None
            operation = queue[0]
            self._file.check()
            rows.db.execute("BEGIN IMMEDIATE")
            rows.begin()
            operation.attempts += 1
            operation.apply(rows)
            if operation.refusal is None:
                self.commits_in_loop += 1
                self._commit(rows)
            else:
                rows.db.execute("ROLLBACK")
                rows.forget_session(operation.session_id)
                self._check_not_reading()
            queue.popleft()
        except Exception:  # noqa: BLE001 - it is met again, and told then
            self._roll_back()
            return None
        finally:
            self._at_work.release()
        operation.mark_settled()
        operation.wake_tasks()
        return operation

    def _call_thread(self) -> None:
        with self._wake:
            self._wake.notify()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._queue and not self._closing:
                    self._wake.wait()
                if not self._queue:
                    return
            self._serve()

    def _serve(self) -> None:
        """Write what waits, and say so. Apart from the wait for more, during which nothing of it is held on to."""
        with self._at_work:
            batch = self._write()
            for operation in batch:
                operation.mark_settled()
        with suppress(RuntimeError):  # the loop is closed, and no task waits there
            self._loop.call_soon_threadsafe(self._settle, batch)  # type: ignore[union-attr]  # set by open

    def _drain(self) -> list[Operation[Any]]:
        # Others only add at the end, and only the holder of `_at_work` drains.
        return [self._queue.popleft() for _ in range(len(self._queue))]

    def _settle(self, batch: list[Operation[Any]]) -> None:
        for operation in batch:
            operation.mark_settled()
            operation.wake_tasks()

    # ------------------------------------------------------------- transactions

    def _write(self) -> list[Operation[Any]]:
        """Write all that waits, however long the lock takes; return what is settled now."""
        if not self._queue:  # the loop was faster
            return []
        began = self._begin_patiently()
        batch = self._drain()
        if not began:
            self._refuse(batch, apsw.BusyError("locked"))
            return batch
        self.commits_in_thread += bool(batch)
        while not self._attempt(batch):
            if not self._begin_patiently():
                self._refuse(batch, apsw.BusyError("locked"))
                break
        return batch

    def _begin(self) -> bool:
        """Begin a transaction unless another connection holds the lock. Other trouble shows when it is written."""
        try:
            self._begin_with(self._ready())
        except (apsw.Error, WindlassError, OSError) as error:
            if is_contention(error):
                return False
            self._let_go()
        return True

    def _begin_with(self, rows: Rows) -> Rows:
        rows.db.execute("BEGIN IMMEDIATE")
        rows.begin()
        return rows

    def _begin_patiently(self) -> bool:
        pause, deadline = _FIRST_PAUSE_S, _clock() + self._busy_s
        while not self._begin():
            if _clock() >= deadline:
                return False
            with self._wake:
                self._wake.wait(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)
        return True

    def _attempt(self, batch: list[Operation[Any]]) -> bool:
        """Apply a batch in the transaction that was begun, and commit. False: it has to be tried again."""
        is_settled = self._apply_and_commit(batch)
        if any(operation.refusal is not None for operation in batch):
            self._check_not_reading()
        return is_settled

    def _apply_and_commit(self, batch: list[Operation[Any]]) -> bool:
        for operation in batch:
            operation.attempts += 1
        try:
            rows = self._rows
            if rows is None or not rows.db.in_transaction:  # it could not begin; now it says why
                rows = self._begin_with(self._ready())
            if not self._apply_all(rows, batch):
                self._apply_apart(rows, batch)
            if self._is_new and any(operation.refusal is None for operation in batch):
                self._sync_what_was_found(rows)
        except Exception as error:  # noqa: BLE001 - every caller is answered, and the writer goes on
            self._roll_back()
            self._refuse(batch, error)
            return True
        try:
            if rows.db.in_transaction:
                self._commit(rows)
                self._is_new = False
        except Exception as error:  # noqa: BLE001 - whatever it says, what landed is not known
            # Ambiguous for every operation in it. Law 3.
            self._roll_back()
            if batch and batch[0].attempts < _COMMIT_ATTEMPTS:
                return False
            self._refuse(batch, error)
        return True

    def _apply_all(self, rows: Rows, batch: list[Operation[Any]]) -> bool:
        """Apply a batch, trusting that what is refused has written nothing; False if one has.

        Savepoints cost as much as the rows of a unit, and refusals are rare.
        """
        for operation in batch:
            written = rows.db.total_changes()
            try:
                operation.apply(rows)
            except apsw.ConstraintError:
                # Another store of this process wrote under the same generation: look again.
                return False
            if operation.refusal is not None:
                rows.forget_session(operation.session_id)
                if rows.db.total_changes() != written:
                    return False
        return True

    def _apply_apart(self, rows: Rows, batch: list[Operation[Any]]) -> None:
        """Apply a batch from its beginning, each in its savepoint."""
        rows.db.execute("ROLLBACK")
        rows.forget()
        self._begin_with(rows)
        for operation in batch:
            rows.db.execute("SAVEPOINT unit")
            try:
                operation.apply(rows)
            except apsw.ConstraintError as error:
                operation.refusal = as_windlass_error(error, place=self._place)
            if operation.refusal is not None:
                rows.forget_session(operation.session_id)
                rows.db.execute("ROLLBACK TO unit")
            rows.db.execute("RELEASE unit")

    def _commit(self, rows: Rows) -> None:
        began = _clock()
        rows.db.execute("COMMIT")
        # One hiccup of the disk is not its pace.
        self._pace_s += (min(_clock() - began, _SLOWEST_S) - self._pace_s) / 8
        rows.own_version = rows.db.data_version()

    def _refuse(self, batch: list[Operation[Any]], error: BaseException) -> None:
        refusal = as_windlass_error(error, place=self._place)
        for operation in batch:
            if operation.refusal is None:
                operation.refusal = refusal

    # ------------------------------------------------------------- the connection

    def _adopt(self, db: apsw.Connection) -> None:
        self._rows = Rows(db)
        self._is_new = True
        self._close_spent()

    def _ready(self) -> Rows:
        """Return the connection, opened anew if it was given up.

        Raises:
            StoreUnavailable: the file is not the one that was opened. SQLite would go on writing to one
                that has no name any more, and all of it would be lost.
        """
        self._file.check()
        if self._rows is None:
            self._adopt(self._connect())
        return self._rows  # type: ignore[return-value]  # adopted above

    def _sync_what_was_found(self, rows: Rows) -> None:
        """Make the first transaction of a connection write something. Law 4."""
        if rows.db.in_transaction:
            mark = "INSERT OR REPLACE INTO meta VALUES ('opened', ?)"
            rows.db.execute(mark, (secrets.token_bytes(8),))

    def _roll_back(self) -> None:
        """Undo what was begun and believe nothing of it; the connection stays if it can. Law 3."""
        rows = self._rows
        if rows is None:
            return
        rows.forget()
        try:
            if rows.db.in_transaction:
                rows.db.execute("ROLLBACK")
        except apsw.Error:
            self._let_go()

    def _check_not_reading(self) -> None:
        """Write no more on a connection on which a query is open: it would stay at that moment of the file, and never lock it again.

        A refusal that is raised in the middle of a query keeps it open for as long as a caller keeps the refusal. The
        connection is closed when there is another: with none, a program that only looks at the file would be the last
        to close it, and take its log away.
        """
        if self._rows is not None and is_reading(self._rows.db):
            self._close_spent()
            self._spent, self._rows = self._rows.db, None

    def _close_spent(self) -> None:
        spent, self._spent = self._spent, None
        if spent is not None:
            with suppress(apsw.Error):
                spent.close()

    def _let_go(self) -> None:
        """Close a connection that is of no use any more; the next transaction opens another."""
        rows, self._rows = self._rows, None
        if rows is not None:
            with suppress(apsw.Error):
                rows.db.close()

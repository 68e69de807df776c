"""One SQLite file as a store. Writes go through one writer, reads have connections of their own.

An operation is a function of the rows and of the answer that an earlier attempt gave: one whose COMMIT failed and
landed all the same.

Length: the port has these methods; each is a call into the module of its noun.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, cast

import apsw

from windlass.errors import ConfigError, InvalidInput, StoreUnavailable
from windlass.guards.secret import Redactor
from windlass.ports import (
    CancelReceipt,
    DeleteReport,
    Due,
    InboxItem,
    InboxReceipt,
    InboxView,
    Lease,
    NewItem,
    SessionSummary,
    SessionView,
    Ticket,
    TurnView,
    Unit,
    UnitReceipt,
    VacuumReport,
    WaitAnswer,
    WaitReceipt,
    WaitView,
    WithdrawReceipt,
)
from windlass.stores.doors import Doors, check_place
from windlass.stores.sqlite import (
    blobs,
    connection,
    due,
    forks,
    inbox,
    leases,
    reads,
    reclaim,
    turns,
    units,
    waits,
    worker_lock,
)
from windlass.stores.sqlite.doorman import Doorman
from windlass.stores.sqlite.faults import as_windlass_error
from windlass.stores.sqlite.identity import FileIdentity
from windlass.stores.sqlite.operation import Operation
from windlass.stores.sqlite.readers import Readers
from windlass.stores.sqlite.rows import Rows
from windlass.stores.sqlite.worker_lock import WorkerLock
from windlass.stores.sqlite.writer import Writer

A = TypeVar("A")
Durability: TypeAlias = Literal["power", "process"]

# FULL waits for the disk at every commit. NORMAL does not: what was answered outlives the process, not the power.
SYNCHRONOUS = {"power": "FULL", "process": "NORMAL"}
# How many journals vacuum reclaims before others may write.
_STEP = 100


class SqliteStore(Doors):
    """Everything in one file.

    `durability="process"` trades power cuts for speed; `busy_s` is how long a write waits for other processes
    before it says StoreContended; `redactor` knows the secrets that must not reach the file.
    """

    is_durable = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Durability = "power",
        busy_s: float = 30.0,
        redactor: Redactor | None = None,
        vfs: str | None = None,
    ) -> None:
        if durability not in SYNCHRONOUS:
            raise ConfigError(
                f"durability: found {durability!r}, wanted power or process", field="durability"
            )
        self.path = Path(path).absolute()
        self.store_id = ""
        self.secret = b""
        self._synchronous = SYNCHRONOUS[durability]
        self._vfs = vfs
        self._doorman = Doorman(redactor)
        self._blobs = blobs.BlobFolder(self.path.with_name(f"{self.path.name}-blobs"))
        self._worker_folder = self.path.with_name(f"{self.path.name}-workers")
        self._locks: dict[str, WorkerLock] = {}
        self._file = FileIdentity(self.path)
        self._writer = Writer(self.path.name, self._connect, self._file, busy_s=busy_s)
        self._readers = Readers(self._connect, self._file)
        self._pid: int | None = None
        self._was_opened = False

    async def open(self) -> None:
        """Open the file, making it if it is new.

        Raises:
            ConfigError: the file is another program's, or SQLite too old to be trusted.
            FormatUnsupported: the file is of a newer release.
            StoreUnavailable: it cannot be opened or written.
        """
        connection.check_release()
        if self._was_opened:
            raise ConfigError(
                f"{self.path.name}: this store was opened before; make another", field="store"
            )
        if not self.path.parent.is_dir():
            raise ConfigError(
                f"path: the folder of {self.path.name} does not exist; make it first", field="path"
            )
        db = await asyncio.to_thread(self._open_file)
        self._pid = os.getpid()
        self._was_opened = True
        self._writer.open(db)

    async def close(self) -> None:
        """Write what is waiting, give up the workers' sessions, and let go of the file."""
        if self._pid is None:
            return
        self._check_process()
        for worker_id in tuple(self._locks):
            await self.leave(worker_id)
        self._pid = None
        await asyncio.to_thread(self._close_file)

    # ---------------------------------------------------------------- workers

    async def join(self, *, until_ms: int, now_ms: int) -> str:  # noqa: ARG002 - a store with a clock of its own needs it
        """Register a worker, and hold its lock while this process lives."""
        self._check_process()
        try:
            lock = WorkerLock.take(self._worker_folder)
        except OSError as error:
            raise as_windlass_error(error, place=self._worker_folder.name) from error
        await self._do(lambda rows, _: leases.join(rows, lock.worker_id, until_ms)).durable()
        self._locks[lock.worker_id] = lock
        return lock.worker_id

    async def leave(self, worker_id: str) -> None:
        """Give up a worker's sessions. Ends no turn."""
        await self._do(lambda rows, _: leases.leave(rows, worker_id)).durable()
        lock = self._locks.pop(worker_id, None)
        if lock is not None:
            lock.release()

    def renew(self, worker_id: str, *, until_ms: int) -> Operation[None]:
        """Hold on to all sessions of a worker until then. May be called from any thread."""
        self._doorman.check_names(worker_id)
        return self._do(lambda rows, _: leases.renew(rows, worker_id, until_ms))

    async def is_present(self, worker_id: str, *, now_ms: int) -> bool:
        """Return whether a worker has joined, its process lives, and its lease is not over."""
        self._doorman.check_names(worker_id)
        return await self._look(
            lambda rows: leases.is_present(rows, worker_id, now_ms, self._is_gone)
        )

    async def release(self, session_id: str, *, generation: int) -> None:
        """Give up one session."""
        self._doorman.check_names(session_id)
        await self._do(
            lambda rows, _: leases.release(rows, rows.session(session_id), generation), session_id
        ).durable()

    async def take_over(
        self, session_id: str, turn_id: str, *, worker_id: str, until_ms: int, now_ms: int
    ) -> Lease:
        """Own the session of an unfinished turn whose worker is gone."""
        self._doorman.check_names(session_id, turn_id, worker_id)

        def apply(rows: Rows, earlier: Lease | None) -> Lease:
            turn = rows.turn(rows.session(session_id), turn_id)
            if earlier is not None and leases.has_taken(turn, earlier):
                return earlier
            return leases.take_over(rows, turn, worker_id, until_ms, now_ms, self._is_gone)

        return await self._do(apply, session_id).durable()

    # ---------------------------------------------------------------- turns

    def submit(
        self, unit: Unit, *, after: Ticket[UnitReceipt] | None = None
    ) -> Operation[UnitReceipt]:
        """Hand in a unit; it is refused if the one that it comes after is."""
        if self._doorman.redactor is not None:
            self._doorman.check_names(unit.session_id, unit.turn_id, *units.names_in(unit))
        written = units.encode_unit(unit, self._doorman)
        return self._do(
            lambda rows, earlier: units.apply_unit(rows, written, self._is_gone, earlier),
            unit.session_id,
            cast("Operation[Any] | None", after),
        )

    async def request_cancel(
        self,
        session_id: str,
        turn_id: str,
        *,
        reason: str = "",
        now_ms: int = 0,  # noqa: ARG002 - the port's
    ) -> CancelReceipt:
        """Mark a turn as cancelled: nothing is claimed in it any more."""
        self._doorman.check_names(session_id, turn_id)
        said = self._doorman.words(reason)
        return await self._do(
            lambda rows, earlier: turns.request_cancel(rows, session_id, turn_id, said, earlier),
            session_id,
        ).durable()

    async def load_turn(self, session_id: str, turn_id: str) -> TurnView | None:
        """Return a turn as it stands; None if there is none of this id."""
        self._doorman.check_names(session_id, turn_id)
        return await self._look(lambda rows: reads.load_turn(rows, session_id, turn_id))

    async def load_session(
        self, session_id: str, *, history: bool = True, frame: bool = False
    ) -> SessionView:
        """Return a session, with its history, or its last frame, unless that is not wanted."""
        self._doorman.check_names(session_id)
        wanted: reads.Wanted = ("frame" if frame else "whole") if history else "none"
        found = self._glance(lambda rows: reads.glance_at_session(rows, session_id, wanted))
        if found is not None:
            return found
        return await self._look(lambda rows: reads.load_session(rows, session_id, wanted))

    async def list_sessions(
        self, *, after: str = "", limit: int = 100
    ) -> tuple[SessionSummary, ...]:
        """Return living sessions, by id."""
        return await self._look(lambda rows: reads.list_sessions(rows, after, limit))

    async def fork(
        self, session_id: str, new_id: str, *, at: int | None = None, now_ms: int = 0
    ) -> SessionView:
        """Begin a session that shares the history of another. Copies nothing."""
        self._doorman.check_names(session_id, new_id)
        await self._do(
            lambda rows, again: forks.fork(
                rows, rows.session(session_id), new_id, at, now_ms, again=bool(again)
            ),
            new_id,
        ).durable()
        return await self.load_session(new_id)

    async def delete_session(self, session_id: str, *, now_ms: int) -> DeleteReport:
        """Remove a session's payload and what it alone refers to; its id stays as a tombstone."""
        self._doorman.check_names(session_id)
        done = await self._do(
            lambda rows, earlier: reclaim.delete_session(rows, session_id, now_ms, earlier)
        ).durable()
        await self._remove_files(done.blobs)
        await asyncio.to_thread(self._scrub)
        return cast("DeleteReport", done.report)

    async def due(
        self, now_ms: int, *, agents: Sequence[str] | None = None, limit: int = 100
    ) -> Due:
        """Return what there is to do: turns to drive or to end, waits that are over, inboxes with something in."""
        return await self._look(lambda rows: due.due(rows, now_ms, agents, limit, self._is_gone))

    # ---------------------------------------------------------------- inbox

    async def enqueue(self, session_id: str, item: NewItem, *, now_ms: int = 0) -> InboxReceipt:
        """Keep an item, once."""
        self._doorman.check_names(session_id, item.item_id)

        def apply(rows: Rows, earlier: InboxReceipt | None) -> InboxReceipt:
            receipt = inbox.enqueue(rows, rows.session(session_id), item, self._doorman, now_ms)
            return earlier if earlier is not None and receipt.known else receipt

        return await self._do(apply, session_id).durable()

    async def inbox(self, session_id: str) -> InboxView:
        """Return what waits to enter a session."""
        self._doorman.check_names(session_id)
        return await self._look(lambda rows: reads.load_inbox(rows, session_id))

    async def take_inbox(
        self, session_id: str, turn_id: str, *, generation: int, limit: int = 64
    ) -> tuple[InboxItem, ...]:
        """Take what waits for now into a turn; and again what it took before."""
        self._doorman.check_names(session_id, turn_id)

        def apply(rows: Rows, _: object) -> tuple[InboxItem, ...]:
            session = rows.session(session_id)
            turn = rows.turn(session, turn_id)
            units.check_fence(session, turn, generation)
            return inbox.take(rows, turn, limit)

        return await self._do(apply, session_id).durable()

    async def withdraw(self, session_id: str, item_id: str) -> WithdrawReceipt:
        """Take an item back that nobody has taken."""
        self._doorman.check_names(session_id, item_id)
        return await self._do(
            lambda rows, earlier: inbox.withdraw(
                rows, rows.session(session_id), item_id, again=earlier is not None
            ),
            session_id,
        ).durable()

    # ---------------------------------------------------------------- waits

    async def read_wait(self, session_id: str, turn_id: str, key: str) -> WaitView:  # noqa: ARG002 - the key says it all here
        """Return a wait that is there."""
        view = await self._look(lambda rows: waits.find(rows.db, key))
        assert view is not None  # noqa: S101 - opened a moment ago
        return view

    async def resolve_wait(self, key: str, answer: WaitAnswer) -> WaitReceipt:
        """Answer a wait. The first answer stands."""
        return await self._do(
            lambda rows, earlier: waits.resolve(
                rows, key, answer, self._doorman, again=earlier is not None
            )
        ).durable()

    async def list_waits(
        self,
        *,
        kind: str | None = None,
        session_id: str | None = None,
        turn_id: str | None = None,
        key: str | None = None,
        limit: int = 1000,
    ) -> tuple[WaitView, ...]:
        """Return the open waits, oldest first."""
        check_place(session_id, turn_id)
        return await self._look(
            lambda rows: waits.list_open(
                rows.db, kind=kind, session=session_id, turn=turn_id, key=key, limit=limit
            )
        )

    # ---------------------------------------------------------------- bytes

    async def put_blob(self, data: bytes, *, now_ms: int) -> str:
        """Keep bytes and return their digest. They stay while something refers to them."""
        self._check_process()
        if not isinstance(data, bytes):
            raise InvalidInput(f"data: found {type(data).__name__}, wanted bytes", field="data")
        self._doorman.check_blob(data)
        digest = sha256(data).hexdigest()
        row: bytes | None = data
        if len(data) > blobs.MAX_ROW_BYTES:
            await asyncio.to_thread(self._write_file, digest, data)
            row = None
        await self._do(
            lambda rows, _: blobs.keep(rows, self._blobs, digest, len(data), row, now_ms)
        ).durable()
        return digest

    async def get_blob(self, digest: str) -> bytes:
        """Return the bytes of a digest."""
        row = await self._look(lambda rows: blobs.find(rows.db, digest))
        return row if row is not None else await asyncio.to_thread(self._read_file, digest)

    async def vacuum(self, *, now_ms: int, retention_ms: int) -> VacuumReport:
        """Reclaim what nothing refers to and journals of turns that ended longer ago than that.

        Step by step: whoever writes meanwhile waits for one step, and a lease is renewed between two.
        """
        old = await self._look(lambda rows: reclaim.find_old(rows, now_ms, retention_ms))
        reports: list[VacuumReport] = []
        for at in range(0, len(old.turns), _STEP):
            turns_now = old.turns[at : at + _STEP]
            reports.append(await self._reclaim(turns_now, now_ms - retention_ms))
        done = await self._do(
            lambda rows, _: reclaim.reclaim_rest(
                rows, old.blobs, now_ms, retention_ms, self._is_gone
            )
        ).durable()
        for worker_id in done.workers:
            worker_lock.sweep(self._worker_folder, worker_id)
        await self._remove_files(done.blobs)
        await self._do(lambda rows, _: blobs.sweep(rows, self._blobs, now_ms)).durable()
        return reclaim.summed((*reports, cast("VacuumReport", done.report)))

    # ---------------------------------------------------------------- inside

    def _do(
        self,
        apply: Callable[[Rows, A | None], A],
        session_id: str | None = None,
        after: Operation[Any] | None = None,
    ) -> Operation[A]:
        if self._pid != os.getpid():
            self._check_process()
        return self._writer.hand_in(apply, session_id=session_id, after=after)

    def _glance(self, look: Callable[[Rows], A]) -> A:
        self._check_process()
        try:
            return self._readers.glance(look)
        except (apsw.Error, OSError) as error:
            raise as_windlass_error(error, place=self.path.name) from error

    async def _look(self, look: Callable[[Rows], A]) -> A:
        self._check_process()
        try:
            return await self._readers.read(look)
        except (apsw.Error, OSError) as error:
            raise as_windlass_error(error, place=self.path.name) from error

    def _check_process(self) -> None:
        if self._pid is None:
            raise StoreUnavailable(f"{self.path.name}: the store is not open")
        if self._pid != os.getpid():
            raise ConfigError(
                f"{self.path.name}: was opened before this process was forked; open a store in the child",
                field="store",
            )

    def _connect(self, *, create: bool = False) -> apsw.Connection:
        if not create:
            self._file.check()
        return connection.connect(
            self.path, vfs=self._vfs, synchronous=self._synchronous, create=create
        )

    def _open_file(self) -> apsw.Connection:
        place = self.path.name
        db = None
        try:
            db = self._connect(create=True)
            self._file.learn()
            connection.prepare(db, place=place)
            self.store_id = connection.read_meta(db, "store_id", place=place).decode()
            self.secret = connection.read_meta(db, "secret", place=place)
        except BaseException as error:
            if db is not None:
                with suppress(apsw.Error):
                    db.close()
            if isinstance(error, (apsw.Error, OSError)):
                raise as_windlass_error(error, place=place) from error
            raise
        return db

    def _close_file(self) -> None:
        self._readers.close()
        self._writer.close()

    def _is_gone(self, worker_id: str) -> bool:
        return worker_lock.is_gone(self._worker_folder, worker_id)

    def _read_file(self, digest: str) -> bytes:
        try:
            return self._blobs.read(digest)
        except OSError as error:
            raise as_windlass_error(error, place=self._blobs.folder.name) from error

    async def _reclaim(self, old: Sequence[int], before_ms: int) -> VacuumReport:
        return await self._do(
            lambda rows, _: reclaim.reclaim_journals(rows, old, before_ms)
        ).durable()

    def _write_file(self, digest: str, data: bytes) -> None:
        try:
            self._blobs.write(digest, data)
        except OSError as error:
            raise as_windlass_error(error, place=self._blobs.folder.name) from error

    async def _remove_files(self, digests: Sequence[str]) -> None:
        if digests:
            await self._do(
                lambda rows, _: blobs.remove_unnamed(rows, self._blobs, digests)
            ).durable()

    def _scrub(self) -> None:
        # Best effort: while somebody reads, the log keeps what they may still want to see.
        with suppress(apsw.Error, OSError):
            db = self._connect()
            try:
                connection.scrub_log(db)
            finally:
                db.close()

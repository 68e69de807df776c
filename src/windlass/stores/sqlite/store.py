"""One SQLite file as a store. Writes go through one writer, reads have connections of their own.

Each method checks names and calls a function of the module of its noun: `function(rows, ...)`, inside the writer's
transaction or on a reader's connection.

Length: the port has these methods.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from os import getpid
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, cast

import apsw

from windlass import ports
from windlass.errors import ConfigError, InvalidInput, StoreUnavailable
from windlass.guards.secret import REGISTERED
from windlass.journal import HistoryPage
from windlass.ports.unit import CHAT
from windlass.ports.waits import check_turn_in_session
from windlass.stores.bell import Bell
from windlass.stores.errands import check_alone
from windlass.stores.rules import WantedTurns, blob_digest, check_forked, check_kept
from windlass.stores.sqlite import (
    blobs,
    connection,
    due,
    inbox,
    leases,
    listing,
    news,
    reads,
    reclaim,
    turns,
    units,
    waits,
)
from windlass.stores.sqlite.connection import as_windlass_error
from windlass.stores.sqlite.errands import encode, names_in, run_alone
from windlass.stores.sqlite.files import FileIdentity
from windlass.stores.sqlite.leases import WorkerLock
from windlass.stores.sqlite.pages import Encoder, SplitPage
from windlass.stores.sqlite.read_only import NoWriter, ReadOnlyFile, refusal
from windlass.stores.sqlite.readers import FileVersion, Readers
from windlass.stores.sqlite.writer import Operation, Writer

A = TypeVar("A")
Durability: TypeAlias = Literal["power", "process"]

# FULL waits for the disk at every commit. NORMAL does not: what was answered outlives the process, not the power.
SYNCHRONOUS = {"power": "FULL", "process": "NORMAL"}


class SqliteStore:
    """Everything in one file.

    `durability="process"` trades power cuts for speed; `busy_s` is how long a write waits for other processes
    before it says StoreContended. No registered secret reaches the file. `read_only` opens a file that is there, writes
    nothing to it, and refuses all that would.
    """

    is_durable = True
    scan_s: float = 0.25

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Durability = "power",
        busy_s: float = 30.0,
        vfs: str | None = None,
        read_only: bool = False,
    ) -> None:
        if durability not in SYNCHRONOUS:
            raise ConfigError.at("durability", repr(durability), "power or process")
        self.path = Path(path).absolute()
        self.store_id = ""
        self.secret = b""
        self._synchronous = SYNCHRONOUS[durability]
        self._vfs = vfs
        self._encoder = Encoder()
        self._blobs = blobs.BlobFolder(self.path)
        self._worker_folder = self.path.with_name(f"{self.path.name}-workers")
        self._locks: dict[str, WorkerLock] = {}
        self._file = FileIdentity(self.path)
        opened = (self.path.name, self._connect, self._file)
        self._writer = (NoWriter if read_only else Writer)(*opened, busy_s=busy_s)
        self._readers = Readers(*opened)
        self._read_only = ReadOnlyFile(self.path, self._file, vfs=vfs) if read_only else None
        version = FileVersion(self._connect, self._file)
        self._bell = Bell(version.read, version.let_go)
        self._pid: int | None = None
        self._was_opened = False

    async def open(self) -> None:
        """Open the file, making it if it is new and not only to be read.

        Raises:
            ConfigError: the file is another program's, or SQLite too old to be trusted; or there is none to be read.
            FormatUnsupported: the file is of a newer release.
            StoreUnavailable: it cannot be opened or written.
        """
        connection.check_release()
        name = self.path.name
        if self._was_opened:
            raise ConfigError(f"{name}: this store was opened before; make another", field="store")
        if not self.path.parent.is_dir():
            said = f"path: the folder of {name} does not exist; make it first"
            raise ConfigError(said, field="path")
        if self._read_only is not None:
            await asyncio.to_thread(self._open_to_read, self._read_only)
        else:
            self._writer.open(await asyncio.to_thread(self._open_file))
        self._pid = getpid()
        self._was_opened = True

    async def close(self) -> None:
        """Write what is waiting, give up the workers' sessions, and let go of the file.

        If this is cancelled, it raises at once, and the file is closed in the background.

        Raises:
            StoreError: the workers could not be signed off. Threads, locks and files are released all the same.
        """
        if self._pid is None:
            return
        self._check_process()
        # From the last line up, and each whatever became of those before.
        async with AsyncExitStack() as ending:
            ending.push_async_callback(self._close_in_thread)
            ending.callback(setattr, self, "_pid", None)
            for worker_id in tuple(self._locks):
                ending.push_async_callback(self.leave, worker_id)
            self._bell.close()

    # ---------------------------------------------------------------- noticing

    def watch(self, tell: Callable[[], None]) -> Callable[[], None]:
        """Call `tell` on the loop, soon, whenever something may have been written; return what ends that."""
        self._check_process()
        return self._bell.watch(tell)

    async def changes(
        self, mark: str | None, *, limit: int = 256, pages: bool = False
    ) -> ports.Changes:
        """Return what was written behind a mark, in order; of None, the mark of this moment."""
        self._check_process()
        found = self._readers.glance(news.glance, (mark, self.store_id))
        if found is None:
            found = await self._look(news.read, mark, self.store_id, limit, pages)
        return found

    # ---------------------------------------------------------------- workers

    async def join(self, *, until_ms: int, now_ms: int) -> str:  # noqa: ARG002 - a store with a clock of its own needs it
        """Register a worker, and hold its lock while this process lives."""
        self._check_writable()
        try:
            lock = WorkerLock.take(self._worker_folder, beside=self.path)
        except OSError as error:
            raise as_windlass_error(error, place=self._worker_folder.name) from error
        try:
            await self._do(leases.join, lock.worker_id, until_ms).durable()
        except BaseException:
            lock.release()
            raise
        self._locks[lock.worker_id] = lock
        return lock.worker_id

    async def leave(self, worker_id: str) -> None:
        """Give up a worker's sessions. Ends no turn.

        The lock is released even if the disk refuses to write that: other workers then see a worker that is gone.
        """
        try:
            await self._do(leases.leave, worker_id).durable()
        finally:
            lock = self._locks.pop(worker_id, None)
            if lock is not None:
                lock.release()

    def renew(self, worker_id: str, *, until_ms: int) -> Operation[None]:
        """Hold on to all sessions of a worker until then. May be called from any thread."""
        self._encoder.check_names(worker_id)
        return self._do(leases.renew, worker_id, until_ms)

    async def is_present(self, worker_id: str, *, now_ms: int) -> bool:
        """Return whether a worker has joined, its process lives, and its lease is not over."""
        self._encoder.check_names(worker_id)
        return await self._look(leases.is_present, worker_id, now_ms, self._is_gone)

    async def list_workers(self, *, now_ms: int) -> tuple[ports.WorkerView, ...]:
        """Return the workers that have joined, by id."""
        return await self._look(listing.list_workers, now_ms, self._is_gone)

    async def release(self, session_id: str, *, generation: int) -> None:
        """Give up one session."""
        await self._do_in((session_id,), leases.release, generation).durable()

    async def take_over(
        self, session_id: str, turn_id: str, *, worker_id: str, until_ms: int, now_ms: int
    ) -> ports.Lease:
        """Own the session of an unfinished turn whose worker is gone."""
        self._encoder.check_names(worker_id)
        wanted = ports.Start(worker_id=worker_id, until_ms=until_ms, now_ms=now_ms)
        names = (session_id, turn_id)
        return await self._do_in(names, leases.take_over, wanted, self._is_gone).durable()

    async def claim(  # noqa: PLR0913 - the port's
        self,
        worker_id: str,
        *,
        agents: Sequence[str],
        limit: int,
        until_ms: int,
        now_ms: int,
        session_id: str | None = None,
        but: Collection[str] = (),
        known: Mapping[str, int] | None = None,
    ) -> tuple[ports.ClaimedTurn, ...]:
        """Take turns of these agents that no worker drives, each under a new generation."""
        self._encoder.check_names(worker_id)
        start = ports.Start(worker_id=worker_id, until_ms=until_ms, now_ms=now_ms)
        wanted = WantedTurns(start, agents, limit, session_id, but, known or {})
        return await self._do(due.claim, wanted, self._is_gone).durable()

    # ---------------------------------------------------------------- turns

    def submit(
        self, unit: ports.Unit, *, after: ports.Ticket[ports.UnitReceipt] | None = None
    ) -> Operation[ports.UnitReceipt]:
        """Hand in a unit; it is refused if the one that it comes after is."""
        encoder = self._encoder
        if REGISTERED.secrets:
            encoder.check_names(unit.session_id, unit.turn_id, *units.names_in(unit))
        if self._pid != getpid():
            self._check_process()
        # Encoded here, so that the transaction holds up the others no longer than it has to.
        page = encoder.journal_page(unit) if unit.entries else None
        request = None if unit.accept is None else encoder.request_page(unit.accept)
        if unit.errands or type(page) is bytes:
            return self._submit_rare(unit, page, request, after)
        return self._writer.hand_in(
            units.apply_unit,
            (unit, page, request, encoder, self._is_gone),
            unit.session_id,
            after,  # type: ignore[arg-type]  # its own
        )

    def _submit_rare(
        self,
        unit: ports.Unit,
        page: SplitPage | bytes | None,
        request: SplitPage | None,
        after: ports.Ticket[ports.UnitReceipt] | None,
    ) -> Operation[ports.UnitReceipt]:
        """Hand in a unit that has errands, or is so large that the loop should not write it."""
        args = unit, page, request, self._encoder, self._is_gone
        if type(page) is bytes:
            self._writer.leave_to_thread()
        if unit.errands:
            told = (encode(unit.errands, self._encoder), *args)
            return self._writer.hand_in(units.apply_with_errands, told, unit.session_id, after)  # type: ignore[arg-type]  # its own
        return self._writer.hand_in(units.apply_large, args, unit.session_id, after)  # type: ignore[arg-type]  # its own

    async def run_errands(
        self, errands: Sequence[ports.Errand], *, now_ms: int
    ) -> tuple[ports.ErrandReceipt, ...]:
        """Run errands for a caller that has no turn: all of them or none, each once."""
        check_alone(errands)
        self._encoder.check_names(*names_in(errands))
        wanted = (tuple(errands), encode(errands, self._encoder), self._encoder, now_ms)
        return await self._do(run_alone, *wanted).durable()

    async def accept(self, session_id: str, turn_id: str, turn: ports.NewTurn) -> ports.TurnReceipt:
        """Accept a turn; the session is made if it is new."""
        receipt = await self.submit(ports.Unit.accepting(session_id, turn_id, turn)).durable()
        return cast("ports.TurnReceipt", receipt.accepted)

    async def request_cancel(
        self,
        session_id: str,
        turn_id: str,
        *,
        reason: str = "",
        now_ms: int = 0,  # noqa: ARG002 - the port's
    ) -> ports.CancelReceipt:
        """Mark a turn as cancelled: nothing is claimed in it any more."""
        said = self._encoder.words(reason)
        return await self._do_in((session_id, turn_id), turns.request_cancel, said).durable()

    async def load_turn(
        self, session_id: str, turn_id: str, *, since: int = 0
    ) -> ports.TurnView | None:
        """Return a turn as it stands; None if there is none of this id."""
        self._encoder.check_names(session_id, turn_id)
        self._check_process()
        asked = (session_id, turn_id, since)
        found = self._readers.glance(reads.glance_at_turn, asked)
        return await self._look(reads.load_turn, *asked) if found == reads.LONG else found

    async def load_session(
        self, session_id: str, *, history: bool = True, frame: bool = False
    ) -> ports.SessionView:
        """Return a session, with its history, or its last frame, unless that is not wanted."""
        self._encoder.check_names(session_id)
        wanted: reads.Wanted = ("frame" if frame else "whole") if history else "none"
        self._check_process()
        found = self._readers.glance(reads.glance_at_session, (session_id, wanted))
        if found is not None:
            return found
        return await self._look(reads.load_session, session_id, wanted)

    async def load_history(
        self,
        session_id: str,
        *,
        before: int | None = None,
        limit: int | None = None,
        frame: bool = False,
    ) -> tuple[HistoryPage, ...]:
        """Return the last pages of a session's history before one of its turns, oldest first."""
        self._encoder.check_names(session_id)
        wanted: reads.Wanted = "frame" if frame else "whole"
        return await self._look(reads.load_history, session_id, before, limit, wanted)

    async def list_sessions(  # noqa: PLR0913 - the port's
        self,
        *,
        after: str = "",
        limit: int = 100,
        agent: str | None = None,
        kind: ports.SessionKind | None = CHAT,
        started_by: str | None = None,
        root: str | None = None,
        label: str | None = None,
    ) -> tuple[ports.SessionSummary, ...]:
        """Return living sessions, by id."""
        wanted = {"agent": agent, "kind": kind, "started_by": started_by}
        wanted |= {"root": root, "label": label}
        return await self._look(listing.list_sessions, {"after": after, "limit": limit} | wanted)

    async def list_turns(
        self,
        *,
        state: ports.TurnState | None = None,
        agent: str | None = None,
        session_id: str | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> tuple[ports.TurnSummary, ...]:
        """Return turns, the newest first."""
        wanted = listing.WantedTurns(state, agent, session_id, before, limit)
        return await self._look(listing.list_turns, wanted)

    async def fork(
        self,
        session_id: str,
        new_id: str,
        *,
        at: int | None = None,
        now_ms: int = 0,
        page: HistoryPage | None = None,
        blobs: Sequence[str] = (),
    ) -> ports.SessionView:
        """Begin a session that shares the history of another. Copies nothing."""
        self._encoder.check_names(session_id, new_id)
        check_forked(page)
        own = None if page is None else turns.OwnPage(self._encoder.page(page), tuple(blobs))
        await self._do(turns.fork, session_id, new_id, at, now_ms, own).durable()
        return await self.load_session(new_id)

    async def import_session(
        self, session: ports.ImportedSession, *, now_ms: int
    ) -> ports.SessionView:
        """Make a session with the history that it had elsewhere: all of it or nothing."""
        encoder = self._encoder
        names = [turn.page.turn_id for turn in session.turns]
        encoder.check_names(session.session_id, session.agent, *names)
        pages = [encoder.page(turn.page) for turn in session.turns]
        await self._do(turns.import_session, session, pages, now_ms).durable()
        return await self.load_session(session.session_id)

    async def delete_session(self, session_id: str, *, now_ms: int) -> ports.DeleteReport:
        """Remove a session's payload and what it alone refers to; its id stays as a tombstone."""
        self._encoder.check_names(session_id)
        done = await self._do(reclaim.delete_session, session_id, now_ms).durable()
        await self._remove_files(done.blobs)
        await asyncio.to_thread(reclaim.scrub, self._connect)
        return cast("ports.DeleteReport", done.report)

    async def due(
        self,
        now_ms: int,
        *,
        agents: Sequence[str] | None = None,
        worker_id: str | None = None,
        limit: int = 100,
    ) -> ports.Due:
        """Return what there is to do: turns to drive or to end, waits that are over, inboxes with something in."""
        asked = due.Asked(now_ms, agents, worker_id, limit, self._is_gone)
        return await self._look(due.due, asked)

    # ---------------------------------------------------------------- inbox

    async def enqueue(
        self, session_id: str, item: ports.NewItem, *, now_ms: int = 0
    ) -> ports.InboxReceipt:
        """Keep an item, once."""
        self._encoder.check_names(item.item_id)
        wanted = (item, self._encoder, now_ms)
        return await self._do_in((session_id,), inbox.enqueue_in, *wanted).durable()

    async def inbox(self, session_id: str) -> ports.InboxView:
        """Return what waits to enter a session."""
        self._encoder.check_names(session_id)
        return await self._look(reads.load_inbox, session_id)

    async def take_inbox(
        self, session_id: str, turn_id: str, *, generation: int, limit: int = 64
    ) -> tuple[ports.InboxItem, ...]:
        """Take what waits for now into a turn; and again what it took before."""
        return await self._do_in((session_id, turn_id), inbox.take, generation, limit).durable()

    async def withdraw(self, session_id: str, item_id: str) -> ports.WithdrawReceipt:
        """Take an item back that no turn has taken."""
        return await self._do_in((session_id, item_id), inbox.withdraw).durable()

    # ---------------------------------------------------------------- waits

    async def resolve_wait(self, key: str, answer: ports.WaitAnswer) -> ports.WaitReceipt:
        """Answer a wait. The first answer stands."""
        return await self._do(waits.resolve, key, answer, self._encoder).durable()

    async def list_waits(
        self,
        *,
        kind: str | None = None,
        session_id: str | None = None,
        turn_id: str | None = None,
        key: str | None = None,
        after: str | None = None,
        limit: int = 1000,
    ) -> tuple[ports.WaitView, ...]:
        """Return the open waits, oldest first."""
        check_turn_in_session(session_id, turn_id)
        wanted = {"kind": kind, "session": session_id, "turn": turn_id, "key": key, "after": after}
        return await self._look(waits.list_open, {**wanted, "limit": limit})

    # ---------------------------------------------------------------- bytes

    async def put_blob(self, data: bytes, *, now_ms: int) -> str:
        """Keep bytes and return their digest. They stay while something refers to them."""
        self._check_writable()
        if not isinstance(data, bytes):
            raise InvalidInput.at("data", type(data).__name__, "bytes")
        row: bytes | None = data
        if len(data) > blobs.MAX_ROW_BYTES:
            digest = await asyncio.to_thread(blob_digest, data)
            await asyncio.to_thread(self._with_files, self._blobs.write, digest, data)
            row = None
        else:
            digest = blob_digest(data)
        await self._do(blobs.keep, self._blobs, digest, len(data), row, now_ms).durable()
        return digest

    async def get_blob(self, digest: str) -> bytes:
        """Return the bytes of a digest."""
        row = await self._look(blobs.find, digest)
        if row is not None:
            return row
        return await asyncio.to_thread(self._with_files, self._blobs.read, digest)

    async def vacuum(
        self,
        *,
        now_ms: int,
        retention_ms: int,
        compact: bool = False,
        keep_ms: Mapping[ports.SessionKind, int] | None = None,
    ) -> ports.VacuumReport:
        """Reclaim what nothing refers to, journals of turns that ended longer ago than that, and old sessions.

        Step by step: other writes wait for one step, and a lease is renewed between two. Only to compact the file, which
        gives its free pages back to the file system, is one step: others wait while what is in use is copied. That is
        done where it takes a moment and frees more than it copies; and whenever `compact` is wanted.
        """
        check_kept(keep_ms or {})
        times = reclaim.Times(now_ms, retention_ms, dict(keep_ms or {}))
        done = await reclaim.reclaim_in_steps(self._look, self._do, times, self._is_gone)
        for worker_id in done.workers:
            leases.sweep(self._worker_folder, worker_id)
        await self._remove_files(done.blobs)
        await self._do(blobs.sweep, self._blobs, now_ms).durable()
        place = self.path.name
        freed = await asyncio.to_thread(reclaim.give_back, self._connect, place, is_wanted=compact)
        report = cast("ports.VacuumReport", done.report)
        return reclaim.summed((report, ports.VacuumReport(freed_bytes=freed)))

    # ---------------------------------------------------------------- inside

    def _do(self, apply: Callable[..., A], *args: Any) -> Operation[A]:
        """Hand in a write: `apply(rows, *args)` inside the writer's transaction."""
        self._check_process()
        return self._writer.hand_in(apply, args)

    def _do_in(self, names: tuple[str, ...], apply: Callable[..., A], *args: Any) -> Operation[A]:
        """Hand in a write to the session that is named first; a refusal makes the writer forget no other."""
        self._encoder.check_names(*names)
        self._check_process()
        return self._writer.hand_in(apply, (*names, *args), names[0])

    async def _look(self, look: Callable[..., A], *args: Any) -> A:
        """Look at the file: `look(rows, *args)` on a reader's connection."""
        self._check_process()
        return await self._readers.read(look, args)

    def _check_process(self) -> None:
        if self._pid is None:
            raise StoreUnavailable(f"{self.path.name}: the store is not open")
        if self._pid != getpid():
            raise ConfigError(
                f"{self.path.name}: was opened before this process was forked; open a store in the child",
                field="store",
            )

    def _check_writable(self) -> None:
        self._check_process()
        if self._read_only is not None:
            raise refusal(self.path.name)

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
            self.store_id, self.secret = connection.read_identity(db, place=place)
        except BaseException as error:
            if db is not None:
                with suppress(apsw.Error):
                    db.close()
            if isinstance(error, (apsw.Error, OSError)):
                raise as_windlass_error(error, place=place) from error
            raise
        return db

    def _open_to_read(self, file: ReadOnlyFile) -> None:
        try:
            found, readers = file.open()
        except (apsw.Error, OSError) as error:
            raise as_windlass_error(error, place=self.path.name) from error
        self.store_id, self.secret = found.store_id, found.secret
        self._readers = readers
        self._bell = Bell(file.version_now, file.version.let_go)

    async def _close_in_thread(self) -> None:
        # Without the shield, a cancel would also withdraw the call if no thread had begun it yet.
        loop = asyncio.get_running_loop()
        await asyncio.shield(loop.run_in_executor(None, self._close_file))

    def _close_file(self) -> None:
        self._readers.close()
        self._writer.close()
        if self._read_only is not None:
            self._read_only.close()

    def _is_gone(self, worker_id: str) -> bool:
        return leases.is_gone(self._worker_folder, worker_id)

    def _with_files(self, act: Callable[..., A], *args: Any) -> A:
        try:
            return act(*args)
        except OSError as error:
            raise as_windlass_error(error, place=self._blobs.folder.name) from error

    async def _remove_files(self, digests: Sequence[str]) -> None:
        if digests:
            await self._do(blobs.remove_unnamed, self._blobs, digests).durable()

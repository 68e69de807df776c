"""The store itself: the port's methods, each a call into the file of its noun."""

from __future__ import annotations

import asyncio
from asyncio import get_running_loop
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from secrets import token_bytes, token_hex
from typing import Generic, TypeVar, cast

from windlass import ports
from windlass.errors import InvalidInput, WindlassError
from windlass.guards.text import LARGE
from windlass.journal import HistoryPage
from windlass.ports.unit import CHAT
from windlass.ports.waits import check_turn_in_session
from windlass.stores.bell import Bell
from windlass.stores.memory import due, inbox, leases, news, sessions, units, waits
from windlass.stores.memory.errands import run_alone
from windlass.stores.memory.leases import Workers
from windlass.stores.memory.rows import BlobRow, Changes, PageRow, Tables
from windlass.stores.rules import (
    WantedTurns,
    blob_digest,
    check_enqueues,
    check_forked,
    lease_lost,
)

R = TypeVar("R")
Line = TypeVar("Line", ports.SessionSummary, ports.TurnSummary)


class Settled(Generic[R]):
    """A ticket whose end was known as it was given out."""

    __slots__ = ("_receipt", "_refusal")

    def __init__(self, receipt: R, refusal: BaseException | None = None) -> None:
        self._receipt = receipt
        self._refusal = refusal

    @property
    def is_settled(self) -> bool:
        return True

    @property
    def refusal(self) -> BaseException | None:
        return self._refusal

    @property
    def receipt(self) -> R | None:
        return None if self._refusal is not None else self._receipt

    def settle_now(self) -> bool:
        """Say that it is settled."""
        return True

    def when_settled(self, tell: Callable[[], None]) -> None:
        """Call `tell` on the loop, soon."""
        get_running_loop().call_soon(tell)

    async def durable(self) -> R:
        """Return the receipt, or raise why there is none."""
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)
        return self._receipt


class MemoryStore:
    """Rows in this process. Nothing survives it: `is_durable` is False.

    For tests, and for turns that need not outlive the process. Every law of the port holds but the fourth, which
    has nothing to stand on here.
    """

    is_durable = False
    scan_s: float = 0.25

    def __init__(self, *, store_id: str | None = None, secret: bytes | None = None) -> None:
        self.store_id = store_id if store_id is not None else f"memory-{token_hex(8)}"
        self.secret = secret if secret is not None else token_bytes(32)
        self._tables = Tables()
        self._workers = Workers()
        # How often something was written, or tried to be.
        self._writes = 0
        self._bell = Bell(lambda: self._writes)

    async def open(self) -> None: ...

    async def close(self) -> None:
        self._bell.close()

    # ---------------------------------------------------------------- noticing

    def watch(self, tell: Callable[[], None]) -> Callable[[], None]:
        return self._bell.watch(tell)

    async def changes(
        self, mark: str | None, *, limit: int = 256, pages: bool = False
    ) -> ports.Changes:
        return news.read(self._tables, self.store_id, mark, limit=limit, pages=pages)

    # ---------------------------------------------------------------- workers

    async def join(self, *, until_ms: int, now_ms: int) -> str:  # noqa: ARG002  # the port's
        self._writes += 1
        worker_id = self._workers.join(until_ms)
        news.tell(self._tables, "joined", Changes(), worker_id=worker_id)
        return worker_id

    async def leave(self, worker_id: str) -> None:
        self._writes += 1
        for session in self._tables.live_sessions():
            if session.owner == worker_id:
                session.owner = None
        if self._workers.leave(worker_id):
            news.tell(self._tables, "left", Changes(), worker_id=worker_id)

    def kill_worker(self, worker_id: str) -> None:
        """For tests: let the worker's process be dead, as if it had been killed."""
        self._workers.kill(worker_id)

    def renew(self, worker_id: str, *, until_ms: int) -> ports.Ticket[None]:
        self._writes += 1
        try:
            self._workers.extend(worker_id, until_ms)
        except WindlassError as refusal:
            return Settled(None, refusal)
        return Settled(None)

    async def is_present(self, worker_id: str, *, now_ms: int) -> bool:
        return self._workers.is_present(worker_id, now_ms)

    async def list_workers(self, *, now_ms: int) -> tuple[ports.WorkerView, ...]:
        return self._workers.view(now_ms)

    async def release(self, session_id: str, *, generation: int) -> None:
        self._writes += 1
        session = self._tables.session(session_id)
        if session.generation != generation:
            raise lease_lost(session, generation)
        session.owner = None

    async def take_over(
        self, session_id: str, turn_id: str, *, worker_id: str, until_ms: int, now_ms: int
    ) -> ports.Lease:
        self._writes += 1
        turn = self._tables.session(session_id).turn(turn_id)
        wanted = ports.Start(worker_id=worker_id, until_ms=until_ms, now_ms=now_ms)
        return leases.take_over(self._workers, turn, wanted)

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
        self._writes += 1
        start = ports.Start(worker_id=worker_id, until_ms=until_ms, now_ms=now_ms)
        wanted = WantedTurns(start, agents, limit, session_id, but, known or {})
        return due.claim(self._tables, self._workers, wanted)

    # ---------------------------------------------------------------- turns

    def submit(
        self, unit: ports.Unit, *, after: ports.Ticket[ports.UnitReceipt] | None = None
    ) -> ports.Ticket[ports.UnitReceipt]:
        self._writes += 1
        if after is not None and after.refusal is not None:
            return Settled(ports.UnitReceipt(), after.refusal)
        try:
            return Settled(units.apply(self._tables, self._workers, unit))
        except WindlassError as refusal:
            return Settled(ports.UnitReceipt(), refusal)

    async def run_errands(
        self, errands: Sequence[ports.Errand], *, now_ms: int
    ) -> tuple[ports.ErrandReceipt, ...]:
        self._writes += 1
        return run_alone(self._tables, errands, now_ms=now_ms)

    async def accept(self, session_id: str, turn_id: str, turn: ports.NewTurn) -> ports.TurnReceipt:
        receipt = await self.submit(ports.Unit.accepting(session_id, turn_id, turn)).durable()
        return cast("ports.TurnReceipt", receipt.accepted)

    async def request_cancel(
        self,
        session_id: str,
        turn_id: str,
        *,
        reason: str = "",
        now_ms: int = 0,  # noqa: ARG002  # the port's
    ) -> ports.CancelReceipt:
        self._writes += 1
        turn = self._tables.find_turn(session_id, turn_id)
        return waits.cancel(self._tables, turn, reason, Changes())

    async def load_turn(
        self, session_id: str, turn_id: str, *, since: int = 0
    ) -> ports.TurnView | None:
        if session_id not in self._tables.sessions:
            return None
        turn = self._tables.session(session_id).turns.get(turn_id)
        return None if turn is None else sessions.view_turn(turn, since)

    async def load_session(
        self, session_id: str, *, history: bool = True, frame: bool = False
    ) -> ports.SessionView:
        return sessions.view(self._tables.session(session_id), history=history, frame=frame)

    async def load_history(
        self,
        session_id: str,
        *,
        before: int | None = None,
        limit: int | None = None,
        frame: bool = False,
    ) -> tuple[HistoryPage, ...]:
        session = self._tables.session(session_id)
        return sessions.part_of_history(session, before=before, limit=limit, frame=frame)

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
        wanted = {"agent": agent, "kind": kind, "started_by": started_by}
        wanted |= {"root": root, "label": label}
        lines = (sessions.summary(row) for row in self._tables.live_sessions() if row.id > after)
        found = sorted(_as_wanted(lines, wanted), key=attrgetter("session_id"))
        return tuple(found[:limit])

    async def list_turns(
        self,
        *,
        state: ports.TurnState | None = None,
        agent: str | None = None,
        session_id: str | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> tuple[ports.TurnSummary, ...]:
        wanted = {"state": state, "agent": agent, "session_id": session_id}
        rows = (turn for row in self._tables.live_sessions() for turn in row.turns.values())
        lines = map(sessions.turn_summary, rows)
        found = (one for one in _as_wanted(lines, wanted) if before is None or one.no < before)
        return tuple(sorted(found, key=attrgetter("no"), reverse=True)[:limit])

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
        check_forked(page)
        self._writes += 1
        own = None if page is None else PageRow(page, tuple(blobs))
        forked = sessions.fork(self._tables, session_id, new_id, at=at, now_ms=now_ms, own=own)
        return sessions.view(forked, history=True)

    async def import_session(
        self,
        session: ports.ImportedSession,
        *,
        now_ms: int,  # noqa: ARG002 - the port's
    ) -> ports.SessionView:
        """Make a session with the history that it had elsewhere: all of it or nothing."""
        self._writes += 1
        return sessions.view(sessions.import_session(self._tables, session), history=True)

    async def delete_session(self, session_id: str, *, now_ms: int) -> ports.DeleteReport:
        self._writes += 1
        return sessions.delete(self._tables, session_id, now_ms=now_ms)

    async def due(
        self,
        now_ms: int,
        *,
        agents: Sequence[str] | None = None,
        worker_id: str | None = None,
        limit: int = 100,
    ) -> ports.Due:
        asked = due.Asked(now_ms, agents, worker_id, limit)
        return due.due(self._tables, self._workers, asked)

    # ---------------------------------------------------------------- inbox

    async def enqueue(
        self, session_id: str, item: ports.NewItem, *, now_ms: int = 0
    ) -> ports.InboxReceipt:
        self._writes += 1
        session = self._tables.session(session_id)
        check_enqueues(session, item)
        return inbox.put(self._tables, session, item, Changes(), now_ms=now_ms)

    async def inbox(self, session_id: str) -> ports.InboxView:
        return inbox.view(self._tables.session(session_id))

    async def take_inbox(
        self, session_id: str, turn_id: str, *, generation: int, limit: int = 64
    ) -> tuple[ports.InboxItem, ...]:
        self._writes += 1
        turn = self._tables.session(session_id).turn(turn_id)
        return inbox.take(turn, generation=generation, limit=limit)

    async def withdraw(self, session_id: str, item_id: str) -> ports.WithdrawReceipt:
        self._writes += 1
        return inbox.withdraw(self._tables.session(session_id), item_id)

    # ---------------------------------------------------------------- waits

    async def resolve_wait(self, key: str, answer: ports.WaitAnswer) -> ports.WaitReceipt:
        self._writes += 1
        return waits.resolve(self._tables, key, answer)

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
        check_turn_in_session(session_id, turn_id)
        wanted = {"kind": kind, "session_id": session_id, "turn_id": turn_id, "key": key}
        return tuple(islice(waits.open_waits(self._tables, wanted, after), limit))

    # ---------------------------------------------------------------- bytes

    async def put_blob(self, data: bytes, *, now_ms: int) -> str:
        self._writes += 1
        large = len(data) > LARGE
        digest = await asyncio.to_thread(blob_digest, data) if large else blob_digest(data)
        known = self._tables.blobs.get(digest)
        put_ms = now_ms if known is None else max(known.put_ms, now_ms)
        self._tables.blobs[digest] = BlobRow(bytes(data), put_ms)
        return digest

    async def get_blob(self, digest: str) -> bytes:
        blob = self._tables.blobs.get(digest)
        if blob is None:
            raise InvalidInput(
                "digest: there is no blob of this digest in this store", field="digest"
            )
        return blob.data

    async def vacuum(
        self,
        *,
        now_ms: int,
        retention_ms: int,
        compact: bool = False,  # noqa: ARG002 - there is no file
        keep_ms: Mapping[ports.SessionKind, int] | None = None,
    ) -> ports.VacuumReport:
        self._writes += 1
        return sessions.vacuum(
            self._tables,
            self._workers,
            now_ms=now_ms,
            retention_ms=retention_ms,
            keep_ms=keep_ms or {},
        )


def _as_wanted(lines: Iterable[Line], wanted: Mapping[str, str | None]) -> Iterator[Line]:
    """Return the lines of a list whose fields are as wanted, where something is."""
    told = [(name, value) for name, value in wanted.items() if value is not None]
    for line in lines:
        if all(getattr(line, name) == value for name, value in told):
            yield line

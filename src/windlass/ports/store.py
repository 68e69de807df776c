"""The store: where rows live. One port, one suite (`windlass.testing.conformance`) for all of them.

Law 1. A unit is seen whole or not at all, by every reader.
Law 2. Units of one turn become durable in the order in which they were handed in. One that is refused takes all
    that were handed in after it along, and none of another turn.
Law 3. Nothing is written under a generation older than the session's.
Law 4. What was answered as durable is there after any crash.
Law 5. Handing in the same thing again gives the same answer and changes nothing; another thing under the same
    name is refused.
Law 6. A refusal changes nothing.
Law 7. Time and worker are told, never looked up: `now_ms` comes from the caller.
Law 8. An errand takes effect with its unit or not at all, and once. What it finds gone, it leaves; the unit lands.
Law 9. Turns and items of a session arrive in one order. A queued turn begins when nothing stands before it, turn or item.
    Only a turn that is accepted as it begins goes before what has not begun.
Law 10. A caller that asks on from a mark misses nothing that was written behind it. A bell that does not ring costs time only.

Length: one Protocol, and what each of its calls promises.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from windlass.journal import HistoryPage
from windlass.ports.inbox import InboxItem, InboxReceipt, NewItem
from windlass.ports.ticket import Ticket
from windlass.ports.unit import (
    CHAT,
    Errand,
    ErrandReceipt,
    ImportedSession,
    Lease,
    NewTurn,
    SessionKind,
    TurnReceipt,
    TurnState,
    Unit,
    UnitReceipt,
)
from windlass.ports.views import (
    CancelReceipt,
    Changes,
    ClaimedTurn,
    DeleteReport,
    Due,
    InboxView,
    SessionSummary,
    SessionView,
    TurnSummary,
    TurnView,
    VacuumReport,
    WithdrawReceipt,
    WorkerView,
)
from windlass.ports.waits import WaitAnswer, WaitReceipt, WaitView


class Store(Protocol):
    """Where rows live."""

    store_id: str
    secret: bytes
    """What wait keys are made with. It is of the store: a key made by one store opens nothing in another."""
    is_durable: bool
    scan_s: float
    """For how many seconds at the most a worker may go without looking for work."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    # ---------------------------------------------------------------- noticing

    def watch(self, tell: Callable[[], None]) -> Callable[[], None]:
        """Call `tell` on the loop, soon, whenever something may have been written; return what ends that.

        A bell, best effort: it may ring for nothing and for several writes at once, and does so once soon after it was
        asked for, so that nothing falls between a mark and the bell. It rings for what other processes write and for
        what this store writes. While nothing watches, it costs nothing. It does not ring after `close`.
        """
        ...

    async def changes(self, mark: str | None, *, limit: int = 256, pages: bool = False) -> Changes:
        """Return what was written behind a mark, in order; of None, the mark of this moment.

        `pages` brings the pages of journals along, as those who follow them want. What was reclaimed or deleted since is
        left out. A page or a wait that cannot be read is told without it: its turn says why when it is loaded.

        Raises:
            InvalidInput: no mark of this store.
        """
        ...

    # ---------------------------------------------------------------- workers

    async def join(self, *, until_ms: int, now_ms: int) -> str:
        """Register a worker and return its id.

        While its process lives, no other worker takes its sessions before its lease is over; once it is dead,
        any worker may at once.
        """
        ...

    async def leave(self, worker_id: str) -> None:
        """Give up a worker's sessions, so that others need not wait. Ends no turn."""
        ...

    def renew(self, worker_id: str, *, until_ms: int) -> Ticket[None]:
        """Hold on to all sessions of a worker until then. May be called from any thread."""
        ...

    async def is_present(self, worker_id: str, *, now_ms: int) -> bool:
        """Return whether a worker of that id has joined, its process lives, and its lease is not over.

        Of an unknown id it is False. Whether a process lives is told as well as the store can tell.
        """
        ...

    async def release(self, session_id: str, *, generation: int) -> None:
        """Give up one session."""
        ...

    async def take_over(
        self, session_id: str, turn_id: str, *, worker_id: str, until_ms: int, now_ms: int
    ) -> Lease:
        """Own the session of an unfinished turn whose worker is gone, under a new generation.

        Only takeovers of a running turn are counted: a worker died over it. A turn that is parked or ready goes on
        because of an answer: its count begins anew.

        Raises:
            LeaseLost: its worker is alive and its lease not over.
        """
        ...

    async def claim(  # noqa: PLR0913 - each says which turns are taken, or for how long
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
    ) -> tuple[ClaimedTurn, ...]:
        """Take turns of these agents that nobody drives, each under a new generation; of one session, if it is named.

        `but` are sessions to leave out; `known` are those whose history the worker has, by head: if the head is still the
        same, they come without it.

        The oldest first, and of a session the one that comes next. No turn is given to two workers; what another is just taking is passed over, not waited for. So
        is a turn that cannot be read: it keeps no other from being given. A takeover counts as in `take_over`.

        Raises:
            InvalidInput: the worker has not joined.
            JournalCorrupt, FormatUnsupported: the turn of the session that is named cannot be read.
        """
        ...

    async def list_workers(self, *, now_ms: int) -> tuple[WorkerView, ...]:
        """Return the workers that have joined, by id."""
        ...

    # ---------------------------------------------------------------- turns

    def submit(
        self, unit: Unit, *, after: Ticket[UnitReceipt] | None = None
    ) -> Ticket[UnitReceipt]:
        """Hand in a unit; it is refused if the one that it comes `after` is.

        It is written once its ticket is asked for (`settle_now`, `when_settled`, `durable`), with all that was handed
        in before it. A start takes the session's own generation if the worker has it already, the next one if the
        session is free.

        Raises, from its ticket:
            LeaseLost: another worker has the session.
            HeadMoved: another turn of the session is under way, or something that arrived earlier waits and the unit does
                not accept its turn; the unit's position is not the next; the session's head is not the one that a
                commit expects.
            IdempotencyConflict: another unit is at its position; the turn was committed with other content; a wait
                or an approval is known otherwise.
            TurnCancelled: it claims something in a turn that was cancelled, or ends it otherwise.
        """
        ...

    async def run_errands(
        self, errands: Sequence[Errand], *, now_ms: int
    ) -> tuple[ErrandReceipt, ...]:
        """Run errands for a caller that has no turn, in one transaction: all of them or none, each once.

        A session that they make is at the top of a tree of its own, unless the errand names a `parent`. Receipts come in the order of the errands.

        Raises:
            InvalidInput: an errand with `rejects`, which is about the turn of a unit; or with `most` and no `parent`.
        """
        ...

    async def accept(self, session_id: str, turn_id: str, turn: NewTurn) -> TurnReceipt:
        """Accept a turn; the session is made if it is new: a `chat`.

        A new turn takes the items that enter with it, under no generation yet. A known one takes nothing more.

        Raises:
            Forbidden: the session is not a `chat`, and the turn takes no item: only errands begin turns there.
            IdempotencyConflict: the turn is known with another request; or an item that it is to take is taken by
                another turn, settled or withdrawn.
            InvalidInput: there is no such item.
            SessionDeleted: its id is not used again.
        """
        ...

    async def request_cancel(
        self, session_id: str, turn_id: str, *, reason: str = "", now_ms: int = 0
    ) -> CancelReceipt:
        """Mark a turn as cancelled: nothing is claimed in it any more.

        One that is queued stays so; the worker that starts it ends it.
        """
        ...

    async def load_turn(self, session_id: str, turn_id: str, *, since: int = 0) -> TurnView | None:
        """Return a turn, with its journal from page number `since` on; None if there is none, or no such session.

        Raises:
            SessionDeleted: there was such a session.
        """
        ...

    async def load_session(
        self, session_id: str, *, history: bool = True, frame: bool = False
    ) -> SessionView:
        """Return a session, with its history unless that is not wanted.

        `frame` leaves out what its next turn does not need: all before the last page that is a beginning.

        Raises:
            UnknownSession: there is none.
            SessionDeleted: there was.
        """
        ...

    async def load_history(
        self,
        session_id: str,
        *,
        before: int | None = None,
        limit: int | None = None,
        frame: bool = False,
    ) -> tuple[HistoryPage, ...]:
        """Return pages of a session's history, oldest first: the last `limit` of those before its `before`-th turn.

        The first turn is number 1. `frame` leaves out all before the last page among them that is a beginning.

        Raises:
            UnknownSession, SessionDeleted: there is none, or no more.
        """
        ...

    async def list_sessions(  # noqa: PLR0913 - each says which sessions are listed
        self,
        *,
        after: str = "",
        limit: int = 100,
        agent: str | None = None,
        kind: SessionKind | None = CHAT,
        started_by: str | None = None,
        root: str | None = None,
        label: str | None = None,
    ) -> tuple[SessionSummary, ...]:
        """Return living sessions, by id; None for a kind means every kind."""
        ...

    async def list_turns(
        self,
        *,
        state: TurnState | None = None,
        agent: str | None = None,
        session_id: str | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> tuple[TurnSummary, ...]:
        """Return turns of living sessions, the newest first: those before the one of number `before`."""
        ...

    async def fork(
        self,
        session_id: str,
        new_id: str,
        *,
        at: int | None = None,
        now_ms: int = 0,
        page: HistoryPage | None = None,
        blobs: Sequence[str] = (),
    ) -> SessionView:
        """Begin a session that shares the history of another up to its `at`-th turn. Copies nothing.

        `page` comes behind what is shared, as the new session's own first page and in the same transaction: a part of
        the turn that follows there. It names that turn in `forked`. `blobs` are the digests that it refers to.

        Raises:
            InvalidInput: the session has no such turn; the page does not say where it comes from, or has usage of its own;
                a blob was never put.
            IdempotencyConflict: there is a session of the new id.
        """
        ...

    async def import_session(self, session: ImportedSession, *, now_ms: int) -> SessionView:
        """Make a session with the history that it had elsewhere, a `chat`: all of it or nothing.

        Its turns are known and have ended; they have no journals. What they used is in their pages, and does not count
        as used here. No watcher is told of them: they did not happen here.

        Raises:
            IdempotencyConflict: there is a session of this id with another history.
            SessionDeleted: there was; its id is not used again.
            InvalidInput: a page refers to bytes that this store does not have.
        """
        ...

    async def delete_session(self, session_id: str, *, now_ms: int) -> DeleteReport:
        """Remove a session's payload and what it alone refers to; its id stays as a tombstone.

        What it began goes with it, and what those began; only a `chat` stays, with all below it.

        Raises:
            HeadMoved: one of them has an unfinished turn.
        """
        ...

    async def due(
        self,
        now_ms: int,
        *,
        agents: Sequence[str] | None = None,
        worker_id: str | None = None,
        limit: int = 100,
    ) -> Due:
        """Return what there is to do: turns to drive or to end, waits whose time is over, inboxes with something in.

        `agents` leaves out turns of other agents, and inboxes of sessions of other agents: neither are they read. But
        queued turns of any agent are there if their session is this worker's: it may have to make way. `limit` is for
        each list.
        """
        ...

    # ---------------------------------------------------------------- inbox

    async def enqueue(self, session_id: str, item: NewItem, *, now_ms: int = 0) -> InboxReceipt:
        """Keep an item, once.

        Raises:
            Forbidden: the session is not a `chat`: only errands post items there. Or it is a signal: only errands post those.
            IdempotencyConflict: the item was already given with other content.
        """
        ...

    async def inbox(self, session_id: str) -> InboxView: ...

    async def take_inbox(
        self, session_id: str, turn_id: str, *, generation: int, limit: int = 64
    ) -> tuple[InboxItem, ...]:
        """Take what waits for `now` into a turn, in order of arrival; and again what it took before."""
        ...

    async def withdraw(self, session_id: str, item_id: str) -> WithdrawReceipt: ...

    # ---------------------------------------------------------------- waits

    async def resolve_wait(self, key: str, answer: WaitAnswer) -> WaitReceipt:
        """Answer a wait. The first answer stands.

        Raises:
            InvalidInput: there is no such wait.
            Forbidden: its kind is answered by something else: `child` by an errand, `timer` by its time.
        """
        ...

    async def list_waits(
        self,
        *,
        kind: str | None = None,
        session_id: str | None = None,
        turn_id: str | None = None,
        key: str | None = None,
        after: str | None = None,
        limit: int = 1000,
    ) -> tuple[WaitView, ...]:
        """Return the open waits, oldest first: those behind the one whose key is `after`.

        Raises:
            InvalidInput: a turn without its session; turn ids are of their session. Or no wait has the key `after`.
        """
        ...

    # ---------------------------------------------------------------- bytes

    async def put_blob(self, data: bytes, *, now_ms: int) -> str:
        """Keep bytes and return their digest. They stay while something refers to them."""
        ...

    async def get_blob(self, digest: str) -> bytes: ...

    async def vacuum(
        self,
        *,
        now_ms: int,
        retention_ms: int,
        compact: bool = False,
        keep_ms: Mapping[SessionKind, int] | None = None,
    ) -> VacuumReport:
        """Reclaim what nothing refers to and journals of turns that ended longer ago than that.

        `compact` gives all free space back to the file system, although others may have to wait for that.

        `keep_ms` says how long sessions are kept after their last turn has ended, by kind. One that is older is deleted, as
        by `delete_session`, if no item is to enter it, and if nothing below it is left but chats. A `child` stays while the
        journal of the turn that began it does. Kinds that are not named are kept, and so are chats.

        Raises:
            InvalidInput: `keep_ms` names `chat`, or a time that is not a count of milliseconds.
        """
        ...

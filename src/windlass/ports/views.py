"""What a store shows: sessions, turns, workers, what is due, and what has changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

from windlass.errors import JournalCorrupt, WindlassError
from windlass.journal import HistoryPage, JournalPage, TurnJournal, UsageLine
from windlass.kernel import Outcome, Value
from windlass.ports.inbox import InboxItem
from windlass.ports.unit import CHAT, CommitReceipt, Lease, SessionKind, TurnRequest, TurnState
from windlass.ports.waits import Wait, WaitView

NO_PAGES: Final = 2**31
"""The page to begin at, for a reader of a turn that wants none of its journal: such a look is short."""


class SessionView(Value, kw_only=True):
    """A session as it stands. `head` counts its committed turns; `active` is the one under way.

    `queued` are the turns that wait to begin, in order of arrival, and `waiting` says how many items of its inbox are to
    enter; signals are not.
    `parent` is what it was forked from; `started_by` is the session whose errand made it, and `root` the one at the top
    of that tree.
    """

    session_id: str
    agent: str
    created_ms: int
    head: int
    generation: int
    owner: str | None = None
    active: str | None = None
    queued: tuple[str, ...] = ()
    waiting: int = 0
    usage: tuple[UsageLine, ...] = ()
    parent: str | None = None
    parent_head: int | None = None
    pages: tuple[HistoryPage, ...] = ()
    kind: SessionKind = CHAT
    started_by: str | None = None
    root: str | None = None
    label: str | None = None


class TurnView(Value, kw_only=True):
    """A turn as it stands, with its journal while that is kept; `page` is what it added, once it is done.

    `since` is the number of the first page that was asked for: 0 gives the journal whole.
    """

    session_id: str
    turn_id: str
    agent: str
    state: TurnState
    request: TurnRequest | None
    request_digest: str
    turn_index: int | None = None
    generation: int = 0
    owner: str | None = None
    takeovers: int = 0
    cancel: str | None = None
    submitter: str | None = None
    by: str | None = None
    pages: tuple[JournalPage, ...] = ()
    waits: tuple[WaitView, ...] = ()
    outcome: Outcome | None = None
    receipt: CommitReceipt | None = None
    page: HistoryPage | None = None
    since: int = 0

    @property
    def is_reclaimed(self) -> bool:
        """Whether it ended so long ago that its journal is gone."""
        return self.request is None

    def journal(self) -> TurnJournal:
        """Return its journal, folded."""
        return fold_journal(self.pages, place=f"journal of {self.session_id}/{self.turn_id}")


def fold_journal(pages: Iterable[JournalPage], *, place: str) -> TurnJournal:
    """Return the journal that pages of a store make up.

    Raises:
        JournalCorrupt: they contradict each other. Each was planned before it was written, so none can.
    """
    journal = TurnJournal()
    for number, page in enumerate(pages):
        try:
            journal.absorb(journal.plan(page.entries, generation=page.generation))
        except WindlassError as error:
            where = f"{place}, page {number}"
            raise JournalCorrupt(f"{where}: {error}", field=where) from None
    return journal


class SessionSummary(Value, kw_only=True):
    """One line in a list of sessions."""

    session_id: str
    agent: str
    created_ms: int
    head: int
    active: str | None = None
    kind: SessionKind = CHAT
    started_by: str | None = None
    root: str | None = None
    label: str | None = None


class TurnSummary(Value, kw_only=True):
    """One line in a list of turns. `no` orders all turns of a store by their acceptance; `by` is who asked for it."""

    no: int
    session_id: str
    turn_id: str
    agent: str
    state: TurnState
    by: str | None = None
    cancel: str | None = None
    owner: str | None = None
    ended_ms: int | None = None


class WorkerView(Value, kw_only=True):
    """A worker that has joined. `is_present`: its process lives, and its lease is not over."""

    worker_id: str
    until_ms: int
    is_present: bool


class ClaimedTurn(Value, kw_only=True):
    """A turn that a worker has just been given: the lease, the turn, and its session with the last frame."""

    lease: Lease
    turn: TurnView
    session: SessionView


ChangeKind: TypeAlias = Literal[
    "accepted", "page", "ended", "opened", "answered", "parked", "cancelled", "arrived", "deleted", "joined", "left",
]  # fmt: skip


class Change(Value, kw_only=True):
    """One thing that was written, in the order in which it was.

    A turn was accepted, a page was added to its journal (number `position`), it ended, it parked, it is to be
    cancelled; a wait of it was opened or answered; an item arrived in the inbox of a session; a session was deleted, and
    of what was written in it before nothing else is told any more; a worker came or went.
    """

    kind: ChangeKind
    session_id: str = ""
    turn_id: str = ""
    position: int = 0
    page: JournalPage | None = None
    wait: Wait | None = None
    worker_id: str = ""


class Changes(Value, kw_only=True):
    """What was written behind a mark, and the mark to go on from. `has_more`: there is more to read already."""

    mark: str
    changes: tuple[Change, ...] = ()
    has_more: bool = False

    @property
    def sessions(self) -> tuple[str, ...]:
        """The sessions that were touched, each once."""
        return tuple(dict.fromkeys(one.session_id for one in self.changes if one.session_id))


class DueTurn(Value, kw_only=True):
    """A turn that a worker should drive. `owner` is the worker that has its session, alive or not.

    A `queued` one comes next: no turn and no item of its session that arrived earlier is left.
    """

    session_id: str
    turn_id: str
    agent: str
    why: Literal["queued", "abandoned", "answered"]
    owner: str | None = None


class DueWait(Value, kw_only=True):
    """A wait whose time is over."""

    key: str
    kind: str
    session_id: str
    turn_id: str
    expires_ms: int


class DueCancel(Value, kw_only=True):
    """A running turn that is to end as cancelled; `owner` may not have heard of it yet."""

    session_id: str
    turn_id: str
    agent: str
    owner: str | None = None


class DueInbox(Value, kw_only=True):
    """A session with items that no turn has taken, and that is not parked: nothing enters a turn that waits.

    But a turn that waits for nothing but children or a time is woken by an item for now. Where no turn is under way, the
    first item comes next: a turn that was accepted earlier begins first, and the item may enter that one.

    `agent` is the session's; `active` the turn under way; `now`: one of the items is for now; `first` is the
    oldest of them.
    """

    session_id: str
    agent: str
    active: str | None
    now: bool
    first: InboxItem


class Due(Value, kw_only=True):
    """What there is to do, each list oldest first."""

    turns: tuple[DueTurn, ...] = ()
    waits: tuple[DueWait, ...] = ()
    cancels: tuple[DueCancel, ...] = ()
    inboxes: tuple[DueInbox, ...] = ()


class CancelReceipt(Value, kw_only=True):
    """What became of a request to cancel. First writer wins against the turn's own end."""

    status: Literal["requested", "already", "finished", "unknown"]


class WithdrawReceipt(Value, kw_only=True):
    """What became of a request to take an item back."""

    status: Literal["withdrawn", "already", "taken", "settled", "unknown"]


class VacuumReport(Value, kw_only=True):
    """What was reclaimed.

    `freed_bytes` is what the store gave back to the file system. `reopened` are turns that were parked and waited for
    nothing, because their wait was lost: they are due again, and open it anew. `sessions` are those that ended longer ago
    than their kind is kept.
    """

    journals: int = 0
    waits: int = 0
    items: int = 0
    bodies: int = 0
    workers: int = 0
    freed_bytes: int = 0
    reopened: int = 0
    sessions: int = 0


class DeleteReport(Value, kw_only=True):
    """What a session's end removed."""

    session_id: str
    pages: int = 0
    bodies: int = 0


class InboxView(Value, kw_only=True):
    """What waits in a session: turns that were accepted, and items, each in order of arrival.

    Among the items are signals that no turn has asked for; those enter nothing.
    """

    queued_turns: tuple[str, ...] = ()
    items: tuple[InboxItem, ...] = ()

"""Rows: what the memory store keeps. They change in place and never leave the package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from windlass.journal import HistoryPage, JournalPage, UsageLine
from windlass.kernel import canonical
from windlass.ports import (
    ChangeKind,
    InboxItem,
    ItemState,
    SessionKind,
    TurnRequest,
    TurnState,
    WaitView,
    When,
)
from windlass.ports.inbox import ASKED
from windlass.ports.unit import CHAT
from windlass.stores import rules


@dataclass(slots=True)
class ItemRow:
    """An item of an inbox as it stands; `no` orders the items of the store."""

    item: InboxItem
    digest: str
    no: int
    enqueued_ms: int

    @property
    def state(self) -> ItemState:
        """Whether it waits, and if not, what became of it."""
        return self.item.state

    @property
    def when(self) -> When:
        """When it is to enter."""
        return self.item.when


@dataclass(slots=True, eq=False)
class TurnRow:
    """A turn with its journal, each page as bytes; `request` is None once both were reclaimed.

    `no` orders the turns of the store, `arrived` turns and items of the session. `answered`: a wait ended since the
    turn was last driven, so that it has something to do when it parks. `end` is the page that it added to its session.
    """

    session: SessionRow = field(repr=False)
    no: int
    id: str
    agent: str
    request: TurnRequest | None
    digest: str
    submitter: str | None
    asked_by: str | None
    arrived: int
    state: TurnState = "queued"
    strand: int | None = None
    takeovers: int = 0
    takeover_mark: int = 0
    cancel: str | None = None
    answered: bool = False
    journal: list[bytes] = field(default_factory=list)
    blobs: dict[str, None] = field(default_factory=dict)
    waits: dict[str, WaitView] = field(default_factory=dict)
    end: HistoryPage | None = None
    head: int = 0
    commit_digest: str = ""

    @property
    def pages(self) -> int:
        """How many pages its journal has."""
        return len(self.journal)

    def read_pages(self) -> tuple[JournalPage, ...]:
        """Return the pages of the journal."""
        return tuple(canonical.read(page, JournalPage) for page in self.journal)


@dataclass(slots=True)
class PageRow:
    """A page of history and the blobs that it refers to."""

    page: HistoryPage
    blobs: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class SessionRow:
    """A session; once deleted, a tombstone that keeps the pages which forks of it share.

    `unfinished` are its turns that have not ended, in order of arrival: of those only the first can have begun.
    `open_items` are the items that wait or are taken, in order of arrival; the others are kept until they are reclaimed.
    `started_by` is the session whose errand made it, in its turn `started_in`; `root` is the one at the top of that tree.
    """

    id: str
    agent: str
    created_ms: int
    deleted_ms: int | None = None
    head: int = 0
    generation: int = 0
    owner: str | None = None
    arrivals: int = 0
    parent: SessionRow | None = None
    parent_head: int | None = None
    kind: SessionKind = CHAT
    started_by: SessionRow | None = None
    started_in: TurnRow | None = None
    root: SessionRow | None = None
    label: str | None = None
    usage: tuple[UsageLine, ...] = ()
    pages: list[PageRow] = field(default_factory=list)
    turns: dict[str, TurnRow] = field(default_factory=dict)
    unfinished: dict[str, TurnRow] = field(default_factory=dict)
    items: dict[str, ItemRow] = field(default_factory=dict)
    open_items: dict[str, ItemRow] = field(default_factory=dict)

    @property
    def inherited(self) -> int:
        """How many pages of history are those of other sessions."""
        return self.parent_head or 0

    @property
    def next_turn(self) -> TurnRow | None:
        """The first turn that has not ended."""
        return next(iter(self.unfinished.values()), None)

    @property
    def pending(self) -> list[ItemRow]:
        """The items that are to enter and that no turn has taken, in order of arrival."""
        return [
            row for row in self.open_items.values() if row.state == "pending" and row.when != ASKED
        ]

    def comes_next(self, turn: TurnRow) -> bool:
        """Whether a turn that waits is the first of all that waits to enter."""
        if self.next_turn is not turn:
            return False
        return all(row.item.arrived > turn.arrived for row in self.pending)

    @property
    def active_turn(self) -> TurnRow | None:
        """The turn that it is at."""
        turn = self.next_turn
        return None if turn is None or turn.state == "queued" else turn

    @property
    def active(self) -> int | None:
        """The number of the turn that it is at."""
        turn = self.active_turn
        return None if turn is None else turn.no

    @property
    def active_id(self) -> str | None:
        """The id of the turn that it is at."""
        turn = self.active_turn
        return None if turn is None else turn.id

    @property
    def queued(self) -> tuple[str, ...]:
        """The ids of the turns that wait to begin."""
        return tuple(turn.id for turn in self.unfinished.values() if turn.state == "queued")

    def line_up(self, turn: TurnRow, changes: Changes) -> None:
        """Put a turn into its place among those that have not ended."""
        changes.put(self.unfinished, turn.id, turn)
        in_order = sorted(self.unfinished.items(), key=lambda one: one[1].arrived)
        if in_order[-1][1] is not turn:
            changes.set(self, unfinished=dict(in_order))

    def turn(self, turn_id: str) -> TurnRow:
        """Return a turn that is there."""
        return rules.existing(self.turns.get(turn_id), turn_id)


@dataclass(slots=True)
class BlobRow:
    """Bytes; `put_ms` is when they were last put."""

    data: bytes
    put_ms: int


@dataclass(slots=True)
class ToldRow:
    """Something that changed; `no` orders all changes of the store. `wait` is a key."""

    no: int
    kind: ChangeKind
    session: SessionRow | None = None
    turn: TurnRow | None = None
    position: int = 0
    wait: str | None = None
    worker_id: str = ""


@dataclass(slots=True)
class Tables:
    """All rows of a store. `waits` finds the turn of a wait by its key, the oldest wait first.

    `told` is what changed, in order, and `tellings` how often something did.
    """

    sessions: dict[str, SessionRow] = field(default_factory=dict)
    waits: dict[str, TurnRow] = field(default_factory=dict)
    blobs: dict[str, BlobRow] = field(default_factory=dict)
    told: list[ToldRow] = field(default_factory=list)
    tellings: int = 0
    accepted: int = 0
    enqueued: int = 0

    def session(self, session_id: str) -> SessionRow:
        """Return a session that is there."""
        return rules.living(self.sessions.get(session_id), session_id)

    def find_turn(self, session_id: str, turn_id: str) -> TurnRow | None:
        """Return a turn, if there is one."""
        session = self.sessions.get(session_id)
        return None if session is None else session.turns.get(turn_id)

    def check_blobs(self, digests: Iterable[str]) -> None:
        """Refuse to refer to bytes that are not there.

        Raises:
            InvalidInput: one was never put.
        """
        for digest in digests:
            if digest not in self.blobs:
                raise rules.unknown_blob()

    def live_sessions(self) -> Iterator[SessionRow]:
        """Return the sessions that are not deleted."""
        return (session for session in self.sessions.values() if session.deleted_ms is None)


K = TypeVar("K")
V = TypeVar("V")


class Changes:
    """Changes rows and remembers how to change them back."""

    __slots__ = ("_back", "_last")

    def __init__(self) -> None:
        self._back: list[Callable[[], object]] = []
        self._last: list[Callable[[], object]] = []

    def set(self, row: object, **fields: object) -> None:
        """Set fields of a row."""
        for name, value in fields.items():
            self._back.append(partial(setattr, row, name, getattr(row, name)))
            setattr(row, name, value)

    def put(self, mapping: dict[K, V], key: K, value: V) -> None:
        """Put a value into a dict, under a new key or in place of the one before."""
        if key in mapping:
            self._back.append(partial(mapping.__setitem__, key, mapping[key]))
        else:
            self._back.append(partial(mapping.pop, key))
        mapping[key] = value

    def append(self, items: list[V], value: V) -> None:
        """Put a value at the end of a list."""
        items.append(value)
        self._back.append(items.pop)

    def at_last(self, step: Callable[[], object]) -> None:
        """Do this when nothing can be refused any more."""
        self._last.append(step)

    def adopt(self, others: Changes) -> None:
        """Take over changes that were made apart, behind one's own."""
        self._back += others._back
        self._last += others._last

    def keep(self) -> None:
        """Do what was left for last; from here on nothing is taken back."""
        for step in self._last:
            step()
        self._last.clear()
        self._back.clear()

    def take_back(self) -> None:
        """Leave the rows as they were."""
        for step in reversed(self._back):
            step()
        self._back.clear()
        self._last.clear()

"""Rows: what the memory store keeps. They change in place and never leave the package."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from windlass.errors import InvalidInput, SessionDeleted, UnknownSession
from windlass.journal import HistoryPage, JournalPage, UsageLine
from windlass.kernel import canonical
from windlass.kernel.outcomes import Outcome
from windlass.ports import (
    CommitReceipt,
    InboxItem,
    ItemState,
    NewItem,
    TurnRequest,
    TurnState,
    Wait,
    WaitAnswer,
    WaitState,
    WaitView,
)


@dataclass(slots=True)
class WaitRow:
    """A wait; `opened` orders the waits of the store."""

    wait: Wait
    opened: int
    state: WaitState = "open"
    answer: WaitAnswer | None = None
    consumed: bool = False

    def view(self) -> WaitView:
        return WaitView(
            wait=self.wait, state=self.state, answer=self.answer, consumed=self.consumed
        )


@dataclass(slots=True)
class ItemRow:
    """An item of an inbox; `enqueued` orders the items of the store."""

    item: NewItem
    arrived: int
    enqueued: int
    enqueued_ms: int
    state: ItemState = "pending"
    turn_id: str | None = None
    generation: int | None = None

    def view(self) -> InboxItem:
        return InboxItem(
            item_id=self.item.item_id,
            kind=self.item.kind,
            when=self.item.when,
            content=self.item.content,
            arrived=self.arrived,
            state=self.state,
            turn_id=self.turn_id,
            generation=self.generation,
        )


@dataclass(slots=True)
class TurnRow:
    """A turn with its journal, each page as bytes; `request` is None once both were reclaimed.

    `accepted` orders the turns of the store. `answered`: a wait ended since the turn was last driven, so that it
    has something to do when it parks.
    """

    turn_id: str
    agent: str
    request: TurnRequest | None
    request_digest: str
    submitter: str | None
    by: str | None
    accepted: int
    arrived: int
    state: TurnState = "queued"
    turn_index: int | None = None
    generation: int = 0
    takeovers: int = 0
    recorded_at_takeover: int = 0
    cancel: str | None = None
    answered: bool = False
    pages: list[bytes] = field(default_factory=list)
    blobs: dict[str, None] = field(default_factory=dict)
    waits: dict[str, WaitRow] = field(default_factory=dict)
    outcome: Outcome | None = None
    receipt: CommitReceipt | None = None
    committed_ms: int = 0

    def read_pages(self) -> tuple[JournalPage, ...]:
        """Return the pages of the journal."""
        return tuple(canonical.read(page, JournalPage) for page in self.pages)


@dataclass(slots=True)
class PageRow:
    """A page of history and the blobs that it refers to."""

    page: HistoryPage
    blobs: tuple[str, ...] = ()


@dataclass(slots=True)
class SessionRow:
    """A session; once deleted, a tombstone that keeps the pages which forks of it share."""

    session_id: str
    agent: str
    created_ms: int
    head: int = 0
    generation: int = 0
    owner: str | None = None
    active: str | None = None
    arrivals: int = 0
    is_deleted: bool = False
    parent: SessionRow | None = None
    parent_head: int = 0
    usage: tuple[UsageLine, ...] = ()
    pages: list[PageRow] = field(default_factory=list)
    turns: dict[str, TurnRow] = field(default_factory=dict)
    queue: dict[str, None] = field(default_factory=dict)
    items: dict[str, ItemRow] = field(default_factory=dict)

    def turn(self, turn_id: str) -> TurnRow:
        """Return a turn.

        Raises:
            InvalidInput: there is none.
        """
        turn = self.turns.get(turn_id)
        if turn is None:
            raise InvalidInput(
                f"turn_id: session {self.session_id} has no turn {turn_id}", field="turn_id"
            )
        return turn


@dataclass(slots=True)
class BlobRow:
    """Bytes; `put_ms` is when they were last put."""

    data: bytes
    put_ms: int


@dataclass(slots=True)
class Tables:
    """All rows of a store. `waits` finds a wait's session and turn by its key."""

    sessions: dict[str, SessionRow] = field(default_factory=dict)
    waits: dict[str, tuple[SessionRow, TurnRow]] = field(default_factory=dict)
    blobs: dict[str, BlobRow] = field(default_factory=dict)
    accepted: int = 0
    opened: int = 0
    enqueued: int = 0

    def session(self, session_id: str) -> SessionRow:
        """Return a session.

        Raises:
            UnknownSession: there is none.
            SessionDeleted: there was.
        """
        session = self.sessions.get(session_id)
        if session is None:
            raise UnknownSession(f"session {session_id}: there is none", field="session_id")
        if session.is_deleted:
            raise SessionDeleted(f"session {session_id}: was deleted", field="session_id")
        return session

    def find_session(self, session_id: str) -> SessionRow | None:
        """Return a session, if there is one.

        Raises:
            SessionDeleted: there was.
        """
        return self.session(session_id) if session_id in self.sessions else None

    def find_turn(self, session_id: str, turn_id: str) -> tuple[SessionRow, TurnRow] | None:
        """Return a turn with its session, if there is one."""
        session = self.sessions.get(session_id)
        turn = session.turns.get(turn_id) if session is not None else None
        return None if session is None or turn is None else (session, turn)

    def live_sessions(self) -> Iterator[SessionRow]:
        """Return the sessions that are not deleted."""
        return (session for session in self.sessions.values() if not session.is_deleted)


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

    def add(self, mapping: dict[K, V], key: K, value: V) -> None:
        """Put a new key into a dict."""
        mapping[key] = value
        self._back.append(partial(mapping.pop, key))

    def remove(self, mapping: dict[K, V], key: K) -> None:
        """Take a key out of a dict; taken back, it stands in its old place."""
        before = dict(mapping)
        del mapping[key]

        def back() -> None:
            mapping.clear()
            mapping.update(before)

        self._back.append(back)

    def append(self, items: list[V], value: V) -> None:
        """Put a value at the end of a list."""
        items.append(value)
        self._back.append(items.pop)

    def at_last(self, step: Callable[[], object]) -> None:
        """Do this when nothing can be refused any more."""
        self._last.append(step)

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

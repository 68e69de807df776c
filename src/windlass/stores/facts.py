"""What every store knows of a session and of a turn, however it keeps their rows, and how it shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from windlass.journal import HistoryPage, JournalPage
from windlass.ports import (
    CommitReceipt,
    ItemState,
    SessionKind,
    TurnCommit,
    TurnRequest,
    TurnState,
    WaitView,
    When,
)
from windlass.ports.views import SessionView, TurnView


class SessionFacts(Protocol):
    """A row of a session, whatever the store. `active` is the number of the turn that it is at."""

    id: str
    agent: str
    created_ms: int
    deleted_ms: int | None
    head: int
    generation: int
    owner: str | None
    parent_head: int | None
    kind: SessionKind
    label: str | None

    @property
    def active(self) -> int | None: ...


class TurnFacts(Protocol):
    """A row of a turn, whatever the store. `strand` counts the turns of its session that were begun."""

    no: int
    id: str
    agent: str
    state: TurnState
    digest: str
    submitter: str | None
    asked_by: str | None
    strand: int | None
    cancel: str | None
    takeovers: int
    takeover_mark: int
    head: int
    commit_digest: str

    @property
    def session(self) -> SessionFacts: ...

    @property
    def pages(self) -> int: ...

    @property
    def answered(self) -> object: ...


class ItemFacts(Protocol):
    """A row of an inbox, whatever the store."""

    @property
    def state(self) -> ItemState: ...

    @property
    def when(self) -> When: ...


def history_page(turn: TurnFacts, end: TurnCommit) -> HistoryPage:
    """Return the page that a turn adds to its session's history."""
    return HistoryPage(
        format=HistoryPage.FORMAT,
        turn_id=turn.id,
        nodes=end.nodes,
        outcome=end.outcome,
        usage=end.usage,
        events=end.events,
        committed_ms=end.now_ms,
        prefix=end.prefix,
    )


def receipt_of(turn: TurnFacts) -> CommitReceipt:
    """Return the receipt of a turn that has ended."""
    return CommitReceipt(
        session_id=turn.session.id, turn_id=turn.id, head=turn.head, digest=turn.commit_digest
    )


def session_view(session: SessionFacts, pages: Sequence[HistoryPage], **shown: Any) -> SessionView:
    """Return a session as it stands; `shown` is what its row does not say."""
    return SessionView(
        session_id=session.id,
        agent=session.agent,
        created_ms=session.created_ms,
        head=session.head,
        generation=session.generation,
        owner=session.owner,
        parent_head=session.parent_head,
        kind=session.kind,
        label=session.label,
        pages=tuple(pages),
        **shown,
    )


def turn_view(
    turn: TurnFacts,
    *,
    request: TurnRequest | None,
    pages: Sequence[JournalPage],
    waits: Sequence[WaitView],
    end: HistoryPage | None,
    since: int = 0,
) -> TurnView:
    """Return a turn as it stands; `end` is the page that it added, `since` the number of the first of `pages`."""
    session = turn.session
    is_active = session.active == turn.no
    return TurnView(
        session_id=session.id,
        turn_id=turn.id,
        agent=turn.agent,
        state=turn.state,
        request=request,
        request_digest=turn.digest,
        turn_index=turn.strand,
        generation=session.generation if is_active else 0,
        owner=session.owner if is_active else None,
        takeovers=turn.takeovers,
        cancel=turn.cancel,
        submitter=turn.submitter,
        by=turn.asked_by,
        pages=tuple(pages),
        waits=tuple(waits),
        outcome=None if end is None else end.outcome,
        receipt=None if end is None else receipt_of(turn),
        page=end,
        since=since,
    )

"""Watching: a turn or a session as it goes on, live where it runs here, through the store where it runs elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Self

from windlass.api.nodes import messages_of
from windlass.errors import ConfigError, InvalidInput, UnknownSession
from windlass.folds import TurnFold, history_before
from windlass.kernel import Chain, Event, Message, Outcome, events
from windlass.ports import SessionView, Store, TurnView
from windlass.runtime.reader import FeedReader
from windlass.runtime.turn_record import messages_in

if TYPE_CHECKING:
    from windlass.engines.admission import Admission

_LOOK_S = 0.25


async def turn_view(admission: Admission, session_id: str, turn_id: str) -> TurnView:
    """Return a turn as it stands.

    Raises:
        UnknownSession: there is no such turn.
    """
    engine = admission.engine
    await engine.flush(session_id)
    view = await engine.services.store.load_turn(session_id, turn_id)
    if view is None:
        raise UnknownSession(f"turn {turn_id}: is not known", field="turn_id")
    return view


async def messages_so_far(admission: Admission, view: TurnView) -> tuple[Message, ...]:
    """Return a turn's messages: committed ones, or a view of what its journal holds."""
    if view.page is not None:
        return messages_in(view.page.nodes)
    history = await history_of(admission.services.store, view) if view.pages else None
    return TurnFold.of(view, history).messages


async def history_of(store: Store, view: TurnView) -> Chain[Message]:
    """Return what the frame of a turn held when the turn began."""
    session = await store.load_session(view.session_id, frame=True)
    try:
        return history_before(session, view)
    except InvalidInput:  # it ended in an earlier frame
        return history_before(await store.load_session(view.session_id), view)


async def _next(reader: FeedReader, seconds: float) -> tuple[Event | None, bool]:
    """Return the next event of a feed, or None if none comes in time; and whether the feed was closed."""
    try:
        async with asyncio.timeout(seconds):
            return await anext(reader), False
    except TimeoutError:
        return None, False
    except StopAsyncIteration:
        return None, True


class Observation:
    """A session as it goes on: `async with session.observe(cursor) as seen: async for event in seen`.

    A turn that runs in another process is seen through the store: a fresh view when its journal has grown, and its end.

    committed: the messages of ended turns.
    provisional: the messages of the turn in flight so far.
    has_gap: the feed no longer has what follows the cursor: start from `committed` and `provisional`.
    """

    def __init__(self, admission: Admission, session_id: str, cursor: str | None) -> None:
        self._admission = admission
        self._session_id = session_id
        self._cursor = cursor
        self._reader: FeedReader | None = None
        self._head = 0
        self._seen: tuple[str, int] | None = None
        # Turns whose end was shown since the history was read.
        self._told: set[str] = set()
        self.committed: tuple[Message, ...] = ()
        self.provisional: tuple[Message, ...] = ()
        self.has_gap = False

    async def __aenter__(self) -> Self:
        feed = self._admission.services.feeds.of(self._session_id)
        self._reader = feed.read(self._cursor)
        self.has_gap = self._reader.has_gap
        session = await self._read()
        if session is not None:
            await self._take(session)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._reader is not None:
            self._reader.close()

    @property
    def cursor(self) -> str:
        """Where this observation stands: pass it to `session.observe` to go on from here."""
        return "" if self._reader is None else self._reader.cursor

    async def __aiter__(self) -> AsyncIterator[Event]:
        reader = self._reader
        if reader is None:
            raise ConfigError(
                "Observation: enter it first, `async with session.observe() as seen`",
                field="observe",
            )
        while True:
            shown, is_closed = await _next(reader, _LOOK_S)
            if is_closed:
                return
            if shown is None:
                for event in await self._elsewhere(reader):
                    yield event
                continue
            if isinstance(shown, events.TurnEnded):
                self._told.add(reader.turn_id)
            yield shown

    async def _elsewhere(self, reader: FeedReader) -> list[Event]:
        """Return what the store has of turns that ran in other processes."""
        driving = self._admission.engine.driving
        if self._session_id in driving:
            return []
        seen = self._seen
        session = await self._read()
        if session is None or self._session_id in driving or reader.is_behind:
            return []  # what happened here meanwhile is in the feed, and comes first
        ended = await self._take(session)
        if ended:
            return [events.TurnEnded(outcome=outcome) for outcome in ended]
        if self._seen != seen and self.provisional:
            return [events.Recovered(view=self.provisional)]
        return []

    async def _read(self) -> SessionView | None:
        """Return the session, with its history only if that has grown: this is called several times a second."""
        store = self._admission.services.store
        try:
            session = await store.load_session(self._session_id, history=False)
            if session.head != self._head:
                session = await store.load_session(self._session_id)
        except UnknownSession:
            return None
        return session

    async def _take(self, session: SessionView) -> list[Outcome]:
        """Bring the views up to date; return the outcomes that were not shown here yet."""
        ended: list[Outcome] = []
        if session.head != self._head:
            new = session.pages[self._head :]
            ended = [page.outcome for page in new if page.turn_id not in self._told]
            self._head, self.committed = session.head, messages_of(session)
            self._told.clear()
        await self._look_at(session.active)
        return ended

    async def _look_at(self, active: str | None) -> None:
        store = self._admission.services.store
        turn = None if active is None else await store.load_turn(self._session_id, active)
        seen = None if turn is None else (turn.turn_id, len(turn.pages))
        if seen == self._seen:
            return
        self._seen, self.provisional = seen, ()
        if turn is not None:
            self.provisional = await messages_so_far(self._admission, turn)

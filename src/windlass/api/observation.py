"""Watching a session: what is committed, what is in flight, then events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self

from windlass.api.machinery import Machinery
from windlass.api.node import messages_of
from windlass.errors import ConfigError, UnknownSession
from windlass.kernel import events
from windlass.kernel.events import Event
from windlass.kernel.messages import Message
from windlass.kernel.outcomes import Outcome
from windlass.ports import SessionView
from windlass.runtime.reader import FeedReader

_LOOK_S = 0.25


class Observation:
    """`async with session.observe(cursor) as seen`: `seen.committed`, `seen.provisional`, then events.

    `has_gap`: the cursor could not be gone on from, so that the views are what there is to start from. A turn that runs in
    another process is seen through the store: a fresh view when its journal has grown, and its end.
    """

    def __init__(self, machinery: Machinery, session_id: str, cursor: str | None) -> None:
        self._machinery = machinery
        self._session_id = session_id
        self._cursor = cursor
        self._reader: FeedReader | None = None
        self._head = 0
        self._seen: tuple[str, int] | None = None
        # Turns whose end was told since the history was read.
        self._told: set[str] = set()
        self.committed: tuple[Message, ...] = ()
        self.provisional: tuple[Message, ...] = ()
        self.has_gap = False

    async def __aenter__(self) -> Self:
        feed = self._machinery.services.feeds.of(self._session_id)
        self._reader = feed.read(self._cursor)
        self.has_gap = self._reader.has_gap
        session = await self._read()
        if session is not None:
            await self._take(session)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._reader is not None:
            self._reader.close()

    @property
    def cursor(self) -> str:
        """Where this observation stands."""
        return "" if self._reader is None else self._reader.cursor

    async def __aiter__(self) -> AsyncIterator[Event]:
        reader = self._reader
        if reader is None:
            raise ConfigError(
                "Observation: enter it first, `async with session.observe() as seen`",
                field="observe",
            )
        loop = asyncio.get_running_loop()
        following = loop.create_task(_next(reader))
        try:
            while True:
                await asyncio.wait({following}, timeout=_LOOK_S)
                if not following.done():
                    for event in await self._elsewhere(reader, following):
                        yield event
                    continue
                shown = following.result()
                if shown is None:
                    return
                if isinstance(shown, events.TurnEnded):
                    self._told.add(reader.turn_id)
                following = loop.create_task(_next(reader))
                yield shown
        finally:
            following.cancel()

    async def _elsewhere(self, reader: FeedReader, following: asyncio.Task[Any]) -> list[Event]:
        """Return what the store has to say of turns that ran in other processes."""
        if self._session_id in self._machinery.engine.driving:
            return []
        seen = self._seen
        session = await self._read()
        is_live = self._session_id in self._machinery.engine.driving
        if session is None or is_live or reader.is_behind or following.done():
            return []  # what happened here meanwhile is told by its feed, and first
        ended = await self._take(session)
        if ended:
            return [events.TurnEnded(outcome=outcome) for outcome in ended]
        if self._seen != seen and self.provisional:
            return [events.Recovered(view=self.provisional)]
        return []

    async def _read(self) -> SessionView | None:
        """Return the session; with its history if that has grown.

        It is asked for every moment, mostly in vain, so what is long is read only when it has changed.
        """
        store = self._machinery.services.store
        try:
            session = await store.load_session(self._session_id, history=False)
            if session.head != self._head:
                session = await store.load_session(self._session_id)
        except UnknownSession:
            return None
        return session

    async def _take(self, session: SessionView) -> list[Outcome]:
        """Bring the views up to date; return how the turns ended of which nobody was told here."""
        ended: list[Outcome] = []
        if session.head != self._head:
            new = session.pages[self._head :]
            ended = [page.outcome for page in new if page.turn_id not in self._told]
            self._head, self.committed = session.head, messages_of(session)
            self._told.clear()
        await self._look_at(session.active)
        return ended

    async def _look_at(self, active: str | None) -> None:
        store = self._machinery.services.store
        turn = None if active is None else await store.load_turn(self._session_id, active)
        seen = None if turn is None else (turn.turn_id, len(turn.pages))
        if seen == self._seen:
            return
        self._seen, self.provisional = seen, ()
        if turn is not None:
            self.provisional = await self._machinery.messages_so_far(turn)


async def _next(reader: FeedReader) -> Event | None:
    return await anext(reader, None)

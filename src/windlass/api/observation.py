"""Watching a session: what is committed, what is in flight, then events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self

from windlass.api.machinery import Machinery
from windlass.errors import ConfigError, UnknownSession
from windlass.kernel import events
from windlass.kernel.events import Event
from windlass.kernel.messages import ConversationRecord, Message
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
        self.committed: tuple[Message, ...] = ()
        self.provisional: tuple[Message, ...] = ()
        self.has_gap = False

    async def __aenter__(self) -> Self:
        feed = self._machinery.world.feeds.of(self._session_id)
        self._reader = feed.read(self._cursor)
        self.has_gap = self._reader.has_gap
        await self._look()
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
                    async for event in self._elsewhere():
                        yield event
                    continue
                shown = following.result()
                if shown is None:
                    return
                following = loop.create_task(_next(reader))
                yield shown
        finally:
            following.cancel()

    async def _elsewhere(self) -> AsyncIterator[Event]:
        """Yield what the store has to say of turns that run in other processes."""
        if self._session_id in self._machinery.engine.driving:
            return
        head, seen = self._head, self._seen
        outcomes = await self._look()
        if self._head > head:
            for outcome in outcomes[head - self._head :]:
                yield events.TurnEnded(outcome=outcome)
        elif self._seen != seen and self.provisional:
            yield events.Recovered(view=self.provisional)

    async def _look(self) -> list[Any]:
        world = self._machinery.world
        try:
            view = await world.store.load_session(self._session_id)
        except UnknownSession:
            return []
        self.committed = tuple(
            node.message
            for page in view.pages
            for node in page.nodes
            if isinstance(node, ConversationRecord)
        )
        self._head, self._seen, self.provisional = view.head, None, ()
        if view.active is not None:
            turn = await world.store.load_turn(self._session_id, view.active)
            if turn is not None:
                self._seen = (turn.turn_id, len(turn.pages))
                self.provisional = await self._machinery.messages_so_far(turn)
        return [page.outcome for page in view.pages]


async def _next(reader: FeedReader) -> Event | None:
    return await anext(reader, None)

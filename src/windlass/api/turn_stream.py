"""A turn and its events, together: `async with session.stream(...) as turn`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from types import TracebackType
from typing import Generic, Self, TypeVar

from windlass.api.machinery import Machinery
from windlass.api.turn_events import watch_to_rest
from windlass.api.turn_handle import TurnHandle
from windlass.api.turn_options import EventHandler
from windlass.api.turn_result import TurnResult
from windlass.errors import ConfigError
from windlass.kernel.events import Event
from windlass.runtime.reader import FeedReader

O = TypeVar("O")  # noqa: E741 - the output's type


class TurnStream(Generic[O]):
    """Begins a turn on entry. Leaving ends the watching, never the turn."""

    def __init__(
        self,
        machinery: Machinery,
        session_id: str,
        begin: Callable[[], Awaitable[TurnHandle[O]]],
    ) -> None:
        self._machinery = machinery
        self._session_id = session_id
        self._begin = begin
        self._reader: FeedReader | None = None
        self._handle: TurnHandle[O] | None = None
        self._rested: TurnResult[O] | None = None

    async def __aenter__(self) -> Self:
        feed = self._machinery.services.feeds.of(self._session_id)
        # Opened before the turn begins, so that nothing is missed; a feed that nobody reads may go.
        first = feed.read()
        try:
            self._handle = await self._begin()
            # Without an end of its own: a turn that rests may go on while it is watched.
            self._reader = feed.read(first.cursor, only=self._handle.id)
        finally:
            first.close()
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
    def handle(self) -> TurnHandle[O]:
        """The turn itself."""
        if self._handle is None:
            raise ConfigError(
                "TurnStream: enter it first, `async with session.stream(...) as turn`",
                field="stream",
            )
        return self._handle

    @property
    def id(self) -> str:
        """The turn's id."""
        return self.handle.id

    async def __aiter__(self) -> AsyncGenerator[Event, None]:
        handle, reader = self.handle, self._reader
        assert reader is not None  # noqa: S101 - there is one where there is a handle
        resting = asyncio.get_running_loop().create_task(handle.result())
        try:
            place = (self._session_id, handle.id)
            async for event in watch_to_rest(self._machinery, place, reader, resting):
                yield event
            self._rested = resting.result()
        finally:
            resting.cancel()

    async def hand_to(self, on_event: EventHandler) -> TurnResult[O]:
        """Call a function with each event, one after the other; return what the turn came to.

        Whatever it raises ends the watching and is raised here. The turn goes on.
        """
        async with aclosing(self.__aiter__()) as shown:
            async for event in shown:
                answer = on_event(event)
                if inspect.isawaitable(answer):
                    await answer
        assert self._rested is not None  # noqa: S101 - its events end when it rests
        return self._rested

    async def result(self, timeout: float | None = None) -> TurnResult[O]:  # noqa: ASYNC109 - the public name
        """Wait for the turn, as `TurnHandle.result` does."""
        if self._rested is not None and not self._rested.parked:
            return self._rested
        return await self.handle.result(timeout)

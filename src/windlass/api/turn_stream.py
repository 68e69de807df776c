"""A turn and its events, together: `async with session.stream(...) as turn`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

from windlass.api.machinery import Machinery
from windlass.api.turn_events import watch_turn
from windlass.api.turn_handle import TurnHandle
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

    async def __aenter__(self) -> Self:
        feed = self._machinery.world.feeds.of(self._session_id)
        # Opened before the turn begins, so that nothing is missed.
        cursor = feed.cursor
        self._handle = await self._begin()
        self._reader = feed.read(cursor, until=self._handle.id, only=self._handle.id)
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

    def __aiter__(self) -> AsyncIterator[Event]:
        return watch_turn(
            self._machinery,
            self._session_id,
            self.id,
            reader=self._reader,
        )

    async def result(self, timeout: float | None = None) -> TurnResult[O]:  # noqa: ASYNC109 - the public name
        """Wait for the turn, as `TurnHandle.result` does."""
        return await self.handle.result(timeout)

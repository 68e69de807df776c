"""Watching a turn: events as they happen here, facts as the store has them when it runs elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from windlass.api.machinery import Machinery
from windlass.api.turn_result import TurnResult
from windlass.kernel import events
from windlass.kernel.events import Event
from windlass.runtime.reader import FeedReader
from windlass.runtime.services import Services

_LOOK_S = 0.25
_PAUSE_S = 0.02
_RESTING = ("parked", "done")


async def watch_to_rest(
    machinery: Machinery,
    place: tuple[str, str],
    reader: FeedReader,
    resting: asyncio.Task[TurnResult[Any]],
) -> AsyncIterator[Event]:
    """Yield the events of a turn that was begun here, by session and id, until it ends or rests as `resting` says.

    Whoever drives shows a turn's last event before it tells that the turn rests. So what waits for the reader by then
    is all there is, however slowly it is read.

    Raises:
        WindlassError: the turn could not be driven; what `resting` raises.
    """
    session_id, turn_id = place
    is_over = False
    while not is_over:
        _finish_with(resting, reader)
        async for event in reader:
            yield event
            is_over = is_over or isinstance(event, events.TurnEnded)
        # The feed was closed under the reader: the runtime closes, or made room for other sessions.
        await asyncio.wait({resting}, timeout=_PAUSE_S)
        if resting.done():
            break
        reader = machinery.services.feeds.of(session_id).read(reader.cursor, only=turn_id)
    result = await resting
    if not is_over and result.outcome is not None:
        # It ran in another process, whose events are not seen here.
        yield events.TurnEnded(outcome=result.outcome)


def _finish_with(resting: asyncio.Task[TurnResult[Any]], reader: FeedReader) -> None:
    def finish(task: asyncio.Task[TurnResult[Any]]) -> None:
        reader.finish()
        if not task.cancelled():
            task.exception()  # whoever reads to the end is told; whoever left does not ask

    resting.add_done_callback(finish)


async def watch_turn(
    machinery: Machinery, session_id: str, turn_id: str, cursor: str | None = None
) -> AsyncIterator[Event]:
    """Yield the events of a turn until it ends or rests.

    With a cursor that cannot be gone on from, the first event is a fresh view of the turn.
    """
    services = machinery.services
    reader = services.feeds.of(session_id).read(cursor, until=turn_id, only=turn_id)
    try:
        view = await machinery.view(session_id, turn_id)
        if reader.has_gap:
            yield events.Recovered(view=await machinery.messages_so_far(view))
        async for event in _to_its_rest(machinery, session_id, turn_id, reader):
            yield event
    finally:
        reader.close()


async def _to_its_rest(
    machinery: Machinery, session_id: str, turn_id: str, reader: FeedReader
) -> AsyncIterator[Event]:
    """Yield events until the turn has ended or waits for somebody."""
    services = machinery.services
    while True:
        async for event in _with_store(services, session_id, turn_id, reader):
            yield event
            if isinstance(event, events.TurnEnded):
                return
        view = await machinery.view(session_id, turn_id)
        reader = services.feeds.of(session_id).read(reader.cursor, until=turn_id, only=turn_id)
        if view.state in _RESTING:
            break
        # It was let go of here and goes on: by another worker, or by this one in a moment.
        await asyncio.sleep(_PAUSE_S)
    # The store was faster than the feed: what was shown here meanwhile comes first.
    async for event in _drain(reader):
        yield event
        if isinstance(event, events.TurnEnded):
            return
    if view.outcome is not None:
        yield events.TurnEnded(outcome=view.outcome)


async def _with_store(
    services: Services, session_id: str, turn_id: str, reader: FeedReader
) -> AsyncIterator[Event]:
    """Yield what the feed shows; look into the store now and then, for the turn may run elsewhere."""
    loop = asyncio.get_running_loop()
    following = loop.create_task(_next(reader))
    try:
        while True:
            await asyncio.wait({following}, timeout=_LOOK_S)
            if not following.done():
                if await _rests(services, session_id, turn_id) and not following.done():
                    return
                continue
            event = following.result()
            if event is None:
                return
            following = loop.create_task(_next(reader))
            yield event
    finally:
        following.cancel()


async def _drain(reader: FeedReader) -> AsyncIterator[Event]:
    """Yield what a feed has, without waiting for more than a moment."""
    while True:
        following = asyncio.get_running_loop().create_task(_next(reader))
        await asyncio.wait({following}, timeout=_PAUSE_S)
        if not following.done():
            following.cancel()
            return
        event = following.result()
        if event is None:
            return
        yield event


async def _next(reader: FeedReader) -> Event | None:
    return await anext(reader, None)


async def _rests(services: Services, session_id: str, turn_id: str) -> bool:
    view = await services.store.load_turn(session_id, turn_id)
    return view is not None and view.state in _RESTING

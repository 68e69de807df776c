"""Opening a store that exists, to read it or to answer: no agents, so nothing is driven."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

import msgspec

from windlass import Runtime, Source
from windlass.api.adapters import open_store
from windlass.api.trigger import Subscription
from windlass.cli.settings import Settings, existing_store, has_file, read_settings
from windlass.errors import UnknownSession
from windlass.ports import SessionView, Store, TurnView
from windlass.runtime.system_clock import SystemClock

R = TypeVar("R")
T = TypeVar("T")


def with_runtime(
    store: str | None,
    work: Callable[[Runtime[Any]], Awaitable[T]],
    *,
    triggers: Sequence[Source[Any] | Subscription] = (),
) -> T:
    """Run `work` with a runtime that drives nothing, on the store of a flag or of the settings.

    Args:
        store: The flag.
        work: What to do.
        triggers: Sources that it knows, so that it checks their events.

    Raises:
        ConfigError: the store does not exist.
    """
    settings = read_settings(store=store)
    runtime = Runtime(
        store=existing_store(settings),
        durability=settings.durability,
        triggers=triggers,
        worker=not triggers,
    )
    return asyncio.run(_within(runtime, work))


def with_store(store: str | None, work: Callable[[Store], Awaitable[T]]) -> T:
    """Run `work` with the rows themselves, for commands that show more than a runtime does."""
    return asyncio.run(_within(opened_store(read_settings(store=store)), work))


async def _within(opening: AbstractAsyncContextManager[R], work: Callable[[R], Awaitable[T]]) -> T:
    async with opening as opened:
        return await work(opened)


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A session as it is before this process drives it, and its unfinished turns; `is_owned`: by a living process."""

    session: SessionView
    turns: tuple[TurnView, ...] = ()
    is_owned: bool = False

    @property
    def turn(self) -> TurnView | None:
        """The first of its unfinished turns."""
        return next(iter(self.turns), None)


async def find_session(settings: Settings, session_id: str, *, history: bool) -> Found | None:
    """Return a session of the store; None if it is new."""
    if not has_file(settings):
        return None
    async with opened_store(settings) as rows:
        try:
            session = await rows.load_session(session_id, history=history)
        except UnknownSession:
            return None
        known = (*filter(None, (session.active,)), *session.queued)
        loaded = [await rows.load_turn(session_id, turn_id) for turn_id in known]
        found = Found(session=session, turns=tuple(filter(None, loaded)))
        if found.turn is None or found.turn.owner is None:
            return found
        is_owned = await rows.is_present(found.turn.owner, now_ms=SystemClock().now_ms())
    return msgspec.structs.replace(found, is_owned=is_owned)


@asynccontextmanager
async def opened_store(settings: Settings) -> AsyncIterator[Store]:
    """Open the store of the settings; a file that does not exist is refused."""
    rows = open_store(existing_store(settings), settings.durability)
    await rows.open()
    try:
        yield rows
    finally:
        await rows.close()

"""Opening a store that exists, to read it or to answer: no agents, so nothing is driven."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from windlass import Runtime
from windlass.api.adapters import open_store
from windlass.cli.settings import Settings, existing_store, read_settings
from windlass.ports import SessionView, Store, TurnView
from windlass.runtime.system_clock import SystemClock

T = TypeVar("T")


def with_runtime(store: str | None, work: Callable[[Runtime[Any]], Awaitable[T]]) -> T:
    """Run `work` with a runtime without agents, on the store of a flag or of the settings.

    Raises:
        ConfigError: the store does not exist.
    """
    settings = read_settings(store=store)
    address = existing_store(settings)

    async def run() -> T:
        async with Runtime(store=address, durability=settings.durability) as runtime:
            return await work(runtime)

    return asyncio.run(run())


def with_store(store: str | None, work: Callable[[Store], Awaitable[T]]) -> T:
    """Run `work` with the rows themselves, for commands that show more than a runtime does."""
    settings = read_settings(store=store)

    async def run() -> T:
        async with opened_store(settings) as rows:
            return await work(rows)

    return asyncio.run(run())


async def unfinished_turn(rows: Store, session: SessionView) -> tuple[TurnView | None, bool]:
    """Return the unfinished turn of a session, and whether a living process owns it."""
    turn_id = session.active or next(iter(session.queued), None)
    turn = None if turn_id is None else await rows.load_turn(session.session_id, turn_id)
    if turn is None or turn.owner is None:
        return turn, False
    return turn, await rows.is_present(turn.owner, now_ms=SystemClock().now_ms())


@asynccontextmanager
async def opened_store(settings: Settings) -> AsyncIterator[Store]:
    """Open the store of the settings; a file that does not exist is refused."""
    rows = open_store(existing_store(settings), settings.durability)
    await rows.open()
    try:
        yield rows
    finally:
        await rows.close()

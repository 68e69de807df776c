"""Opening a store that is there, to read it or to answer: no agents, nothing is driven."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from windlass import Runtime
from windlass.api.adapters import open_store
from windlass.cli.settings import existing_store, read_settings
from windlass.errors import InvalidInput
from windlass.ports import Store, Wait


@asynccontextmanager
async def opened(store: str | None) -> AsyncIterator[Runtime[Any]]:
    """Open a runtime without agents on the store of a flag, or of the settings.

    Raises:
        ConfigError: there is no such store.
    """
    settings = read_settings(store=store)
    async with Runtime(store=existing_store(settings), durability=settings.durability) as runtime:
        yield runtime


@asynccontextmanager
async def opened_store(store: str | None) -> AsyncIterator[Store]:
    """Open the rows themselves, for commands that show what a runtime keeps to itself."""
    settings = read_settings(store=store)
    rows = open_store(existing_store(settings), settings.durability)
    await rows.open()
    try:
        yield rows
    finally:
        await rows.close()


async def full_key(runtime: Runtime[Any], beginning: str) -> str:
    """Return the key of an open wait that begins so; what fits none is returned as it is.

    Raises:
        InvalidInput: it fits several.
    """
    waits: tuple[Wait, ...] = await runtime.waits()
    found = [wait.key for wait in waits if wait.key.startswith(beginning)]
    if len(found) > 1 and beginning not in found:
        raise InvalidInput(f"key: {len(found)} waits begin so; write more of the key", field="key")
    return found[0] if len(found) == 1 else beginning

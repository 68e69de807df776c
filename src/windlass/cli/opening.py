"""Opening a store that is there, to read it or to answer: no agents, nothing is driven."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from windlass import Agent, Runtime
from windlass.api.adapters import open_store
from windlass.cli.settings import Settings, existing_store, is_there, read_settings, store_file
from windlass.errors import ConfigError, InvalidInput, UnknownSession
from windlass.ports import Store, Wait
from windlass.runtime.system_clock import SystemClock


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


async def check_agent(settings: Settings, agent: Agent[Any, Any], session_id: str) -> None:
    """Refuse a session whose unfinished turn nobody would drive: it is of another agent, and no process has it.

    Raises:
        ConfigError: so it is.
    """
    file = store_file(settings.store)
    if file is None or not is_there(file):
        return
    async with opened_store(settings.store) as rows:
        try:
            session = await rows.load_session(session_id, history=False)
        except UnknownSession:
            return
        turn_id = session.active or next(iter(session.queued), None)
        turn = None if turn_id is None else await rows.load_turn(session_id, turn_id)
        if turn is None or turn.agent in (agent.name, *agent.aliases):
            return
        now_ms = SystemClock().now_ms()
        if turn.owner is not None and await rows.is_present(turn.owner, now_ms=now_ms):
            return
    raise ConfigError(
        f"agent: turn {turn_id} of session {session_id} is unfinished and of the agent {turn.agent!r}, "
        f"found {agent.name!r}; name that one with -m module:name, or end the turn: "
        f"windlass cancel {session_id}",
        field="agent",
    )


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

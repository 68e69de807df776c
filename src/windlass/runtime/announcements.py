"""What plugins are told beside the turns: best effort, perhaps more than once, and never in the way of a turn."""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from typing import Any

from windlass.ports.plugin import CommittedTurn
from windlass.runtime.plugin_set import name_of
from windlass.runtime.program import Program
from windlass.runtime.services import Services
from windlass.runtime.session_memory import SessionMemory
from windlass.runtime.turn_record import TurnRecord

_log = logging.getLogger("windlass")


def announce_session(services: Services, program: Program, memory: SessionMemory) -> None:
    """Tell plugins that a session is loaded here, once while it is."""
    if memory.is_announced:
        return
    memory.is_announced = True
    for plugin in program.plugins.having("on_session_open"):
        told = plugin.on_session_open(program.name, memory.session_id)
        services.aside.start(
            _heeded(told, name_of(plugin), "on_session_open"), name="windlass-open"
        )


def announce_commit(services: Services, program: Program, record: TurnRecord) -> None:
    """Tell plugins that a turn is in the history."""
    plugins = program.plugins.having("after_commit")
    if not plugins:
        return
    ended = CommittedTurn(
        agent=program.name,
        session_id=record.session_id,
        turn_id=record.turn_id,
        outcome=record.outcome,
    )
    for plugin in plugins:
        told = plugin.after_commit(ended)
        services.aside.start(_heeded(told, name_of(plugin), "after_commit"), name="windlass-commit")


async def _heeded(told: Coroutine[Any, Any, None], plugin: str, hook: str) -> None:
    try:
        await told
    except Exception:  # noqa: BLE001 - nothing that a plugin does here concerns a turn
        _log.exception("the plugin %s failed in %s", plugin, hook)

"""`windlass sessions`: the sessions of a store."""

from __future__ import annotations

import asyncio
from typing import Annotated

from cyclopts import Parameter

from windlass.cli import records
from windlass.cli.json_lines import write_json
from windlass.cli.opening import opened
from windlass.cli.options import JsonOption, StoreOption
from windlass.cli.terminal import console, row, table
from windlass.cli.wording import age
from windlass.ports import SessionSummary, Wait
from windlass.runtime.system_clock import SystemClock


def sessions(
    *,
    after: Annotated[str, Parameter(help="begin behind this session's id")] = "",
    limit: Annotated[int, Parameter(help="at most so many", show_default=True)] = 100,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """List the sessions of a store, by id."""
    found, waits = asyncio.run(_read(store, after, limit))
    if json:
        for session in found:
            write_json(records.session_record(session, waits.get(session.session_id, [])))
        return 0
    now_ms = SystemClock().now_ms()
    listed = table("session", "agent", "turns", "begun", "now")
    for session in found:
        kinds = sorted({wait.kind for wait in waits.get(session.session_id, [])})
        state = f"waits: {', '.join(kinds)}" if kinds else "under way" if session.active else ""
        begun = f"{age(session.created_ms, now_ms)} ago"
        cells = (session.session_id, session.agent, str(session.head), begun, state)
        row(listed, *cells, styles=("cyan", "", "", "dim", "yellow"))
    console().print(listed if found else "no sessions")
    return 0


async def _read(
    store: str | None, after: str, limit: int
) -> tuple[tuple[SessionSummary, ...], dict[str, list[Wait]]]:
    async with opened(store) as runtime:
        found = await runtime.sessions(after=after, limit=limit)
        waits: dict[str, list[Wait]] = {}
        for wait in await runtime.waits():
            waits.setdefault(wait.session_id, []).append(wait)
        return found, waits

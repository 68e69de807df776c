"""`windlass waits`: what stands still, and why."""

from __future__ import annotations

import asyncio
from typing import Annotated

from cyclopts import Parameter

from windlass.cli import records
from windlass.cli.json_lines import write_json
from windlass.cli.opening import opened
from windlass.cli.options import JsonOption, StoreOption
from windlass.cli.terminal import console, row, table
from windlass.cli.wording import age, as_json, one_line, short_key
from windlass.ports import Wait, WaitKind
from windlass.runtime.system_clock import SystemClock


def waits(
    *,
    kind: Annotated[WaitKind | None, Parameter(help="only of this kind")] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """List the open waits, oldest first. Whoever has a key may answer; --json has the whole of it."""
    found = asyncio.run(_read(store, kind))
    if json:
        for wait in found:
            write_json(records.wait_record(wait))
        return 0
    now_ms = SystemClock().now_ms()
    listed = table("key", "kind", "session", "since", "what")
    for wait in found:
        what = wait.title or wait.kind
        if isinstance(wait.detail, dict) and "args" in wait.detail:
            what = f"{what} {one_line(as_json(wait.detail['args']), 120)}"
        cells = (
            short_key(wait.key),
            wait.kind,
            wait.session_id,
            age(wait.created_ms, now_ms),
            what,
        )
        row(listed, *cells, styles=("", "yellow", "cyan", "dim"))
    console().print(listed if found else "nothing waits")
    return 0


async def _read(store: str | None, kind: WaitKind | None) -> tuple[Wait, ...]:
    async with opened(store) as runtime:
        return await runtime.waits(kind)

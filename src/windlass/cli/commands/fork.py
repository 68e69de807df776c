"""`windlass fork`: begin a session from another one's history."""

from __future__ import annotations

import asyncio
from typing import Annotated

from cyclopts import Parameter

from windlass.cli.json_lines import write_json
from windlass.cli.opening import opened, opened_store
from windlass.cli.options import JsonOption, SessionWord, StoreOption
from windlass.cli.terminal import console
from windlass.cli.wording import count


def fork(
    session: SessionWord,
    new: Annotated[str | None, Parameter(help="the new session's id; else one is made")] = None,
    /,
    *,
    at: Annotated[
        str | None, Parameter(help="the last turn to take along: its id, or a number; else all")
    ] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Begin a session that shares another one's history. Copies nothing."""
    made, turns = asyncio.run(_fork(session, new, at, store))
    if json:
        write_json({"session": made, "from": session, "turns": turns})
    else:
        console().print(f"{made}: begins with {count(turns, 'turn')} of {session}")
    return 0


async def _fork(
    session: str, new: str | None, at: str | None, store: str | None
) -> tuple[str, int]:
    place: str | int | None = int(at) if at is not None and at.isdigit() else at
    async with opened(store) as runtime:
        made = await runtime.session(session).fork(at=place, id=new)
    async with opened_store(store) as rows:
        return made.id, (await rows.load_session(made.id, history=False)).head

"""`windlass cancel`: end a turn, wherever it runs."""

from __future__ import annotations

import asyncio
from typing import Annotated

from cyclopts import Parameter

from windlass.cli import exit_code
from windlass.cli.json_lines import write_json
from windlass.cli.opening import opened, opened_store
from windlass.cli.options import JsonOption, SessionWord, StoreOption
from windlass.cli.terminal import console
from windlass.errors import InvalidInput

_WORDS = {
    "requested": "it ends as cancelled: at once where it runs, or when a worker next has it",
    "already": "somebody cancelled it before",
    "finished": "it had ended by itself",
    "unknown": "there is no such turn",
}


def cancel(
    session: SessionWord,
    turn: Annotated[str | None, Parameter(help="the turn's id; else the one under way")] = None,
    /,
    *,
    reason: Annotated[str, Parameter(help="why; kept with the turn")] = "",
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Ask for a turn to end. First come, first served: it may end by itself before."""
    turn_id, status = asyncio.run(_cancel(session, turn, reason, store))
    if json:
        write_json({"session": session, "turn": turn_id, "status": status})
    else:
        console().print(f"{turn_id}: {status}: {_WORDS[status]}")
    if status == "unknown":
        return exit_code.USAGE
    return exit_code.OK if status in ("requested", "already") else exit_code.NOT_FINISHED


async def _cancel(
    session: str, turn: str | None, reason: str, store: str | None
) -> tuple[str, str]:
    if turn is None:
        async with opened_store(store) as rows:
            turn = (await rows.load_session(session, history=False)).active
        if turn is None:
            raise InvalidInput(f"session {session}: no turn is under way", field="turn")
    async with opened(store) as runtime:
        return turn, (await runtime.cancel(session, turn, reason)).status

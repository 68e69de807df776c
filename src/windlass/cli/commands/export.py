"""`windlass export`: a session as JSON lines or Markdown."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from windlass.cli import records
from windlass.cli.json_lines import plain, write_json
from windlass.cli.opening import opened_store
from windlass.cli.options import JsonOption, SessionWord, StoreOption
from windlass.cli.wording import ending, message_text, moment
from windlass.journal import HistoryPage
from windlass.kernel.messages import ConversationRecord
from windlass.ports import SessionView


def export(
    session: SessionWord,
    /,
    *,
    format: Annotated[  # noqa: A002 - the flag's name
        Literal["jsonl", "markdown"],
        Parameter(help="JSON lines, or Markdown to read", show_default=True),
    ] = "jsonl",
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Write a session to standard output: a line about it, then a line per turn, oldest first."""
    view = asyncio.run(_read(session, store))
    if format == "markdown" and not json:
        sys.stdout.write(_markdown(view))
        return 0
    write_json(
        {
            "kind": "session",
            "session": view.session_id,
            "agent": view.agent,
            "created_ms": view.created_ms,
            "turns": view.head,
            "active": view.active,
            "parent": view.parent,
        }
    )
    for page in view.pages:
        write_json(_turn(page))
    return 0


def _turn(page: HistoryPage) -> dict[str, Any]:
    return {
        "kind": "turn",
        "turn": page.turn_id,
        "committed_ms": page.committed_ms,
        "outcome": records.outcome_record(page.outcome),
        "messages": [
            records.message_record(node.message)
            for node in page.nodes
            if isinstance(node, ConversationRecord)
        ],
        "usage": plain(page.usage),
    }


def _markdown(view: SessionView) -> str:
    lines = [f"# {view.session_id}", "", f"Agent {view.agent}, begun {moment(view.created_ms)}."]
    for number, page in enumerate(view.pages, start=1):
        lines += ["", f"## Turn {number}: {ending(page.outcome)}", ""]
        for node in page.nodes:
            if isinstance(node, ConversationRecord):
                lines += [f"**{node.message.role}**", "", message_text(node.message), ""]
    return "\n".join(lines).rstrip() + "\n"


async def _read(session: str, store: str | None) -> SessionView:
    async with opened_store(store) as rows:
        return await rows.load_session(session)

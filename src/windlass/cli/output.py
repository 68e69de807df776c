"""What the command writes for programs: JSON, one value per line, never with the value of a key in it.

The keys of the records are part of what programs may rely on.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any, TextIO

import msgspec

from windlass import TurnResult
from windlass.api.usage_report import UsageReport
from windlass.cli.keys import clean
from windlass.guards.text import visible
from windlass.journal import HistoryPage
from windlass.kernel import ConversationRecord, Message, canonical
from windlass.ports import SessionSummary, SessionView, Wait

Record = dict[str, Any]


def plain(value: object) -> Any:  # noqa: ANN401 - JSON
    """Return a value of windlass as plain JSON."""
    return msgspec.json.decode(canonical.encode(value))


def write_json(value: object, stream: TextIO | None = None) -> None:
    """Write one value on one line and flush it; in ASCII where the stream is not UTF-8.

    Characters that a terminal may act on, or that nobody sees, are escaped.
    """
    out = stream or sys.stdout
    # Hidden characters can only be inside of strings there, where an escape is the same value.
    text = visible(clean(msgspec.json.encode(value).decode()))
    if (out.encoding or "utf-8").lower().replace("-", "") != "utf8":
        text = json.dumps(msgspec.json.decode(text))  # noqa: TID251 - the same, in ASCII
    out.write(text + "\n")
    out.flush()


# ---------------------------------------------------------------------- records


def session_record(session: SessionSummary | SessionView, turns: object, **more: object) -> Record:
    """Return a session; `turns` is their number, or all of them."""
    return {
        "session": session.session_id,
        "agent": session.agent,
        "created_ms": session.created_ms,
        "turns": turns,
        "active": session.active,
        **more,
    }


def wait_record(wait: Wait) -> Record:
    """Return a wait; its key is what answers it."""
    return {
        "key": wait.key,
        "kind": wait.kind,
        "session": wait.session_id,
        "turn": wait.turn_id,
        "call_id": wait.call_id,
        "title": wait.title,
        "detail": plain(wait.detail),
        "created_ms": wait.created_ms,
        "expires_ms": wait.expires_ms,
    }


def page_messages(page: HistoryPage) -> list[Message]:
    """Return the messages that a turn added to its session."""
    return [node.message for node in page.nodes if isinstance(node, ConversationRecord)]


def page_record(page: HistoryPage) -> Record:
    """Return a committed turn."""
    return {
        "turn": page.turn_id,
        "committed_ms": page.committed_ms,
        "outcome": plain(page.outcome),
        "messages": message_records(page_messages(page)),
    }


def message_records(messages: Iterable[Message]) -> list[Record]:
    """Return messages."""
    return [{"id": each.id, "role": each.role, "parts": plain(each.parts)} for each in messages]


def usage_record(usage: UsageReport) -> Record:
    """Return what was used; `cost` is in US dollars, and null while a price is not known."""
    names = (
        "calls", "lost", "input_tokens", "cached_input_tokens", "cache_write_tokens",
        "output_tokens", "reasoning_tokens", "total_tokens",
    )  # fmt: skip
    return {
        **{name: getattr(usage, name) for name in names},
        "cost": None if usage.cost is None else float(usage.cost),
        "known_cost": float(usage.known_cost),
        "unpriced": list(usage.unpriced),
    }


def result_record(result: TurnResult[Any]) -> Record:
    """Return the result of a turn."""
    return {
        "session": result.session_id,
        "turn": result.turn_id,
        "status": result.status,
        "outcome": plain(result.outcome),
        "text": result.text,
        "waits": [wait_record(wait) for wait in result.waits],
        "tool_calls": [
            {
                "call_id": call.call_id,
                "name": call.name,
                "args": plain(call.args),
                "status": call.outcome.status,
                "value": plain(call.outcome.value),
            }
            for call in result.tool_calls
        ],
        "issues": [{"code": each.code, "message": each.message} for each in result.issues],
        "usage": usage_record(result.usage),
    }

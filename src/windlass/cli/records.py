"""What `--json` prints of each thing. The keys are part of what programs may rely on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass import TurnResult
from windlass.api.usage_report import UsageReport
from windlass.cli.json_lines import plain
from windlass.kernel.messages import Message
from windlass.kernel.outcomes import Outcome
from windlass.ports import SessionSummary, Wait

Record = dict[str, Any]


def session_record(session: SessionSummary, waits: Sequence[Wait]) -> Record:
    """Return a session as a line of a list."""
    return {
        "session": session.session_id,
        "agent": session.agent,
        "created_ms": session.created_ms,
        "turns": session.head,
        "active": session.active,
        "waits": [wait.kind for wait in waits],
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


def outcome_record(outcome: Outcome | None) -> Record | None:
    """Return how a turn ended."""
    return None if outcome is None else plain(outcome)


def message_record(message: Message) -> Record:
    """Return a message."""
    return {"id": message.id, "role": message.role, "parts": plain(message.parts)}


def usage_record(usage: UsageReport) -> Record:
    """Return what was used; `cost` is in US dollars, and null while a price is not known."""
    cost = usage.cost
    return {
        "calls": usage.calls,
        "lost": usage.lost,
        "input_tokens": usage.input_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "output_tokens": usage.output_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "total_tokens": usage.total_tokens,
        "cost": None if cost is None else float(cost),
        "known_cost": float(usage.known_cost),
        "unpriced": list(usage.unpriced),
    }


def result_record(result: TurnResult[Any]) -> Record:
    """Return what a turn came to."""
    return {
        "session": result.session_id,
        "turn": result.turn_id,
        "status": result.status,
        "outcome": outcome_record(result.outcome),
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

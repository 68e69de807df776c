"""What was said in a turn, made by hand: short ways to write messages, calls and results."""

from __future__ import annotations

from typing import Any

from windlass.kernel.messages import (
    InputOrigin,
    Message,
    PluginOrigin,
    Text,
    ToolCall,
    ToolResult,
    ToolStatus,
)
from windlass.kernel.tool_call import CompletedToolCall, ToolOutcome, ToolSpec
from windlass.kernel.value import Json

INPUT = Message(
    id="in", role="user", parts=(Text(text="Go."),), origin=InputOrigin(turn_id="t", input_id="i")
)


def ended(
    tool: str, call_id: str = "c", status: ToolStatus = "ok", value: Json = "fine"
) -> CompletedToolCall:
    """Return a call that ended."""
    return CompletedToolCall(
        call_id=call_id, name=tool, outcome=ToolOutcome(status=status, value=value)
    )


def asked(*calls: tuple[str, str, dict[str, Any]]) -> Message:
    """Return a reply that calls tools: call id, tool, arguments."""
    parts = tuple(ToolCall(call_id=id, name=tool, args=args) for id, tool, args in calls)
    return Message(id="m", role="assistant", parts=parts)


def answered(*results: tuple[str, str, str], status: ToolStatus = "ok") -> Message:
    """Return the results of a reply: call id, tool, words."""
    parts = tuple(
        ToolResult(call_id=id, name=tool, content=(Text(text=text),), status=status)
        for id, tool, text in results
    )
    return Message(id="m", role="user", parts=parts)


def worked(call_id: str, tool: str, args: dict[str, Any], result: str) -> list[Message]:
    """Return a reply with one call, and its result."""
    return [asked((call_id, tool, args)), answered((call_id, tool, result))]


def said(text: str) -> Message:
    """Return a reply of words."""
    return Message(id="m", role="assistant", parts=(Text(text=text),))


def nudged(text: str) -> Message:
    """Return what a plugin put into the turn."""
    origin = PluginOrigin(plugin="p", transient=True)
    return Message(id="m", role="user", parts=(Text(text=text),), origin=origin)


def offers(*names: str) -> tuple[ToolSpec, ...]:
    """Return tools on offer."""
    return tuple(ToolSpec(name=name) for name in names)

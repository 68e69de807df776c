"""Short ways to write down what a model says."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.kernel import Json, ModelReply, ToolCall, Usage

_NO_USAGE = Usage()


def say(text: str, *, usage: Usage = _NO_USAGE, terminal: str = "stop") -> ModelReply:
    """Return a reply of words."""
    return ModelReply(text=text, usage=usage, terminal=terminal)


def call(name: str, /, **args: Json) -> ModelReply:
    """Return a reply with one tool call: `call("add", a=1, b=2)`."""
    return calls((name, args))


def calls(*wanted: tuple[str, dict[str, Any]]) -> ModelReply:
    """Return a reply with several calls: `calls(("add", {"a": 1}), ("add", {"a": 2}))`."""
    parts = tuple(
        ToolCall(call_id=f"call_{at}", name=name, args=args)
        for at, (name, args) in enumerate(wanted)
    )
    return ModelReply(parts=parts, terminal="tool_use")


def placed(reply: ModelReply, position: int) -> ModelReply:
    """Return a reply of a script with call ids that derive from its position there."""
    at = 0
    parts: list[Any] = []
    for part in reply.parts:
        if isinstance(part, ToolCall):
            part = msgspec.structs.replace(part, call_id=f"call_{position}_{at}")  # noqa: PLW2901
            at += 1
        parts.append(part)
    return msgspec.structs.replace(reply, parts=tuple(parts)) if at else reply

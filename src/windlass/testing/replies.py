"""Short ways to write down what a model says."""

from __future__ import annotations

from typing import Any

from windlass.kernel import Json, ModelReply, ToolCall, Usage
from windlass.models.scripted import placed, unplaced_id

__all__ = ["call", "calls", "placed", "say"]

_NO_USAGE = Usage()


def say(text: str, *, usage: Usage = _NO_USAGE, terminal: str = "stop") -> ModelReply:
    """Return a reply of words."""
    return ModelReply(text=text, usage=usage, terminal=terminal)


def call(name: str, /, **args: Json) -> ModelReply:
    """Return a reply with one tool call: `call("add", a=1, b=2)`."""
    return calls((name, args))


def calls(*wanted: tuple[str, dict[str, Any]]) -> ModelReply:
    """Return a reply with several calls: `calls(("add", {"a": 1}), ("add", {"a": 2}))`.

    Their ids derive from the reply's place, once a script or a model gives it one.
    """
    parts = tuple(
        ToolCall(call_id=unplaced_id(at), name=name, args=args)
        for at, (name, args) in enumerate(wanted)
    )
    return ModelReply(parts=parts, terminal="tool_use")

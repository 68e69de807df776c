"""Reading what a model was told, and what a turn wrote."""

from __future__ import annotations

from typing import Any, NamedTuple

from windlass import Runtime
from windlass.kernel import ModelRequest, Text, ToolResult
from windlass.models.scripted import FunctionModel, ScriptedModel
from windlass.ports import TurnView


class Told(NamedTuple):
    """A tool's result as the model got it."""

    call_id: str
    status: str
    text: str


def told(request: ModelRequest) -> list[Told]:
    """Return all tool results in a request, in order."""
    return [
        Told(part.call_id, part.status, words(part.content))
        for message in request.messages
        for part in message.parts
        if isinstance(part, ToolResult)
    ]


def last_told(model: ScriptedModel | FunctionModel) -> list[Told]:
    """Return the tool results of the last request that a model got."""
    return told(model.requests[-1])


def words(parts: tuple[object, ...]) -> str:
    """Return the words of some parts, one part to a line."""
    return "\n".join(part.text for part in parts if isinstance(part, Text))


def said_by_user(request: ModelRequest) -> list[str]:
    """Return what the user said, message by message."""
    return [
        words(message.parts)
        for message in request.messages
        if message.role == "user" and any(isinstance(part, Text) for part in message.parts)
    ]


async def turn_view(runtime: Runtime[Any], session_id: str, turn_id: str) -> TurnView:
    """Return a turn as the store has it."""
    view = await runtime._services.store.load_turn(session_id, turn_id)
    assert view is not None
    return view

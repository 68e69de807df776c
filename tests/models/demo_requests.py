"""Requests to the demo model: what the user said, the tools that are offered, and the results that came since."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from windlass.kernel import (
    ModelMessage,
    ModelReply,
    ModelRequest,
    Text,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from windlass.kernel.messages import ToolStatus
from windlass.models.demo import DemoModel
from windlass.ports.model import Model

QUESTION = "Book 2 nights in Lisbon for at most 300 euros."
STATUSES: dict[str, ToolStatus] = {each: each for each in get_args(ToolStatus)}
TRIP = ("look_up", "book", "notify", "pay")


def spec(name: str) -> ToolSpec:
    return ToolSpec(name=name, description=name, parameters={"type": "object"})


def request(
    said: str = QUESTION,
    *results: tuple[str, ...],
    tools: tuple[str, ...] = TRIP,
    system: str = "",
) -> ModelRequest:
    """A request with what the user said and the results that came since, each of a call of its own."""
    messages = [ModelMessage(role="system", parts=(Text(text=system),))] if system else []
    messages.append(ModelMessage(role="user", parts=(Text(text=said),)))
    for at, (name, text, *status) in enumerate(results):
        call = ToolCall(call_id=f"call_{at}_0", name=name)
        messages.append(ModelMessage(role="assistant", parts=(call,)))
        answer = ToolResult(
            call_id=call.call_id,
            name=name,
            content=(Text(text=text),),
            status=STATUSES[status[0]] if status else "ok",
        )
        messages.append(ModelMessage(role="user", parts=(answer,)))
    return ModelRequest(model="demo", messages=messages, tools=tuple(map(spec, tools)))


def takes(name: str, **types: str) -> ToolSpec:
    """A tool with these arguments, all of them required."""
    properties = {each: {"type": kind} for each, kind in types.items()}
    schema = {"type": "object", "properties": properties, "required": sorted(types)}
    return ToolSpec(name=name, description=name, parameters=schema)


def offering(said: str, *tools: ToolSpec, results: Sequence[tuple[str, ...]] = ()) -> ModelRequest:
    """A request with tools that say what they take."""
    asked = request(said, *results, tools=())
    return ModelRequest(model="demo", messages=asked.messages, tools=tools)


async def ask(asked: ModelRequest) -> ModelReply:
    model: Model = DemoModel()
    return await model.complete(asked, lambda _event: None)


async def called(asked: ModelRequest) -> ToolCall:
    (part,) = (await ask(asked)).parts
    assert isinstance(part, ToolCall)
    return part

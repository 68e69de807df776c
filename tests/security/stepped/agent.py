"""A turn whose people, model and tools say secrets, and a slow plugin that takes each out before it is shown.

Every value but one is known to one hook alone; that one is registered. What is taken out leaves a word behind, so that
those who read can be seen to have read it.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from windlass import Agent, Runtime, ToolContext, tool
from windlass.kernel import ModelReply, ModelRequest, Text, ToolCall, canonical
from windlass.kernel.messages import Part, ResultPart
from windlass.kernel.tool_call import CompletedToolCall, ToolOutcome
from windlass.kernel.value import Json
from windlass.models.scripted import replies_so_far
from windlass.plugins import PluginTurn
from windlass.ports import EmitModelEvent, TextChunk
from windlass.ports.plugin import Plugin
from windlass.ports.tool import Tool

SESSION, TURN = "s", "t"
NAME = "API_KEY"
SECRETS = {
    "registered": 'sk-"canary"-ä-4711',
    "on_input": 'in-"pass"-wörd-4712',
    "after_model": 'reply-"pass"-wörd-4713',
    "after_tool": 'result-"pass"-wörd-4714',
}
"""What nobody elsewhere may ever see, by what takes it out."""
GONE = {name: f"<{name}>" for name in SECRETS} | {"registered": f"[{NAME}]"}
HOOKS = ("on_input", "after_model", "after_tool", "present_result")
KEY = SECRETS["registered"]
# More passes of the loop than a unit waits for company: what was recorded is on disk meanwhile.
_PASSES = 20

T = TypeVar("T")
Stop = Callable[[str], None]
"""Stands still at a point until it is told to go on."""


class Slow(Plugin):
    """Replaces secrets, and stands still in the middle of it."""

    name = "slow"

    def __init__(self, stop: Stop) -> None:
        self._stop = stop

    async def on_input(self, turn: PluginTurn, parts: tuple[Part, ...]) -> Sequence[Part]:
        await self._hold("on_input")
        return _without("on_input", list(parts), list[Part])

    async def after_model(self, turn: PluginTurn, reply: ModelReply) -> ModelReply:
        await self._hold("after_model")
        return _without("after_model", reply, ModelReply)

    async def after_tool(self, turn: PluginTurn, call: CompletedToolCall) -> ToolOutcome:
        await self._hold("after_tool")
        return _without("after_tool", call.outcome, ToolOutcome)

    async def present_result(
        self, turn: PluginTurn, call: CompletedToolCall
    ) -> Sequence[ResultPart]:
        await self._hold("present_result")
        return [Text(text=f"shown: {call.outcome.value}")]

    async def _hold(self, hook: str) -> None:
        for _ in range(_PASSES):
            await asyncio.sleep(0)
        self._stop(f"in {hook}")


def _without(hook: str, value: T, kind: type[T]) -> T:
    """Return a value with a hook's secret replaced, wherever it stands as it is."""

    def clean(found: Json) -> Json:
        if isinstance(found, str):
            return found.replace(SECRETS[hook], GONE[hook])
        if isinstance(found, list):
            return [clean(one) for one in found]
        if isinstance(found, dict):
            return {str(clean(key)): clean(one) for key, one in found.items()}
        return found

    return msgspec.convert(clean(canonical.parse(canonical.encode(value).decode())), kind)


class Blab:
    """A model that says all it knows, also in what it calls tools with."""

    name = "blab"

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        """Say the reply whose place this is."""
        position = replies_so_far(request)
        told = f"{SECRETS['after_model']} and {KEY}"
        emit(TextChunk(text=told))
        asked = (("fetch", "fail"), ("pay",), ())[min(position, 2)]
        args = {"what": told, "more": {told: [told]}}
        raw = canonical.encode(args).decode()  # as providers give it
        calls = [
            ToolCall(call_id=f"c{position}.{at}", name=name, args=args, raw=raw)
            for at, name in enumerate(asked)
        ]
        said = Text(text=f"{told}, reply {position}")
        return ModelReply(parts=(said, *calls), terminal="tool_use" if calls else "completed")


def blabbing(stop: Stop, runtime: Callable[[], Runtime[Any]]) -> Agent[None, str]:
    """Return the agent."""
    return Agent("blab", model=Blab(), tools=_tools(runtime), plugins=[Slow(stop)])


def _tools(runtime: Callable[[], Runtime[Any]]) -> list[Tool]:
    told = f"{SECRETS['after_tool']} and {KEY}"

    @tool(effect="idempotent")
    async def fetch(ctx: ToolContext[None], what: str, more: dict[str, Any]) -> dict[str, Any]:
        """Fetch; meanwhile a person says something."""
        ctx.progress(told)
        await (
            runtime()
            .session(SESSION)
            .enqueue(f"{SECRETS['on_input']} and {KEY}, later", key="letter")
        )
        spelled = base64.b64encode(f"user:{KEY}".encode()).decode()
        return {"found": told, told: [told, {"deep": told}], "header": f"Basic {spelled}"}

    @tool(effect="pure")
    async def fail(what: str, more: dict[str, Any]) -> str:
        """Fail."""
        raise ValueError(f"{told} does not work")

    @tool(effect="once", approval="ask")
    async def pay(what: str, more: dict[str, Any]) -> str:
        """Pay."""
        return f"paid with {told}"

    return [fetch, fail, pay]

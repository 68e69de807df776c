"""Models that say what they take, and agents on a budget that ask them."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.limits import HANGS_S
from tests.scenarios.stage import until
from windlass import Agent, Runtime, TurnResult, tool
from windlass.kernel import ModelReply, ModelRequest, Usage
from windlass.kernel.outcomes import Stopped
from windlass.plugins.spend_limits import SpendLimits
from windlass.ports.model import EmitModelEvent, Model
from windlass.testing import ScriptedModel, call, say

USED = Usage(input_tokens=60, output_tokens=40)


@tool(effect="pure")
async def look() -> str:
    """Look."""
    return "nothing"


def looks(times: int, name: str = "big") -> ScriptedModel:
    """Return a model that looks so many times and then says so; each reply takes 100 tokens."""
    script = [*[call("look")] * times, say("Done.")]
    return ScriptedModel([paid(reply) for reply in script], name=name)


def paid(reply: ModelReply) -> ModelReply:
    """Return a reply that took 100 tokens."""
    return ModelReply(parts=reply.parts, usage=USED, terminal=reply.terminal)


def clerk(model: Model, plugin: SpendLimits, *tools: Any) -> Agent[None, str]:
    """Return an agent on a budget."""
    return Agent("clerk", model=model, tools=[look, *tools], plugins=[plugin])


def stopped(result: TurnResult[str]) -> str:
    """Return the detail of a turn that ended at a limit."""
    assert isinstance(result.outcome, Stopped)
    assert result.outcome.reason == "limit"
    return result.outcome.detail


async def done(rt: Runtime[Any]) -> TurnResult[str]:
    """Return what the turn `t` of the session `s` came to, once it has."""

    async def is_done() -> bool:
        return not (await rt.turn("s", "t").result(timeout=HANGS_S)).parked

    await until(is_done)
    return await rt.turn("s", "t").result()


class Gated:
    """A model that stands still in one of its calls until the gate is opened."""

    def __init__(self, model: ScriptedModel, *, at: int = 0) -> None:
        self.name = model.name
        self.entered = asyncio.Event()
        self.gate = asyncio.Event()
        self._model = model
        self._at = at

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        if len(self._model.requests) == self._at:
            self.entered.set()
            await self.gate.wait()
        return await self._model.complete(request, emit)

"""Handlers of events, and the turn that they are told of."""

from __future__ import annotations

import asyncio

from tests.scenarios.stage import Desk
from tests.scenarios.workers import worker
from windlass import Agent
from windlass.api.turn_options import EventHandler
from windlass.kernel.events import Event
from windlass.testing import ScriptedModel, call, say

ORDER = [
    "ModelStarted", "UsageReported", "ModelFinished", "ToolStarted", "ToolFinished",
    "ModelStarted", "TextDelta", "UsageReported", "ModelFinished", "TurnEnded",
]  # fmt: skip


class OddHandlerError(Exception):
    """What a handler of these tests raises."""


def plain(seen: list[Event]) -> EventHandler:
    def on_event(event: Event) -> None:
        seen.append(event)

    return on_event


def awaited(seen: list[Event]) -> EventHandler:
    async def on_event(event: Event) -> None:
        await asyncio.sleep(0)
        seen.append(event)

    return on_event


def working(desk: Desk | None = None) -> Agent[None, str]:
    model = ScriptedModel([call("work", n=3), say("All done.")], chunks=1)
    return worker(desk or Desk(), model)

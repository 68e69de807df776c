"""Running a tool's body: whatever it does, something is known about it afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from windlass.errors import ToolDenied, ToolError, ToolUncertain, WindlassError
from windlass.guards.text import clean_text
from windlass.kernel.messages import Attachment, ResultPart, Text, ToolStatus
from windlass.kernel.tool_call import ToolOutcome
from windlass.ports.tool import Tool, ToolContext
from windlass.runtime.turn_in_hand import ParkTurn, StopTurn, TurnInHand
from windlass.tools import clipped

_MAX_ERROR_CHARS = 4_000


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How one attempt of a body ended; `is_uncertain`: it may have acted all the same."""

    value: object = None
    status: ToolStatus = "ok"
    reason: str = ""
    is_uncertain: bool = False
    not_started: bool = False

    @property
    def is_failure(self) -> bool:
        """Whether it might go better another time."""
        return self.status in ("error", "timeout", "unknown")


async def run_body(
    tool: Tool, ctx: ToolContext[Any], args: Mapping[str, Any], default_timeout: float | None
) -> Ended:
    """Run the body once, with arguments of its own."""
    seconds = tool.timeout if tool.timeout is not None else default_timeout
    clock = asyncio.timeout(seconds)
    try:
        async with clock:
            return Ended(value=await tool.run(ctx, tool.check(args)))
    except (ParkTurn, StopTurn):
        raise
    except Exception as error:  # noqa: BLE001 - a tool may raise anything; the model is told
        if clock.expired():
            reason = f"it did not return in {seconds:g} s"
            return Ended(status="timeout", reason=reason, is_uncertain=True)
        return _failed(error)


def _failed(error: Exception) -> Ended:
    if isinstance(error, ToolUncertain):
        return Ended(status="unknown", reason=str(error), is_uncertain=True)
    if isinstance(error, ToolDenied):
        return Ended(status="denied", reason=str(error))
    if isinstance(error, ToolError):
        return Ended(status="error", reason=str(error), not_started=error.not_started)
    if isinstance(error, WindlassError):
        return Ended(status="error", reason=f"{error.code}: {error}")
    return Ended(status="error", reason=f"{type(error).__name__}: {error}")


async def value_outcome(ended: Ended, tool: Tool, hand: TurnInHand, note: str) -> ToolOutcome:
    """Return what the model and the history get of it; too long a text is kept whole as a file."""
    if ended.status != "ok":
        reason = clean_text(ended.reason)[:_MAX_ERROR_CHARS] or "It failed without a word."
        return ToolOutcome(status=ended.status, value=reason)
    outcome, full = clipped(ended.value, limit=tool.output_limit)
    if full is not None:
        store, now_ms = hand.world.store, hand.world.clock.now_ms()
        ref = await store.put_blob(full, now_ms=now_ms)
        whole = Attachment(ref=ref, media_type="text/plain", name="full-output", n_bytes=len(full))
        outcome = _with(outcome, whole)
    return _with(outcome, Text(text=note)) if note else outcome


def _with(outcome: ToolOutcome, part: ResultPart) -> ToolOutcome:
    shown = None if outcome.shown is None else (*outcome.shown, part)
    return msgspec.structs.replace(outcome, content=(*outcome.content, part), shown=shown)

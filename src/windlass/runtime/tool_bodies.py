"""Running a tool's body: whatever it does, something is known about it afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, get_args

import msgspec

from windlass.errors import CallerError, ToolDenied, ToolError, ToolUncertain, WindlassError
from windlass.guards.text import clean_text
from windlass.kernel.messages import Attachment, ResultPart, Text, ToolStatus
from windlass.kernel.tool_call import ToolOutcome
from windlass.ports.tool import Tool, ToolContext
from windlass.runtime.turn import Turn
from windlass.tools import clipped

_MAX_ERROR_CHARS = 4_000
_MOMENT_S = 1.0
_STATUSES = get_args(ToolStatus)


RUNS_IN: ContextVar[str | None] = ContextVar("windlass_session", default=None)
"""The session in which the code that asks is a tool's body: a turn there would wait for itself."""


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
    """Run the body once, with checked arguments, of which it gets copies of its own."""
    seconds = tool.timeout if tool.timeout is not None else default_timeout
    loop = asyncio.get_running_loop()
    # A task of its own, and not itself what is waited for: a body that will not be cancelled, or cancels the task it is
    # in, holds up nobody.
    news: asyncio.Future[None] = loop.create_future()
    body = loop.create_task(_run(tool, ctx, args, news))
    timer = None if seconds is None else loop.call_later(seconds, _tell, news)
    try:
        await news
    except asyncio.CancelledError:
        await _let_go(body)
        raise
    finally:
        if timer is not None:
            timer.cancel()
    if not body.done():
        await _let_go(body)
        reason = f"it did not return in {seconds:g} s"
        return Ended(status="timeout", reason=reason, is_uncertain=True)
    if body.cancelled():
        return Ended(status="unknown", reason="it cancelled itself", is_uncertain=True)
    error = body.exception()
    return Ended(value=body.result()) if error is None else _failed(error)


async def _run(
    tool: Tool, ctx: ToolContext[Any], args: Mapping[str, Any], news: asyncio.Future[None]
) -> object:
    RUNS_IN.set(ctx.session_id)
    try:
        return await tool.run(ctx, args)
    finally:
        # As its last act, which spares the loop a pass.
        _tell(news)


def _tell(news: asyncio.Future[None]) -> None:
    if not news.done():
        news.set_result(None)


async def _let_go(body: asyncio.Task[object]) -> None:
    """Cancel a body and give it a moment; what it does later is in no commit."""
    body.cancel()
    await asyncio.wait((body,), timeout=_MOMENT_S)
    body.add_done_callback(_heed)


def _heed(body: asyncio.Task[object]) -> None:
    # Nobody waits for it any more; without this the loop would complain of an error that nobody saw.
    if not body.cancelled():
        body.exception()


def _failed(error: BaseException) -> Ended:
    if isinstance(error, ToolUncertain):
        return Ended(status="unknown", reason=str(error), is_uncertain=True)
    if isinstance(error, ToolDenied):
        return Ended(status="denied", reason=str(error))
    if isinstance(error, ToolError):
        return Ended(status="error", reason=str(error), not_started=error.not_started)
    if isinstance(error, WindlassError):
        return Ended(status="error", reason=f"{error.code}: {error}")
    words = str(error)
    name = type(error).__name__
    return Ended(status="error", reason=f"{name}: {words}" if words else name)


async def value_outcome(ended: Ended, tool: Tool, hand: Turn) -> ToolOutcome:
    """Return what the model and the history get of it; too long a text is kept whole as a file."""
    if ended.status != "ok":
        reason = clean_text(ended.reason)[:_MAX_ERROR_CHARS] or "It failed without a word."
        return ToolOutcome(status=ended.status, value=reason)
    outcome, full = clipped(ended.value, limit=tool.output_limit)
    if full is not None:
        outcome = with_part(outcome, await _kept_whole(full, hand))
    return await _checked(outcome, hand)


async def _kept_whole(full: bytes, hand: Turn) -> ResultPart:
    """Keep the whole of a text that was cut; what the store does not take is said to be missing."""
    try:
        ref = await hand.services.store.put_blob(full, now_ms=hand.services.clock.now_ms())
    except CallerError as error:
        # The tool has succeeded all the same.
        return Text(text=f"(The whole text is not kept: {error.code}.)")
    hand.blobs.append(ref)
    return Attachment(ref=ref, media_type="text/plain", name="full-output", n_bytes=len(full))


async def _checked(outcome: ToolOutcome, hand: Turn) -> ToolOutcome:
    """Return an outcome that can be kept: of a known status, and referring to bytes that are there."""
    if outcome.status not in _STATUSES:
        text = f"It succeeded, with a status that does not exist ({type(outcome.status).__name__})."
        return ToolOutcome(value=text)
    if not outcome.content and not outcome.shown:
        return outcome
    missing = [ref for ref in hand.take_blobs(outcome) if not await is_kept(ref, hand)]
    if not missing:
        return outcome
    note = Text(text=f"(It succeeded; {len(missing)} of its attachments are not kept anywhere.)")
    parts = tuple(part for part in outcome.content if getattr(part, "ref", None) not in missing)
    shown = outcome.shown and tuple(
        part for part in outcome.shown if getattr(part, "ref", None) not in missing
    )
    return with_part(msgspec.structs.replace(outcome, content=parts, shown=shown), note)


async def is_kept(ref: str, hand: Turn) -> bool:
    """Whether the store has the bytes."""
    if ref in hand.blobs:
        return True
    try:
        await hand.services.store.get_blob(ref)
    except CallerError:
        return False
    return True


def with_part(outcome: ToolOutcome, part: ResultPart) -> ToolOutcome:
    """Return an outcome that says one thing more to the model."""
    shown = None if outcome.shown is None else (*outcome.shown, part)
    return msgspec.structs.replace(outcome, content=(*outcome.content, part), shown=shown)

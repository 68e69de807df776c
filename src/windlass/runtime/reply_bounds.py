"""What one model call may bring and how long it may take: a reply without end is ended.

Law 1. A reply is counted while it streams, and again when it is whole. One that is beyond a limit ends its call: the
    adapter is interrupted, which closes its connection, and nothing of the reply is kept.
Law 2. The time of a call counts from its request to the end of its reply, also while nothing arrives. The time that
    is left to the turn is a limit of the call, too.
Law 3. A call that never has to wait needs no timer.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any

import msgspec

from windlass.kernel import ModelFailure, ModelReply, Reasoning, ServerToolCall, Text, ToolCall
from windlass.kernel.model_call import LIMIT
from windlass.ports.model import (
    AttemptFailed,
    CallChunk,
    EmitModelEvent,
    ModelEvent,
    ReasoningChunk,
    TextChunk,
)
from windlass.runtime.body import go_on
from windlass.runtime.turn import Turn

# An adapter that goes on after it was told to end is told again.
_AGAIN_S = 1.0
_ENCODER = msgspec.json.Encoder()
_CHUNKS = (TextChunk, ReasoningChunk, CallChunk)


class OverLimit(BaseException):
    """Raised inside an adapter whose reply is beyond a limit; no adapter takes it for a fault of its own."""


class ReplyBounds:
    """Bounds one model call. `failure` says what went beyond its limit; a call that is made again has new bounds."""

    failure: ModelFailure | None = None
    # What was shown so far of the call under way.
    n_bytes = 0
    # Whether the last reply came near its limit.
    is_large = False
    _timer: asyncio.TimerHandle | None = None
    _cancels = 0

    def __init__(self, turn: Turn, emit: EmitModelEvent) -> None:
        self._turn = turn
        self._emit = emit
        self.max_bytes = turn.limits.max_reply_bytes

    # ------------------------------------------------------------------ size

    def emit(self, event: ModelEvent) -> None:
        """Show a piece of the reply, unless the reply is too large with it.

        Raises:
            OverLimit: it is.
        """
        if self.failure is not None:
            raise OverLimit
        if isinstance(event, _CHUNKS):
            text = event.text
            n_bytes = self.n_bytes + (len(text) if text.isascii() else _n_bytes(text))
            if n_bytes > self.max_bytes:
                self._refuse_size()
                raise OverLimit
            self.n_bytes = n_bytes
        elif isinstance(event, AttemptFailed):
            self.n_bytes = 0
        self._emit(event)

    def failure_of(self, reply: ModelReply) -> ModelFailure | None:
        """Return what a whole reply went beyond, if anything; it is large."""
        self.is_large, most = True, self.max_bytes
        if self.failure is None and _weight(reply) > most:
            self._refuse_size()
        return self.failure

    def _refuse_size(self) -> None:
        detail = f"The reply is larger than {self.max_bytes:,} bytes"
        self.failure = _failure("max_reply_bytes", detail)

    # ------------------------------------------------------------------ time

    @types.coroutine
    def in_time(
        self, call: Coroutine[Any, Any, ModelReply], waits_for: object
    ) -> Generator[Any, Any, ModelReply]:
        """Await a call that was begun and has to wait, for as long as it may take.

        Raises:
            OverLimit: it took longer.
        """
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - it is awaited in one
        others = task.cancelling()
        due = self._due()
        if due is not None:
            seconds, failure = due
            self._timer = asyncio.get_running_loop().call_later(seconds, self._end, task, failure)
        try:
            return (yield from go_on(call, waits_for))  # type: ignore[no-any-return]  # a reply
        except asyncio.CancelledError:
            if self._cancels and task.cancelling() - self._cancels <= others:
                raise OverLimit from None
            raise
        finally:
            if self._timer is not None:
                self._timer.cancel()
            for _ in range(self._cancels):
                task.uncancel()

    def _due(self) -> tuple[float, ModelFailure] | None:
        """Return when the call is over, in seconds from now, and the failure that it is then."""
        turn, limits = self._turn, self._turn.limits
        own = limits.max_call_seconds
        if limits.max_seconds is not None and turn.started is not None:
            passed_ms = turn.services.clock.now_ms() - turn.started.started_ms
            left = max(0.0, limits.max_seconds - passed_ms / 1000)
            if own is None or left <= own:
                why = f"The turn took {limits.max_seconds:g} seconds"
                return left, _failure("max_seconds", why)
        if own is None:
            return None
        return own, _failure("max_call_seconds", f"The model call took {own:g} seconds")

    def _end(self, task: asyncio.Task[Any], failure: ModelFailure) -> None:
        """Interrupt an adapter whose time is over, again and again."""
        self.failure = failure
        self._cancels += 1
        task.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_AGAIN_S, self._end, task, failure)


def _failure(name: str, detail: str) -> ModelFailure:
    """Return the failure that names the limit, as its code and in words."""
    message = f"{detail}, which is the limit ({name})."
    return ModelFailure(message=message, code=name, terminal=LIMIT)


def most_bytes(reply: ModelReply) -> int:
    """Return how large the text, the thoughts and the arguments of a reply are, at most: as JSON, which holds them all."""
    return len(_ENCODER.encode(reply.parts))


def _weight(reply: ModelReply) -> int:
    n = 0
    for part in reply.parts:
        if isinstance(part, ToolCall):
            n += _n_bytes(part.raw) or len(_ENCODER.encode(part.args))
        elif isinstance(part, Reasoning):
            n += _n_bytes(part.text) + len(_ENCODER.encode(part.replay))
        else:
            n += _n_bytes(part.text) + _added(part)
    return n


def _added(part: Text | ServerToolCall) -> int:
    """Return how large is what a provider added to words, or found by itself."""
    cited = part.citations if isinstance(part, Text) else ()
    return sum([len(_ENCODER.encode(each)) for each in (*cited, part.replay) if each is not None])


def _n_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))

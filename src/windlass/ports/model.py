"""The model: one call in, one reply out, with previews on the way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Protocol, TypeAlias

from windlass.kernel import ModelReply, ModelRequest, Value


class TextChunk(Value, kw_only=True):
    """Some words of the reply, as they come.

    Attributes:
        text: The words that came since the last chunk.
        phase: `commentary` for words that are not part of the answer, if the provider tells them apart.
    """

    text: str
    phase: str | None = None


class ReasoningChunk(Value, kw_only=True):
    """Some of the model's thoughts, as they come.

    Attributes:
        text: The thoughts that came since the last chunk.
    """

    text: str


class CallChunk(Value, kw_only=True):
    """Some of the arguments that the model writes for a tool call, as they come.

    Attributes:
        call_id: Which call, by the provider's id; empty where the provider gives none.
        name: Which tool the model asks for.
        text: The JSON text that came since the last chunk.
    """

    call_id: str
    name: str
    text: str


class AttemptFailed(Value, kw_only=True):
    """What was shown so far came to nothing; the adapter tries again after `wait_ms`.

    Attributes:
        reason: Why the attempt failed, in words for people.
        wait_ms: Milliseconds until the next attempt; 0 tries again at once.
    """

    reason: str
    wait_ms: int = 0


ModelEvent: TypeAlias = TextChunk | ReasoningChunk | CallChunk | AttemptFailed
EmitModelEvent: TypeAlias = Callable[[ModelEvent], None]

READ_BLOB: ContextVar[Callable[[str], Awaitable[bytes]] | None] = ContextVar(
    "windlass_read_blob", default=None
)
"""Reads the bytes of an attachment by its `ref`, while a model is asked; None where there is no store."""


class Model(Protocol):
    """Something that answers requests. Its name is what usage is counted under."""

    @property
    def name(self) -> str:
        """What requests, journals and usage call it, such as `anthropic:claude-sonnet-4-5`."""
        ...

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        """Answer a request; `emit` shows what is there already.

        Args:
            request: What is asked: messages, tools, settings.
            emit: Call it with each `TextChunk`, `ReasoningChunk` or `CallChunk` as it comes.

        Raises:
            ProviderError: there is no reply. Its `retry` says whether asking again later may help.
        """
        ...

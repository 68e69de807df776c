"""Models without a provider: a script that is played, a function that answers.

Law 1. What is answered depends on the request and on the script, never on the process: a script that
    another process opens in the middle of a turn goes on where that turn is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable
from itertools import pairwise
from typing import TypeAlias

import msgspec

from windlass.errors import InvalidInput, Rejected
from windlass.kernel import ModelMessage, ModelReply, ModelRequest, ToolCall, ToolResult
from windlass.kernel.model_call import ReplyPart
from windlass.ports.model import EmitModelEvent, TextChunk

ScriptLine: TypeAlias = ModelReply | Exception
Answer: TypeAlias = ModelReply | str


class ScriptedModel:
    """Plays replies in order; an error in the script is raised in its place.

    A reply is played at its place in the turn: the number of assistant messages since the user last
    spoke, or further on if this object has played more. So one object plays its script over several turns,
    and a new object in a new process finds its place in the middle of the first one.

    Args:
        replies: What to play: replies, as `say` and `call` make them, and errors to raise in their place.
        name: What turns know the model by.
        chunks: In how many pieces the words of a reply are shown before the reply is returned; 0 shows none.

    Attributes:
        name: What turns know the model by.
        requests: What it was asked, each request in order.
        n_missing: How often it was asked for a reply that the script does not have. Such a call is `Rejected`, which
            ends the turn: a test looks here, or uses the fixture `scripted`.
    """

    def __init__(
        self, replies: Iterable[ScriptLine], *, name: str = "scripted", chunks: int = 0
    ) -> None:
        self._script = tuple(replies)
        for at, line in enumerate(self._script):
            _check_line(line, field=f"replies[{at}]")
        if chunks < 0:
            raise InvalidInput.at("chunks", chunks, "0 or more")
        self.name = name
        self.requests: list[ModelRequest] = []
        self.n_missing = 0
        self._chunks = chunks
        self._next = 0

    @property
    def n_replies(self) -> int:
        """How many replies the script has."""
        return len(self._script)

    @property
    def n_left(self) -> int:
        """How many replies were not played yet."""
        return len(self._script) - self._next

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        """Play the reply whose place this is. It takes what `Model.complete` takes.

        Raises:
            Rejected: the script has no such reply.
        """
        self.requests.append(request)
        position = max(self._next, replies_so_far(request))
        if position >= len(self._script):
            found, wanted = len(self._script), position + 1
            self.n_missing += 1
            told = f"{self.name}: the script of {found} replies has no reply number {wanted}"
            raise Rejected(told, field="replies", found=found, wanted=wanted)
        self._next = position + 1
        line = self._script[position]
        if isinstance(line, Exception):
            raise line
        for piece in _pieces(line.text, self._chunks):
            emit(TextChunk(text=piece))
            await _NextInLoop()
        return placed(line, position)


class FunctionModel:
    """Answers with a function of the request, sync or async; words alone are a reply of words.

    Calls that `windlass.testing.call` made get ids that derive from the place in the conversation.

    Args:
        fn: Answers a request with a `ModelReply` or with words; sync or async.
        name: What turns know the model by.
    """

    def __init__(
        self,
        fn: Callable[[ModelRequest], Answer | Awaitable[Answer]],
        *,
        name: str = "function",
    ) -> None:
        self.name = name
        self.requests: list[ModelRequest] = []
        self._fn = fn

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:  # noqa: ARG002 - the port's
        """Return what the function answers. It takes what `Model.complete` takes."""
        self.requests.append(request)
        answer = self._fn(request)
        if isinstance(answer, Awaitable):
            answer = await answer
        if isinstance(answer, str):
            return ModelReply(text=answer)
        if not isinstance(answer, ModelReply):
            raise InvalidInput.at(self.name, type(answer).__name__, "a ModelReply or text")
        position = sum(1 for message in request.messages if message.role == "assistant")
        return placed(answer, position)


def placed(reply: ModelReply, position: int) -> ModelReply:
    """Return a reply of a script with call ids that derive from its position there.

    Ids that were written by hand stay as they are.
    """
    at = 0
    parts: list[ReplyPart] = []
    for part in reply.parts:
        if isinstance(part, ToolCall):
            if part.call_id == unplaced_id(at):
                part = msgspec.structs.replace(part, call_id=f"call_{position}_{at}")  # noqa: PLW2901
            at += 1
        parts.append(part)
    return msgspec.structs.replace(reply, parts=tuple(parts)) if at else reply


def unplaced_id(at: int) -> str:
    """Return the id of a reply's call before the reply has a place: only the call's own ordinal."""
    return f"call_{at}"


def replies_so_far(request: ModelRequest) -> int:
    """Return how many replies of the model this turn has already, as far as the request shows it."""
    found = 0
    for message in reversed(request.messages):
        if message.role == "assistant":
            found += 1
        elif not _holds_only_results(message):
            break
    return found


def _holds_only_results(message: ModelMessage) -> bool:
    return all(isinstance(part, ToolResult) for part in message.parts)


def _check_line(line: object, *, field: str) -> None:
    if not isinstance(line, ModelReply | Exception):
        raise InvalidInput.at(field, type(line).__name__, "a ModelReply or an exception to raise")


def _pieces(text: str, wanted: int) -> list[str]:
    """Cut text into pieces of nearly the same length, none of them empty."""
    count = min(wanted, len(text))
    cuts = [len(text) * at // count for at in range(count + 1)] if count else []
    return [text[start:end] for start, end in pairwise(cuts)]


class _NextInLoop:
    """Lets others of the event loop go first, as a network would; `asyncio` itself is not needed."""

    def __await__(self) -> Generator[None, None, None]:
        yield

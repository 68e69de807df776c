"""What observers see.

A *fact* is durable before it is shown and is never taken back. A *preview* is live and may be
retracted. Events with the same `correlation_id` belong to one model call or one tool call. The
machine fills in `id` and `correlation_id`; both derive from the turn, so a replay gives the same.
`cursor` is where a live reader stands after the event: filled in when it is delivered, never stored.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

import msgspec

from windlass.kernel import canonical
from windlass.kernel.ids import TurnIds
from windlass.kernel.messages import (
    Citation,
    Message,
    ServerToolCall,
    citations_in,
    commentary_in,
)
from windlass.kernel.model_call import ModelReply, Usage
from windlass.kernel.outcomes import Outcome
from windlass.kernel.tool_call import PendingToolCall, ToolOutcome
from windlass.kernel.value import EMPTY_DICT, FrozenDict, Json, JsonValue, Value


class _Event(Value, kw_only=True):
    preview: ClassVar[bool] = False

    id: str = ""
    correlation_id: str = ""
    cursor: str = ""


class _JsonEvent(_Event, JsonValue, kw_only=True):
    pass


class ModelStarted(_Event, kw_only=True):
    """A model call is about to go out."""

    preview: ClassVar[bool] = True

    iteration: int
    message_count: int
    tools: tuple[str, ...] = ()


class ModelFinished(_Event, kw_only=True):
    """A model call came back with this text; `calls` are the tool calls of it that run next.

    `commentary` is what the model said on the way, apart from the text. `citations` are the pages that the text rests
    on, each once; `server_tools` tells what the provider ran by itself, a line each.
    """

    iteration: int
    text: str
    calls: tuple[PendingToolCall, ...] = ()
    commentary: str = ""
    citations: tuple[Citation, ...] = ()
    server_tools: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, reply: ModelReply, *, iteration: int, calls: tuple[PendingToolCall, ...] = ()
    ) -> ModelFinished:
        """Return what is told of a reply: its words, and apart from them what its provider added."""
        return cls(
            iteration=iteration,
            text=reply.text,
            calls=calls,
            commentary=commentary_in(reply.parts),
            citations=citations_in(reply.parts),
            server_tools=tuple(
                [
                    f"{part.name}: {part.text}" if part.text else part.name
                    for part in reply.parts
                    if type(part) is ServerToolCall
                ]
            ),
        )


class UsageReported(_Event, kw_only=True):
    """What one call used, and the turn so far."""

    iteration: int
    usage: Usage
    cumulative: Usage


class TextDelta(_Event, kw_only=True):
    """Some words of the reply; `phase` is `commentary` for those that are not part of the answer."""

    preview: ClassVar[bool] = True

    text: str
    phase: str | None = None


class ReasoningDelta(_Event, kw_only=True):
    """Some of the model's thoughts."""

    preview: ClassVar[bool] = True

    text: str


class ToolInputDelta(_Event, kw_only=True):
    """Some of the arguments that the model writes for a call, before the call is there.

    `call_id` is the provider's; the call may get another, and none of it may run.
    """

    preview: ClassVar[bool] = True

    call_id: str
    name: str
    text: str


class ToolStarted(_JsonEvent, kw_only=True):
    """A tool's body is about to run."""

    preview: ClassVar[bool] = True
    json_fields: ClassVar[tuple[str, ...]] = ("args",)

    call_id: str
    name: str
    args: dict[str, Any] = EMPTY_DICT

    def __post_init__(self) -> None:
        """Freeze the arguments, unless they come from a value and are frozen already."""
        if type(self.args) is not FrozenDict:
            super().__post_init__()


class ToolProgress(_JsonEvent, kw_only=True):
    """A running tool reports something."""

    preview: ClassVar[bool] = True
    json_fields: ClassVar[tuple[str, ...]] = ("data",)

    call_id: str
    name: str
    data: Json = None


class ToolFinished(_JsonEvent, kw_only=True):
    """A tool call ended; `args` is what really ran."""

    json_fields: ClassVar[tuple[str, ...]] = ("args",)

    call_id: str
    name: str
    args: dict[str, Any] = EMPTY_DICT
    outcome: ToolOutcome
    duration_ms: int = 0

    def __post_init__(self) -> None:
        """Freeze the arguments, unless they come from a value and are frozen already."""
        if type(self.args) is not FrozenDict:
            super().__post_init__()


class CodeStarted(_Event, kw_only=True):
    """A cell is about to run."""

    preview: ClassVar[bool] = True

    language: str
    code: str


class CodeFinished(_Event, kw_only=True):
    """A cell ended."""

    language: str
    output: str = ""
    error: str | None = None
    duration_ms: int = 0


class Error(_Event, kw_only=True):
    """Something failed; the outcome says whether the turn went on."""

    message: str
    code: str | None = None
    terminal: str | None = None

    def with_ids(self, ids: TurnIds, about: str = "0") -> Error:
        """Return an issue of a turn with its ids, unless it has them.

        Its own follows from what it says, so every drive of the turn gives it the same one. `about` is the effect or the
        call that it arose in; 0 is the turn.
        """
        if self.id:
            return self
        said = canonical.digest([self.code, self.message])[:16]
        event_id, correlation_id = ids.event(f"issue.{said}"), ids.correlation(about)
        return msgspec.structs.replace(self, id=event_id, correlation_id=correlation_id)


class TurnEnded(_Event, kw_only=True):
    """The turn's one outcome."""

    outcome: Outcome


class Retrying(_Event, kw_only=True):
    """A model call will be tried again."""

    preview: ClassVar[bool] = True

    attempt: int
    reason: str
    wait_ms: int = 0


class Retracted(_Event, kw_only=True):
    """Forget the previews with these correlation ids."""

    preview: ClassVar[bool] = True

    correlation_ids: tuple[str, ...]


class WaitOpened(_Event, kw_only=True):
    """The turn waits for an answer from outside."""

    key: str
    kind: str
    title: str = ""
    call_id: str | None = None
    expires_ms: int | None = None


class WaitResolved(_Event, kw_only=True):
    """The answer came, or the wait expired."""

    key: str
    kind: str
    status: str
    by: str | None = None


class InputAccepted(_Event, kw_only=True):
    """Input from the inbox entered the turn."""

    input_id: str
    message_ids: tuple[str, ...] = ()


class ChildUsage(_Event, kw_only=True):
    """What a child session used."""

    session_id: str
    source: str
    model: str
    usage: Usage
    cumulative: Usage


class ProcessEvent(_JsonEvent, kw_only=True):
    """Something that a process told its observers with `ctx.emit`."""

    json_fields: ClassVar[tuple[str, ...]] = ("value",)

    name: str
    value: Json = None


class ChildEvent(_Event, kw_only=True):
    """What a child shows while it works, where it runs in the same process: for the observers of the turn above it.

    `session_id` and `turn_id` are those of the turn that speaks. `path` are the names on the way down to it from the turn
    that is observed, `call_id` is the call there. The facts among these are facts of the session that speaks.
    """

    preview: ClassVar[bool] = True

    session_id: str
    turn_id: str
    event: Event
    path: tuple[str, ...] = ()
    call_id: str | None = None


class PluginEvent(_JsonEvent, kw_only=True):
    """Something a plugin wants shown."""

    preview: ClassVar[bool] = True
    json_fields: ClassVar[tuple[str, ...]] = ("data",)

    plugin: str
    name: str
    data: Json = None


class Recovered(_Event, kw_only=True):
    """The turn goes on after a crash: `view` replaces every preview of it. A slow reader gets it, too."""

    preview: ClassVar[bool] = True

    view: tuple[Message, ...] = ()


Event: TypeAlias = (
    ModelStarted
    | ModelFinished
    | UsageReported
    | TextDelta
    | ReasoningDelta
    | ToolInputDelta
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | CodeStarted
    | CodeFinished
    | Error
    | TurnEnded
    | Retrying
    | Retracted
    | WaitOpened
    | WaitResolved
    | InputAccepted
    | ChildUsage
    | ProcessEvent
    | ChildEvent
    | PluginEvent
    | Recovered
)

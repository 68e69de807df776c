"""What the machine is told: a closed union. Each answers the effect with its id."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from windlass.guards.text import check_text
from windlass.kernel.history_view import WHOLE, HistoryView
from windlass.kernel.messages import Origin, Part, TurnCause
from windlass.kernel.model_call import ModelFailure, ModelReply
from windlass.kernel.tool_call import CompletedToolCall, ToolSpec, checked_tools
from windlass.kernel.value import (
    Json,
    JsonValue,
    Value,
    check_instance,
    repair_text,
    set_field,
    use_default,
)


class Failure(Value, kw_only=True):
    """The world could not do it."""

    message: str
    code: str | None = None

    def __post_init__(self) -> None:
        """Repair foreign text: a failure must always be tellable."""
        repair_text(self, "message", "code")


class Environment(Value, kw_only=True):
    """The prompt and tools that hold from now on, and what of the history is shown."""

    system_prompt: str = ""
    tools: tuple[ToolSpec, ...] = ()
    view: HistoryView = WHOLE

    def __post_init__(self) -> None:
        """Refuse what could not be in force."""
        check_text(self.system_prompt, field="Environment.system_prompt")
        set_field(self, "tools", checked_tools(self.tools, field="Environment.tools"))
        if self.view is not WHOLE:
            check_instance(self.view, HistoryView, field="Environment.view")
            use_default(self, "view", WHOLE)


class InjectedMessage(Value, kw_only=True):
    """A message that enters at a checkpoint; the machine gives it an id."""

    role: str
    parts: tuple[Part, ...]
    origin: Origin | None = None


class CheckpointDelivery(Value, kw_only=True):
    """What came in: messages to keep, messages for this turn's model only, causes."""

    messages: tuple[InjectedMessage, ...] = ()
    transient_messages: tuple[InjectedMessage, ...] = ()
    causes: tuple[TurnCause, ...] = ()


NOTHING_CAME = CheckpointDelivery()


class CodeResult(JsonValue, kw_only=True):
    """What a cell did. `finished` means that it ended the turn with `value`."""

    json_fields: ClassVar[tuple[str, ...]] = ("value",)

    output: str = ""
    value: Json = None
    error: str | None = None
    tool_calls: tuple[CompletedToolCall, ...] = ()
    finished: bool = False
    duration_ms: int = 0

    def __post_init__(self) -> None:
        """Freeze the value; repair what the cell printed."""
        super().__post_init__()
        repair_text(self, "output", "error")


class EnvironmentSynced(Value, kw_only=True):
    """Answers `SyncEnvironment`; None keeps prompt, tools and view as they are."""

    id: int
    result: Environment | Failure | None = None


class ModelReplied(Value, kw_only=True):
    """Answers `CallModel`. `text_streamed` says that observers have seen the text already."""

    id: int
    result: ModelReply | ModelFailure
    text_streamed: bool = False


class ToolsReturned(Value, kw_only=True):
    """Answers `CallTools`: one result for every call."""

    id: int
    results: tuple[CompletedToolCall, ...]


class CodeReturned(Value, kw_only=True):
    """Answers `RunCode`."""

    id: int
    result: CodeResult | Failure


class CheckpointPassed(Value, kw_only=True):
    """Answers `RunCheckpoint`."""

    id: int
    delivery: CheckpointDelivery | Failure = NOTHING_CAME

    def __post_init__(self) -> None:
        """Take the default for what it is."""
        if self.delivery is not NOTHING_CAME:
            use_default(self, "delivery", NOTHING_CAME)


Response: TypeAlias = (
    EnvironmentSynced | ModelReplied | ToolsReturned | CodeReturned | CheckpointPassed
)

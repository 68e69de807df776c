"""A tool's specification, a call that waits, a call that ended."""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

from windlass.kernel import canonical
from windlass.kernel.messages import (
    ResultPart,
    Text,
    ToolResult,
    ToolStatus,
    as_parts,
    check_object,
    is_blank,
)
from windlass.kernel.value import FrozenDict, Json, JsonValue, set_field


class ToolSpec(JsonValue, kw_only=True):
    """What the model is told of a tool; `parameters` is its JSON schema."""

    json_fields: ClassVar[tuple[str, ...]] = ("parameters",)

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}  # noqa: RUF012 - frozen below, and msgspec copies defaults

    def __post_init__(self) -> None:
        """Freeze the schema; refuse one that is not an object."""
        super().__post_init__()
        check_object(self.parameters, field="ToolSpec.parameters")


class EndTurn(JsonValue, kw_only=True):
    """A tool's result that ends the turn with this value."""

    json_fields: ClassVar[tuple[str, ...]] = ("value",)

    value: Json = None


class FailTurn(JsonValue, kw_only=True):
    """A tool's result that stops the turn as failed."""

    json_fields: ClassVar[tuple[str, ...]] = ("value",)

    value: Json = None


class HandOff(JsonValue, kw_only=True):
    """A tool's result that hands the task to another agent."""

    json_fields: ClassVar[tuple[str, ...]] = ("task",)

    target: str
    task: Json = None


Control: TypeAlias = EndTurn | FailTurn | HandOff


class ToolOutcome(JsonValue, kw_only=True):
    """How a call ended. `shown` is the model's view, when it differs from the value.

    `unknown` means that nobody can say whether the tool acted.
    """

    json_fields: ClassVar[tuple[str, ...]] = ("value",)

    status: ToolStatus = "ok"
    value: Json = None
    content: tuple[ResultPart, ...] = ()
    shown: tuple[ResultPart, ...] | None = None
    control: Control | None = None

    def __post_init__(self) -> None:
        """Freeze the value; take plain text for content and shown."""
        super().__post_init__()
        if type(self.content) is not tuple:
            set_field(self, "content", as_parts(self.content))
        if self.shown is not None and type(self.shown) is not tuple:
            set_field(self, "shown", as_parts(self.shown))


class PendingToolCall(JsonValue, kw_only=True):
    """A call the machine asks the world to run."""

    json_fields: ClassVar[tuple[str, ...]] = ("args", "replay")

    call_id: str
    name: str
    args: dict[str, Any] = {}  # noqa: RUF012 - frozen below, and msgspec copies defaults
    replay: Json = None

    def __post_init__(self) -> None:
        """Freeze arguments and blob, unless they come from a value and are frozen already."""
        if type(self.args) is not FrozenDict or self.replay is not None:
            super().__post_init__()


class CompletedToolCall(JsonValue, kw_only=True):
    """A call that ended; `args` is what really ran."""

    json_fields: ClassVar[tuple[str, ...]] = ("args", "replay")

    call_id: str
    name: str
    args: dict[str, Any] = {}  # noqa: RUF012 - frozen below, and msgspec copies defaults
    outcome: ToolOutcome
    duration_ms: int = 0
    replay: Json = None

    def as_result(self) -> ToolResult:
        """Return what the model is shown of it."""
        outcome = self.outcome
        content = outcome.shown
        if content is None:
            content = outcome.content
            if outcome.value is not None:
                content = (Text(text=_as_text(outcome.value)), *content)
        content = tuple([part for part in content if not is_blank(part)])
        if not content:
            nothing = "(no output)" if outcome.status == "ok" else f"({outcome.status})"
            content = (Text(text=nothing),)
        return ToolResult(
            call_id=self.call_id, name=self.name, content=content, status=outcome.status
        )


def _as_text(value: Json) -> str:
    return value if isinstance(value, str) else canonical.encode(value).decode()

"""How a turn ended. A refusal, a cancel, a spent limit are outcomes, not exceptions."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from windlass.kernel.value import Json, JsonValue, Value

StopReason: TypeAlias = Literal[
    "incomplete",
    "provider_error",
    "cancelled",
    "max_iterations",
    "limit",
    "refused",
    "tool_failure",
    "runtime_error",
    "invalid_input",
    "invalid_output",
    "unfinished",
]


class Finished(Value, kw_only=True):
    """The model's last words."""

    text: str = ""


class FinishedValue(JsonValue, kw_only=True):
    """A value, from structured output or from code."""

    json_fields: ClassVar[tuple[str, ...]] = ("value",)

    value: Json = None


class FinishedByTool(JsonValue, kw_only=True):
    """A tool ended the turn with a value."""

    json_fields: ClassVar[tuple[str, ...]] = ("value",)

    tool: str
    value: Json = None


class HandedOff(JsonValue, kw_only=True):
    """Another agent goes on with the task."""

    json_fields: ClassVar[tuple[str, ...]] = ("task",)

    target: str
    task: Json = None


class Stopped(Value, kw_only=True):
    """The turn ended without an answer; `detail` says more for people."""

    reason: StopReason
    detail: str = ""


Outcome: TypeAlias = Finished | FinishedValue | FinishedByTool | HandedOff | Stopped

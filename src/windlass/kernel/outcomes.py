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
    """The model's last words.

    Attributes:
        text: The model's final answer in words.
    """

    text: str = ""


class FinishedValue(JsonValue, kw_only=True):
    """A value, from structured output or from code.

    Attributes:
        value: The answer as JSON, in the shape of `output_type`.
    """

    json_fields: ClassVar[tuple[str, ...]] = ("value",)

    value: Json = None


class FinishedByTool(JsonValue, kw_only=True):
    """A tool ended the turn with a value.

    Attributes:
        tool: The name of the tool whose result ended the turn.
        value: What the tool ended the turn with, as JSON.
    """

    json_fields: ClassVar[tuple[str, ...]] = ("value",)

    tool: str
    value: Json = None


class HandedOff(JsonValue, kw_only=True):
    """Another agent goes on with the task.

    Attributes:
        target: The name of the agent that goes on.
        task: What that agent is to do, in words.
    """

    json_fields: ClassVar[tuple[str, ...]] = ("task",)

    target: str
    task: Json = None


class Stopped(Value, kw_only=True):
    """The turn ended without an answer; `detail` says more for people.

    Attributes:
        reason: Why, as one of a few words: `cancelled`, `limit`, `provider_error`, `tool_failure` and others.
        detail: The same in a sentence for people; may be empty.
    """

    reason: StopReason
    detail: str = ""


Outcome: TypeAlias = Finished | FinishedValue | FinishedByTool | HandedOff | Stopped

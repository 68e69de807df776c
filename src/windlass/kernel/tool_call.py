"""A tool's specification, a call that waits, a call that ended."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, ClassVar, TypeAlias

from windlass.errors import InvalidInput
from windlass.guards import INPUT_LIMITS, check_limit, check_text
from windlass.kernel import canonical
from windlass.kernel.messages import (
    OK,
    ResultPart,
    Text,
    ToolResult,
    ToolStatus,
    as_parts,
    check_object,
    is_blank,
)
from windlass.kernel.value import (
    EMPTY_DICT,
    FrozenDict,
    Json,
    JsonValue,
    repair_text,
    set_field,
    use_default,
)

# The narrowest of the providers' rules: a name stands in every later request, to any of them.
MAX_NAME_CHARS = INPUT_LIMITS.tool_name_chars
TOOL_NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_-]{{0,{MAX_NAME_CHARS - 1}}}\Z")


def is_tool_name(name: object) -> bool:
    """Whether every provider takes this as a tool's name."""
    return isinstance(name, str) and TOOL_NAME.match(name) is not None


class ToolSpec(JsonValue, kw_only=True):
    """How a tool is described to the model; `parameters` is its JSON schema.

    Attributes:
        name: What the model calls it by: a letter or `_`, then up to 63 of `A-Z a-z 0-9 _ -`.
        description: What it does and when to use it, for the model.
        parameters: The JSON schema of its arguments, an object.
    """

    json_fields: ClassVar[tuple[str, ...]] = ("parameters",)

    name: str
    description: str = ""
    parameters: dict[str, Any] = EMPTY_DICT

    def __post_init__(self) -> None:
        """Freeze the schema; refuse one that is not an object, and a name that providers refuse."""
        super().__post_init__()
        check_object(self.parameters, field="ToolSpec.parameters")
        check_text(self.description, field="ToolSpec.description")
        if not is_tool_name(self.name):
            raise InvalidInput.at(
                "ToolSpec.name",
                "a name that not every provider takes",
                "a letter or _, then up to 63 of A-Z a-z 0-9 _ -",
            )


def checked_tools(tools: Iterable[ToolSpec], *, field: str) -> tuple[ToolSpec, ...]:
    """Return tools that can be offered together.

    Raises:
        InvalidInput: two have one name, or something is not a `ToolSpec`.
        LimitExceeded: too many.
    """
    try:
        checked = tuple(tools)
    except TypeError:
        raise InvalidInput.at(field, type(tools).__name__, "tools") from None
    check_limit("tools", len(checked), field=field)
    for at, tool in enumerate(checked):
        if type(tool) is not ToolSpec:
            raise InvalidInput.at(f"{field}[{at}]", type(tool).__name__, "ToolSpec")
    if len({tool.name for tool in checked}) < len(checked):
        raise InvalidInput.at(field, "two tools of one name", "each name once")
    return checked


class EndTurn(JsonValue, kw_only=True):
    """A tool's result that ends the turn with this value.

    Attributes:
        value: What the turn ends with; any JSON.
    """

    json_fields: ClassVar[tuple[str, ...]] = ("value",)

    value: Json = None


class FailTurn(JsonValue, kw_only=True):
    """A tool's result that stops the turn as failed.

    Attributes:
        value: Why it failed, for people; any JSON.
    """

    json_fields: ClassVar[tuple[str, ...]] = ("value",)

    value: Json = None


class HandOff(JsonValue, kw_only=True):
    """A tool's result that hands the task to another agent.

    Attributes:
        target: The name of the agent that goes on.
        task: What that agent is to do, in words.
    """

    json_fields: ClassVar[tuple[str, ...]] = ("task",)

    target: str
    task: Json = None

    def __post_init__(self) -> None:
        """Freeze the task; refuse a target that cannot be stored everywhere."""
        super().__post_init__()
        check_text(self.target, field="HandOff.target")


Control: TypeAlias = EndTurn | FailTurn | HandOff


class ToolOutcome(JsonValue, kw_only=True):
    """How a call ended. `shown` is the model's view, when it differs from the value.

    `unknown` means that the tool may or may not have acted.
    """

    json_fields: ClassVar[tuple[str, ...]] = ("value",)

    status: ToolStatus = OK
    value: Json = None
    content: tuple[ResultPart, ...] = ()
    shown: tuple[ResultPart, ...] | None = None
    control: Control | None = None

    def __post_init__(self) -> None:
        """Freeze the value; take plain text for content and shown."""
        value = self.value
        # Most results are plain ASCII text; checking that here saves three calls.
        if value is not None and (type(value) is not str or not value.isascii() or "\x00" in value):
            super().__post_init__()
        if self.status is not OK:
            use_default(self, "status", OK)
        if type(self.content) is not tuple:
            set_field(self, "content", as_parts(self.content))
        if self.shown is not None and type(self.shown) is not tuple:
            set_field(self, "shown", as_parts(self.shown))


class PendingToolCall(JsonValue, kw_only=True):
    """A call the machine asks the world to run."""

    json_fields: ClassVar[tuple[str, ...]] = ("args", "replay")

    call_id: str
    name: str
    args: dict[str, Any] = EMPTY_DICT
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
    args: dict[str, Any] = EMPTY_DICT
    outcome: ToolOutcome
    duration_ms: int = 0
    replay: Json = None

    def __post_init__(self) -> None:
        """Freeze arguments and blob, unless they are frozen already; repair the name."""
        if type(self.args) is not FrozenDict or self.replay is not None:
            super().__post_init__()
        name = self.name
        # Most names are identifiers, which are clean; checking that here saves a call.
        if type(name) is not str or not name.isidentifier():
            repair_text(self, "name")

    def as_result(self, name: str) -> ToolResult:
        """Return what the model is shown of it, under the name that it called."""
        outcome = self.outcome
        content, status = outcome.shown, outcome.status
        if content is None:
            content = outcome.content
            if outcome.value is not None:
                value = outcome.value
                text = value if type(value) is str else as_text(value)
                if text and not text.isspace() and not content:
                    content = (Text(text=text),)
                    return ToolResult(
                        call_id=self.call_id, name=name, content=content, status=status
                    )
                content = (Text(text=text), *content)
        content = tuple([part for part in content if not is_blank(part)])
        if not content:
            content = (Text(text="(no output)" if status == "ok" else f"({status})"),)
        return ToolResult(call_id=self.call_id, name=name, content=content, status=status)


def as_text(value: Json) -> str:
    """Return a tool's value as the model reads it."""
    if type(value) is str:
        return value
    return str(value) if type(value) is int else canonical.encode(value).decode()

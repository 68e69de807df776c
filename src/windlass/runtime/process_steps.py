"""The steps of a process: calls of tools, functions and agents at a position, and the values that they return."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import msgspec

from windlass.errors import StepUnknown, ToolDenied, ToolError, ToolFailed, ToolTimeout
from windlass.kernel import Attachment, CompletedToolCall, Json, ToolOutcome, canonical
from windlass.kernel.messages import Text
from windlass.kernel.value import thaw
from windlass.ports.tool import ToolContext
from windlass.runtime.agent_call import AgentCallRun
from windlass.runtime.large_values import off_loop
from windlass.runtime.tool_call import ToolCallRun
from windlass.runtime.turn import Turn
from windlass.runtime.turn_signals import ReplayBlocked

# The name of the file that keeps a long value of a step.
_VALUE_NAME = "step-value.json"
_VALUE_TYPE = "application/json"


class Kept(NamedTuple):
    """The value of a step that is too long for the journal."""

    value: Json


class _GivenTool(ToolCallRun):
    """A tool call of a process: the process brings the tool; no model was offered it."""

    def remember_unknown(self, ran_as: str) -> None:
        """Do nothing: the function gets `StepUnknown` and decides; no model has to know."""

    @property
    def is_recorded(self) -> bool:
        """Whether an earlier drive has recorded its result."""
        row = self.turn.row(self._asked.key)
        return row is not None and row.outcome is not None


class StepRun(_GivenTool):
    """A step: the call of a tool or a function."""


class AgentStepRun(_GivenTool, AgentCallRun):
    """The call of an agent. It is not one of several calls of a reply: the function may ask for more later."""

    _is_in_row = False


AnyStep: TypeAlias = StepRun | AgentStepRun


async def kept_value(ctx: ToolContext[Any], value: Json) -> Attachment:
    """Store a value that is too long for the journal as a file, and return the attachment."""
    data = await off_loop(canonical.encode, value)
    return await ctx.attach(data, media_type=_VALUE_TYPE, name=_VALUE_NAME)


async def kept_in(completed: CompletedToolCall, turn: Turn) -> Kept | None:
    """Return the value of a step if it is kept as a file."""
    for part in completed.outcome.content:
        if isinstance(part, Attachment) and part.name == _VALUE_NAME:
            if turn.is_replay:
                raise ReplayBlocked("A value is kept in a file, which a replay does not read")
            data = await turn.services.store.get_blob(part.ref)
            return Kept(thaw(await off_loop(_parsed, data)))
    return None


def _parsed(data: bytes) -> Json:
    return canonical.parse(data.decode())


def value_of(completed: CompletedToolCall, kept: Kept | None) -> Json:
    """Return the value of a step.

    Raises:
        ToolFailed, ToolTimeout, ToolDenied, StepUnknown: the step has no value.
    """
    outcome, name = completed.outcome, completed.name
    if outcome.status == "ok":
        if outcome.value is not None:
            return thaw(outcome.value)
        return _told(outcome, name) if kept is None else kept.value
    raise failure_of(outcome)(f"{name}: {outcome.value}", field=name)


def failure_of(outcome: ToolOutcome) -> type[ToolError]:
    """Return the exception for a step that did not succeed."""
    kinds: dict[str, type[ToolError]] = {
        "unknown": StepUnknown,
        "denied": ToolDenied,
        "timeout": ToolTimeout,
    }
    return kinds.get(outcome.status, ToolFailed)


def _told(outcome: ToolOutcome, name: str) -> Json:
    """Return a result that is not a plain value: text and files, or a request to end the turn."""
    control = outcome.control
    if control is not None:
        value: Json = msgspec.to_builtins(control)
        return value
    if outcome.content:
        if all(isinstance(part, Text) for part in outcome.content):
            return "\n".join([part.text for part in outcome.content if isinstance(part, Text)])
        return [msgspec.to_builtins(part) for part in outcome.content]
    if outcome.shown:
        raise ToolFailed(f"{name}: it ran, but what it returned cannot be kept", field=name)
    return None

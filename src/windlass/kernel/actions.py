"""What a driver tells the machine to do next: a closed union, applied in order.

All after `Finish` is dropped. At most one action of a batch starts something.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from windlass.errors import WindlassBug
from windlass.kernel.effects import CheckpointKind
from windlass.kernel.events import Event
from windlass.kernel.messages import Message, Record
from windlass.kernel.model_call import ModelRequest
from windlass.kernel.outcomes import Outcome
from windlass.kernel.tool_call import PendingToolCall
from windlass.kernel.value import Json, JsonValue, Value


class EmitEvent(Value, kw_only=True):
    """Show an event; the machine fills in its ids."""

    event: Event


class Append(Value, kw_only=True):
    """Add records to the turn; messages among them to the history."""

    records: tuple[Record, ...]


class StartModel(Value, kw_only=True):
    """Call the model; `driver_state` comes back with the reply."""

    request: ModelRequest
    driver_state: Json = None


class StartTools(Value, kw_only=True):
    """Run tool calls."""

    calls: tuple[PendingToolCall, ...]


class StartCode(JsonValue, kw_only=True):
    """Run a cell; `driver_state` comes back with the result."""

    json_fields: ClassVar[tuple[str, ...]] = ("driver_state",)

    language: str
    code: str
    driver_state: Json = None


class StartCheckpoint(Value, kw_only=True):
    """Take in new messages. If none came: `then` ends the turn, None prepares the next iteration."""

    kind: CheckpointKind
    then: Outcome | None = None


class NextIteration(Value, kw_only=True):
    """Count one iteration."""


class ScheduleFinal(Value, kw_only=True):
    """Tell the model that its limit is reached, with this message, if that is due."""

    message: Message


class Finish(Value, kw_only=True):
    """End the turn."""

    outcome: Outcome


Action: TypeAlias = (
    EmitEvent
    | Append
    | StartModel
    | StartTools
    | StartCode
    | StartCheckpoint
    | NextIteration
    | ScheduleFinal
    | Finish
)


class DriverFault(WindlassBug):
    """A driver returned actions that lead nowhere."""

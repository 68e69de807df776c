"""What a driver tells the machine to do next: a closed union, applied in order.

All after `Finish` is dropped. At most one action of a batch starts something.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeAlias, get_args

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


class StartModel(JsonValue, kw_only=True):
    """Call the model; `driver_state` comes back with the reply."""

    json_fields: ClassVar[tuple[str, ...]] = ("driver_state",)

    request: ModelRequest
    driver_state: Json = None

    def __post_init__(self) -> None:
        """Freeze the driver's state, if it keeps any."""
        if self.driver_state is not None:
            super().__post_init__()


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
    """Let the world in. If nothing comes: `then` ends the turn, None prepares the next iteration."""

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

_KINDS = frozenset(get_args(Action))
_STARTS = frozenset({StartModel, StartTools, StartCode, StartCheckpoint})


class DriverFault(WindlassBug):
    """A driver returned actions that lead nowhere."""


def check_batch(wanted: Sequence[Action]) -> None:
    """Refuse a batch as a whole, before any of it is applied: what was recorded stays whole.

    Raises:
        DriverFault: something in it is no action, or more than one thing would start.
    """
    started = 0
    for action in wanted:
        kind = type(action)
        if kind is Finish:
            return
        if kind in _STARTS:
            started += 1
            if started > 1:
                raise DriverFault("The driver started two things at once.")
            if kind is StartTools:
                _check_calls(action)  # type: ignore[arg-type]
        elif kind not in _KINDS:
            raise DriverFault(f"The driver returned {kind.__name__}, which is no action.")


def _check_calls(action: StartTools) -> None:
    if not action.calls or len({call.call_id for call in action.calls}) < len(action.calls):
        raise DriverFault("The driver started no calls, or two calls of one id.")

"""What the machine asks the world to do: a closed union.

Effects with an id wait for the response of the same id, except `CancelModel`, whose id is that of
the model call to give up. Effects without one are told, not asked: nothing answers them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from windlass.kernel.chain import Chain
from windlass.kernel.events import Event
from windlass.kernel.messages import Message, Record
from windlass.kernel.model_call import ModelFailure, ModelReply, ModelRequest
from windlass.kernel.outcomes import Outcome
from windlass.kernel.tool_call import PendingToolCall
from windlass.kernel.value import Value, set_field

CheckpointKind: TypeAlias = Literal["after_work", "before_completion"]


class SyncEnvironment(Value, kw_only=True):
    """Say what prompt and tools hold now. `update_config` is false before the first iteration."""

    id: int
    update_config: bool


class CallModel(Value, kw_only=True):
    """Call the model."""

    id: int
    request: ModelRequest


class CallTools(Value, kw_only=True):
    """Run these calls; answer with every result, in any order."""

    id: int
    calls: tuple[PendingToolCall, ...]


class RunCode(Value, kw_only=True):
    """Run a cell."""

    id: int
    language: str
    code: str


class RunCheckpoint(Value, kw_only=True):
    """Say what came in meanwhile: input, wakes, plugins' messages."""

    id: int
    kind: CheckpointKind


class CancelModel(Value, kw_only=True):
    """Give up the model call with this id; its answer is no longer wanted."""

    id: int


class Emit(Value, kw_only=True):
    """Show an event."""

    event: Event


class RequestLogged(Value, kw_only=True):
    """A request, for the trace."""

    iteration: int
    request: ModelRequest


class ReplyLogged(Value, kw_only=True):
    """A reply, for the trace."""

    iteration: int
    reply: ModelReply


class FailureLogged(Value, kw_only=True):
    """A failed call, for the trace."""

    iteration: int
    failure: ModelFailure


LogEntry: TypeAlias = RequestLogged | ReplyLogged | FailureLogged


class Log(Value, kw_only=True):
    """Write an entry to the trace."""

    entry: LogEntry


class _WithHistory(Value, kw_only=True):
    if TYPE_CHECKING:
        messages: Sequence[Message]
    else:
        messages: Chain[Message]

    def __post_init__(self) -> None:
        """Keep the messages as a chain."""
        if type(self.messages) is not Chain:
            set_field(self, "messages", Chain(self.messages))


class Progress(_WithHistory, kw_only=True):
    """The turn so far; `new_records` are those that no progress has carried yet."""

    new_records: tuple[Record, ...] = ()
    iteration: int = 0


class Done(_WithHistory, kw_only=True):
    """The turn is over; `new_records` are those that no progress has carried."""

    new_records: tuple[Record, ...] = ()
    iteration: int = 0
    outcome: Outcome | None = None


Told: TypeAlias = CancelModel | Emit | Log | Progress | Done
Asked: TypeAlias = SyncEnvironment | CallModel | CallTools | RunCode | RunCheckpoint
Effect: TypeAlias = Asked | Told

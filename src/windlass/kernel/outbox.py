"""What a machine has to say: effects that nobody answers, in order, with ids on every event."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from windlass.kernel.effects import Emit, Told
from windlass.kernel.events import Event, ModelStarted, ToolFinished, UsageReported
from windlass.kernel.ids import TurnIds
from windlass.kernel.model_call import Usage
from windlass.kernel.tool_call import CompletedToolCall
from windlass.kernel.value import set_field


class Outbox:
    """A queue that mints event ids. `effect_id` says what events are about; 0 is the turn itself."""

    __slots__ = ("_about", "_event", "effect_id", "last_event", "queue")

    def __init__(self, ids: TurnIds, queue: Iterable[Told], next_event: int) -> None:
        self._event = ids.event("")
        self._about = ids.correlation("")
        self.queue: deque[Told] = deque(queue)
        self.last_event = next_event - 1
        self.effect_id = 0

    # What every iteration says is built here at once, without a copy.

    def model_started(self, iteration: int, message_count: int, tools: tuple[str, ...]) -> None:
        """Say that a model call is about to go out."""
        self.last_event = position = self.last_event + 1
        event = ModelStarted(
            id=f"{self._event}{position}",
            correlation_id=f"{self._about}{self.effect_id}",
            iteration=iteration,
            message_count=message_count,
            tools=tools,
        )
        self.queue.append(Emit(event=event))

    def usage_reported(self, iteration: int, usage: Usage, cumulative: Usage) -> None:
        """Say what a call used, and the turn so far."""
        self.last_event = position = self.last_event + 1
        event = UsageReported(
            id=f"{self._event}{position}",
            correlation_id=f"{self._about}{self.effect_id}",
            iteration=iteration,
            usage=usage,
            cumulative=cumulative,
        )
        self.queue.append(Emit(event=event))

    def tool_finished(self, call: CompletedToolCall, place: int) -> None:
        """Say how a call of the effect ended."""
        self.last_event = position = self.last_event + 1
        event = ToolFinished(
            id=f"{self._event}{position}",
            correlation_id=f"{self._about}{self.effect_id}.{place}",
            call_id=call.call_id,
            name=call.name,
            args=call.args,
            outcome=call.outcome,
            duration_ms=call.duration_ms,
        )
        self.queue.append(Emit(event=event))

    def emit(self, event: Event) -> None:
        """Say that something happened; ids that the event has already stay.

        It goes out as a copy, so that whoever made it may use it again.
        """
        stamped: Event = event.__copy__()  # type: ignore[union-attr] # msgspec does not declare it
        if not event.id:
            self.last_event = position = self.last_event + 1
            set_field(stamped, "id", f"{self._event}{position}")
        if not event.correlation_id:
            set_field(stamped, "correlation_id", f"{self._about}{self.effect_id}")
        self.queue.append(Emit(event=stamped))

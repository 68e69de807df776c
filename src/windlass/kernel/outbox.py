"""What a machine has to say: effects that nobody answers, in order, with ids on every event."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from windlass.kernel.effects import Emit, Told
from windlass.kernel.events import Event
from windlass.kernel.ids import TurnIds
from windlass.kernel.value import set_field


class Outbox:
    """A queue that puts ids on events. `effect_id` is the effect that new events are about.

    0 stands for the turn itself.
    """

    __slots__ = ("_correlation", "_event", "effect_id", "next_event", "push", "queue")

    def __init__(self, ids: TurnIds, queue: Iterable[Told], next_event: int) -> None:
        self._event = ids.event("")
        self._correlation = ids.correlation("")
        self.queue: deque[Told] = deque(queue)
        self.push = self.queue.append
        self.next_event = next_event
        self.effect_id = 0

    def emit(self, event: Event, call: str = "") -> None:
        """Say that something happened, about the effect or one call of it (`.0`, `.1`, …).

        The event is new and nobody else holds it yet, so its ids are put in without a copy.
        """
        position = self.next_event
        self.next_event = position + 1
        set_field(event, "id", f"{self._event}{position}")
        set_field(event, "correlation_id", f"{self._correlation}{self.effect_id}{call}")
        self.push(Emit(event=event))

    def forward(self, event: Event) -> None:
        """Say what somebody else wants said; ids that they chose stay."""
        stamped: Event = event.__copy__()  # type: ignore[union-attr] # msgspec does not declare it
        self.emit(stamped)
        if event.id:
            set_field(stamped, "id", event.id)
        if event.correlation_id:
            set_field(stamped, "correlation_id", event.correlation_id)

"""What a machine has to say: effects that nobody answers, in order, with ids on every event."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from windlass.kernel.effects import Emit, Told
from windlass.kernel.events import Event
from windlass.kernel.ids import TurnIds
from windlass.kernel.value import set_field


class Outbox:
    """A queue that mints event ids. `effect_id` is the effect that new events belong to.

    0 stands for the turn itself.
    """

    __slots__ = ("_ids", "effect_id", "next_event", "push", "queue")

    def __init__(self, ids: TurnIds, queue: Iterable[Told], next_event: int) -> None:
        self._ids = ids
        self.queue: deque[Told] = deque(queue)
        self.push = self.queue.append
        self.next_event = next_event
        self.effect_id = 0

    def emit(self, kind: type[Any], *, call: int | None = None, **fields: Any) -> None:
        """Say that something happened, about the effect or one call of it."""
        position = self.next_event
        self.next_event = position + 1
        ids = self._ids
        event = kind(
            id=ids.event(position),
            correlation_id=ids.correlation(self.effect_id, call),
            **fields,
        )
        self.push(Emit(event=event))

    def forward(self, event: Event) -> None:
        """Say what somebody else wants said, with the ids that they left open."""
        stamped = event.__copy__()
        if not event.id:
            set_field(stamped, "id", self._ids.event(self.next_event))
            self.next_event += 1
        if not event.correlation_id:
            set_field(stamped, "correlation_id", self._ids.correlation(self.effect_id))
        self.push(Emit(event=stamped))

"""A turn with all that was shown of it."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from windlass.api.turn_result import TurnResult
from windlass.kernel.events import Event

O = TypeVar("O")  # noqa: E741 - the output's type


class Collected(NamedTuple, Generic[O]):
    """What `session.collect` returns: `events, result = await session.collect(...)`."""

    events: tuple[Event, ...]
    result: TurnResult[O]

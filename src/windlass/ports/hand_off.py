"""A hand-off: a turn gives its session to another agent, and a turn of that agent follows it.

The end of a turn accepts the turn that follows, under an id that derives from the first. So a caller that waits for the
first turn finds the last one, in any process.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, NamedTuple

from windlass.ports.unit import TurnRequest

MAX_HAND_OFFS = 8
"""How often a session may be handed off for one input."""
_NAME = "handoff"


class Handed(NamedTuple):
    """How a turn came to its agent: `by` which agent, with which turn, and which turn was the `first` for this input.

    `times` counts the hand-offs since that input, including this one.
    """

    by: str
    turn: str
    first: str
    times: int

    def as_override(self) -> dict[str, Any]:
        """Return this as a turn's request stores it."""
        return {_NAME: self._asdict()}


def turn_after(turn_id: str) -> str:
    """Return the id of the turn that follows a turn that handed off: the same in every process."""
    return f"h_{sha256(turn_id.encode()).hexdigest()[:32]}"


def handed(request: TurnRequest | None) -> Handed | None:
    """Return how the turn of a request came to its agent; None if a caller began it."""
    said = None if request is None else request.overrides.get(_NAME)
    return None if said is None else Handed(**said)

"""Which turn it is: what a deps factory and instructions are told."""

from __future__ import annotations

from typing import Any, ClassVar

from windlass.kernel.value import EMPTY_DICT, JsonValue


class TurnInfo(JsonValue, kw_only=True):
    """A turn that is about to be driven; `recovered`: another drive of it came before.

    Attributes:
        agent: The name of the agent whose turn it is.
        session_id: The session that the turn belongs to.
        turn_id: The id of the turn in its session.
        context: The JSON that came with `run(context=...)`; empty without.
        recovered: Whether another drive of this turn came before, here or in a process that is gone.
    """

    json_fields: ClassVar[tuple[str, ...]] = ("context",)

    agent: str
    session_id: str
    turn_id: str
    context: dict[str, Any] = EMPTY_DICT
    recovered: bool = False

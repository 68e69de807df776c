"""Which turn it is: what a deps factory and instructions are told."""

from __future__ import annotations

from typing import Any, ClassVar

from windlass.kernel.value import EMPTY_DICT, JsonValue


class TurnInfo(JsonValue, kw_only=True):
    """A turn that is about to be driven; `recovered`: another drive of it came before."""

    json_fields: ClassVar[tuple[str, ...]] = ("context",)

    agent: str
    session_id: str
    turn_id: str
    context: dict[str, Any] = EMPTY_DICT
    recovered: bool = False

"""A job: a turn that a worker is to drive."""

from __future__ import annotations

import msgspec

from windlass.ports import NewTurn, TurnRequest, TurnView
from windlass.runtime.deps_scope import NONE_GIVEN


class Job(msgspec.Struct, kw_only=True):
    """What is to be driven: a turn that is new here, or one that the store has."""

    turn_id: str
    request: TurnRequest
    accept: NewTurn | None = None
    view: TurnView | None = None
    generation: int | None = None
    takeovers: int = 0
    # How often it failed in this worker, and with what.
    faults: tuple[int, str] = (0, "")
    deps: object = NONE_GIVEN

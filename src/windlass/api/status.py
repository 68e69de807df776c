"""A look at a runtime that is still moving."""

from __future__ import annotations

from windlass.kernel.value import Value
from windlass.ports import DueTurn


class RuntimeStatus(Value, kw_only=True):
    """What a runtime does now; `foreign`: turns of agents that it does not have and leaves alone."""

    worker_id: str | None
    is_durable: bool
    agents: tuple[str, ...]
    driving: tuple[str, ...] = ()
    due: tuple[DueTurn, ...] = ()
    foreign: tuple[DueTurn, ...] = ()
    open_waits: int = 0

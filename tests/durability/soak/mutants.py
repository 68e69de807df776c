"""Faults to plant into a worker: each breaks one promise, and the audit has to say so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from windlass.journal import Contract
from windlass.kernel.events import Event
from windlass.kernel.tool_call import CompletedToolCall
from windlass.runtime.call_batch import CallBatch
from windlass.runtime.feed import TurnFeed
from windlass.runtime.tool_call_run import ToolCallRun
from windlass.stores.sqlite import leases, units


def apply(name: str) -> None:
    """Plant a fault into this process."""
    MUTANTS[name]()


def run_once_again() -> None:
    """What must not be run again is run again, as if it were idempotent."""
    go_on = ToolCallRun._go_on

    async def lax(
        self: ToolCallRun, args: Mapping[str, Any], contract: Contract
    ) -> CompletedToolCall:
        return await go_on(self, args, "idempotent" if contract == "once" else contract)

    ToolCallRun._go_on = lax  # type: ignore[method-assign]  # a fault is planted


def act_before_the_claim() -> None:
    """A body starts before its intent is durable."""

    async def hasty(_self: CallBatch) -> None:
        return

    CallBatch.barrier = hasty  # type: ignore[method-assign]  # a fault is planted


def show_at_once() -> None:
    """A fact is shown before it is durable."""

    def hold(self: TurnFeed, event: Event, *, until: int) -> None:
        self.show(event)

    TurnFeed.hold = hold  # type: ignore[method-assign]  # a fault is planted


def write_without_fence() -> None:
    """A worker writes under whatever generation it had, whoever has the session now."""

    def check_fence(*_: object) -> None:
        return

    units.check_fence = check_fence


def rob_the_living() -> None:
    """A worker takes turns from workers that are alive."""

    def is_free(*_: object) -> bool:
        return True

    leases.is_free = is_free


MUTANTS: dict[str, Callable[[], None]] = {
    each.__name__: each
    for each in (
        run_once_again,
        act_before_the_claim,
        show_at_once,
        write_without_fence,
        rob_the_living,
    )
}

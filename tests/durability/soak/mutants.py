"""Faults to plant into a worker: each breaks one promise, and the audit has to say so."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from windlass.kernel.events import Event
from windlass.kernel.tool_call import CompletedToolCall
from windlass.ports import Unit
from windlass.runtime.call_batch import CallBatch
from windlass.runtime.feed import TurnFeed
from windlass.runtime.services import Services
from windlass.runtime.tool_call import ToolCallRun
from windlass.stores.sqlite import leases, units
from windlass.stores.sqlite.pages import SplitPage
from windlass.stores.sqlite.rows import Rows, TurnRow


def apply(name: str) -> None:
    """Plant a fault into this process."""
    MUTANTS[name]()


def run_once_again() -> None:
    """What must not be run again is run again, as if it were idempotent."""
    go_on = ToolCallRun._resume

    async def lax(self: ToolCallRun, *known: object) -> CompletedToolCall:
        return await go_on(self, *("idempotent" if each == "once" else each for each in known))  # type: ignore[arg-type]

    _plant(ToolCallRun, "_resume", lax)


def act_before_the_claim() -> None:
    """A body starts before its intent is durable."""

    async def hasty(_self: CallBatch) -> None:
        return

    _plant(CallBatch, "barrier", hasty)


def show_at_once() -> None:
    """A fact is shown before it is durable."""

    def hold(self: TurnFeed, event: Event, *, until: int) -> None:
        self.show(event)

    def tell(self: TurnFeed, events: list[Event], *, until: int) -> None:
        for event in events:
            self.show(event)

    def is_alone(_self: Services) -> bool:
        return False  # a commit in the call would leave no moment in between to be killed in

    _plant(TurnFeed, "hold", hold)
    _plant(TurnFeed, "tell", tell)
    _plant(Services, "is_alone", is_alone)


def write_without_fence() -> None:
    """A worker writes whatever it has behind what is there, whichever worker has the session now."""
    add_page = units._add_page

    def check_fence(*_: object) -> None:
        return

    def append(rows: Rows, turn: TurnRow, unit: Unit, page: SplitPage) -> None:
        rows.find_tail(turn)
        add_page(rows, turn, msgspec.structs.replace(unit, position=turn.pages), page)

    _plant(units, "check_fence", check_fence)
    _plant(units, "_add_page", append)


def take_the_living_for_dead() -> None:
    """A worker believes that every other worker's process has ended."""

    def is_gone(*_: object) -> bool:
        return True

    _plant(leases, "is_gone", is_gone)


MUTANTS: dict[str, Callable[[], None]] = {
    each.__name__: each
    for each in (
        run_once_again,
        act_before_the_claim,
        show_at_once,
        write_without_fence,
        take_the_living_for_dead,
    )
}


def _plant(place: object, name: str, fault: object) -> None:
    assert hasattr(place, name), f"{place} has no {name} to break"
    setattr(place, name, fault)

"""Faults to plant into a worker: each breaks one promise, and the audit has to say so."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from windlass.kernel.events import Event
from windlass.kernel.tool_call import CompletedToolCall
from windlass.ports import Unit
from windlass.runtime.call_batch import CallBatch
from windlass.runtime.feed import TurnFeed
from windlass.runtime.tool_call import ToolCallRun
from windlass.stores.sqlite import leases, units, writer
from windlass.stores.sqlite.pages import SplitPage
from windlass.stores.sqlite.rows import Rows, TurnRow
from windlass.stores.sqlite.writer import Writer


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
    _slow_the_disk()


def show_at_once() -> None:
    """A fact is shown before it is durable."""

    def hold(self: TurnFeed, event: Event, *, until: int) -> None:
        self.show(event)

    def tell(self: TurnFeed, events: list[Event], *, until: int) -> None:
        for event in events:
            self.show(event)

    _plant(TurnFeed, "hold", hold)
    _plant(TurnFeed, "tell", tell)
    _slow_the_disk()


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


def _slow_the_disk() -> None:
    """Commit in the writer's thread, and late: a fast commit leaves no moment before it to be killed in."""
    serve = Writer._serve

    def slow(self: Writer) -> None:
        time.sleep(0.03)
        serve(self)

    _plant(Writer, "_serve", slow)
    _plant(writer, "_FAST_DISK_S", 0.0)


def _plant(place: object, name: str, fault: object) -> None:
    assert hasattr(place, name), f"{place} has no {name} to break"
    setattr(place, name, fault)

"""Faults to plant into a store that runs errands: each breaks one promise, and the audit has to say so."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec.structs import replace

from windlass.errors import InvalidInput
from windlass.ports import Errand, ErrandReceipt, Ticket, Unit, UnitReceipt
from windlass.stores import errands as rules
from windlass.stores.sqlite import SqliteStore, errands, units
from windlass.stores.sqlite.rows import Rows

# How long the two halves of what should be one are apart: long enough to be killed in between.
APART_S = 0.04


def apply(name: str) -> None:
    """Plant a fault into this process."""
    MUTANTS[name]()


def run_errands_after_the_unit() -> None:
    """The unit is durable; its errands follow in a transaction of their own."""
    submit = SqliteStore.submit

    def apart(store: SqliteStore, unit: Unit, **how: Any) -> Any:  # noqa: ANN401 - the store's own
        ticket = submit(store, replace(unit, errands=()), **how)
        if unit.errands:
            ticket.when_settled(partial(_later, store, unit, ticket))
        return ticket

    def _later(store: SqliteStore, unit: Unit, ticket: Ticket[UnitReceipt]) -> None:
        if ticket.refusal is None:
            asyncio.get_running_loop().call_later(APART_S, _run_apart, store, unit)

    _plant(SqliteStore, "submit", apart)


def run_errands_before_the_unit() -> None:
    """The errands are durable; the unit follows, as with calls around a claim."""
    submit = SqliteStore.submit

    def apart(store: SqliteStore, unit: Unit, **how: Any) -> Any:  # noqa: ANN401 - the store's own
        if unit.errands and unit.entries:
            ran = _run_apart(store, unit)
            while not ran.is_settled:
                time.sleep(0.001)
            time.sleep(APART_S)
            unit = replace(unit, errands=())
        return submit(store, unit, **how)

    _plant(SqliteStore, "submit", apart)


def run_again_what_landed() -> None:
    """A unit that is handed in again runs its errands again."""

    def always(rows: Rows, asked: errands.Asked, unit: Unit, *rest: Any) -> UnitReceipt:
        receipt = units.apply_unit(rows, unit, *rest)
        _, _, encoder, _ = rest
        return replace(receipt, errands=errands.run_of_unit(rows, unit, asked, encoder))

    _plant(units, "apply_with_errands", always)


def refuse_when_a_target_is_gone() -> None:
    """An errand that cannot be run takes its unit along."""

    def strict(run_one: Callable[..., ErrandReceipt], *told: Any) -> ErrandReceipt:
        receipt = run_one(*told)
        if receipt.status == "dropped":
            raise InvalidInput(f"errand: {receipt.reason}")
        return receipt

    _plant(rules, "_run_one", partial(strict, rules._run_one))


MUTANTS: dict[str, Callable[[], None]] = {
    each.__name__: each
    for each in (
        run_errands_after_the_unit,
        run_errands_before_the_unit,
        run_again_what_landed,
        refuse_when_a_target_is_gone,
    )
}


def _run_apart(store: SqliteStore, unit: Unit) -> Any:  # noqa: ANN401 - the writer's ticket
    """Run the errands of a unit in a transaction of their own."""
    encoder, told = store._encoder, tuple[Errand, ...](unit.errands)
    asked = errands.encode(told, encoder)
    ran = store._writer.hand_in(errands.run_of_unit, (unit, asked, encoder), unit.session_id)
    store._writer._call_thread()
    return ran


def _plant(place: object, name: str, fault: object) -> None:
    assert hasattr(place, name), f"{place} has no {name} to break"
    setattr(place, name, fault)

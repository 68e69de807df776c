"""What usage costs, at prices that somebody gave."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

import msgspec

from windlass.journal import UsageLine
from windlass.kernel.model_call import NO_USAGE
from windlass.ports.price import Money, Price, product_of, read_money, shown, sum_of

__all__ = ["Bill", "Money", "Price", "bill", "product_of", "read_money", "shown", "sum_of"]


class Bill(msgspec.Struct, frozen=True, kw_only=True):
    """What usage costs. `unpriced` names a model that was used and has no price: the cost is at least this."""

    cost: Decimal = Decimal(0)
    unpriced: str | None = None


def bill(lines: Iterable[UsageLine], prices: Mapping[str, Price]) -> Bill:
    """Return what usage costs; a call that used nothing needs no price."""
    total, unpriced = Decimal(0), None
    for line in lines:
        price = prices.get(line.model)
        if price is not None:
            total = sum_of(total, price.cost(line.usage))
        elif line.usage != NO_USAGE:
            unpriced = unpriced or line.model
    return Bill(cost=total, unpriced=unpriced)

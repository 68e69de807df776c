"""What a model's tokens cost. Money is decimal and exact: no float ever enters a sum."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from decimal import Context, Decimal, InvalidOperation
from typing import TypeAlias

from windlass.errors import ConfigError
from windlass.kernel.model_call import Usage

Money: TypeAlias = Decimal | float | str
"""An amount as people write it. A float is taken for what it prints: 0.1 is a tenth."""

_MILLIONTH = -6
_PLACES = 18
_MOST = Decimal(10) ** 12
# Whatever precision a program has set for its own sums: token counts have 19 digits, amounts 12 before the point
# and 18 behind it, so nothing is ever rounded here.
_EXACT = Context(prec=200)


class Price:
    """What a million tokens cost, in any one currency.

    Tokens that were read from a cache or written to one cost what fresh ones do, unless it is said otherwise.
    """

    __slots__ = ("cache_write", "cached_input", "input", "output")

    def __init__(
        self,
        *,
        input: Money,
        output: Money,
        cached_input: Money | None = None,
        cache_write: Money | None = None,
    ) -> None:
        self.input = read_money(input, field="Price.input")
        self.output = read_money(output, field="Price.output")
        self.cached_input = self.cache_write = self.input
        if cached_input is not None:
            self.cached_input = read_money(cached_input, field="Price.cached_input")
        if cache_write is not None:
            self.cache_write = read_money(cache_write, field="Price.cache_write")

    def cost(self, usage: Usage) -> Decimal:
        """Return what was spent, exactly."""
        total = Decimal(0)
        for tokens, price in (
            (usage.input_tokens, self.input),
            (usage.cached_input_tokens, self.cached_input),
            (usage.cache_write_tokens, self.cache_write),
            (usage.output_tokens, self.output),
        ):
            total = _EXACT.add(total, _EXACT.multiply(Decimal(tokens), price))
        return _EXACT.scaleb(total, _MILLIONTH)

    def dearest(self, prompt_tokens: int, output_tokens: int) -> Usage:
        """Return the usage that so many tokens can cost the most as: a prompt may be written to a cache."""
        if self.cache_write > self.input:
            return Usage(cache_write_tokens=prompt_tokens, output_tokens=output_tokens)
        return Usage(input_tokens=prompt_tokens, output_tokens=output_tokens)


def checked_prices(given: object, *, field: str = "prices") -> dict[str, Price]:
    """Return configured prices, by model name.

    Raises:
        ConfigError: something else was given.
    """
    if not isinstance(given, Mapping):
        raise ConfigError.at(field, type(given).__name__, "a Price for each model name")
    for name, price in given.items():
        if not isinstance(name, str) or not isinstance(price, Price):
            found = f"{type(name).__name__}: {type(price).__name__}"
            raise ConfigError.at(field, found, "a model's name and its Price")
    return dict(given)


def sum_of(*amounts: Decimal) -> Decimal:
    """Return the sum, exactly."""
    total = Decimal(0)
    for amount in amounts:
        total = _EXACT.add(total, amount)
    return total


def product_of(amount: Decimal, times: Decimal) -> Decimal:
    """Return the product, exactly."""
    return _EXACT.multiply(amount, times)


def shown(amount: Decimal) -> str:
    """Return an amount as people write it: no exponent, no zeros behind it."""
    text = f"{amount:f}"
    return (text.rstrip("0").rstrip(".") or "0") if "." in text else text


def read_money(given: object, *, field: str) -> Decimal:
    """Return an amount as a decimal.

    Raises:
        ConfigError: it is no amount of money.
    """
    found = type(given).__name__
    if isinstance(given, (int, float, str, Decimal)) and not isinstance(given, bool):
        with suppress(InvalidOperation, ValueError):  # words, or digits without end
            text = str(given)
            found = text[:40]
            amount = Decimal(text)
            if amount.is_finite() and 0 <= amount < _MOST and _places(amount) <= _PLACES:
                return amount
    wanted = f"an amount from 0 to {_MOST:,}, with {_PLACES} decimal places at most"
    raise ConfigError.at(field, found, wanted)


def _places(amount: Decimal) -> int:
    exponent = amount.as_tuple().exponent
    return -exponent if isinstance(exponent, int) else 0

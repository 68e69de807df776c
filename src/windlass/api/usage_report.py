"""What was used: tokens in total and by who asked, and what they cost where a price is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

from windlass.journal import UsageLine
from windlass.journal.usage import sum_usage
from windlass.kernel.model_call import Usage
from windlass.kernel.value import Value
from windlass.ports.price import Price, sum_of


class UsageReport(Value, kw_only=True):
    """Tokens, calls and money. `prices` are those that somebody gave; they go before what is known otherwise."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    calls: int = 0
    lost: int = 0
    lines: tuple[UsageLine, ...] = ()
    prices: Mapping[str, Price] | None = None

    @classmethod
    def of(
        cls, lines: Iterable[UsageLine], prices: Mapping[str, Price] | None = None
    ) -> UsageReport:
        """Return the sum of lines, and the lines."""
        summed = sum_usage(lines)
        total = Usage()
        for line in summed:
            total = total + line.usage
        return cls(
            input_tokens=total.input_tokens,
            output_tokens=total.output_tokens,
            cached_input_tokens=total.cached_input_tokens,
            cache_write_tokens=total.cache_write_tokens,
            reasoning_tokens=total.reasoning_tokens,
            calls=sum(line.calls for line in summed),
            lost=sum(line.lost for line in summed),
            lines=summed,
            prices=prices,
        )

    @property
    def total_tokens(self) -> int:
        """All that was sent and all that came back."""
        sent = self.input_tokens + self.cached_input_tokens + self.cache_write_tokens
        return sent + self.output_tokens

    @property
    def cost(self) -> Decimal | None:
        """What was spent, in US dollars; None while the price of a model that was used is not known.

        The first look loads the price list, if that is installed: nobody pays for it who never asks.
        """
        return None if self.unpriced else self.known_cost

    @property
    def known_cost(self) -> Decimal:
        """What was spent on models whose price is known: less than everything, if any is `unpriced`."""
        return sum_of(*(cost for _, cost in self._costs() if cost is not None))

    @property
    def unpriced(self) -> tuple[str, ...]:
        """The models that were used and whose price is not known."""
        return tuple(sorted({line.model for line, cost in self._costs() if cost is None}))

    def _costs(self) -> list[tuple[UsageLine, Decimal | None]]:
        from windlass.models.prices import cost_of  # noqa: PLC0415 - see `cost`

        return [
            (line, cost_of(line.model, line.usage, self.prices, calls=line.calls))
            for line in self.lines
        ]

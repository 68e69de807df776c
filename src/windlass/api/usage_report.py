"""What was used: tokens in total and by line, and what they cost where a price is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

import msgspec

from windlass.journal import UsageLine
from windlass.journal.usage import sum_usage
from windlass.kernel.model_call import Usage
from windlass.ports import Store
from windlass.ports.children import own_usage
from windlass.ports.price import Price, sum_of


class UsageReport(Usage, kw_only=True):
    """Tokens, calls and money.

    calls: how many model calls were made; lost: how many of them may have been charged without a reply.
    lines: the same by model and by who asked, such as a turn, a summary or a plugin.
    prices: what the runtime was given; they go before the prices that windlass knows.
    """

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
            **msgspec.structs.asdict(total),
            calls=sum(line.calls for line in summed),
            lost=sum(line.lost for line in summed),
            lines=summed,
            prices=prices,
        )

    @property
    def total_tokens(self) -> int:
        """All tokens that were sent and received."""
        return self.prompt_tokens + self.output_tokens

    @property
    def cost(self) -> Decimal | None:
        """What was spent, in US dollars; None while the price of a model that was used is not known.

        The first call loads the price list, if it is installed.
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


async def usage_of_session(store: Store, session_id: str) -> tuple[UsageLine, ...]:
    """Return what a session has used, its unfinished turn included: the calls of a parked turn were paid for."""
    session = await store.load_session(session_id, history=False)
    # What children used counts in their own sessions.
    committed = own_usage(session.usage)
    if session.active is None:
        return committed
    turn = await store.load_turn(session_id, session.active)
    if turn is None or turn.state == "done":  # it ended between the two reads
        return await usage_of_session(store, session_id)
    return (*committed, *turn.journal().usage())

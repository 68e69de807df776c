"""What was used: tokens in total and by who asked, and what they cost where a price is known."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.journal import UsageLine
from windlass.journal.usage import sum_usage
from windlass.kernel.model_call import Usage
from windlass.kernel.value import Value


class UsageReport(Value, kw_only=True):
    """Tokens, calls and money. `cost` is None while no price is known for a model that was used."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    calls: int = 0
    lost: int = 0
    cost: float | None = None
    lines: tuple[UsageLine, ...] = ()

    @classmethod
    def of(cls, lines: Iterable[UsageLine]) -> UsageReport:
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
            cost=0.0 if not summed else None,
            lines=summed,
        )

    @property
    def total_tokens(self) -> int:
        """All that was sent and all that came back."""
        sent = self.input_tokens + self.cached_input_tokens + self.cache_write_tokens
        return sent + self.output_tokens

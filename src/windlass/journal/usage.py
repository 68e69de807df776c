"""What was used, by who asked and which model answered."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.kernel.model_call import NO_USAGE, Usage
from windlass.kernel.value import Value, use_default


class UsageLine(Value, kw_only=True):
    """Calls and tokens of one source and model; `lost` of the calls left no outcome."""

    source: str
    model: str
    calls: int = 0
    lost: int = 0
    usage: Usage = NO_USAGE

    def __post_init__(self) -> None:
        """Let equal lines have equal bytes."""
        use_default(self, "usage", NO_USAGE)

    def plus(self, other: UsageLine) -> UsageLine:
        """Return both together; they are of one source and model."""
        return UsageLine(
            source=self.source,
            model=self.model,
            calls=self.calls + other.calls,
            lost=self.lost + other.lost,
            usage=self.usage + other.usage,
        )


def sum_usage(lines: Iterable[UsageLine]) -> tuple[UsageLine, ...]:
    """Return one line per source and model, in their order."""
    totals: dict[tuple[str, str], UsageLine] = {}
    for line in lines:
        place = (line.source, line.model)
        known = totals.get(place)
        totals[place] = line if known is None else known.plus(line)
    return tuple(totals[place] for place in sorted(totals))

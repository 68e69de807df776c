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
        """Give equal lines equal bytes."""
        use_default(self, "usage", NO_USAGE)

    def plus(self, *others: UsageLine) -> UsageLine:
        """Return all together; they are of one source and model."""
        calls, lost, usage = self.calls, self.lost, self.usage
        for other in others:
            calls, lost, usage = calls + other.calls, lost + other.lost, usage + other.usage
        return UsageLine(source=self.source, model=self.model, calls=calls, lost=lost, usage=usage)


def sum_usage(lines: Iterable[UsageLine]) -> tuple[UsageLine, ...]:
    """Return one line per source and model, in their order."""
    given = tuple(lines)
    if len(given) < 2:
        return given
    by_place: dict[tuple[str, str], list[UsageLine]] = {}
    for line in given:
        by_place.setdefault((line.source, line.model), []).append(line)
    return tuple([UsageLine.plus(*by_place[place]) for place in sorted(by_place)])

"""What a turn has used: its own replies, the calls of its tools and plugins, and what was reserved and lost."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from windlass.journal import DirectAnswered, DirectCallCommand, UsageLine, usage_of
from windlass.journal.usage import sum_usage
from windlass.kernel.model_call import Usage


class TurnUsage:
    """Counts; what is answered again counts once."""

    __slots__ = ("_by_model", "_direct", "_lost", "model_calls", "reserved")

    def __init__(self) -> None:
        self.model_calls = 0
        # Calls of the turn itself and what they used, by model.
        self._by_model: dict[str, tuple[int, Usage]] = {}
        self._direct: dict[str, UsageLine] = {}
        self._lost: list[UsageLine] = []
        # Reservations of calls under way, by key.
        self.reserved: dict[str, UsageLine] = {}

    def count_reply(self, model: str, usage: Usage) -> None:
        """Count a call of the turn itself."""
        self.model_calls += 1
        known = self._by_model.get(model)
        self._by_model[model] = (1, usage) if known is None else (known[0] + 1, known[1] + usage)

    def count_direct(self, key: str, command: DirectCallCommand, answered: DirectAnswered) -> None:
        """Count a call by a tool or a plugin."""
        model = command.request.model if answered.sent is None else answered.sent.model
        self._direct[key] = UsageLine(
            source=command.usage_source, model=model, calls=1, usage=usage_of(answered)
        )

    def count_lost(self, lines: Iterable[UsageLine]) -> None:
        """Count attempts that left no outcome, at all that was reserved for them."""
        self._lost += lines

    def reserve(self, key: str, source: str, model: str, usage: Usage | None) -> None:
        """Count what a call may cost while it is under way."""
        if usage is not None:
            self.reserved[key] = UsageLine(source=source, model=model, calls=1, usage=usage)

    def settle(self, key: str, *, is_lost: bool = False) -> bool:
        """Let go of a reservation, or count it as spent; say whether there was one."""
        line = self.reserved.pop(key, None)
        if line is not None and is_lost:
            self._lost.append(msgspec.structs.replace(line, lost=1))
        return line is not None

    def lines(self) -> tuple[UsageLine, ...]:
        """Return what was used so far, by who asked and which model answered."""
        own = [
            UsageLine(source="turn", model=model, calls=calls, usage=usage)
            for model, (calls, usage) in self._by_model.items()
        ]
        return sum_usage((*own, *self._direct.values(), *self._lost))

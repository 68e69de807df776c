"""What a turn may use, and what it has used; `ending` compares the two."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from windlass.errors import InvalidInput
from windlass.journal import DirectAnswered, DirectCallCommand, UsageLine, usage_of
from windlass.journal.usage import sum_usage
from windlass.kernel import Usage, Value
from windlass.kernel.iteration_limit import MAX_ITERATIONS

_HOUR = 3600.0
_KIB = 1024
_MIB = 1024 * _KIB
# No limit can be set higher. A reply and its arguments are read, checked, hashed and sent again as one value: up to here
# no step of that holds the loop for over 50 ms. A result is cut before it is looked at, and the rest is a file.
_MOST_SAID = 4 * _MIB
_MOST_KEPT = 64 * _MIB


class Limits(Value, kw_only=True):
    """Limits of one turn; None: no limit. Times are in seconds.

    Sizes are in bytes of UTF-8.

    Attributes:
        max_iterations: How many model calls a turn may make; 50 if nothing is said, None any number.
        max_tool_calls: How many tool calls a turn may make; None: any number.
        max_tokens: How many tokens its model calls may use in all; None: any number.
        max_seconds: How long it may take from its start, parked times included; None: for ever.
        max_parallel: How many calls of one reply run at the same time; 32 if nothing is said.
        tool_timeout: How long one attempt of a tool may take, unless the tool says so itself; None: for ever.
        approval_timeout: How long a person may take to answer, after which the call is denied; None: for ever.
        provider_patience: How long a turn waits, parked, for a provider that is down; an hour if nothing is said.
        output_retries: How often the model is asked again for an answer that does not fit `output_type`; 2 if
            nothing is said.
        max_call_seconds: How long one model call may take, from its request to the end of its reply; an hour if
            nothing is said, None: for ever.
        max_reply_bytes: How much text, thoughts and arguments one reply may hold together; 4 MiB, which is also the
            most that can be set.
        max_args_bytes: How much the arguments of one call may hold; 256 KiB if nothing is said, at most 4 MiB.
        max_result_bytes: How much is kept of one result; 64 MiB, which is also the most. The model sees less of it:
            the tool's `output_limit`.
        max_depth: How many turns deep subagents may call each other, counted from the turn at the top; 3 if nothing is
            said. An agent at the limit is not offered its agent tools.
        max_children: How many subagents may work at a time below the turn at the top; 32 if nothing is said.
    """

    max_iterations: int | None = MAX_ITERATIONS
    max_tool_calls: int | None = None
    max_tokens: int | None = None
    max_seconds: float | None = None
    max_parallel: int = 32
    tool_timeout: float | None = None
    approval_timeout: float | None = None
    provider_patience: float = _HOUR
    output_retries: int = 2
    max_call_seconds: float | None = _HOUR
    max_reply_bytes: int = _MOST_SAID
    max_args_bytes: int = 256 * _KIB
    max_result_bytes: int = _MOST_KEPT
    max_depth: int = 3
    max_children: int = 32

    def __post_init__(self) -> None:
        """Refuse a value that is not a limit."""
        if self.max_iterations is not None:
            _check_count(self.max_iterations, "Limits.max_iterations", low=1)
        for name in ("max_tool_calls", "max_tokens"):
            _check_count(getattr(self, name), f"Limits.{name}", low=0)
        _check_count(self.max_parallel, "Limits.max_parallel", low=1)
        for name in ("max_depth", "max_children"):
            if getattr(self, name) is None:
                raise InvalidInput.at(f"Limits.{name}", "None", "a whole number of 0 or more")
            _check_count(getattr(self, name), f"Limits.{name}", low=0)
        _check_count(self.output_retries, "Limits.output_retries", low=0)
        _check_time(self.max_seconds, "Limits.max_seconds", low=0.0)
        _check_time(self.provider_patience, "Limits.provider_patience", low=0.0)
        for name in ("tool_timeout", "approval_timeout", "max_call_seconds"):
            _check_time(getattr(self, name), f"Limits.{name}", low=None)
        _check_size(self.max_reply_bytes, "Limits.max_reply_bytes", most=_MOST_SAID)
        _check_size(self.max_args_bytes, "Limits.max_args_bytes", most=_MOST_SAID)
        _check_size(self.max_result_bytes, "Limits.max_result_bytes", most=_MOST_KEPT)

    @property
    def can_end_turn(self) -> bool:
        """Whether there is a limit that `ending.over_limit` compares before an effect."""
        return not (self.max_tool_calls is self.max_tokens is self.max_seconds is None)


def _check_count(found: object, field: str, *, low: int) -> None:
    if found is None and low == 0:
        return
    if type(found) is not int or found < low:
        shown = found if isinstance(found, (int, float)) else type(found).__name__
        raise InvalidInput.at(field, shown, f"a whole number of {low} or more")


def _check_size(found: object, field: str, *, most: int) -> None:
    if type(found) is not int or not 1 <= found <= most:
        shown = found if isinstance(found, (int, float)) else type(found).__name__
        raise InvalidInput.at(field, shown, f"bytes from 1 to {most:,}")


def _check_time(found: object, field: str, *, low: float | None) -> None:
    if found is None:
        return
    shown: object = type(found).__name__
    if isinstance(found, (int, float)) and not isinstance(found, bool):
        if math.isfinite(found) and (found > 0 or found == low):
            return
        shown = found
    wanted = "seconds above 0" if low is None else "seconds of 0 or more"
    raise InvalidInput.at(field, shown, wanted)


TURN_LIMITS = Limits()


class TurnUsage:
    """What a turn has used: its own replies, the calls of its tools and plugins, and what was reserved and lost."""

    __slots__ = ("_children", "_direct", "_lost", "_replies", "reserved")

    def __init__(self) -> None:
        # What each call of the turn itself used, by the model that answered.
        self._replies: dict[str, list[Usage]] = {}
        # Calls of tools and plugins, by key: one that is answered again counts once.
        self._direct: dict[str, UsageLine] = {}
        self._lost: list[UsageLine] = []
        # What the turns that it waited for used, by the key of the wait.
        self._children: dict[str, tuple[UsageLine, ...]] = {}
        # Reservations of calls under way, by key.
        self.reserved: dict[str, UsageLine] = {}

    @property
    def model_calls(self) -> int:
        """How many calls the turn itself made."""
        return sum(map(len, self._replies.values()))

    def count_reply(self, model: str, usage: Usage) -> None:
        """Count a call of the turn itself."""
        self._replies.setdefault(model, []).append(usage)

    def count_direct(self, key: str, command: DirectCallCommand, answered: DirectAnswered) -> None:
        """Count a call by a tool or a plugin."""
        model = command.request.model if answered.sent is None else answered.sent.model
        self._direct[key] = UsageLine(
            source=command.usage_source, model=model, calls=1, usage=usage_of(answered)
        )

    def count_child(self, key: str, lines: tuple[UsageLine, ...]) -> None:
        """Count what a child used whose answer came; told again, it counts once."""
        self._children[key] = lines

    def of_children(self) -> Usage:
        """Return what all children used together whose answers came."""
        return Usage.total([line.usage for lines in self._children.values() for line in lines])

    def count_lost(self, lines: Iterable[UsageLine]) -> None:
        """Count attempts that left no outcome, at all that was reserved for them."""
        self._lost += lines

    def reserve(self, key: str, source: str, model: str, usage: Usage | None) -> None:
        """Count what a call may cost while it is under way."""
        if usage is not None:
            self.reserved[key] = UsageLine(source=source, model=model, calls=1, usage=usage)

    def settle(self, key: str, *, is_lost: bool = False) -> bool:
        """Drop a reservation, or count it as spent; return whether there was one."""
        line = self.reserved.pop(key, None) if self.reserved else None
        if line is not None and is_lost:
            self._lost.append(msgspec.structs.replace(line, lost=1))
        return line is not None

    def lines(self) -> tuple[UsageLine, ...]:
        """Return what was used so far, by who asked and which model answered."""
        own = [
            UsageLine(source="turn", model=model, calls=len(used), usage=Usage.total(used))
            for model, used in self._replies.items()
        ]
        if not (self._direct or self._lost or self._children) and len(own) <= 1:
            return tuple(own)
        children = [line for lines in self._children.values() for line in lines]
        return sum_usage((*own, *self._direct.values(), *self._lost, *children))

    def tokens(self) -> int:
        """Return how many tokens went in and came out so far."""
        return sum(line.usage.prompt_tokens + line.usage.output_tokens for line in self.lines())

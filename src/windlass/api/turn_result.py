"""The result of a turn. A refusal, a cancelled turn or a spent limit is an outcome, not an exception."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar

from windlass.api.usage_report import UsageReport
from windlass.errors import InvalidInput, NoOutput
from windlass.guards.text import clean_text
from windlass.kernel import CompletedToolCall, Json, Message, TurnIds, events
from windlass.kernel.outcomes import (
    Finished,
    FinishedByTool,
    FinishedValue,
    HandedOff,
    Outcome,
    Stopped,
)
from windlass.ports import Price, TurnView, Wait
from windlass.ports.children import is_child_usage, own_usage, usage_in_answer
from windlass.runtime.outputs import read_value
from windlass.runtime.program import Output
from windlass.runtime.turn_record import TurnRecord, calls_so_far

O = TypeVar("O")  # noqa: E741 - the output's type
OutputState: TypeAlias = Literal["usable", "empty", "error_only", "recovered"]
# Issues that say how the turn was run, not that something went wrong in it.
_HARMLESS = frozenset({"not_durable", "attached"})

# Outcomes that say that the words of the turn are not an answer.
_NO_ANSWER = frozenset({"invalid_output", "unfinished"})


class TurnResult(Generic[O]):
    """A turn that is done, or that is parked and waits for answers.

    Attributes:
        session_id, turn_id: Where to find it again: `runtime.turn(session_id, turn_id)`.
        outcome: How it ended: `Finished`, `FinishedValue`, `FinishedByTool`, `HandedOff` or `Stopped`; None while parked.
        followed: The results of the turns before this one that handed the session off for the same input, in order.
    """

    followed: tuple[TurnResult[O], ...] = ()

    def __init__(
        self,
        found: TurnRecord | TurnView,
        *,
        output: Output | None = None,
        so_far: tuple[Message, ...] = (),
        prices: Mapping[str, Price] | None = None,
        issues: tuple[events.Error, ...] = (),
    ) -> None:
        self._found = found
        self._shape = output
        self._so_far = so_far
        self._prices = prices
        self._more_issues = issues
        self.session_id = found.session_id
        self.turn_id = found.turn_id
        self.outcome: Outcome | None = found.outcome

    @property
    def status(self) -> Literal["done", "parked"]:
        """`done`, or `parked`: the turn goes on when its waits are answered."""
        return "done" if isinstance(self._found, TurnRecord) else "parked"

    @property
    def text(self) -> str:
        """The answer, a value as canonical JSON, or the last text of the model; empty while the turn is parked."""
        return self._found.text if isinstance(self._found, TurnRecord) else ""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages that the turn added, or has added so far."""
        return self._found.messages if isinstance(self._found, TurnRecord) else self._so_far

    @property
    def tool_calls(self) -> tuple[CompletedToolCall, ...]:
        """The tool calls that have a result."""
        found = self._found
        return found.tool_calls if isinstance(found, TurnRecord) else calls_so_far(found.journal())

    @cached_property
    def usage(self) -> UsageReport:
        """What the turn's own model calls used, those of its tools and plugins included."""
        found = self._found
        lines = found.usage if isinstance(found, TurnRecord) else found.journal().usage()
        return UsageReport.of(own_usage(lines), self._prices)

    @cached_property
    def child_usage(self) -> UsageReport:
        """What the children used whose results the turn has, and theirs below them: lines such as `child:researcher`."""
        found = self._found
        if isinstance(found, TurnRecord):
            lines = [line for line in found.usage if is_child_usage(line)]
        else:
            lines = [
                line
                for view in found.waits
                if view.answer is not None
                for line in usage_in_answer(view.wait, view.answer.value)
            ]
        return UsageReport.of(lines, self._prices)

    @property
    def issues(self) -> tuple[events.Error, ...]:
        """What failed, what went wrong without ending the turn, and how it was run: each with its code and ids."""
        own = self._found.issues if isinstance(self._found, TurnRecord) else ()
        ids = TurnIds(self.session_id, self.turn_id)
        return tuple(issue.with_ids(ids) for issue in (*own, *self._more_issues))

    @property
    def waits(self) -> tuple[Wait, ...]:
        """What a parked turn waits for."""
        if isinstance(self._found, TurnRecord):
            return ()
        return tuple(one.wait for one in self._found.waits if one.state == "open")

    @property
    def iterations(self) -> int:
        """How many model calls the turn's loop made."""
        return self._found.iterations if isinstance(self._found, TurnRecord) else self.usage.calls

    @property
    def duration_ms(self) -> int:
        """From the start of the turn to its commit; 0 while it is parked."""
        return self._found.duration_ms if isinstance(self._found, TurnRecord) else 0

    @property
    def parked(self) -> bool:
        """Whether the turn waits for an answer."""
        return self.status == "parked"

    @property
    def safe_text(self) -> str:
        """The text without characters that a terminal or a database might not take."""
        return "".join(
            char for char in clean_text(self.text) if char.isprintable() or char in "\n\t"
        )

    @property
    def output(self) -> O:
        """The text, or a value of the `output_type` that was asked for.

        Raises:
            NoOutput: there is none; the message names the outcome.
        """
        try:
            return self._output()
        except (InvalidInput, ValueError) as error:
            raise NoOutput(
                f"turn {self.turn_id}: ended {self._ending()}, but its answer does not fit: {error}",
                field="output",
            ) from None

    @property
    def output_or_none(self) -> O | None:
        """Like `output`, with None where there is none."""
        try:
            return self.output
        except NoOutput:
            return None

    def _output(self) -> O:
        outcome = self.outcome
        if isinstance(outcome, (FinishedValue, FinishedByTool)):
            return self._shaped(outcome.value)
        if isinstance(outcome, Finished):
            if self._shape is None:
                return outcome.text  # type: ignore[return-value]  # without a shape O is str
            return self._shaped(read_value(outcome.text))
        raise NoOutput(f"turn {self.turn_id}: {self._ending()}", field="output")

    def _shaped(self, value: Json) -> O:
        return value if self._shape is None else self._shape.check(value)  # type: ignore[return-value]  # by its shape

    def _ending(self) -> str:
        outcome = self.outcome
        if outcome is None:
            kinds = ", ".join(sorted({wait.kind for wait in self.waits}))
            return f"is parked ({kinds or 'its waits are answered'})"
        if isinstance(outcome, Stopped):
            return f"stopped: {outcome.reason}{f' ({outcome.detail})' if outcome.detail else ''}"
        if isinstance(outcome, HandedOff):
            return f"was handed off to {outcome.target}"
        return "finished"

    def raise_for_outcome(self) -> None:
        """Raise unless the turn finished.

        Raises:
            NoOutput: it stopped, was handed off or is parked.
        """
        if not isinstance(self.outcome, (Finished, FinishedValue, FinishedByTool)):
            raise NoOutput(f"turn {self.turn_id}: {self._ending()}", field="outcome")

    @property
    def output_state(self) -> OutputState:
        """Whether there is something to show."""
        outcome = self.outcome
        if isinstance(outcome, Stopped) and outcome.reason in _NO_ANSWER:
            return "error_only"  # what the model said is there, and is not what was asked for
        has_value = isinstance(outcome, (FinishedValue, FinishedByTool))
        if not has_value and not self.text.strip():
            return "error_only" if isinstance(outcome, Stopped) else "empty"
        troubles = [issue for issue in self.issues if issue.code not in _HARMLESS]
        return "recovered" if troubles else "usable"

    def __repr__(self) -> str:
        return f"TurnResult({self.session_id}/{self.turn_id}: {self._ending()})"


class Collected(NamedTuple, Generic[O]):
    """What `session.collect` returns: `events, result = await session.collect(...)`."""

    events: tuple[events.Event, ...]
    result: TurnResult[O]

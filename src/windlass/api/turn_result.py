"""What a turn came to. A refusal, a cancelled turn or a spent limit is an outcome, not an exception."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, Literal, TypeAlias, TypeVar

from windlass.api.usage_report import UsageReport
from windlass.errors import InvalidInput, NoOutput
from windlass.guards.text import clean_text
from windlass.kernel import events
from windlass.kernel.messages import Message
from windlass.kernel.outcomes import (
    Finished,
    FinishedByTool,
    FinishedValue,
    HandedOff,
    Outcome,
    Stopped,
)
from windlass.kernel.tool_call import CompletedToolCall
from windlass.kernel.value import Json
from windlass.ports import TurnView, Wait
from windlass.ports.price import Price
from windlass.runtime.program import Output
from windlass.runtime.structured_driver import read_value
from windlass.runtime.turn_record import TurnRecord, calls_so_far

O = TypeVar("O")  # noqa: E741 - the output's type
OutputState: TypeAlias = Literal["usable", "empty", "error_only", "recovered"]


# Issues that say how the turn was run, not that something went wrong in it.
_HARMLESS = frozenset({"not_durable", "attached"})


class TurnResult(Generic[O]):
    """A turn that is done, or that is parked and waits for answers."""

    def __init__(
        self,
        found: TurnRecord | TurnView,
        *,
        output: Output | None = None,
        so_far: tuple[Message, ...] = (),
        prices: Mapping[str, Price] | None = None,
    ) -> None:
        self._shape = output
        self._prices = prices
        self.session_id = found.session_id
        self.turn_id = found.turn_id
        self.followed: tuple[TurnResult[O], ...] = ()
        self.child_usage = UsageReport()
        self.outcome: Outcome | None = found.outcome
        self.waits: tuple[Wait, ...] = ()
        if isinstance(found, TurnRecord):
            self._take(found)
        else:
            self._take_parked(found, so_far)

    def _take(self, record: TurnRecord) -> None:
        self.status: Literal["done", "parked"] = "done"
        self.messages: tuple[Message, ...] = record.messages
        self.tool_calls: tuple[CompletedToolCall, ...] = record.tool_calls
        self.usage = UsageReport.of(record.usage, self._prices)
        self.issues: tuple[events.Error, ...] = record.issues
        self.iterations = record.iterations
        self.duration_ms = record.duration_ms
        self.text = record.outcome.text if isinstance(record.outcome, Finished) else record.text

    def _take_parked(self, view: TurnView, so_far: tuple[Message, ...]) -> None:
        self.status = "parked"
        self.waits = tuple(one.wait for one in view.waits if one.state == "open")
        journal = view.journal()
        self.messages = so_far
        self.tool_calls = calls_so_far(journal)
        self.usage = UsageReport.of(journal.usage(), self._prices)
        self.issues = ()
        self.iterations = self.usage.calls
        self.duration_ms = 0
        self.text = ""

    @property
    def parked(self) -> bool:
        """Whether the turn waits for an answer."""
        return self.status == "parked"

    @property
    def safe_text(self) -> str:
        """The text without anything that a terminal or a database would trip over."""
        return "".join(
            char for char in clean_text(self.text) if char.isprintable() or char in "\n\t"
        )

    @property
    def output(self) -> O:
        """What the turn was to bring forth: the text, or a value of the type that was asked for.

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
        has_value = isinstance(self.outcome, (FinishedValue, FinishedByTool))
        if not has_value and not self.text.strip():
            return "error_only" if isinstance(self.outcome, Stopped) else "empty"
        troubles = [issue for issue in self.issues if issue.code not in _HARMLESS]
        return "recovered" if troubles else "usable"

    def __repr__(self) -> str:
        return f"TurnResult({self.session_id}/{self.turn_id}: {self._ending()})"

"""A reply that a plugin withheld: nothing of it is kept, the model is told so, and the turn goes on."""

from __future__ import annotations

import pytest

from tests.kernel.builders import (
    PREFIX,
    config,
    events_of,
    machine,
    only,
    reply_to,
    words,
)
from tests.kernel.compactions import HISTORY
from windlass.kernel import (
    Error,
    ModelFinished,
    ModelReply,
    RunCheckpoint,
    Stopped,
    TextDelta,
    TurnMachine,
    Usage,
    UsageReported,
)
from windlass.kernel.compaction import CompactionDriver
from windlass.kernel.messages import PluginOrigin

USED = Usage(input_tokens=3, output_tokens=2)
WITHHELD = ModelReply(terminal="withheld", diagnostic="Too rude.", usage=USED)


def test_the_model_is_told_why_and_called_again() -> None:
    turn = machine()

    said = reply_to(turn, WITHHELD)

    assert isinstance(said[-1], RunCheckpoint)
    assert said[-1].kind == "after_work"
    assert words(turn.messages) == ["hi", "Too rude."]
    told = turn.messages[1]
    assert (told.id, told.role) == (f"m_{PREFIX}.0.withheld", "user")
    assert told.origin == PluginOrigin(plugin="withheld")
    assert turn.iteration == 1


def test_what_it_used_counts_and_nothing_of_it_is_shown() -> None:
    said = reply_to(machine(), WITHHELD)

    (used,) = only(UsageReported, said)
    assert (used.usage, used.cumulative) == (USED, USED)
    (finished,) = only(ModelFinished, said)
    assert (finished.text, finished.calls) == ("", ())
    assert not any(isinstance(event, TextDelta | Error) for event in events_of(said))


def test_without_a_reason_it_is_told_all_the_same() -> None:
    turn = machine()
    reply_to(turn, ModelReply(terminal="withheld"))

    assert words(turn.messages)[1] == "Your last reply was withheld. Answer in another way."


def test_a_withheld_reply_counts_as_an_iteration() -> None:
    turn = machine(max_iterations=1)

    reply_to(turn, WITHHELD)

    text = "The turn stopped at its limit of 1 iterations."
    assert turn.outcome == Stopped(reason="max_iterations", detail=text)


@pytest.mark.parametrize(
    ("reason", "detail"), [("Not this.", "Not this."), (None, "The summary was withheld.")]
)
def test_a_summary_that_is_withheld_changes_nothing(reason: str | None, detail: str) -> None:
    turn = TurnMachine(config(CompactionDriver()), HISTORY)

    said = reply_to(turn, ModelReply(terminal="withheld", diagnostic=reason))

    assert turn.outcome == Stopped(reason="refused", detail=detail)
    assert [error.code for error in only(Error, said)] == ["summary_invalid"]

"""Semantic 9, without calls: a reply that was cut off, and one that says nothing."""

from __future__ import annotations

import pytest

from tests.kernel.builders import (
    PREFIX,
    assistant,
    config,
    drain,
    events_of,
    kinds,
    machine,
    reply_to,
    user,
)
from windlass.kernel import (
    CheckpointPassed,
    Done,
    Error,
    Finished,
    ModelReply,
    Reasoning,
    RunCheckpoint,
    Stopped,
    TurnMachine,
)
from windlass.testing import Answers, drive, say
from windlass.testing import call as scripted_call

EMPTY = "The model returned an empty reply."
CUT = "The reply was cut off at its output limit."


# --- truncated replies without calls ---------------------------------------------------------


def test_a_truncated_reply_is_kept_as_incomplete_and_passes_the_last_checkpoint() -> None:
    turn = machine()

    said = reply_to(turn, say("I was abou", terminal="output_limit"))

    cut = assistant("I was abou", id=f"m_{PREFIX}.0.reply", incomplete=True)
    assert kinds(said) == [
        "UsageReported",
        "TextDelta",
        "ModelFinished",
        "Progress",
        "RunCheckpoint",
    ]
    assert said[-1] == RunCheckpoint(id=2, kind="before_completion")
    turn.respond(CheckpointPassed(id=2))
    stopped = Stopped(reason="incomplete", detail=CUT)
    assert kinds(drain(turn)) == ["TurnEnded", "Done"]
    assert turn.outcome == stopped
    assert tuple(turn.messages) == (user("hi"), cut)


def test_a_truncated_reply_without_words_leaves_no_message() -> None:
    turn = machine()

    said = reply_to(turn, ModelReply(terminal="output_limit"))
    turn.respond(CheckpointPassed(id=2))

    assert kinds(said) == ["UsageReported", "ModelFinished", "RunCheckpoint"]
    assert turn.outcome == Stopped(reason="incomplete", detail=CUT)
    assert tuple(turn.messages) == (user("hi"),)


# --- empty replies ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "nothing",
    [
        ModelReply(),
        ModelReply(text=" \n"),
        ModelReply(parts=(Reasoning(text="hm"),)),
        ModelReply(terminal="unknown"),
    ],
    ids=["empty", "blank", "thoughts-only", "unknown"],
)
def test_an_empty_reply_to_a_question_is_the_providers_error(nothing: ModelReply) -> None:
    turn = machine()

    said = reply_to(turn, nothing, text_streamed=True)

    stopped = Stopped(reason="provider_error", detail=EMPTY)
    assert kinds(said) == ["UsageReported", "ModelFinished", "Error", "TurnEnded", "Done"]
    assert events_of(said)[2] == Error(
        id=f"e_{PREFIX}.3",
        correlation_id=f"c_{PREFIX}.1",
        message=EMPTY,
        code="empty_reply",
        terminal=nothing.terminal,
    )
    assert turn.outcome == stopped
    assert turn.records == ()


def test_the_provider_s_reason_for_an_empty_reply_reaches_the_operator() -> None:
    quiet = ModelReply(diagnostic="ended with reasoning only, status completed")

    effects = reply_to(machine(), quiet)

    done = effects[-1]
    assert isinstance(done, Done)
    assert done.outcome == Stopped(
        reason="provider_error",
        detail="The model returned an empty reply. ended with reasoning only, status completed",
    )


def test_an_empty_reply_to_an_empty_history_is_the_providers_error_too() -> None:
    turn = TurnMachine(config(), [])

    reply_to(turn, ModelReply())

    assert turn.outcome == Stopped(reason="provider_error", detail=EMPTY)


@pytest.mark.parametrize(
    "nothing",
    [ModelReply(), ModelReply(text=" \n"), ModelReply(parts=(Reasoning(text="hm"),))],
    ids=["empty", "blank", "thoughts-only"],
)
def test_an_empty_reply_after_a_tool_result_finishes_with_empty_text(nothing: ModelReply) -> None:
    driven = drive(
        machine(), Answers(model=[scripted_call("add"), nothing], tools={"add": lambda: 1})
    )

    assert driven.outcome == Finished(text="")
    assert [message.id for message in driven.machine.messages] == [
        "u1",
        f"m_{PREFIX}.0.reply",
        f"m_{PREFIX}.0.results",
    ]
    assert driven.all(RunCheckpoint) == [
        RunCheckpoint(id=3, kind="after_work"),
        RunCheckpoint(id=5, kind="before_completion"),
    ]
    assert [event for event in driven.events if isinstance(event, Error)] == []

"""Semantic 6: how a reply ended decides whether the driver reads it or the turn ends."""

from __future__ import annotations

from typing import get_args

import pytest

from tests.kernel.builders import (
    PREFIX,
    Chooses,
    assistant,
    call,
    events_of,
    kept,
    kinds,
    machine,
    only,
    reply_to,
    user,
)
from windlass.kernel import (
    Action,
    Done,
    DriverView,
    Emit,
    Error,
    Finish,
    Finished,
    Message,
    ModelFinished,
    ModelReply,
    Progress,
    Reasoning,
    Stopped,
    Text,
    TextDelta,
    TurnEnded,
    Usage,
    UsageReported,
    WaitingModel,
)
from windlass.kernel.model_call import KnownTerminal
from windlass.kernel.outcomes import StopReason

ENDINGS: list[tuple[str, StopReason, str]] = [
    ("output_limit", "incomplete", "The reply was cut off at its output limit."),
    (
        "context_overflow",
        "provider_error",
        "The request no longer fits the model's context window.",
    ),
    (
        "content_filter",
        "provider_error",
        "The provider's content filter stopped the reply.",
    ),
    ("provider_error", "provider_error", "The provider ended the reply with an error."),
    ("cancelled", "cancelled", "The model call was cancelled."),
    ("limit", "limit", "The reply was beyond a limit of the turn."),
]
READ_BY_THE_DRIVER = {"stop", "tool_use", "withheld"}
OVERFLOW = "The prompt filled the context window; no token was left for a reply."


def test_every_known_reason_is_for_the_driver_or_has_its_ending() -> None:
    endings = {terminal for terminal, _, _ in ENDINGS}

    assert endings | READ_BY_THE_DRIVER == set(get_args(KnownTerminal))


@pytest.mark.parametrize(("terminal", "reason", "detail"), ENDINGS)
def test_a_terminal_reason_ends_the_turn_with_its_outcome(
    terminal: str, reason: StopReason, detail: str
) -> None:
    turn = machine(Chooses())

    said = reply_to(turn, ModelReply(terminal=terminal))

    stopped = Stopped(reason=reason, detail=detail)
    assert events_of(said) == [
        UsageReported(
            id=f"e_{PREFIX}.1",
            correlation_id=f"c_{PREFIX}.1",
            iteration=0,
            usage=Usage(),
            cumulative=Usage(),
        ),
        ModelFinished(id=f"e_{PREFIX}.2", correlation_id=f"c_{PREFIX}.1", iteration=0, text=""),
        Error(
            id=f"e_{PREFIX}.3",
            correlation_id=f"c_{PREFIX}.1",
            message=detail,
            code=terminal,
            terminal=terminal,
        ),
        TurnEnded(id=f"e_{PREFIX}.4", correlation_id=f"c_{PREFIX}.0", outcome=stopped),
    ]
    assert said[-1] == Done(messages=(user("hi"),), outcome=stopped)
    assert len(said) == 5
    assert turn.outcome == stopped


@pytest.mark.parametrize("terminal", [ending[0] for ending in ENDINGS])
def test_the_providers_own_diagnostic_is_what_people_read(terminal: str) -> None:
    turn = machine(Chooses())

    said = reply_to(turn, ModelReply(terminal=terminal, diagnostic="quota, section 4"))

    assert isinstance(turn.outcome, Stopped)
    assert turn.outcome.detail == "quota, section 4"
    assert [event.message for event in events_of(said) if isinstance(event, Error)] == [
        "quota, section 4"
    ]


@pytest.mark.parametrize("terminal", ["stop", "tool_use", "unknown", "a_new_one", ""])
def test_other_reasons_go_to_the_driver(terminal: str) -> None:
    turn = machine(Chooses())

    reply_to(turn, ModelReply(text="x", terminal=terminal))

    assert turn.outcome == Finished(text="x")


@pytest.mark.parametrize("terminal", [ending[0] for ending in ENDINGS])
def test_a_reason_that_the_driver_handles_goes_to_the_driver(terminal: str) -> None:
    seen: list[tuple[str, str, bool]] = []

    def on_model(
        view: DriverView, waiting: WaitingModel, reply: ModelReply, streamed: bool
    ) -> list[Action]:
        seen.append((reply.terminal, reply.text, streamed))
        return [Finish(outcome=Finished(text="handled"))]

    turn = machine(Chooses(handles=frozenset({terminal}), on_model=on_model))
    said = reply_to(turn, ModelReply(text="x", terminal=terminal), text_streamed=True)

    assert seen == [(terminal, "x", True)]
    assert turn.outcome == Finished(text="handled")
    assert kinds(said) == ["UsageReported", "TurnEnded", "Done"]


@pytest.mark.parametrize("terminal", [ending[0] for ending in ENDINGS])
def test_a_driver_that_handles_another_reason_does_not_get_this_one(terminal: str) -> None:
    others = frozenset(ending[0] for ending in ENDINGS) - {terminal}
    turn = machine(Chooses(handles=others))

    reply_to(turn, ModelReply(text="x", terminal=terminal))

    assert isinstance(turn.outcome, Stopped)


# --- text ------------------------------------------------------------------------------------


def test_unstreamed_text_is_shown_before_the_error_and_kept_as_incomplete() -> None:
    turn = machine(Chooses())

    said = reply_to(turn, ModelReply(text="I was about", terminal="content_filter"))

    cut = assistant("I was about", id=f"m_{PREFIX}.0.reply", incomplete=True)
    assert kinds(said) == [
        "UsageReported",
        "TextDelta",
        "ModelFinished",
        "Error",
        "Progress",
        "TurnEnded",
        "Done",
    ]
    assert said[1] == Emit(
        event=TextDelta(id=f"e_{PREFIX}.2", correlation_id=f"c_{PREFIX}.1", text="I was about")
    )
    assert [event.text for event in only(ModelFinished, said)] == ["I was about"]
    assert said[4] == Progress(messages=(user("hi"), cut), new_records=kept(cut))
    stopped = Stopped(
        reason="provider_error", detail="The provider's content filter stopped the reply."
    )
    assert said[6] == Done(messages=(user("hi"), cut), new_records=(), outcome=stopped)
    assert turn.records == kept(cut)


def test_streamed_text_is_kept_but_not_shown_twice() -> None:
    turn = machine(Chooses())

    said = reply_to(turn, ModelReply(text="I was about", terminal="cancelled"), text_streamed=True)

    assert kinds(said) == [
        "UsageReported",
        "ModelFinished",
        "Error",
        "Progress",
        "TurnEnded",
        "Done",
    ]
    assert tuple(turn.messages[1:]) == (
        assistant("I was about", id=f"m_{PREFIX}.0.reply", incomplete=True),
    )


def test_only_words_are_kept_of_a_reply_that_did_not_end() -> None:
    turn = machine(Chooses())
    parts = (
        Reasoning(text="hm", replay={"sig": 1}),
        Text(text="one "),
        Text(text=" "),
        call("c1"),
        Text(text="two"),
    )

    reply_to(turn, ModelReply(parts=parts, terminal="provider_error"))

    assert tuple(turn.messages[1:]) == (
        Message(
            id=f"m_{PREFIX}.0.reply",
            role="assistant",
            parts=(Text(text="one "), Text(text="two")),
            incomplete=True,
        ),
    )


@pytest.mark.parametrize("text", ["", " \n"])
def test_a_reply_without_words_leaves_no_message(text: str) -> None:
    turn = machine(Chooses())

    said = reply_to(turn, ModelReply(text=text, terminal="content_filter"), text_streamed=True)

    assert kinds(said) == ["UsageReported", "ModelFinished", "Error", "TurnEnded", "Done"]
    assert turn.records == ()


# --- the prompt that filled the window -------------------------------------------------------


@pytest.mark.parametrize(
    ("usage", "window", "is_overflow"),
    [
        pytest.param(Usage(input_tokens=950), 1000, True, id="exactly-95-percent"),
        pytest.param(Usage(input_tokens=949), 1000, False, id="just-below"),
        pytest.param(Usage(input_tokens=1000), 1000, True, id="full"),
        pytest.param(Usage(input_tokens=1200), 1000, True, id="over"),
        pytest.param(Usage(input_tokens=950, output_tokens=1), 1000, False, id="with-output"),
        pytest.param(Usage(input_tokens=950), None, False, id="no-window"),
        pytest.param(Usage(input_tokens=0), 0, False, id="window-of-zero"),
        pytest.param(
            Usage(input_tokens=1, cached_input_tokens=900, cache_write_tokens=49),
            1000,
            True,
            id="cache-counts",
        ),
        pytest.param(
            Usage(cached_input_tokens=900, cache_write_tokens=49), 1000, False, id="cache-below"
        ),
        pytest.param(Usage(input_tokens=20), 21, True, id="rounding-up"),
        pytest.param(Usage(input_tokens=18), 19, False, id="rounding-down"),
        pytest.param(Usage(input_tokens=949, reasoning_tokens=900), 1000, False, id="reasoning"),
    ],
)
def test_an_output_limit_without_output_is_an_overflow_from_95_percent_of_the_window(
    usage: Usage, window: int | None, is_overflow: bool
) -> None:
    turn = machine(Chooses(), max_context_tokens=window)

    said = reply_to(turn, ModelReply(terminal="output_limit", usage=usage, diagnostic="cut"))

    (error,) = [event for event in events_of(said) if isinstance(event, Error)]
    if is_overflow:
        assert (error.terminal, error.message) == ("context_overflow", OVERFLOW)
        assert turn.outcome == Stopped(reason="provider_error", detail=OVERFLOW)
    else:
        assert (error.terminal, error.message) == ("output_limit", "cut")
        assert turn.outcome == Stopped(reason="incomplete", detail="cut")
    assert turn.usage == usage


@pytest.mark.parametrize(
    "terminal", ["stop", "content_filter", "provider_error", "cancelled", "tool_use"]
)
def test_only_an_output_limit_is_taken_for_an_overflow(terminal: str) -> None:
    turn = machine(Chooses(), max_context_tokens=10)

    reply_to(turn, ModelReply(text="x", terminal=terminal, usage=Usage(input_tokens=10)))

    assert getattr(turn.outcome, "detail", "") != OVERFLOW


def test_a_driver_that_handles_the_output_limit_does_not_get_an_overflow() -> None:
    turn = machine(Chooses(handles=frozenset({"output_limit"})), max_context_tokens=100)

    reply_to(turn, ModelReply(terminal="output_limit", usage=Usage(input_tokens=95)))

    assert turn.outcome == Stopped(reason="provider_error", detail=OVERFLOW)


def test_a_driver_that_handles_the_overflow_gets_the_refined_reply() -> None:
    seen: list[ModelReply] = []

    def on_model(
        view: DriverView, waiting: WaitingModel, reply: ModelReply, streamed: bool
    ) -> list[Action]:
        seen.append(reply)
        return [Finish(outcome=Finished())]

    turn = machine(
        Chooses(handles=frozenset({"context_overflow"}), on_model=on_model),
        max_context_tokens=100,
    )
    reply_to(turn, ModelReply(terminal="output_limit", usage=Usage(input_tokens=95)))

    assert seen == [
        ModelReply(terminal="context_overflow", usage=Usage(input_tokens=95), diagnostic=OVERFLOW)
    ]

"""Semantic 7: a failed call ends the turn; usage adds up; the trace has requests and replies."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kernel.builders import (
    PREFIX,
    config,
    delivery,
    drain,
    kinds,
    machine,
    only,
    reply_to,
    user,
)
from windlass.kernel import (
    CallModel,
    Done,
    Emit,
    Error,
    FailureLogged,
    Finished,
    Log,
    ModelFailure,
    ModelReplied,
    ModelReply,
    ReplyLogged,
    RequestLogged,
    Stopped,
    TurnEnded,
    TurnMachine,
    Usage,
    UsageReported,
)
from windlass.testing import Answers, call, drive, say


@pytest.mark.parametrize(
    ("failure", "code", "terminal"),
    [
        (ModelFailure(message="no route"), None, "provider_error"),
        (ModelFailure(message="no route", retryable=True), None, "provider_error"),
        (
            ModelFailure(message="no route", code="529", terminal="cancelled"),
            "529",
            "cancelled",
        ),
        (
            ModelFailure(message="no route", terminal="context_overflow"),
            None,
            "context_overflow",
        ),
    ],
)
def test_a_model_failure_shows_an_error_and_ends_the_turn(
    failure: ModelFailure, code: str | None, terminal: str
) -> None:
    turn = machine()

    said = reply_to(turn, failure)

    stopped = Stopped(reason="provider_error", detail="no route")
    error = Error(
        id=f"e_{PREFIX}.1",
        correlation_id=f"c_{PREFIX}.1",
        message="no route",
        code=code,
        terminal=terminal,
    )
    ended = TurnEnded(id=f"e_{PREFIX}.2", correlation_id=f"c_{PREFIX}.0", outcome=stopped)
    assert said == [
        Emit(event=error),
        Emit(event=ended),
        Done(messages=(user("hi"),), outcome=stopped),
    ]
    assert turn.outcome == stopped
    assert turn.usage == Usage()


def test_usage_adds_up_per_turn_and_each_reply_reports_its_own_and_the_sum() -> None:
    first = Usage(
        input_tokens=10,
        output_tokens=2,
        cached_input_tokens=3,
        cache_write_tokens=4,
        reasoning_tokens=1,
    )
    second = Usage(
        input_tokens=100,
        output_tokens=20,
        cached_input_tokens=30,
        cache_write_tokens=40,
        reasoning_tokens=10,
    )
    both = Usage(
        input_tokens=110,
        output_tokens=22,
        cached_input_tokens=33,
        cache_write_tokens=44,
        reasoning_tokens=11,
    )

    driven = drive(
        machine(),
        Answers(
            model=[ModelReply(parts=call("add").parts, usage=first), say("done", usage=second)]
        ),
    )

    reports = [event for event in driven.events if isinstance(event, UsageReported)]
    assert [(report.iteration, report.usage, report.cumulative) for report in reports] == [
        (0, first, first),
        (1, second, both),
    ]
    assert [report.correlation_id for report in reports] == [f"c_{PREFIX}.1", f"c_{PREFIX}.4"]
    assert driven.machine.usage == both


def test_usage_is_counted_also_when_the_reply_ends_the_turn() -> None:
    turn = machine()

    reply_to(turn, ModelReply(terminal="content_filter", usage=Usage(input_tokens=5)))

    assert turn.usage == Usage(input_tokens=5)


def test_usage_goes_on_adding_up_after_a_restore() -> None:
    settings = config()
    spent = Usage(input_tokens=1, output_tokens=1)

    driven = drive(
        TurnMachine(settings, [user("hi")]),
        Answers(
            model=[say("a", usage=spent), say("b", usage=spent), say("c", usage=spent)],
            checkpoints=[delivery("1"), delivery("2")],
        ),
        restart_with=settings,
    )

    assert driven.outcome == Finished(text="c")
    assert driven.machine.usage == Usage(input_tokens=3, output_tokens=3)


# --- the trace -------------------------------------------------------------------------------


def test_without_a_trace_nothing_is_logged() -> None:
    driven = drive(machine(), Answers(model=[call("add"), say("done")]))

    assert driven.all(Log) == []


def test_the_trace_has_every_request_before_its_call_and_every_reply_after_it() -> None:
    turn = machine(emit_trace=True)
    started = drain(turn)
    answer = ModelReply(text="hello", usage=Usage(input_tokens=1))
    turn.respond(ModelReplied(id=1, result=answer))
    after = drain(turn)

    assert kinds(started) == ["ModelStarted", "Log", "CallModel"]
    asked: Any = started[2]
    assert isinstance(asked, CallModel)
    assert started[1] == Log(entry=RequestLogged(iteration=0, request=asked.request))
    assert kinds(after) == [
        "UsageReported",
        "Log",
        "TextDelta",
        "ModelFinished",
        "Progress",
        "RunCheckpoint",
    ]
    assert after[1] == Log(entry=ReplyLogged(iteration=0, reply=answer))


def test_the_trace_names_the_iteration() -> None:
    driven = drive(
        TurnMachine(config(emit_trace=True), [user("hi")], iteration_offset=3),
        Answers(model=[call("add"), say("done")]),
    )

    assert [log.entry.iteration for log in driven.all(Log)] == [3, 3, 4, 4]


def test_the_trace_has_failures_too() -> None:
    turn = machine(emit_trace=True)
    failure = ModelFailure(message="no route", raw="<html>")

    said = reply_to(turn, failure)

    assert kinds(said) == ["Log", "Error", "TurnEnded", "Done"]
    assert said[0] == Log(entry=FailureLogged(iteration=0, failure=failure))


def test_the_trace_shows_a_refined_reply_as_it_was_judged() -> None:
    turn = machine(emit_trace=True, max_context_tokens=100)
    cut = ModelReply(terminal="output_limit", usage=Usage(input_tokens=99))

    said = reply_to(turn, cut)

    (logged,) = [effect.entry for effect in said if isinstance(effect, Log)]
    assert isinstance(logged, ReplyLogged)
    assert logged.reply.terminal == "context_overflow"


def test_a_trace_changes_nothing_else() -> None:
    def turn(emit_trace: bool) -> list[Any]:
        driven = drive(machine(emit_trace=emit_trace), Answers(model=[call("add"), say("done")]))
        return [effect for effect in driven.effects if not isinstance(effect, Log)]

    assert turn(emit_trace=True) == turn(emit_trace=False)


def test_a_failure_with_unclean_words_can_still_be_told() -> None:
    turn = machine()

    said = reply_to(turn, ModelFailure(message="bad \x00 byte \ud800"))

    assert [error.message for error in only(Error, said)] == ["bad \ufffd byte \ufffd"]

"""Semantic 9, replies of malformed calls only: answered, and after three in a row given up."""

from __future__ import annotations

from tests.kernel.builders import (
    PREFIX,
    answers,
    asks,
    call,
    config,
    delivery,
    events_of,
    kept,
    kinds,
    machine,
    raw_call,
    reply,
    reply_to,
    result,
    user,
)
from windlass.kernel import (
    CallTools,
    DriverRecord,
    Error,
    Finished,
    RunCheckpoint,
    Stopped,
    ToolFinished,
    ToolOutcome,
    TurnMachine,
    check_history,
)
from windlass.testing import Answers, drive, say

MALFORMED = (
    "Not run: the call was cut off or is not well formed. "
    "Issue it again with a tool's name and a complete JSON object as arguments."
)
GAVE_UP = "3 replies in a row held only malformed tool calls."
BAD = raw_call("bad", '{"a": ')


def test_a_reply_of_malformed_calls_only_is_answered_and_the_model_asked_again() -> None:
    turn = machine()

    said = reply_to(turn, reply(BAD))

    assert kinds(said) == [
        "UsageReported",
        "ModelFinished",
        "ToolFinished",
        "Progress",
        "RunCheckpoint",
    ]
    assert said[-1] == RunCheckpoint(id=2, kind="after_work")
    assert events_of(said)[2] == ToolFinished(
        id=f"e_{PREFIX}.3",
        correlation_id=events_of(said)[2].correlation_id,
        call_id="bad",
        name="add",
        outcome=ToolOutcome(status="error", value=MALFORMED),
    )
    answered = answers(result("bad", MALFORMED, status="error"), id=f"m_{PREFIX}.0.results")
    assert tuple(turn.records) == (
        *kept(asks(BAD, id=f"m_{PREFIX}.0.reply"), answered),
        DriverRecord(data={"invalid_replies": 1, "turn": PREFIX}),
    )
    assert turn.iteration == 1


def test_three_replies_of_malformed_calls_only_in_a_row_stop_the_turn() -> None:
    driven = drive(machine(), Answers(model=[reply(BAD)] * 3))

    assert driven.outcome == Stopped(reason="provider_error", detail=GAVE_UP)
    assert [(event.message, event.code) for event in driven.events if isinstance(event, Error)] == [
        (GAVE_UP, "invalid_calls")
    ]
    assert kinds(driven.effects)[-5:] == ["ToolFinished", "Error", "Progress", "TurnEnded", "Done"]
    assert [
        record.data for record in driven.machine.records if isinstance(record, DriverRecord)
    ] == [{"invalid_replies": n, "turn": PREFIX} for n in (1, 2, 3)]
    assert driven.all(CallTools) == []
    check_history(driven.machine.messages)
    assert driven.machine.messages[-1].role == "user"


def test_the_count_survives_restarts() -> None:
    settings = config()

    driven = drive(
        TurnMachine(settings, [user("hi")]),
        Answers(model=[reply(BAD)] * 3),
        restart_with=settings,
    )

    assert driven.outcome == Stopped(reason="provider_error", detail=GAVE_UP)


def test_a_good_reply_in_between_begins_the_count_anew() -> None:
    bad, good = reply(BAD), reply(call("c"), BAD)

    driven = drive(
        machine(),
        Answers(model=[bad, bad, good, bad, bad, good, say("done")], tools={"add": lambda: 1}),
    )

    assert driven.outcome == Finished(text="done")


def test_malformed_replies_of_an_earlier_turn_are_not_counted_in_this_one() -> None:
    earlier = drive(machine(), Answers(model=[reply(BAD)] * 3)).machine
    question = user("again", id="u2")
    turn = TurnMachine(
        config(turn_id="t2"),
        [*earlier.messages, question],
        records=[*earlier.records, *kept(question)],
    )

    driven = drive(turn, Answers(model=[reply(BAD), reply(BAD), say("done")]))

    assert driven.outcome == Finished(text="done")


def test_malformed_replies_are_bound_by_the_iteration_limit_too() -> None:
    driven = drive(machine(max_iterations=2), Answers(model=[reply(BAD)] * 2))

    detail = "The turn stopped at its limit of 2 iterations."
    assert driven.outcome == Stopped(reason="max_iterations", detail=detail)
    check_history(driven.machine.messages)


def test_a_driver_record_of_somebody_else_does_not_disturb_the_count() -> None:
    strange = [DriverRecord(data=None), DriverRecord(data=["x"]), DriverRecord(data={"y": 1})]
    turn = TurnMachine(config(), [user("hi")], records=strange)

    driven = drive(turn, Answers(model=[reply(BAD), reply(BAD), say("done")]))

    assert driven.outcome == Finished(text="done")


def test_what_a_checkpoint_brings_in_between_does_not_begin_the_count_anew() -> None:
    driven = drive(
        machine(),
        Answers(model=[reply(BAD)] * 3, checkpoints=[delivery("more"), delivery("and more")]),
    )

    assert driven.outcome == Stopped(reason="provider_error", detail=GAVE_UP)


def test_a_record_that_only_looks_like_a_count_is_not_one() -> None:
    foreign = DriverRecord(data={"invalid_replies": "2", "dropped_calls": "9", "turn": PREFIX})
    turn = TurnMachine(config(), [user("hi")], records=[foreign])

    driven = drive(turn, Answers(model=[reply(BAD), reply(BAD), say("done")]))

    assert driven.outcome == Finished(text="done")
    assert [record.data for record in driven.machine.records if type(record) is DriverRecord][
        1
    ] == {
        "invalid_replies": 1,
        "turn": PREFIX,
    }

"""A driver that leads nowhere ends its turn, not its session: the history stays valid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.kernel.builders import (
    PREFIX,
    Chooses,
    answers,
    ask,
    asks,
    assistant,
    call,
    completed,
    config,
    drain,
    kept,
    kinds,
    machine,
    only,
    reply,
    reply_to,
    restored,
    result,
    snapshot_bytes,
    user,
)
from windlass.errors import WindlassBug
from windlass.kernel import (
    Action,
    Append,
    CodeResult,
    CodeReturned,
    CompletedToolCall,
    Done,
    DriverFault,
    DriverRecord,
    DriverView,
    Effect,
    Error,
    Finish,
    Finished,
    ModelReply,
    ModelRequest,
    NextIteration,
    PendingToolCall,
    Progress,
    StandardDriver,
    StartCheckpoint,
    StartCode,
    StartModel,
    StartTools,
    Stopped,
    ToolsReturned,
    TurnMachine,
    WaitingModel,
    check_history,
)

NOTE = Append(records=(DriverRecord(data=1),))
PENDING = PendingToolCall(call_id="c1", name="add")
TOOLS = StartTools(calls=(PENDING,))
CODE = StartCode(language="python", code="1")
CHECK = StartCheckpoint(kind="after_work")
MODEL = StartModel(request=ModelRequest(model="m", messages=()))
NOWHERE = "The driver led from prepare_iteration to prepare_iteration, which is not a step."

FAULTY: list[Any] = [
    pytest.param([TOOLS, CODE], id="two-kinds"),
    pytest.param([CHECK, NOTE, CHECK], id="one-kind-twice"),
    pytest.param([NOTE, TOOLS, TOOLS], id="tools-twice"),
    pytest.param([CODE, TOOLS], id="code-and-tools"),
    pytest.param([StartTools(calls=())], id="no-calls"),
    pytest.param([StartTools(calls=(PENDING, PENDING))], id="one-call-twice"),
    pytest.param([NOTE, "start"], id="garbage-at-the-end"),
    pytest.param([CHECK, 7], id="garbage-after-a-start"),
    pytest.param([None], id="none"),
    pytest.param([user("x")], id="another-value"),
]


def check_stopped(turn: TurnMachine, said: list[Effect], correlation_id: str) -> None:
    """The turn was ended by one fault, told once, and the session can go on."""
    (error,) = only(Error, said)
    assert (error.code, error.correlation_id) == ("driver_fault", correlation_id)
    assert error.message.startswith("The driver ")
    stopped = Stopped(reason="runtime_error", detail=error.message)
    assert kinds(said)[-2:] == ["TurnEnded", "Done"]
    assert turn.outcome == stopped
    assert said[-1] == Done(
        messages=turn.messages,
        new_records=said[-1].new_records if isinstance(said[-1], Done) else (),
        iteration=turn.iteration,
        outcome=stopped,
    )
    assert drain(turn) == []
    check_history(turn.messages)


@pytest.mark.parametrize("batch", FAULTY)
def test_a_faulty_batch_at_the_beginning_ends_the_turn(batch: list[Action]) -> None:
    turn = machine(Chooses(prepare=batch))

    check_stopped(turn, drain(turn), f"c_{PREFIX}.0")


@pytest.mark.parametrize("batch", FAULTY)
def test_a_faulty_batch_after_a_reply_ends_the_turn(batch: list[Action]) -> None:
    turn = machine(Chooses(on_model=batch))

    check_stopped(turn, reply_to(turn, ModelReply(text="x")), f"c_{PREFIX}.1")


@pytest.mark.parametrize("batch", FAULTY)
def test_a_faulty_batch_after_code_ends_the_turn(batch: list[Action]) -> None:
    turn = machine(Chooses(prepare=[CODE], on_code=batch))
    ask(turn)

    turn.respond(CodeReturned(id=1, result=CodeResult()))

    check_stopped(turn, drain(turn), f"c_{PREFIX}.1")


@pytest.mark.parametrize("batch", FAULTY)
def test_a_faulty_batch_after_tools_ends_the_turn_with_every_call_answered(
    batch: list[Action],
) -> None:
    class Faulty(StandardDriver):
        def on_tools(
            self, view: DriverView, completed: Sequence[CompletedToolCall]
        ) -> list[Action]:
            return batch

    turn = machine(Faulty())
    reply_to(turn, reply(call("c1"), call("c2")))

    turn.respond(ToolsReturned(id=2, results=(completed("c2", 2), completed("c1", 1))))

    said = drain(turn)
    check_stopped(turn, said, f"c_{PREFIX}.2")
    assert tuple(turn.messages) == (
        user("hi"),
        asks(call("c1"), call("c2"), id=f"m_{PREFIX}.0.reply"),
        answers(result("c1", "1"), result("c2", "2"), id=f"m_{PREFIX}.0.results"),
    )
    assert [kind for kind in kinds(said) if kind in ("ToolFinished", "Error")] == [
        "ToolFinished",
        "ToolFinished",
        "Error",
    ]
    told = [
        record
        for effect in said
        if isinstance(effect, (Progress, Done))
        for record in effect.new_records
    ]
    assert kept(turn.messages[2])[0] in told


@pytest.mark.parametrize(
    ("batch", "detail"),
    [
        (
            [CHECK, CHECK],
            "The driver led from waiting_checkpoint to waiting_checkpoint, which is not a step.",
        ),
        ([TOOLS, CODE], "The driver led from waiting_tools to waiting_code, which is not a step."),
        ([StartTools(calls=())], "The driver started no calls, or two calls of one id."),
        (
            [StartTools(calls=(PENDING, PENDING))],
            "The driver started no calls, or two calls of one id.",
        ),
        ([NOTE, "start"], "The driver returned str, which is not an action."),
        ([None], "The driver returned NoneType, which is not an action."),
    ],
)
def test_the_fault_says_what_the_driver_did(batch: list[Action], detail: str) -> None:
    turn = machine(Chooses(on_model=batch))

    said = reply_to(turn, ModelReply(text="x"))

    assert turn.outcome == Stopped(reason="runtime_error", detail=detail)
    assert [(error.message, error.code) for error in only(Error, said)] == [
        (detail, "driver_fault")
    ]


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param([MODEL, MODEL], id="model-twice"),
        pytest.param([MODEL, CHECK], id="model-and-checkpoint"),
        pytest.param([MODEL, TOOLS], id="model-and-tools"),
    ],
)
def test_a_model_call_and_something_else_at_once_end_the_turn(batch: list[Action]) -> None:
    first = machine(Chooses(prepare=batch))
    check_stopped(first, drain(first), f"c_{PREFIX}.1")

    later = machine(Chooses(on_model=batch))
    check_stopped(later, reply_to(later, ModelReply(text="x")), f"c_{PREFIX}.2")


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param([StartTools(calls=())], id="no-calls"),
        pytest.param([CHECK, CHECK], id="two-starts"),
        pytest.param(["garbage"], id="garbage"),
    ],
)
def test_a_reply_that_was_appended_before_the_fault_gets_its_results_too(
    batch: list[Action],
) -> None:
    class Faulty(StandardDriver):
        def on_model(
            self, view: DriverView, waiting: WaitingModel, reply: ModelReply, text_streamed: bool
        ) -> list[Action]:
            done = super().on_model(view, waiting, reply, text_streamed)
            return [*done[:-1], *batch]

    turn = machine(Faulty())

    said = reply_to(turn, reply(call("c1"), call("c2")))

    check_stopped(turn, said, f"c_{PREFIX}.1")


@pytest.mark.parametrize("batch", [[], [NextIteration()], [NOTE]], ids=["empty", "next", "note"])
def test_a_driver_that_begins_an_iteration_and_starts_nothing_ends_the_turn(
    batch: list[Action],
) -> None:
    turn = machine(Chooses(prepare=batch))

    said = drain(turn)

    assert kinds(said)[-3:] == ["Error", "TurnEnded", "Done"]
    assert turn.outcome == Stopped(reason="runtime_error", detail=NOWHERE)


def test_a_driver_that_starts_nothing_after_an_answer_goes_on_to_the_next_iteration() -> None:
    turn = machine(Chooses(on_model=[NextIteration()]))

    said = reply_to(turn, ModelReply(text="x"))

    assert kinds(said) == ["UsageReported", "Progress", "ModelStarted", "CallModel"]
    assert turn.iteration == 1


@pytest.mark.parametrize(
    "dropped",
    [
        pytest.param([TOOLS, CODE], id="two-starts"),
        pytest.param([StartTools(calls=())], id="no-calls"),
        pytest.param([StartTools(calls=(PENDING, PENDING))], id="one-call-twice"),
        pytest.param(["garbage"], id="garbage"),
        pytest.param([NOTE, NextIteration()], id="records"),
    ],
)
def test_what_stands_after_finish_is_dropped_whatever_it_is(dropped: list[Action]) -> None:
    turn = machine(Chooses(prepare=[Finish(outcome=Finished(text="bye")), *dropped]))

    assert kinds(drain(turn)) == ["TurnEnded", "Done"]
    assert turn.outcome == Finished(text="bye")
    assert turn.records == ()
    assert turn.iteration == 0


@pytest.mark.parametrize("start", [TOOLS, CODE, CHECK], ids=["tools", "code", "checkpoint"])
def test_a_start_that_finish_overtakes_is_not_left_open(start: Action) -> None:
    turn = machine(Chooses(on_model=[start, Finish(outcome=Finished(text="bye"))]))

    said = reply_to(turn, ModelReply(text="x"))

    assert turn.is_done
    assert kinds(said)[-2:] == ["TurnEnded", "Done"]
    check_history(turn.messages)


def test_two_starts_before_finish_are_still_a_fault() -> None:
    turn = machine(Chooses(on_model=[CHECK, CHECK, Finish(outcome=Finished(text="bye"))]))

    check_stopped(turn, reply_to(turn, ModelReply(text="x")), f"c_{PREFIX}.1")


def test_a_sound_batch_is_not_taken_for_sound_with_other_calls() -> None:
    sound = machine(Chooses(prepare=[NOTE, TOOLS]))
    drain(sound)
    faulty = machine(Chooses(prepare=[NOTE, StartTools(calls=())]))

    check_stopped(faulty, drain(faulty), f"c_{PREFIX}.0")
    assert sound.state == "waiting_tools"


@pytest.mark.parametrize(
    "nothing", [None, 7, "text", iter([NOTE])], ids=["none", "a-number", "text", "an-iterator"]
)
def test_a_driver_that_returns_no_list_at_all_ends_its_turn(nothing: object) -> None:
    turn = machine(Chooses(on_model=lambda *_: nothing))

    reply_to(turn, ModelReply(text="x"))

    assert isinstance(turn.outcome, Stopped)
    assert turn.outcome.reason == "runtime_error"


def test_a_turn_that_a_fault_ended_can_be_restored_and_its_session_goes_on() -> None:
    settings = config(Chooses(on_model=[NOTE, CHECK, CHECK]))
    turn = TurnMachine(settings, [user("hi")])
    reply_to(turn, ModelReply(text="x"))

    again = restored(turn, settings)

    assert snapshot_bytes(again) == snapshot_bytes(turn)
    assert again.outcome == turn.outcome
    later = [*turn.messages, assistant("sorry", id="a9"), user("again", id="u2")]
    assert kinds(drain(TurnMachine(config(turn_id="t2"), later))) == ["ModelStarted", "CallModel"]


def test_a_fault_is_a_bug_and_says_so() -> None:
    assert issubclass(DriverFault, WindlassBug)


def test_calls_that_a_faulty_batch_had_started_are_answered_as_overtaken() -> None:
    class Faulty(StandardDriver):
        def on_model(
            self, view: DriverView, waiting: WaitingModel, reply: ModelReply, text_streamed: bool
        ) -> list[Action]:
            return [*super().on_model(view, waiting, reply, text_streamed), CHECK]

    turn = machine(Faulty())

    reply_to(turn, reply(call("c1"), call("c2")))

    overtaken = "Not run to its end: the turn ended first."
    assert turn.messages[-1] == answers(
        result("c1", overtaken, status="cancelled"),
        result("c2", overtaken, status="cancelled"),
        id=f"m_{PREFIX}.0.results",
    )

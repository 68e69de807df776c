"""Semantic 9: model → tools → model, until the model has nothing more to call."""

from __future__ import annotations

from tests.kernel.builders import (
    ADD,
    PREFIX,
    answers,
    ask,
    asks,
    assistant,
    call,
    calls_in,
    completed,
    config,
    config_for,
    drain,
    events_of,
    kept,
    kinds,
    machine,
    machine_in,
    reply,
    reply_to,
    restored,
    result,
    run_tools,
    user,
)
from windlass.kernel import (
    CallModel,
    CallTools,
    CheckpointPassed,
    CodeResult,
    CodeReturned,
    Done,
    Emit,
    Finished,
    Message,
    ModelFinished,
    ModelMessage,
    PendingToolCall,
    Progress,
    Reasoning,
    RunCheckpoint,
    StandardDriver,
    Stopped,
    Text,
    TextDelta,
    ToolCall,
    ToolFinished,
    ToolOutcome,
    ToolsReturned,
    TurnEnded,
    check_history,
)
from windlass.testing import Answers, drive, say
from windlass.testing import call as scripted_call


def test_words_without_calls_are_appended_and_end_the_turn_after_a_last_checkpoint() -> None:
    driven = drive(machine(tools=(ADD,)), Answers(model=[say("hello")]))

    said = assistant("hello", id=f"m_{PREFIX}.0.reply")
    done = Finished(text="hello")
    assert kinds(driven.effects) == [
        "ModelStarted",
        "CallModel",
        "UsageReported",
        "TextDelta",
        "ModelFinished",
        "Progress",
        "RunCheckpoint",
        "TurnEnded",
        "Done",
    ]
    assert driven.requests[0].tools == (ADD,)
    assert driven.requests[0].tool_choice == "auto"
    assert driven.effects[3:] == [
        Emit(event=TextDelta(id=f"e_{PREFIX}.2", correlation_id=f"c_{PREFIX}.1", text="hello")),
        Emit(
            event=ModelFinished(
                id=f"e_{PREFIX}.3", correlation_id=f"c_{PREFIX}.1", iteration=0, text="hello"
            )
        ),
        Progress(messages=(user("hi"), said), new_records=kept(said)),
        RunCheckpoint(id=2, kind="before_completion"),
        Emit(event=TurnEnded(id=f"e_{PREFIX}.4", correlation_id=f"c_{PREFIX}.0", outcome=done)),
        Done(messages=(user("hi"), said), outcome=done),
    ]


def test_streamed_text_is_not_shown_again() -> None:
    said = reply_to(machine(), say("hello"), text_streamed=True)

    assert kinds(said) == ["UsageReported", "ModelFinished", "Progress", "RunCheckpoint"]


def test_a_call_is_run_and_its_result_goes_back_to_the_model() -> None:
    driven = drive(
        machine(tools=(ADD,)),
        Answers(
            model=[scripted_call("add", a=1, b=2), say("3")], tools={"add": lambda a, b: a + b}
        ),
    )

    asked = asks(call("call_0_0", a=1, b=2), id=f"m_{PREFIX}.0.reply")
    answered = answers(result("call_0_0", "3"), id=f"m_{PREFIX}.0.results")
    assert kinds(driven.effects) == [
        "ModelStarted",
        "CallModel",
        "UsageReported",
        "ModelFinished",
        "Progress",
        "CallTools",
        "ToolFinished",
        "Progress",
        "RunCheckpoint",
        "ModelStarted",
        "CallModel",
        "UsageReported",
        "TextDelta",
        "ModelFinished",
        "Progress",
        "RunCheckpoint",
        "TurnEnded",
        "Done",
    ]
    assert driven.effects[5] == CallTools(
        id=2, calls=(PendingToolCall(call_id="call_0_0", name="add", args={"a": 1, "b": 2}),)
    )
    assert driven.effects[6] == Emit(
        event=ToolFinished(
            id=f"e_{PREFIX}.3",
            correlation_id=f"c_{PREFIX}.2.0",
            call_id="call_0_0",
            name="add",
            args={"a": 1, "b": 2},
            outcome=ToolOutcome(value=3),
        )
    )
    assert driven.effects[7] == Progress(
        messages=(user("hi"), asked, answered), new_records=kept(answered), iteration=1
    )
    assert driven.effects[8] == RunCheckpoint(id=3, kind="after_work")
    second = driven.effects[10]
    assert isinstance(second, CallModel)
    assert tuple(second.request.messages) == (
        ModelMessage(role="user", parts=(Text(text="hi"),)),
        ModelMessage(role="assistant", parts=(call("call_0_0", a=1, b=2),)),
        ModelMessage(role="user", parts=(result("call_0_0", "3"),)),
    )
    assert driven.outcome == Finished(text="3")


def test_the_reply_is_kept_in_the_order_it_was_said() -> None:
    turn = machine()
    parts = (
        Text(text="First I think."),
        Reasoning(text="hm", replay={"sig": "x"}),
        call("c1", a=1),
        Text(text="  "),
        Reasoning(text="so"),
        call("c2", "look"),
    )

    reply_to(turn, reply(*parts))

    # Blank words say nothing, and no provider takes them.
    assert turn.messages[-1] == Message(
        id=f"m_{PREFIX}.0.reply",
        role="assistant",
        parts=(parts[0], parts[1], parts[2], parts[4], parts[5]),
    )


def test_words_said_after_a_call_are_kept_before_it() -> None:
    turn = machine()
    late, thought = Text(text="Now I wait."), Reasoning(text="hm", replay=1)

    reply_to(turn, reply(Text(text="So."), call("c1"), late, thought, call("c2"), late))

    assert turn.messages[-1].parts == (
        Text(text="So."),
        late,
        late,
        call("c1"),
        thought,
        call("c2"),
    )


def test_results_are_appended_in_call_order_whatever_order_they_came_in() -> None:
    turn = machine()
    reply_to(turn, reply(call("c1"), call("c2"), call("c3")))

    turn.respond(
        ToolsReturned(id=2, results=(completed("c3", 3), completed("c1", 1), completed("c2", 2)))
    )

    expected = answers(
        result("c1", "1"), result("c2", "2"), result("c3", "3"), id=f"m_{PREFIX}.0.results"
    )
    assert turn.messages[-1] == expected
    assert [
        (event.call_id, event.correlation_id)
        for event in events_of(drain(turn))
        if isinstance(event, ToolFinished)
    ] == [("c1", f"c_{PREFIX}.2.0"), ("c2", f"c_{PREFIX}.2.1"), ("c3", f"c_{PREFIX}.2.2")]


def test_what_really_ran_is_what_the_event_shows() -> None:
    turn = machine()
    reply_to(turn, reply(call("c1", a=1)))

    turn.respond(ToolsReturned(id=2, results=(completed("c1", 5, args={"a": 4}, duration_ms=12),)))

    (finished,) = events_of(drain(turn))
    assert finished == ToolFinished(
        id=f"e_{PREFIX}.3",
        correlation_id=f"c_{PREFIX}.2.0",
        call_id="c1",
        name="add",
        args={"a": 4},
        outcome=ToolOutcome(value=5),
        duration_ms=12,
    )
    assert calls_in(turn.messages[1]) == [call("c1", a=1)]


def test_the_providers_blob_goes_with_the_call() -> None:
    turn = machine()
    signed = ToolCall(call_id="c1", name="add", args={"a": 1}, replay={"sig": "y"})

    asked = reply_to(turn, reply(signed))[-1]

    assert asked == CallTools(
        id=2,
        calls=(PendingToolCall(call_id="c1", name="add", args={"a": 1}, replay={"sig": "y"}),),
    )
    assert turn.messages[-1].parts[0] == signed


def test_each_iteration_mints_ids_of_its_own() -> None:
    driven = drive(
        machine(),
        Answers(model=[scripted_call("add"), scripted_call("add"), say("x")], tools={}),
    )

    assert [message.id for message in driven.machine.messages] == [
        "u1",
        f"m_{PREFIX}.0.reply",
        f"m_{PREFIX}.0.results",
        f"m_{PREFIX}.1.reply",
        f"m_{PREFIX}.1.results",
        f"m_{PREFIX}.2.reply",
    ]
    check_history(driven.machine.messages)


# --- what this mode does not do --------------------------------------------------------------


def test_the_standard_driver_takes_only_the_output_limit_itself() -> None:
    assert StandardDriver.handles == frozenset({"output_limit"})


def test_a_cell_that_the_standard_driver_never_started_ends_the_turn() -> None:
    turn = restored(machine_in("waiting_code"), config())

    turn.respond(CodeReturned(id=1, result=CodeResult()))

    assert kinds(drain(turn)) == ["CodeFinished", "TurnEnded", "Done"]
    assert turn.outcome == Stopped(
        reason="runtime_error", detail="The standard driver started no code."
    )


def test_a_turn_restored_after_its_tools_asks_the_model_with_all_results() -> None:
    settings = config_for("waiting_tools")
    turn = machine_in("waiting_tools")
    turn.respond(run_tools(ask(restored(turn, settings)), c1=1, c2=2))
    again = restored(turn, settings)
    again.respond(CheckpointPassed(id=3))

    assert [part.call_id for part in ask(again).request.messages[-1].parts] == ["c1", "bad", "c2"]

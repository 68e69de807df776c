"""`finish` and `fail` end a turn in any state; no recorded result is thrown away."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.kernel.builders import (
    PREFIX,
    STATES,
    Chooses,
    ask,
    asks,
    call,
    completed,
    config,
    config_for,
    drain,
    events_of,
    every_response,
    kept,
    kinds,
    machine_in,
    only,
    raw_call,
    reply,
    restored,
    result,
    results_in,
    run_tools,
    snapshot_bytes,
    user,
)
from windlass.kernel import (
    Action,
    Append,
    CancelModel,
    CompletedToolCall,
    Done,
    DriverRecord,
    DriverView,
    Emit,
    EmitEvent,
    EndTurn,
    Error,
    Finish,
    Finished,
    Message,
    ModelReplied,
    NextIteration,
    PendingToolCall,
    PluginEvent,
    Progress,
    StartModel,
    StartTools,
    Stopped,
    TextDelta,
    ToolCall,
    ToolFinished,
    ToolOutcome,
    TurnEnded,
    TurnMachine,
    check_history,
)

CANCELLED = Stopped(reason="cancelled", detail="by hand")
OVERTAKEN = "Not run to its end: the turn ended first."
MALFORMED = (
    "Not run: the call was cut off or is not well formed. "
    "Issue it again with a tool's name and a complete JSON object as arguments."
)


@pytest.mark.parametrize("state", [state for state in STATES if state != "finished"])
def test_finish_ends_the_turn_in_every_state(state: str) -> None:
    machine = machine_in(state)

    machine.finish(CANCELLED)

    assert machine.is_done
    assert machine.outcome == CANCELLED
    said = drain(machine)
    assert kinds(said)[-2:] == ["TurnEnded", "Done"]
    assert [event.outcome for event in only(TurnEnded, said)] == [CANCELLED]
    check_history(machine.messages)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("preparing", ["Error", "TurnEnded", "Done"]),
        ("waiting_environment", ["Error", "TurnEnded", "Done"]),
        ("prepare_iteration", ["Error", "TurnEnded", "Done"]),
        ("waiting_model", ["Error", "CancelModel", "TurnEnded", "Done"]),
        (
            "waiting_tools",
            ["Error", *["ToolFinished"] * 3, "Progress", "TurnEnded", "Done"],
        ),
        ("waiting_code", ["Error", "TurnEnded", "Done"]),
        ("waiting_checkpoint", ["Error", "TurnEnded", "Done"]),
    ],
)
def test_fail_shows_the_error_and_ends_the_turn_in_every_state(
    state: str, expected: list[str]
) -> None:
    machine = machine_in(state)

    machine.fail(Error(message="the disk is full", code="disk"))

    said = drain(machine)
    assert kinds(said) == expected
    (error,) = only(Error, said)
    assert error.correlation_id == f"c_{PREFIX}.0"
    assert (error.message, error.code) == ("the disk is full", "disk")
    assert machine.outcome == Stopped(reason="runtime_error", detail="the disk is full")
    check_history(machine.messages)


@pytest.mark.parametrize("state", STATES)
def test_a_finished_turn_cannot_be_ended_again(state: str) -> None:
    machine = machine_in(state)
    machine.finish(Finished(text="first"))
    drain(machine)
    before, outcome = snapshot_bytes(machine), machine.outcome

    machine.finish(CANCELLED, [completed("c1", 1)])
    machine.fail(Error(message="too late"))

    assert snapshot_bytes(machine) == before
    assert machine.outcome == outcome
    assert drain(machine) == []


def test_finish_during_a_model_call_cancels_that_call_by_its_id() -> None:
    machine = machine_in("waiting_model")

    machine.finish(CANCELLED)

    ended = TurnEnded(id=f"e_{PREFIX}.1", correlation_id=f"c_{PREFIX}.0", outcome=CANCELLED)
    assert drain(machine) == [
        CancelModel(id=1),
        Emit(event=ended),
        Done(messages=(user("hi"),), iteration=0, outcome=CANCELLED),
    ]


def test_the_cancelled_call_has_the_id_of_the_call_that_is_out_not_of_an_earlier_one() -> None:
    machine = machine_in("waiting_tools")
    machine.respond(run_tools(ask(restored(machine, config_for("waiting_tools"))), c1=1, c2=2))
    machine.respond(every_response(3)[4])
    asked = ask(machine)
    assert asked.id == 4

    machine.finish(CANCELLED)

    assert machine.poll() == CancelModel(id=4)


@pytest.mark.parametrize(
    "state", [state for state in STATES if state not in ("waiting_model", "finished")]
)
def test_no_other_state_cancels_a_model_call(state: str) -> None:
    machine = machine_in(state)

    machine.finish(CANCELLED)

    assert "CancelModel" not in kinds(drain(machine))


def test_a_restored_machine_cancels_its_call_too_and_does_not_ask_again() -> None:
    again = restored(machine_in("waiting_model"), config_for("waiting_model"))

    again.finish(CANCELLED)

    assert kinds(drain(again)) == ["CancelModel", "TurnEnded", "Done"]


@pytest.mark.parametrize("state", STATES)
def test_after_finish_no_answer_changes_anything(state: str) -> None:
    machine = machine_in(state)
    machine.finish(CANCELLED)
    before = snapshot_bytes(machine)

    for id in (1, 2, 3):
        for response in every_response(id):
            machine.respond(response)

    assert snapshot_bytes(machine) == before


def test_finish_before_the_queue_is_polled_loses_nothing_of_it() -> None:
    machine = machine_in("waiting_model")
    machine.respond(ModelReplied(id=1, result=reply(call("c1"))))

    machine.finish(CANCELLED)

    assert kinds(drain(machine)) == [
        "UsageReported",
        "ModelFinished",
        "Progress",
        "ToolFinished",
        "Progress",
        "TurnEnded",
        "Done",
    ]


# --- in the middle of a batch ----------------------------------------------------------------


def test_finish_in_a_batch_keeps_recorded_results_and_answers_the_other_calls_in_call_order() -> (
    None
):
    machine = machine_in("waiting_tools")
    recorded = completed("c2", 4, args={"a": 2}, duration_ms=7)

    machine.finish(CANCELLED, [recorded])

    said = asks(
        call("c1", a=1),
        raw_call("bad", '{"a": '),
        call("c2", a=2),
        id=f"m_{PREFIX}.0.reply",
    )
    answered = Message(
        id=f"m_{PREFIX}.0.results",
        role="user",
        parts=(
            result("c1", OVERTAKEN, status="cancelled"),
            result("bad", MALFORMED, status="error"),
            result("c2", "4"),
        ),
    )
    first, second, third, progress, ended, done = drain(machine)
    assert [
        (event.call_id, event.args, event.outcome, event.duration_ms)
        for event in events_of([first, second, third])
        if isinstance(event, ToolFinished)
    ] == [
        ("c2", {"a": 2}, ToolOutcome(value=4), 7),
        ("c1", {"a": 1}, ToolOutcome(status="cancelled", value=OVERTAKEN), 0),
        ("bad", {}, ToolOutcome(status="error", value=MALFORMED), 0),
    ]
    messages = (user("hi"), said, answered)
    assert progress == Progress(messages=messages, new_records=kept(answered))
    assert events_of([ended])[0] == TurnEnded(
        id=f"e_{PREFIX}.6", correlation_id=f"c_{PREFIX}.0", outcome=CANCELLED
    )
    assert done == Done(messages=messages, outcome=CANCELLED)
    check_history(machine.messages)


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        ([], ["cancelled", "error", "cancelled"]),
        (["c1"], ["ok", "error", "cancelled"]),
        (["c2"], ["cancelled", "error", "ok"]),
        (["c2", "c1"], ["ok", "error", "ok"]),
        (["c1", "c9"], ["ok", "error", "cancelled"]),
    ],
)
@pytest.mark.parametrize("how", ["finish", "fail"])
def test_every_call_gets_its_one_result_in_call_order(
    how: str, recorded: list[str], expected: list[str]
) -> None:
    machine = machine_in("waiting_tools")
    results = [completed(call_id, 1) for call_id in recorded]

    if how == "finish":
        machine.finish(CANCELLED, results)
    else:
        machine.fail(Error(message="broken"), results)

    answered = results_in(machine.messages[-1])
    assert [(part.call_id, part.status) for part in answered] == [
        ("c1", expected[0]),
        ("bad", expected[1]),
        ("c2", expected[2]),
    ]
    finished = only(ToolFinished, drain(machine))
    assert sorted(event.call_id for event in finished) == sorted(["c1", "bad", "c2"])
    check_history(machine.messages)


def test_a_control_among_recorded_results_does_not_override_the_outcome_given() -> None:
    machine = machine_in("waiting_tools")

    machine.finish(CANCELLED, [completed("c1", ToolOutcome(control=EndTurn(value=1)))])

    assert machine.outcome == CANCELLED


def test_finish_in_a_restored_batch_is_the_same_as_in_the_first_life() -> None:
    first = machine_in("waiting_tools")
    again = restored(first, config_for("waiting_tools"))

    first.finish(CANCELLED, [completed("c1", 1)])
    again.finish(CANCELLED, [completed("c1", 1)])

    assert snapshot_bytes(again) == snapshot_bytes(first)
    assert drain(again) == drain(first)


def test_recorded_results_given_where_no_tools_are_out_change_nothing() -> None:
    machine = machine_in("waiting_model")

    machine.finish(CANCELLED, [completed("c1", 1)])

    assert kinds(drain(machine)) == ["CancelModel", "TurnEnded", "Done"]
    assert list(machine.messages) == [user("hi")]


def test_of_what_a_driver_wants_while_closing_only_records_and_events_are_applied() -> None:
    seen: list[object] = []

    def close(
        view: DriverView, calls: Sequence[PendingToolCall], results: Sequence[CompletedToolCall]
    ) -> list[Action]:
        seen.append((tuple(calls), list(results)))
        return [
            Append(records=(DriverRecord(data="closed"),)),
            StartModel(request=view.request()),
            NextIteration(),
            Finish(outcome=Finished(text="no")),
            EmitEvent(event=PluginEvent(plugin="p", name="closed")),
        ]

    pending = (PendingToolCall(call_id="c1", name="add"),)
    settings = config(Chooses(prepare=[StartTools(calls=pending)], close=close))
    machine = TurnMachine(settings, [user("hi")])
    ask(machine)

    machine.finish(CANCELLED, [completed("c1", 1)])

    said = drain(machine)
    assert kinds(said) == ["ToolFinished", "PluginEvent", "Progress", "TurnEnded", "Done"]
    assert seen == [(pending, [completed("c1", 1)])]
    assert machine.records == (DriverRecord(data="closed"),)
    assert machine.iteration == 0
    assert machine.outcome == CANCELLED


def test_a_driver_that_has_nothing_to_record_while_closing_tells_no_progress() -> None:
    pending = (PendingToolCall(call_id="c1", name="add"),)
    machine = TurnMachine(config(Chooses(prepare=[StartTools(calls=pending)])), [user("hi")])
    ask(machine)

    machine.finish(CANCELLED)

    assert kinds(drain(machine)) == ["TurnEnded", "Done"]


def test_an_error_with_ids_of_its_own_keeps_them() -> None:
    machine = machine_in("waiting_model")

    machine.fail(Error(id="e9", correlation_id="c9", message="broken"))

    said = events_of(drain(machine))
    assert said[0] == Error(id="e9", correlation_id="c9", message="broken")
    assert said[1].id.startswith(f"e_{PREFIX}.")


def test_text_that_nobody_polled_for_is_still_shown_before_the_end() -> None:
    machine = machine_in("waiting_model")
    machine.respond(
        ModelReplied(id=1, result=reply(ToolCall(call_id="c1", name="add"), text="Let me see."))
    )
    machine.finish(CANCELLED)

    said = events_of(drain(machine))
    assert [event.text for event in said if isinstance(event, TextDelta)] == ["Let me see."]


def test_results_that_are_kept_are_told_as_those_of_their_calls() -> None:
    machine = machine_in("waiting_tools")

    machine.finish(CANCELLED, [completed("c2", 2)])

    told = only(ToolFinished, drain(machine))
    assert (told[0].call_id, told[0].correlation_id) == ("c2", f"c_{PREFIX}.2.1")

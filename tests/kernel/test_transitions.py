"""The table of transitions: what is in it can happen, what is not in it is refused."""

from __future__ import annotations

import pytest

from tests.kernel.builders import (
    ANSWERED_BY,
    STATES,
    WAITING,
    Chooses,
    ask,
    completed,
    delivery,
    drain,
    every_response,
    machine,
    machine_in,
    snapshot_bytes,
)
from windlass.kernel import (
    TRANSITIONS,
    Action,
    CheckpointPassed,
    CodeResult,
    CodeReturned,
    DriverView,
    EnvironmentSynced,
    Error,
    Failure,
    Finish,
    Finished,
    ModelReplied,
    ModelReply,
    NextIteration,
    PendingToolCall,
    Response,
    StartCheckpoint,
    StartCode,
    StartModel,
    StartTools,
    Stopped,
    ToolsReturned,
    TurnMachine,
)

TOOLS = StartTools(calls=(PendingToolCall(call_id="c1", name="add"),))
CHOICES = {
    "prepare_iteration",
    "waiting_model",
    "waiting_tools",
    "waiting_code",
    "waiting_checkpoint",
    "finished",
}
TABLE = {
    "preparing": {
        "poll": {"waiting_environment", "prepare_iteration", "finished"},
        "stop": {"finished"},
    },
    "waiting_environment": {
        "environment_synced": {"prepare_iteration", "finished"},
        "stop": {"finished"},
    },
    "prepare_iteration": {
        "poll": {"waiting_environment", *CHOICES} - {"prepare_iteration"},
        "stop": {"finished"},
    },
    "waiting_model": {"model_replied": CHOICES, "stop": {"finished"}},
    "waiting_tools": {"tools_returned": CHOICES, "stop": {"finished"}},
    "waiting_code": {"code_returned": CHOICES, "stop": {"finished"}},
    "waiting_checkpoint": {
        "checkpoint_passed": {"prepare_iteration", "finished"},
        "stop": {"finished"},
    },
    "finished": {},
}


def to(state: str, view: DriverView) -> list[Action]:
    """The batch of a driver that wants the turn in `state` next."""
    wanted: dict[str, list[Action]] = {
        "prepare_iteration": [NextIteration()],
        "waiting_model": [StartModel(request=view.request())],
        "waiting_tools": [TOOLS],
        "waiting_code": [StartCode(language="python", code="2")],
        "waiting_checkpoint": [StartCheckpoint(kind="after_work")],
        "finished": [Finish(outcome=Finished(text="bye"))],
    }
    return wanted[state]


def heading_for(state: str, *, first: str = "waiting_model") -> TurnMachine:
    """A machine that waits in `first` and whose driver goes to `state` on the answer."""

    def go(view: DriverView, *_: object) -> list[Action]:
        return to(state, view)

    return machine(
        Chooses(prepare=lambda view: to(first, view), on_model=go, on_tools=go, on_code=go)
    )


ANSWERS: dict[str, Response] = {
    "waiting_model": ModelReplied(id=1, result=ModelReply(text="x")),
    "waiting_tools": ToolsReturned(id=1, results=(completed("c1", 1),)),
    "waiting_code": CodeReturned(id=1, result=CodeResult()),
}


def test_the_table_is_the_one_that_was_designed() -> None:
    assert {
        state: {given: set(nexts) for given, nexts in row.items()}
        for state, row in TRANSITIONS.items()
    } == TABLE


def test_every_next_state_has_a_row_and_stands_in_a_row_once() -> None:
    for row in TRANSITIONS.values():
        for nexts in row.values():
            assert set(nexts) <= set(TRANSITIONS)
            assert len(nexts) == len(set(nexts))


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        TRANSITIONS["finished"] = TRANSITIONS["preparing"]  # type: ignore[index] # what is tried
    with pytest.raises(TypeError):
        TRANSITIONS["finished"]["poll"] = ("preparing",)  # type: ignore[index] # what is tried


# --- what is in the table ----------------------------------------------------------------------


@pytest.mark.parametrize("state", STATES)
def test_a_machine_can_be_in_every_state(state: str) -> None:
    assert machine_in(state).state == state


@pytest.mark.parametrize("target", sorted(CHOICES))
@pytest.mark.parametrize("first", ["waiting_model", "waiting_tools", "waiting_code"])
def test_after_an_answer_a_driver_may_go_anywhere(first: str, target: str) -> None:
    turn = heading_for(target, first=first)
    ask(turn)
    assert turn.state == first

    turn.respond(ANSWERS[first])

    assert turn.state == target


@pytest.mark.parametrize("target", sorted(CHOICES - {"prepare_iteration"}))
def test_at_the_beginning_of_an_iteration_a_driver_starts_anything_or_ends(target: str) -> None:
    turn = machine(Chooses(prepare=lambda view: to(target, view)))
    drain(turn)

    assert turn.state == target


def test_preparing_leads_to_the_environment_to_an_iteration_or_to_the_end() -> None:
    synced, plain, none = machine(sync_environment=True), machine(), machine(max_iterations=0)
    for turn in (synced, plain, none):
        drain(turn)

    assert [turn.state for turn in (synced, plain, none)] == [
        "waiting_environment",
        "waiting_model",
        "finished",
    ]


def test_the_environment_leads_to_an_iteration_or_to_the_end() -> None:
    good, bad = machine_in("waiting_environment"), machine_in("waiting_environment")
    good.respond(EnvironmentSynced(id=1))
    bad.respond(EnvironmentSynced(id=1, result=Failure(message="gone")))

    assert [good.state, bad.state] == ["prepare_iteration", "finished"]


def test_an_iteration_may_begin_with_the_environment() -> None:
    turn = machine(
        Chooses(on_model=[NextIteration()]),
        sync_environment=True,
    )
    ask(turn)
    turn.respond(EnvironmentSynced(id=1))
    ask(turn)
    turn.respond(ModelReplied(id=2, result=ModelReply(text="x")))
    assert turn.state == "prepare_iteration"
    drain(turn)

    assert turn.state == "waiting_environment"


def test_a_checkpoint_leads_to_an_iteration_or_to_the_end() -> None:
    more, nothing = machine_in("waiting_checkpoint"), machine_in("waiting_checkpoint")
    more.respond(CheckpointPassed(id=2, delivery=delivery("more")))
    nothing.respond(CheckpointPassed(id=2))

    assert [more.state, nothing.state] == ["prepare_iteration", "finished"]


@pytest.mark.parametrize("state", [state for state in STATES if state != "finished"])
def test_every_state_but_the_last_can_be_stopped_from_outside(state: str) -> None:
    finished, failed = machine_in(state), machine_in(state)
    finished.finish(Finished())
    failed.fail(Error(message="broken"))

    assert [finished.state, failed.state] == ["finished", "finished"]


# --- what is not in the table ------------------------------------------------------------------


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("position", range(5), ids=sorted(ANSWERED_BY.values()))
def test_an_input_that_is_not_in_the_table_is_refused(state: str, position: int) -> None:
    names = {
        "EnvironmentSynced": "environment_synced",
        "ModelReplied": "model_replied",
        "ToolsReturned": "tools_returned",
        "CodeReturned": "code_returned",
        "CheckpointPassed": "checkpoint_passed",
    }
    effect_id = 2 if state in ("waiting_tools", "waiting_checkpoint") else 1
    response = sorted(every_response(effect_id), key=lambda each: type(each).__name__)[position]
    turn = machine_in(state)
    before = snapshot_bytes(turn)

    turn.respond(response)

    is_in_table = names[type(response).__name__] in TABLE[state]
    assert (before != snapshot_bytes(turn)) == is_in_table


@pytest.mark.parametrize("state", [*WAITING, "finished"])
def test_a_poll_that_is_not_in_the_table_is_refused(state: str) -> None:
    turn = machine_in(state)
    before = snapshot_bytes(turn)

    assert turn.poll() is None
    assert snapshot_bytes(turn) == before


def test_an_iteration_that_leads_to_no_state_ends_the_turn() -> None:
    turn = machine(Chooses(prepare=[NextIteration()]))
    drain(turn)

    assert turn.outcome == Stopped(
        reason="runtime_error",
        detail="The driver led from prepare_iteration to prepare_iteration, which is not a step.",
    )

"""A restored machine asks again with the same id and an equal payload; a stale answer changes nothing."""

from __future__ import annotations

import pytest

from tests.kernel.builders import (
    ADD,
    ANSWERED_BY,
    STATES,
    TWO_CALLS,
    WAITING,
    Chooses,
    ask,
    completed,
    config,
    config_for,
    delivery,
    drain,
    every_response,
    kinds,
    machine_in,
    reply,
    restored,
    run_tools,
    snapshot_bytes,
    user,
    words,
)
from tests.kernel.builders import call as tool_call
from windlass.errors import InvalidInput
from windlass.kernel import (
    Action,
    CallModel,
    CallTools,
    CheckpointPassed,
    CodeResult,
    CodeReturned,
    DriverView,
    Effect,
    Environment,
    EnvironmentSynced,
    Finished,
    ModelMessage,
    ModelReplied,
    ModelReply,
    ModelRequest,
    PendingToolCall,
    RunCheckpoint,
    RunCode,
    StartModel,
    SyncEnvironment,
    Text,
    ToolSpec,
    ToolsReturned,
    TurnMachine,
    WaitingModel,
    canonical,
)

OUTSTANDING: dict[str, Effect] = {
    "waiting_environment": SyncEnvironment(id=1, update_config=False),
    "waiting_model": CallModel(
        id=1,
        request=ModelRequest(
            model="m",
            messages=(
                ModelMessage(role="system", parts=(Text(text="Be brief."),)),
                ModelMessage(role="user", parts=(Text(text="hi"),)),
            ),
            tools=(ADD,),
            session_id="s1",
        ),
    ),
    "waiting_tools": CallTools(
        id=2,
        calls=(
            PendingToolCall(call_id="c1", name="add", args={"a": 1}),
            PendingToolCall(call_id="c2", name="add", args={"a": 2}),
        ),
    ),
    "waiting_code": RunCode(id=1, language="python", code="1 + 1"),
    "waiting_checkpoint": RunCheckpoint(id=2, kind="before_completion"),
}
IDS = {"waiting_tools": 2, "waiting_checkpoint": 2}


@pytest.mark.parametrize("state", WAITING)
def test_a_restored_machine_asks_again_with_the_same_id_and_an_equal_payload(state: str) -> None:
    machine = machine_in(state)
    (asked,) = drain(TurnMachine.restore(config_for(state), machine.snapshot()))
    (asked_again,) = drain(restored(machine, config_for(state)))

    assert OUTSTANDING[state] == asked == asked_again
    assert canonical.digest(asked_again) == canonical.digest(asked)


@pytest.mark.parametrize("state", WAITING)
def test_a_machine_may_be_restored_any_number_of_times(state: str) -> None:
    machine = machine_in(state)
    for _ in range(3):
        machine = restored(machine, config_for(state))

    assert drain(machine) == [OUTSTANDING[state]]


@pytest.mark.parametrize("state", WAITING)
def test_asking_again_is_not_part_of_the_snapshot(state: str) -> None:
    machine = machine_in(state)
    before = snapshot_bytes(machine)

    again = restored(machine, config_for(state))
    assert snapshot_bytes(again) == before
    drain(again)
    assert snapshot_bytes(again) == before


@pytest.mark.parametrize("state", WAITING)
def test_a_stale_answer_leaves_a_pending_redelivery_pending(state: str) -> None:
    again = restored(machine_in(state), config_for(state))

    for stale in (0, 7, -1):
        for response in every_response(stale):
            again.respond(response)

    assert drain(again) == [OUTSTANDING[state]]


@pytest.mark.parametrize("state", WAITING)
def test_an_answer_of_the_wrong_kind_leaves_a_pending_redelivery_pending(state: str) -> None:
    again = restored(machine_in(state), config_for(state))

    for response in every_response(IDS.get(state, 1)):
        if type(response).__name__ != ANSWERED_BY[state]:
            again.respond(response)

    assert drain(again) == [OUTSTANDING[state]]


@pytest.mark.parametrize("state", STATES)
def test_answers_with_the_wrong_id_change_nothing(state: str) -> None:
    machine = machine_in(state)
    before = snapshot_bytes(machine)

    for stale in (0, IDS.get(state, 1) - 1, IDS.get(state, 1) + 1, 99):
        for response in every_response(stale):
            machine.respond(response)
            assert snapshot_bytes(machine) == before

    assert machine.state == state


@pytest.mark.parametrize("state", STATES)
def test_answers_of_the_wrong_kind_change_nothing(state: str) -> None:
    machine = machine_in(state)
    before = snapshot_bytes(machine)

    for right_id in (1, 2, 3):
        for response in every_response(right_id):
            if type(response).__name__ != ANSWERED_BY.get(state):
                machine.respond(response)
                assert snapshot_bytes(machine) == before

    assert machine.state == state


@pytest.mark.parametrize("state", WAITING)
def test_the_second_answer_to_one_effect_changes_nothing(state: str) -> None:
    machine = machine_in(state)
    (answer,) = [
        response
        for response in every_response(IDS.get(state, 1))
        if type(response).__name__ == ANSWERED_BY[state]
    ]
    machine.respond(answer)
    before = snapshot_bytes(machine)
    assert state != machine.state or state == "waiting_environment"

    machine.respond(answer)

    assert snapshot_bytes(machine) == before


def test_results_that_are_not_one_for_each_call_are_refused_and_change_nothing() -> None:
    machine = restored(machine_in("waiting_tools"), config_for("waiting_tools"))
    before = snapshot_bytes(machine)
    wrong = {
        "missing": (completed("c1", 1),),
        "none": (),
        "doubled": (completed("c1", 1), completed("c1", 1), completed("c2", 2)),
        "foreign": (completed("c1", 1), completed("c3", 3)),
        "one too many": (completed("c1", 1), completed("c2", 2), completed("c3", 3)),
    }

    for results in wrong.values():
        with pytest.raises(InvalidInput) as refused:
            machine.respond(ToolsReturned(id=2, results=results))
        assert refused.value.field == "results"
        assert refused.value.wanted == ["c1", "c2"]
        assert refused.value.found == [each.call_id for each in results]
        assert snapshot_bytes(machine) == before

    assert drain(machine) == [OUTSTANDING["waiting_tools"]]


def test_the_refusal_of_results_names_the_calls_found_and_wanted() -> None:
    machine = machine_in("waiting_tools")

    with pytest.raises(InvalidInput) as refused:
        machine.respond(ToolsReturned(id=2, results=(completed("c2", 1), completed("x", 1))))
    assert str(refused.value) == "results: found results for c2, x, wanted one each for c1, c2"
    with pytest.raises(InvalidInput) as refused:
        machine.respond(ToolsReturned(id=2, results=()))
    assert str(refused.value) == "results: found results for no call, wanted one each for c1, c2"


def test_the_synced_prompt_and_tools_survive_a_restore() -> None:
    settings = config(sync_environment=True, system_prompt="old", tools=(ADD,))
    machine = TurnMachine(settings, [user("hi")])
    ask(machine)
    new = Environment(system_prompt="new", tools=(ToolSpec(name="look"),))
    machine.respond(EnvironmentSynced(id=1, result=new))

    again = restored(machine, settings)
    asked = ask(again)

    assert asked.request.messages[0] == ModelMessage(role="system", parts=(Text(text="new"),))
    assert asked.request.tools == (ToolSpec(name="look"),)
    # And once more, for the next iteration after a second restore.
    again = restored(again, settings)
    again.respond(ModelReplied(id=2, result=reply(tool_call("c1", "look"))))
    again.respond(run_tools(ask(again), c1="seen"))
    again.respond(CheckpointPassed(id=ask(again).id))
    again.respond(EnvironmentSynced(id=ask(again).id))
    asked = ask(restored(again, settings))
    assert asked.request.tools == (ToolSpec(name="look"),)
    assert asked.request.messages[0] == ModelMessage(role="system", parts=(Text(text="new"),))
    assert (settings.system_prompt, settings.tools) == ("old", (ADD,))


@pytest.mark.parametrize("restore_after", [False, True], ids=["before", "after"])
def test_a_mixed_batch_restored_around_its_results_feeds_the_model_once(
    restore_after: bool,
) -> None:
    settings = config_for("waiting_tools")
    machine = TurnMachine(settings, [user("hi")])
    machine.respond(ModelReplied(id=ask(machine).id, result=TWO_CALLS))
    asked = ask(machine)
    if restore_after:
        machine.respond(run_tools(asked, c1=1, c2=2))
        machine = restored(machine, settings)
    else:
        machine = restored(machine, settings)
        assert ask(machine) == asked
        machine.respond(run_tools(asked, c1=1, c2=2))
    # The answer of the first life comes once more.
    machine.respond(run_tools(asked, c1=8, c2=9))
    machine.respond(CheckpointPassed(id=ask(machine).id))

    shown = ask(machine).request.messages
    assert [message.role for message in shown] == ["system", "user", "assistant", "user"]
    assert [
        (part.call_id, part.content[0].text if part.status == "ok" else None, part.status)
        for part in shown[-1].parts
    ] == [("c1", "1", "ok"), ("bad", None, "error"), ("c2", "2", "ok")]


def test_a_drivers_own_state_comes_back_to_it_after_a_restore() -> None:
    seen: list[object] = []

    def on_model(
        view: DriverView, waiting: WaitingModel, reply: ModelReply, streamed: bool
    ) -> list[Action]:
        seen.append(waiting.driver_state)
        return []

    settings = config(
        Chooses(
            prepare=lambda view: [StartModel(request=view.request(), driver_state={"try": [1]})],
            on_model=on_model,
        )
    )
    machine = TurnMachine(settings, [user("hi")])
    ask(machine)
    again = restored(machine, settings)
    again.respond(ModelReplied(id=1, result=ModelReply(text="x")))

    assert seen == [{"try": [1]}]


def test_the_state_of_a_cell_comes_back_to_its_driver_after_a_restore() -> None:
    seen: list[object] = []

    def on_code(view: DriverView, driver_state: object, result: object) -> list[Action]:
        seen.append((driver_state, result))
        return []

    machine = machine_in("waiting_code")
    again = restored(machine, config(Chooses(on_code=on_code)))
    again.respond(CodeReturned(id=1, result=CodeResult(output="2")))

    assert seen == [({"cell": 1}, CodeResult(output="2"))]


def test_two_machines_of_one_snapshot_do_not_see_each_others_messages() -> None:
    settings = config_for("waiting_checkpoint")
    machine = machine_in("waiting_checkpoint")
    snapshot = machine.snapshot()
    left = TurnMachine.restore(settings, snapshot)
    right = TurnMachine.restore(settings, snapshot)

    left.respond(CheckpointPassed(id=2, delivery=delivery("left")))
    right.respond(CheckpointPassed(id=2, delivery=delivery("right")))

    assert words(left.messages) == ["hi", "hello", "left"]
    assert words(right.messages) == ["hi", "hello", "right"]
    assert words(snapshot.messages) == ["hi", "hello"]
    assert snapshot_bytes(machine) == canonical.encode(snapshot)


def test_a_finished_machine_is_restored_as_finished_and_says_the_rest_of_what_it_had_to_say() -> (
    None
):
    settings = config_for("finished")
    machine = TurnMachine(settings, [user("hi")])
    machine.finish(Finished(text="bye"))
    machine.poll()

    again = restored(machine, settings)

    assert kinds(drain(again)) == ["Done"]
    assert again.outcome == Finished(text="bye")

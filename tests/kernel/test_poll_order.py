"""Semantic 1: queued effects; then, after a restore and once, the outstanding effect; then the rest."""

from __future__ import annotations

import pytest

from tests.kernel.builders import (
    PREFIX,
    STATES,
    WAITING,
    Chooses,
    ask,
    config,
    config_for,
    drain,
    kinds,
    machine,
    machine_in,
    restored,
    user,
)
from windlass.kernel import (
    CallModel,
    Emit,
    EmitEvent,
    EnvironmentSynced,
    Finished,
    ModelMessage,
    ModelReplied,
    ModelReply,
    ModelRequest,
    ModelStarted,
    PluginEvent,
    RunCheckpoint,
    StartModel,
    Text,
    TurnMachine,
)


def test_the_first_poll_announces_the_model_call_and_the_second_asks_for_it() -> None:
    request = ModelRequest(
        model="m",
        messages=(ModelMessage(role="user", parts=(Text(text="hi"),)),),
        session_id="s1",
    )
    started = ModelStarted(
        id=f"e_{PREFIX}.0", correlation_id=f"c_{PREFIX}.1", iteration=0, message_count=1
    )

    assert drain(machine()) == [Emit(event=started), CallModel(id=1, request=request)]


def test_what_is_queued_comes_before_what_is_asked() -> None:
    say = EmitEvent(event=PluginEvent(plugin="p", name="seen"))
    driver = Chooses(prepare=lambda view: [say, StartModel(request=view.request()), say])

    assert kinds(drain(machine(driver))) == [
        "PluginEvent",
        "ModelStarted",
        "PluginEvent",
        "CallModel",
    ]


@pytest.mark.parametrize("state", WAITING)
def test_a_machine_that_waits_has_nothing_more_to_say(state: str) -> None:
    waiting = machine_in(state)

    assert [waiting.poll(), waiting.poll()] == [None, None]
    assert waiting.state == state


def test_a_machine_that_is_done_says_nothing_for_ever() -> None:
    done = machine_in("finished")

    assert [done.poll(), done.poll(), done.poll()] == [None, None, None]
    assert done.is_done
    assert done.outcome == Finished(text="bye")


@pytest.mark.parametrize("state", [state for state in STATES if state != "finished"])
def test_a_turn_that_goes_on_has_no_outcome_yet(state: str) -> None:
    machine = machine_in(state)

    assert (machine.is_done, machine.outcome) == (False, None)


@pytest.mark.parametrize("state", WAITING)
def test_after_a_restore_the_outstanding_effect_is_asked_once(state: str) -> None:
    again = restored(machine_in(state), config_for(state))

    assert len(drain(again)) == 1
    assert drain(again) == []


def test_after_a_restore_queued_effects_still_come_before_the_outstanding_one() -> None:
    first = machine()
    first.poll()
    first.poll()
    first.respond(ModelReplied(id=1, result=ModelReply(text="hello")))
    first.poll()

    again = restored(first, config())

    assert kinds(drain(again)) == ["TextDelta", "ModelFinished", "Progress", "RunCheckpoint"]


def test_a_machine_that_was_never_polled_is_restored_at_its_beginning() -> None:
    again = restored(machine(), config())

    assert kinds(drain(again)) == ["ModelStarted", "CallModel"]


@pytest.mark.parametrize("state", ["preparing", "prepare_iteration"])
def test_a_restored_machine_that_waits_for_nothing_goes_on_preparing(state: str) -> None:
    again = restored(machine_in(state), config_for(state))

    assert kinds(drain(again)) == ["ModelStarted", "CallModel"]


def test_an_answer_to_a_restored_machine_needs_no_second_asking() -> None:
    first = machine()
    drain(first)
    again = restored(first, config())

    again.respond(ModelReplied(id=1, result=ModelReply(text="hello")))

    asked = drain(again)
    assert kinds(asked) == [
        "UsageReported",
        "TextDelta",
        "ModelFinished",
        "Progress",
        "RunCheckpoint",
    ]
    assert asked[-1] == RunCheckpoint(id=2, kind="before_completion")


def test_effects_are_numbered_from_one_across_their_kinds() -> None:
    numbered = TurnMachine(config(sync_environment=True), [user("hi")])
    asked = [ask(numbered)]
    numbered.respond(EnvironmentSynced(id=1))
    asked.append(ask(numbered))
    numbered.respond(ModelReplied(id=2, result=ModelReply(text="hello")))
    asked.append(ask(numbered))

    assert [(type(effect).__name__, effect.id) for effect in asked] == [
        ("SyncEnvironment", 1),
        ("CallModel", 2),
        ("RunCheckpoint", 3),
    ]

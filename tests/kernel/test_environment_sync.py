"""Semantic 3: prompt and tools are asked for before every iteration and are machine state."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kernel.builders import (
    ADD,
    PREFIX,
    ask,
    config,
    config_for,
    drain,
    events_of,
    kinds,
    machine,
    machine_in,
    restored,
    user,
    words,
)
from windlass.errors import CallerError
from windlass.kernel import (
    CheckpointDelivery,
    Done,
    Emit,
    Environment,
    EnvironmentSynced,
    Error,
    Failure,
    InjectedMessage,
    ModelMessage,
    ModelRequest,
    ModelStarted,
    Stopped,
    SyncEnvironment,
    Text,
    ToolSpec,
    TurnEnded,
    TurnMachine,
)
from windlass.testing import Answers, call, drive, say

LOOK = ToolSpec(name="look")
NEW = Environment(system_prompt="new", tools=(LOOK,))


def shown(request: ModelRequest) -> tuple[str | None, tuple[str, ...]]:
    """The prompt and the names of the tools of a request."""
    first = request.messages[0]
    prompt = words([first])[0] if first.role == "system" else None
    return prompt, tuple(tool.name for tool in request.tools)


def test_without_sync_the_environment_is_never_asked_for() -> None:
    driven = drive(machine(), Answers(model=[call("add"), say("done")]))

    assert driven.all(SyncEnvironment) == []


def test_one_sync_before_the_first_iteration_then_one_for_each_new_one() -> None:
    driven = drive(
        machine(sync_environment=True), Answers(model=[call("add"), call("add"), say("done")])
    )

    assert driven.all(SyncEnvironment) == [
        SyncEnvironment(id=1, update_config=False),
        SyncEnvironment(id=5, update_config=True),
        SyncEnvironment(id=9, update_config=True),
    ]


def test_the_sync_of_an_iteration_comes_after_the_checkpoint_before_it() -> None:
    driven = drive(machine(sync_environment=True), Answers(model=[call("add"), say("done")]))

    asked = [kind for kind in kinds(driven.effects) if kind.startswith(("Call", "Run", "Sync"))]
    assert asked == [
        "SyncEnvironment",
        "CallModel",
        "CallTools",
        "RunCheckpoint",
        "SyncEnvironment",
        "CallModel",
        "RunCheckpoint",
    ]


def test_an_iteration_that_a_checkpoint_opened_is_synced_too() -> None:
    more = CheckpointDelivery(messages=(InjectedMessage(role="user", parts=(Text(text="and?"),)),))
    driven = drive(
        machine(sync_environment=True),
        Answers(model=[say("one"), say("two")], checkpoints=[more]),
    )

    assert [sync.update_config for sync in driven.all(SyncEnvironment)] == [False, True]


def test_an_offset_does_not_make_the_first_sync_an_update() -> None:
    turn = TurnMachine(config(sync_environment=True), [user("hi")], iteration_offset=4)

    assert drain(turn) == [SyncEnvironment(id=1, update_config=False)]
    turn.respond(EnvironmentSynced(id=1))
    assert kinds(drain(turn)) == ["ModelStarted", "CallModel"]


@pytest.mark.parametrize("first", [NEW, None], ids=["new", "none"])
def test_a_returned_environment_applies_and_none_keeps_what_there_was(
    first: Environment | None,
) -> None:
    settings = config(sync_environment=True, system_prompt="old", tools=(ADD,))
    turn = TurnMachine(settings, [user("hi")])

    driven = drive(
        turn,
        Answers(
            model=[call("add"), call("add"), say("done")],
            environments=[first, None, Environment(system_prompt="", tools=())],
        ),
    )

    before = ("new", ("look",)) if first else ("old", ("add",))
    assert [shown(request) for request in driven.requests] == [before, before, (None, ())]
    assert (settings.system_prompt, settings.tools) == ("old", (ADD,))


def test_the_tools_in_force_are_the_ones_announced() -> None:
    turn = machine(sync_environment=True, tools=(ADD,))
    ask(turn)
    turn.respond(EnvironmentSynced(id=1, result=NEW))

    assert turn.poll() == Emit(
        event=ModelStarted(
            id=f"e_{PREFIX}.0",
            correlation_id=f"c_{PREFIX}.2",
            iteration=0,
            message_count=1,
            tools=("look",),
        )
    )


def test_the_environment_in_force_is_part_of_the_snapshot() -> None:
    turn = machine(sync_environment=True)
    ask(turn)
    assert turn.snapshot().environment is None

    turn.respond(EnvironmentSynced(id=1, result=NEW))

    assert turn.snapshot().environment == NEW


def test_a_restored_machine_does_not_sync_an_iteration_again() -> None:
    again = restored(machine_in("prepare_iteration"), config_for("prepare_iteration"))

    assert kinds(drain(again)) == ["ModelStarted", "CallModel"]


def test_the_prompt_stands_first_in_the_request_that_follows() -> None:
    turn = machine(sync_environment=True)
    ask(turn)
    turn.respond(EnvironmentSynced(id=1, result=NEW))

    assert tuple(ask(turn).request.messages) == (
        ModelMessage(role="system", parts=(Text(text="new"),)),
        ModelMessage(role="user", parts=(Text(text="hi"),)),
    )


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (Failure(message="the catalog is gone"), "environment_failed"),
        (Failure(message="the catalog is gone", code="no_catalog"), "no_catalog"),
    ],
)
def test_a_failure_ends_the_turn(failure: Failure, code: str) -> None:
    turn = machine_in("waiting_environment")

    turn.respond(EnvironmentSynced(id=1, result=failure))

    stopped = Stopped(reason="runtime_error", detail="the catalog is gone")
    said = drain(turn)
    assert events_of(said) == [
        Error(
            id=f"e_{PREFIX}.0",
            correlation_id=f"c_{PREFIX}.1",
            message="the catalog is gone",
            code=code,
        ),
        TurnEnded(id=f"e_{PREFIX}.1", correlation_id=f"c_{PREFIX}.0", outcome=stopped),
    ]
    assert said[-1] == Done(messages=(user("hi"),), outcome=stopped)
    assert len(said) == 3


def test_a_failure_in_a_later_iteration_ends_the_turn_with_all_it_did() -> None:
    driven = drive(
        machine(sync_environment=True),
        Answers(model=[call("add")], environments=[None, Failure(message="gone")]),
    )

    assert driven.outcome == Stopped(reason="runtime_error", detail="gone")
    assert [message.role for message in driven.machine.messages] == ["user", "assistant", "user"]


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"tools": (LOOK, LOOK)}, id="one-tool-twice"),
        pytest.param({"tools": ("look",)}, id="not-a-tool"),
        pytest.param({"system_prompt": "\x00"}, id="unclean-prompt"),
        pytest.param({"tools": [ToolSpec(name=f"t{n}") for n in range(513)]}, id="too-many"),
    ],
)
def test_an_environment_that_could_not_apply_is_refused_where_it_is_built(
    fields: dict[str, Any],
) -> None:
    with pytest.raises(CallerError) as caught:
        Environment(**fields)

    assert str(caught.value.field).startswith("Environment.")

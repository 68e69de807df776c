"""Semantic 4: what may enter at a checkpoint, and what a delivery, or its absence, leads to."""

from __future__ import annotations

from typing import Literal

import pytest

from tests.kernel.builders import (
    PREFIX,
    Chooses,
    assistant,
    call,
    config,
    delivery,
    drain,
    events_of,
    injected,
    kept,
    kinds,
    machine,
    machine_in,
    reply_to,
    result,
    user,
    words,
)
from windlass.kernel import (
    Attachment,
    CallModel,
    CheckpointDelivery,
    CheckpointPassed,
    Code,
    CodeOutput,
    Done,
    Error,
    ErrorText,
    Failure,
    Finished,
    InjectedMessage,
    InputOrigin,
    Message,
    ModelMessage,
    ModelReply,
    Origin,
    Outcome,
    Part,
    PluginOrigin,
    ProcessOrigin,
    Progress,
    Reasoning,
    RunCheckpoint,
    StartCheckpoint,
    Stopped,
    Text,
    TurnCause,
    TurnEnded,
    TurnMachine,
)
from windlass.testing import Answers, drive, say

Kind = Literal["after_work", "before_completion"]
CAUSE = TurnCause(id="w1", event_type="wake", origin=InputOrigin(turn_id="t0"), text="up")
BYE = Finished(text="bye")


def at_checkpoint(kind: Kind, then: Outcome | None) -> TurnMachine:
    """A machine that waits at a checkpoint, as effect 2, and calls the model after it."""
    turn = machine(Chooses(on_model=[StartCheckpoint(kind=kind, then=then)]))
    asked = reply_to(turn, ModelReply(text="x"))[-1]
    assert asked == RunCheckpoint(id=2, kind=kind)
    return turn


def test_user_and_system_messages_enter_under_deterministic_ids_in_order() -> None:
    turn = machine_in("waiting_checkpoint")
    turn.respond(
        CheckpointPassed(
            id=2,
            delivery=CheckpointDelivery(
                messages=(injected("one"), injected("two", "system"), injected("three"))
            ),
        )
    )

    origin = PluginOrigin(plugin="plugin")
    assert turn.messages[2:] == (
        Message(
            id=f"m_{PREFIX}.i0.checkpoint", role="user", parts=(Text(text="one"),), origin=origin
        ),
        Message(
            id=f"m_{PREFIX}.i1.checkpoint", role="system", parts=(Text(text="two"),), origin=origin
        ),
        Message(
            id=f"m_{PREFIX}.i2.checkpoint", role="user", parts=(Text(text="three"),), origin=origin
        ),
    )


def test_ids_go_on_counting_at_the_next_checkpoint() -> None:
    driven = drive(
        machine(),
        Answers(
            model=[say("a"), say("b"), say("c")],
            checkpoints=[delivery("one", "two"), delivery("three")],
        ),
    )

    assert [
        message.id for message in driven.machine.messages if message.id.endswith("checkpoint")
    ] == [f"m_{PREFIX}.i{n}.checkpoint" for n in (0, 1, 2)]


@pytest.mark.parametrize("role", ["assistant", "event", "tool", ""])
def test_messages_of_any_other_role_are_dropped(role: str) -> None:
    turn = at_checkpoint("before_completion", BYE)

    turn.respond(
        CheckpointPassed(id=2, delivery=CheckpointDelivery(messages=(injected("x", role),)))
    )

    assert turn.outcome == BYE
    assert list(turn.messages) == [user("hi")]


@pytest.mark.parametrize(
    "part",
    [
        call("c1"),
        result("c1", "3"),
        Reasoning(text="hm"),
        Text(text=""),
        Text(text=" \n\t"),
    ],
    ids=lambda part: type(part).__name__,
)
def test_a_delivery_cannot_speak_for_the_model_or_a_tool_or_say_nothing(part: Part) -> None:
    turn = at_checkpoint("before_completion", BYE)

    turn.respond(
        CheckpointPassed(
            id=2,
            delivery=CheckpointDelivery(messages=(InjectedMessage(role="user", parts=(part,)),)),
        )
    )

    assert turn.outcome == BYE
    assert list(turn.messages) == [user("hi")]


def test_of_a_mixed_message_the_parts_that_may_enter_do() -> None:
    turn = machine_in("waiting_checkpoint")
    allowed = (
        Text(text="see"),
        Attachment(ref="b1"),
        Code(language="python", source="1"),
        CodeOutput(text="1"),
        ErrorText(text="oh"),
    )
    mixed = (call("c1"), *allowed, Text(text=""), Reasoning(text="hm"), result("c1", "x"))

    turn.respond(
        CheckpointPassed(
            id=2,
            delivery=CheckpointDelivery(messages=(InjectedMessage(role="user", parts=mixed),)),
        )
    )

    assert turn.messages[-1].parts == allowed


@pytest.mark.parametrize(
    ("given", "transient", "expected"),
    [
        (None, False, PluginOrigin(plugin="plugin")),
        (None, True, PluginOrigin(plugin="plugin", transient=True)),
        (PluginOrigin(plugin="clock"), False, PluginOrigin(plugin="clock")),
        (PluginOrigin(plugin="clock"), True, PluginOrigin(plugin="clock", transient=True)),
        (InputOrigin(turn_id="t9"), False, InputOrigin(turn_id="t9")),
        (
            ProcessOrigin(process_id="p", event_type="e", sequence=1),
            True,
            ProcessOrigin(process_id="p", event_type="e", sequence=1),
        ),
    ],
)
def test_a_message_keeps_its_origin_and_one_without_is_a_plugins(
    given: Origin | None, transient: bool, expected: Origin
) -> None:
    turn = machine_in("waiting_checkpoint")
    came = (InjectedMessage(role="user", parts=(Text(text="x"),), origin=given),)

    turn.respond(
        CheckpointPassed(
            id=2,
            delivery=CheckpointDelivery(transient_messages=came)
            if transient
            else CheckpointDelivery(messages=came),
        )
    )

    assert turn.messages[-1].origin == expected


# --- transient messages ----------------------------------------------------------------------


def test_a_transient_message_is_seen_by_the_model_and_is_in_no_record() -> None:
    turn = machine_in("waiting_checkpoint")

    turn.respond(
        CheckpointPassed(
            id=2,
            delivery=CheckpointDelivery(
                messages=(injected("kept"),), transient_messages=(injected("it is noon"),)
            ),
        )
    )

    assert words(turn.messages) == ["hi", "hello", "kept", "it is noon"]
    stored = kept(assistant("hello", id=f"m_{PREFIX}.0.reply"), turn.messages[2])
    assert turn.records == stored
    said = drain(turn)
    assert said[0] == Progress(messages=turn.messages, new_records=stored[1:], iteration=1)
    assert isinstance(said[-1], CallModel)
    assert said[-1].request.messages[-1] == ModelMessage(
        role="user", parts=(Text(text="it is noon"),)
    )


def test_a_transient_message_alone_opens_an_iteration_and_leaves_nothing_behind() -> None:
    noon = CheckpointDelivery(transient_messages=(injected("it is noon"),))

    driven = drive(machine(), Answers(model=[say("hello"), say("good noon")], checkpoints=[noon]))

    stored = kept(
        assistant("hello", id=f"m_{PREFIX}.0.reply"),
        assistant("good noon", id=f"m_{PREFIX}.1.reply"),
    )
    assert driven.outcome == Finished(text="good noon")
    assert driven.machine.records == stored
    assert [each.new_records for each in driven.all(Progress)] == [stored[:1], (), stored[1:]]
    assert driven.all(Done)[0].new_records == ()
    assert words(driven.machine.messages) == ["hi", "hello", "it is noon", "good noon"]


# --- what follows ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "nothing",
    [
        CheckpointDelivery(),
        CheckpointDelivery(messages=(injected("x", "assistant"), injected(" "))),
        CheckpointDelivery(transient_messages=(injected("x", "event"),)),
    ],
    ids=["nothing", "nothing-to-keep", "nothing-transient-to-keep"],
)
@pytest.mark.parametrize("kind", ["after_work", "before_completion"])
class TestADeliveryOfWhichNothingIsKeptCountsAsEmpty:
    def test_with_an_outcome_the_turn_ends_with_it(
        self, kind: Kind, nothing: CheckpointDelivery
    ) -> None:
        turn = at_checkpoint(kind, BYE)

        turn.respond(CheckpointPassed(id=2, delivery=nothing))

        assert events_of(said := drain(turn)) == [
            TurnEnded(id=f"e_{PREFIX}.2", correlation_id=f"c_{PREFIX}.0", outcome=BYE)
        ]
        assert said[-1] == Done(messages=(user("hi"),), outcome=BYE)
        assert len(said) == 2

    def test_without_one_the_next_iteration_is_prepared(
        self, kind: Kind, nothing: CheckpointDelivery
    ) -> None:
        turn = at_checkpoint(kind, None)

        turn.respond(CheckpointPassed(id=2, delivery=nothing))

        assert turn.state == "prepare_iteration"
        assert kinds(drain(turn)) == ["ModelStarted", "CallModel"]
        assert turn.iteration == 0


@pytest.mark.parametrize("then", [BYE, None], ids=["outcome", "none"])
@pytest.mark.parametrize(
    "something",
    [
        delivery("x"),
        CheckpointDelivery(transient_messages=(injected("x"),)),
        CheckpointDelivery(causes=(CAUSE,)),
    ],
    ids=["message", "transient", "cause"],
)
@pytest.mark.parametrize(("kind", "iteration"), [("after_work", 0), ("before_completion", 1)])
def test_a_delivery_opens_an_iteration_and_before_completion_counts_it(
    kind: Kind, iteration: int, something: CheckpointDelivery, then: Outcome | None
) -> None:
    turn = at_checkpoint(kind, then)

    turn.respond(CheckpointPassed(id=2, delivery=something))

    assert kinds(drain(turn)) == ["Progress", "ModelStarted", "CallModel"]
    assert turn.iteration == iteration
    assert turn.outcome is None


def test_a_cause_that_is_active_already_counts_as_nothing() -> None:
    turn = TurnMachine(config(), [user("hi")], causes=[CAUSE])

    driven = drive(
        turn,
        Answers(model=[say("up")], checkpoints=[CheckpointDelivery(causes=(CAUSE, CAUSE))]),
    )

    assert driven.outcome == Finished(text="up")
    assert sum(message.id == "w1" for message in turn.messages) == 1


@pytest.mark.parametrize("kind", ["after_work", "before_completion"])
@pytest.mark.parametrize("then", [BYE, None], ids=["outcome", "none"])
@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (Failure(message="inbox unreadable"), "checkpoint_failed"),
        (Failure(message="inbox unreadable", code="inbox"), "inbox"),
    ],
)
def test_a_failure_ends_the_turn(
    kind: Kind, then: Outcome | None, failure: Failure, code: str
) -> None:
    turn = at_checkpoint(kind, then)

    turn.respond(CheckpointPassed(id=2, delivery=failure))

    stopped = Stopped(reason="runtime_error", detail="inbox unreadable")
    assert events_of(drain(turn)) == [
        Error(
            id=f"e_{PREFIX}.2",
            correlation_id=f"c_{PREFIX}.2",
            message="inbox unreadable",
            code=code,
        ),
        TurnEnded(id=f"e_{PREFIX}.3", correlation_id=f"c_{PREFIX}.0", outcome=stopped),
    ]
    assert turn.outcome == stopped


def test_at_its_last_checkpoint_a_turn_says_how_it_would_end() -> None:
    assert machine_in("waiting_checkpoint").ending == Finished(text="hello")
    assert machine_in("waiting_model").ending is None
    assert machine_in("finished").ending is None

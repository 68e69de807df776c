"""Semantic 2: a Progress follows what was appended, with only what is new, and precedes the end."""

from __future__ import annotations

from collections.abc import Sequence

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
    config_for,
    delivery,
    drain,
    kept,
    kinds,
    machine,
    machine_in,
    messages_in,
    reply,
    reply_to,
    restored,
    result,
    run_tools,
    user,
)
from windlass.kernel import (
    Action,
    Append,
    CheckpointPassed,
    Done,
    DriverRecord,
    Effect,
    EmitEvent,
    Finish,
    Finished,
    InputOrigin,
    Message,
    ModelReply,
    NextIteration,
    PluginEvent,
    Progress,
    ScheduleFinal,
    StartCheckpoint,
    StartModel,
    Stopped,
    Text,
    TurnCause,
    TurnMachine,
)
from windlass.testing import Answers, drive, say
from windlass.testing import call as scripted_call

NOTE = DriverRecord(data={"n": 1})
LATER = DriverRecord(data={"n": 2})
END = Finish(outcome=Finished(text="bye"))
SHOW = EmitEvent(event=PluginEvent(plugin="p", name="x"))
FINAL = ScheduleFinal(message=Message(id="final", role="system", parts=(Text(text="last one"),)))


def after_reply(batch: list[Action], **changes: object) -> list[Effect]:
    """What a machine says when its driver answers a reply with `batch`."""
    return reply_to(machine(Chooses(on_model=batch), **changes), ModelReply(text="x"))


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        pytest.param([Append(records=(NOTE,))], ["Progress"], id="records"),
        pytest.param([NextIteration()], ["Progress"], id="iteration"),
        pytest.param([Append(records=(NOTE,)), NextIteration()], ["Progress"], id="both-once"),
        pytest.param([Append(records=())], [], id="no-record"),
        pytest.param([SHOW], ["PluginEvent"], id="an-event-only"),
        pytest.param([], [], id="nothing"),
        pytest.param([FINAL], [], id="limit-message-not-due"),
        pytest.param([Append(records=(NOTE,)), SHOW], ["PluginEvent", "Progress"], id="after-all"),
    ],
)
def test_a_progress_follows_any_batch_that_appended_or_advanced_and_no_other(
    batch: list[Action], expected: list[str]
) -> None:
    said = after_reply(batch)

    assert kinds(said) == ["UsageReported", *expected, "ModelStarted", "CallModel"]


def test_a_progress_follows_a_batch_that_scheduled_the_limit_message() -> None:
    said = after_reply([NextIteration(), FINAL], max_iterations=1)

    assert kinds(said) == ["UsageReported", "Progress", "ModelStarted", "CallModel"]
    assert said[1] == Progress(
        messages=(user("hi"), FINAL.message), new_records=kept(FINAL.message), iteration=1
    )


def test_scheduling_the_limit_message_alone_is_news_too() -> None:
    said = drain(
        TurnMachine(
            config(
                Chooses(
                    prepare=lambda view: [FINAL, StartModel(request=view.request())],
                    on_model=[NextIteration()],
                ),
                max_iterations=1,
            ),
            [user("hi")],
        )
    )
    assert kinds(said) == ["ModelStarted", "CallModel"]

    at_limit = machine(
        Chooses(
            on_model=[NextIteration()],
            prepare=lambda view: [FINAL, StartModel(request=view.request())],
        ),
        max_iterations=1,
    )
    said = reply_to(at_limit, ModelReply(text="x"))
    assert kinds(said) == ["UsageReported", "Progress", "ModelStarted", "Progress", "CallModel"]
    assert tuple(at_limit.messages[1:]) == (FINAL.message,)


def test_a_progress_precedes_the_events_of_the_end_and_done_carries_nothing_twice() -> None:
    said = after_reply([Append(records=(NOTE,)), END])

    assert kinds(said) == ["UsageReported", "Progress", "TurnEnded", "Done"]
    assert said[1] == Progress(messages=(user("hi"),), new_records=(NOTE,))
    assert said[3] == Done(messages=(user("hi"),), new_records=(), outcome=Finished(text="bye"))


def test_an_end_without_news_is_told_without_progress() -> None:
    assert kinds(after_reply([END])) == ["UsageReported", "TurnEnded", "Done"]


def test_everything_after_finish_is_dropped() -> None:
    batch: list[Action] = [SHOW, END, Append(records=(NOTE,)), NextIteration(), SHOW, END]

    ended = machine(Chooses(on_model=batch))
    said = reply_to(ended, ModelReply(text="x"))

    assert kinds(said) == ["UsageReported", "PluginEvent", "TurnEnded", "Done"]
    assert ended.records == ()
    assert ended.iteration == 0


def test_done_carries_what_no_progress_has_carried() -> None:
    cause = TurnCause(id="w1", event_type="wake", origin=InputOrigin(turn_id="t0"), text="up")
    woken = TurnMachine(config(max_iterations=0), [user("hi")], causes=[cause])

    said = drain(woken)

    event = Message(
        id="w1", role="event", parts=(Text(text="up"),), origin=InputOrigin(turn_id="t0")
    )
    assert kinds(said) == ["TurnEnded", "Done"]
    assert said[1] == Done(
        messages=(user("hi"), event),
        new_records=kept(event),
        outcome=Stopped(reason="max_iterations", detail="The turn may take no iteration."),
    )


def test_the_first_progress_carries_the_causes_that_the_turn_began_with() -> None:
    cause = TurnCause(id="w1", event_type="wake", origin=InputOrigin(turn_id="t0"), text="up")
    woken = TurnMachine(config(), [user("hi")], causes=[cause])

    driven = drive(woken, Answers(model=[say("I am up")]))

    (progress,) = driven.all(Progress)
    assert [message.role for message in messages_in(progress.new_records)] == [
        "event",
        "assistant",
    ]


def test_progress_carries_only_new_records_and_all_of_them_once() -> None:
    turn = TurnMachine(config(), [user("hi")], records=kept(user("hi")))

    driven = drive(
        turn,
        Answers(model=[scripted_call("add", a=1), say("done")], tools={"add": lambda a: a + 1}),
    )

    said = asks(call("call_0_0", a=1), id=f"m_{PREFIX}.0.reply")
    answered = answers(result("call_0_0", "2"), id=f"m_{PREFIX}.0.results")
    words = assistant("done", id=f"m_{PREFIX}.1.reply")
    hello = user("hi")
    assert driven.all(Progress) == [
        Progress(messages=(hello, said), new_records=kept(said), iteration=0),
        Progress(messages=(hello, said, answered), new_records=kept(answered), iteration=1),
        Progress(messages=(hello, said, answered, words), new_records=kept(words), iteration=1),
    ]
    assert driven.all(Done) == [
        Done(
            messages=(hello, said, answered, words),
            new_records=(),
            iteration=1,
            outcome=Finished(text="done"),
        )
    ]
    assert turn.records == kept(hello, said, answered, words)


def test_an_earlier_progress_is_not_changed_by_what_comes_later() -> None:
    turn = machine_in("waiting_tools")
    turn.respond(run_tools(ask(restored(turn, config_for("waiting_tools"))), c1=1, c2=2))
    (progress,) = [effect for effect in drain(turn) if isinstance(effect, Progress)]
    n_messages = len(progress.messages)

    turn.respond(CheckpointPassed(id=3, delivery=delivery("more")))

    assert 3 == n_messages == len(progress.messages)
    assert len(turn.messages) == 4


def test_what_was_told_is_remembered_across_a_restore() -> None:
    settings = config_for("waiting_tools")
    turn = restored(machine_in("waiting_tools"), settings)

    turn.finish(Stopped(reason="cancelled"), [completed("c1", 1), completed("c2", 2)])

    (progress,) = [effect for effect in drain(turn) if isinstance(effect, Progress)]
    assert [message.id for message in messages_in(progress.new_records)] == [
        f"m_{PREFIX}.0.results"
    ]


def test_a_checkpoint_that_brings_something_is_followed_by_a_progress() -> None:
    turn = machine_in("waiting_checkpoint")

    turn.respond(CheckpointPassed(id=2, delivery=delivery("wait")))

    came = Message(
        id=f"m_{PREFIX}.i0.checkpoint",
        role="user",
        parts=(Text(text="wait"),),
        origin=turn.messages[-1].origin,
    )
    said = drain(turn)
    assert kinds(said) == ["Progress", "ModelStarted", "CallModel"]
    hello = assistant("hello", id=f"m_{PREFIX}.0.reply")
    assert said[0] == Progress(
        messages=(user("hi"), hello, came), new_records=kept(came), iteration=1
    )


def test_records_appended_with_a_start_are_told_before_the_start_is_asked() -> None:
    batch: Sequence[Action] = [StartCheckpoint(kind="after_work"), Append(records=(NOTE, LATER))]

    said = drain(machine(Chooses(prepare=batch)))

    assert kinds(said) == ["Progress", "RunCheckpoint"]
    assert said[0] == Progress(messages=(user("hi"),), new_records=(NOTE, LATER))


def test_a_reply_with_tools_tells_the_reply_before_the_tools_are_asked_for() -> None:
    turn = machine()

    said = reply_to(turn, reply(call("c1"), text="Let me add."))

    assert kinds(said) == ["UsageReported", "TextDelta", "ModelFinished", "Progress", "CallTools"]


def test_a_machine_that_is_not_to_tell_progress_keeps_all_of_it_for_the_end() -> None:
    turn = machine(progress=False)

    effects = reply_to(turn, reply(text="Half", terminal="content_filter"))

    assert "Progress" not in kinds(effects)
    done = effects[-1]
    assert isinstance(done, Done)
    assert [message.parts[0].text for message in messages_in(done.new_records)] == ["Half"]  # type: ignore[union-attr]  # text

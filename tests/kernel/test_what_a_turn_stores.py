"""Semantic 10: a turn stores its new messages without transient ones, driver records in their place."""

from __future__ import annotations

import pytest

from tests.kernel.builders import (
    PREFIX,
    Chooses,
    answers,
    asks,
    assistant,
    call,
    config,
    delivery,
    injected,
    kept,
    machine,
    reply,
    reply_to,
    result,
    user,
)
from windlass.kernel import (
    Action,
    Append,
    CheckpointDelivery,
    CheckpointPassed,
    ConversationRecord,
    Done,
    DriverRecord,
    Finish,
    Finished,
    InjectedMessage,
    Message,
    ModelReply,
    Progress,
    Record,
    Stopped,
    Text,
    TurnMachine,
    canonical,
)
from windlass.testing import Answers, Driven, drive, say
from windlass.testing import call as scripted_call


def told(driven: Driven) -> list[Record]:
    """Every record that was told, in the order it was told."""
    spoken = [each for each in driven.effects if isinstance(each, (Progress, Done))]
    return [record for each in spoken for record in each.new_records]


def test_a_turn_stores_what_is_new_in_order_and_nothing_transient() -> None:
    question = user("hi")
    turn = TurnMachine(config(), [question], records=kept(question))

    driven = drive(
        turn,
        Answers(
            model=[scripted_call("add"), say("one"), say("two")],
            tools={"add": lambda: 1},
            checkpoints=[
                CheckpointDelivery(transient_messages=(injected("it is noon"),)),
                CheckpointDelivery(
                    messages=(injected("and?"),), transient_messages=(injected("one past"),)
                ),
            ],
        ),
    )

    came = turn.messages[5]
    stored = kept(
        asks(call("call_0_0"), id=f"m_{PREFIX}.0.reply"),
        answers(result("call_0_0", "1"), id=f"m_{PREFIX}.0.results"),
        assistant("one", id=f"m_{PREFIX}.1.reply"),
        came,
        assistant("two", id=f"m_{PREFIX}.2.reply"),
    )
    assert [getattr(message.parts[0], "text", None) for message in turn.messages] == [
        "hi",
        None,
        None,
        "it is noon",
        "one",
        "and?",
        "one past",
        "two",
    ]
    assert turn.records[1:] == stored
    assert turn.records[:1] == kept(question)
    assert told(driven) == list(stored)


def test_driver_records_stand_at_their_position_and_are_not_shown_to_the_model() -> None:
    one, two = DriverRecord(data={"n": 1}), DriverRecord(data=[2])
    words = assistant("x", id="a9")
    batch: list[Action] = [
        Append(records=(one, ConversationRecord(message=words))),
        Append(records=(two,)),
        Finish(outcome=Finished()),
    ]
    turn = machine(Chooses(on_model=batch))

    reply_to(turn, ModelReply(text="x"))

    assert tuple(turn.records) == (one, ConversationRecord(message=words), two)
    assert tuple(turn.messages) == (user("hi"), words)


def test_earlier_records_stay_in_front_and_are_not_told_again() -> None:
    earlier = (DriverRecord(data="old"), *kept(user("hi")))
    turn = TurnMachine(config(), [user("hi")], records=earlier)

    driven = drive(turn, Answers(model=[say("hello")]))

    assert tuple(turn.records) == (*earlier, *kept(assistant("hello", id=f"m_{PREFIX}.0.reply")))
    assert told(driven) == list(turn.records[2:])


def test_the_history_handed_in_is_not_stored_again() -> None:
    turn = TurnMachine(config(), [user("hi"), assistant("hello"), user("more", id="u2")])

    driven = drive(turn, Answers(model=[say("yes")]))

    assert told(driven) == list(kept(assistant("yes", id=f"m_{PREFIX}.0.reply")))


def test_whatever_restarts_in_between_the_same_records_are_told_once() -> None:
    settings = config(max_iterations=2)

    def script() -> Answers:
        return Answers(
            model=[scripted_call("add"), say("one"), say("two")],
            tools={"add": lambda: 1},
            checkpoints=[CheckpointDelivery(), delivery("and?")],
        )

    straight = drive(TurnMachine(settings, [user("hi")]), script())
    restarted = drive(TurnMachine(settings, [user("hi")]), script(), restart_with=settings)

    assert told(restarted) == told(straight)
    assert canonical.encode(tuple(restarted.machine.records)) == canonical.encode(
        tuple(straight.machine.records)
    )
    assert restarted.effects == straight.effects


def test_what_a_turn_stores_is_a_history_for_the_next_turn() -> None:
    first = drive(
        machine(), Answers(model=[scripted_call("add"), say("one")], tools={"add": lambda: 1})
    )
    stored = [
        record.message for record in first.machine.records if isinstance(record, ConversationRecord)
    ]
    history = [user("hi"), *stored, user("and?", id="u2")]

    second = drive(TurnMachine(config(turn_id="t2"), history), Answers(model=[say("two")]))

    assert second.outcome == Finished(text="two")
    assert history[:-1] == list(first.machine.messages)


N_PARTS = 300


@pytest.mark.parametrize("terminal", ["stop", "output_limit", "content_filter"])
def test_a_reply_in_very_many_parts_leaves_a_history_for_the_next_turn(terminal: str) -> None:
    turn = machine()
    words = reply(*[Text(text=f"{n} ") for n in range(N_PARTS)], terminal=terminal)
    reply_to(turn, words)
    turn.finish(Stopped(reason="cancelled"))

    TurnMachine(config(turn_id="t2"), turn.messages)

    said = [part.text for part in turn.messages[-1].parts if isinstance(part, Text)]
    assert "".join(said) == words.text


def test_a_delivery_in_very_many_parts_leaves_a_history_for_the_next_turn() -> None:
    turn = machine()
    reply_to(turn, say("x"))
    parts = tuple(Text(text=str(n)) for n in range(N_PARTS))

    turn.respond(
        CheckpointPassed(
            id=2,
            delivery=CheckpointDelivery(messages=(InjectedMessage(role="user", parts=parts),)),
        )
    )

    TurnMachine(config(turn_id="t2"), turn.messages)
    assert isinstance(turn.messages[-1], Message)

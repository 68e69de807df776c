"""Semantic 8: active causes leave the rendered history and stand together in one last user message."""

from __future__ import annotations

import pytest

from tests.kernel.builders import (
    ask,
    assistant,
    config,
    kept,
    restored,
    user,
    words,
)
from windlass.errors import InvalidInput
from windlass.kernel import (
    CheckpointDelivery,
    Finished,
    InputOrigin,
    Message,
    ModelMessage,
    Origin,
    PluginOrigin,
    ProcessOrigin,
    Text,
    TurnCause,
    TurnMachine,
)
from windlass.testing import Answers, call, drive, say

WAKE = TurnCause(
    id="w1",
    event_type="build.done",
    origin=ProcessOrigin(process_id="p7", event_type="done", sequence=3),
    text="The build is green.",
)
TICK = TurnCause(
    id="w2", event_type="tick", origin=PluginOrigin(plugin="clock"), text="It is noon."
)

ONE = (
    "[what woke this turn]\n\n"
    "1. build.done (w1), from process p7, done number 3:\n"
    "The build is green."
)
BOTH = f"{ONE}\n\n2. tick (w2), from plugin clock:\nIt is noon."


def event(cause: TurnCause) -> Message:
    """A cause as it stands in the history."""
    return Message(id=cause.id, role="event", parts=(Text(text=cause.text),), origin=cause.origin)


def shown(turn: TurnMachine) -> list[tuple[str, str]]:
    """The next request: roles and words."""
    messages = ask(turn).request.messages
    return list(zip([message.role for message in messages], words(messages), strict=True))


def test_active_causes_are_rendered_last_in_one_user_message_and_nowhere_else() -> None:
    turn = TurnMachine(config(), [user("hi"), assistant("hello")], causes=[WAKE, TICK])

    assert shown(turn) == [
        ("user", "hi"),
        ("assistant", "hello"),
        (
            "user",
            BOTH,
        ),
    ]


@pytest.mark.parametrize(
    ("origin", "words"),
    [
        (PluginOrigin(plugin="clock"), "plugin clock"),
        (PluginOrigin(plugin="clock", transient=True), "plugin clock"),
        (
            ProcessOrigin(process_id="p7", event_type="done", sequence=3),
            "process p7, done number 3",
        ),
        (
            ProcessOrigin(process_id="p7", event_type="done", sequence=3, wake_id="k1"),
            "process p7, done number 3 (wake k1)",
        ),
        (InputOrigin(turn_id="t0"), "input of turn t0"),
        (InputOrigin(turn_id="t0", input_id="i1"), "input of turn t0"),
    ],
)
def test_the_message_names_type_id_origin_and_text(origin: Origin, words: str) -> None:
    cause = TurnCause(id="w9", event_type="wake", origin=origin, text="  up\n")
    turn = TurnMachine(config(), [], causes=[cause])

    assert shown(turn) == [("user", f"[what woke this turn]\n\n1. wake (w9), from {words}:\nup")]


def test_causes_are_kept_in_history_and_records_as_events() -> None:
    turn = TurnMachine(config(), [user("hi")], causes=[WAKE, TICK])

    assert tuple(turn.messages) == (user("hi"), event(WAKE), event(TICK))
    assert turn.records == kept(event(WAKE), event(TICK))
    assert turn.snapshot().causes == (WAKE, TICK)


def test_causes_are_deduplicated_by_id_and_the_first_one_stays() -> None:
    other = TurnCause(id="w1", event_type="other", origin=WAKE.origin, text="other")
    turn = TurnMachine(config(), [user("hi")], causes=[WAKE, other, WAKE])

    assert turn.snapshot().causes == (WAKE,)
    assert tuple(turn.messages) == (user("hi"), event(WAKE))


def test_a_cause_that_the_runner_put_into_the_history_is_not_put_there_twice() -> None:
    turn = TurnMachine(config(), [user("hi"), event(WAKE)], causes=[WAKE])

    assert tuple(turn.messages) == (user("hi"), event(WAKE))
    assert turn.records == ()
    assert turn.snapshot().causes == (WAKE,)
    assert shown(turn) == [
        ("user", "hi"),
        (
            "user",
            ONE,
        ),
    ]


def test_a_cause_may_share_its_id_with_no_words_of_a_person() -> None:
    turn = TurnMachine(config(), [user("hi", id="w1")], causes=[WAKE])

    assert shown(turn)[0] == ("user", "hi")
    assert len(turn.messages) == 1


def test_an_event_of_an_earlier_turn_is_rendered_where_it_stands() -> None:
    turn = TurnMachine(config(), [user("hi"), event(TICK), assistant("ok")], causes=[WAKE])

    assert shown(turn)[:3] == [
        ("user", "hi"),
        ("user", "[event]\nIt is noon."),
        ("assistant", "ok"),
    ]


def test_a_cause_that_a_checkpoint_brings_joins_the_active_ones() -> None:
    turn = TurnMachine(config(), [user("hi")], causes=[WAKE])

    driven = drive(
        turn,
        Answers(
            model=[say("green"), say("noon")],
            checkpoints=[CheckpointDelivery(causes=(WAKE, TICK, TICK))],
        ),
    )

    assert driven.outcome == Finished(text="noon")
    assert turn.snapshot().causes == (WAKE, TICK)
    last = driven.requests[1].messages[-1]
    assert last == ModelMessage(
        role="user",
        parts=(
            Text(
                text="[what woke this turn]\n\n"
                "1. build.done (w1), from process p7, done number 3:\n"
                "The build is green.\n\n"
                "2. tick (w2), from plugin clock:\n"
                "It is noon."
            ),
        ),
    )
    assert [message.role for message in driven.requests[1].messages] == [
        "user",
        "assistant",
        "user",
    ]


def test_causes_stay_active_to_the_end_of_the_turn_and_across_restores() -> None:
    settings = config()
    turn = TurnMachine(settings, [user("hi")], causes=[WAKE])

    driven = drive(turn, Answers(model=[call("add"), say("done")]), restart_with=settings)

    assert [words(request.messages[-1:]) for request in driven.requests] == [[ONE], [ONE]]
    assert [message.role for message in driven.requests[1].messages] == [
        "user",
        "assistant",
        "user",
        "user",
    ]


def test_a_restored_machine_renders_the_same_causes() -> None:
    settings = config()
    turn = TurnMachine(settings, [user("hi")], causes=[WAKE])

    again = restored(turn, settings)

    assert shown(again) == shown(turn)

    assert turn.snapshot().causes == (WAKE,)


@pytest.mark.parametrize(
    ("id", "text", "field"),
    [("no id", "x", "TurnCause.id"), ("w1", "\x00", "TurnCause.text")],
)
def test_a_cause_that_could_not_become_a_message_is_refused(id: str, text: str, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        TurnCause(id=id, event_type="wake", origin=InputOrigin(turn_id="t0"), text=text)
    assert refused.value.field == field

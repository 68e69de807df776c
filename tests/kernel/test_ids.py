"""Ids derive from session, turn and position: golden once, unique in a turn, the same in a replay."""

from __future__ import annotations

import pytest

from tests.kernel.builders import (
    PREFIX,
    call,
    calls_in,
    config,
    delivery,
    machine,
    only,
    raw_call,
    reply,
    reply_to,
    user,
)
from windlass.guards import is_id
from windlass.kernel import (
    CallModel,
    CheckpointDelivery,
    InputOrigin,
    ModelReplied,
    Stopped,
    ToolFinished,
    TurnCause,
    TurnIds,
    TurnMachine,
)
from windlass.testing import Answers, Driven, drive, say

BAD = raw_call("", '{"a": ')


def long_turn(*, restart: bool = False, session_id: str = "s1", turn_id: str = "t1") -> Driven:
    """A turn in which everything that mints an id does."""
    settings = config(
        max_iterations=3, sync_environment=True, session_id=session_id, turn_id=turn_id
    )
    cause = TurnCause(id="w1", event_type="wake", origin=InputOrigin(turn_id="t0"), text="up")
    return drive(
        TurnMachine(settings, [user("hi")], causes=[cause]),
        Answers(
            model=[
                reply(call("x"), BAD, call("y"), call("z")),
                reply(BAD, BAD),
                say("one"),
                say("two"),
            ],
            tools={"add": lambda: 1},
            checkpoints=[CheckpointDelivery(), delivery("a", "b"), delivery("c")],
        ),
        restart_with=settings if restart else None,
    )


def test_the_ids_of_a_turn_are_these() -> None:
    ids = TurnIds("s1", "t1")

    assert ids.message(3, "reply") == "m_3633887835d74bdc.3.reply"
    assert ids.event(7) == "e_3633887835d74bdc.7"
    assert ids.correlation(2) == "c_3633887835d74bdc.2"
    assert ids.call(4, 0) == "call_3633887835d74bdc_4_0"
    assert ids.prefix == PREFIX


def test_session_and_turn_cannot_run_into_each_other() -> None:
    assert TurnIds("a", "bc").prefix != TurnIds("ab", "c").prefix
    assert TurnIds("a", "b").prefix != TurnIds("b", "a").prefix


def test_every_minted_id_is_an_id_however_long_its_turn_is_called() -> None:
    ids = TurnIds("s" * 128, "t" * 128)

    for minted in (
        ids.message(10**9, "checkpoint"),
        ids.event(10**9),
        ids.correlation(10**9),
        ids.call(10**9, 383),
    ):
        assert is_id(minted)


@pytest.mark.parametrize("restart", [False, True], ids=["straight", "restarted"])
def test_event_ids_count_up_without_a_gap(restart: bool) -> None:
    events = long_turn(restart=restart).events

    assert [event.id for event in events] == [f"e_{PREFIX}.{n}" for n in range(len(events))]


def test_a_replay_gives_the_same_ids() -> None:
    first, second, restarted = long_turn(), long_turn(), long_turn(restart=True)

    assert first.effects == second.effects == restarted.effects


def test_another_turn_or_session_gives_other_ids() -> None:
    ids = [
        {event.id for event in turn.events}
        for turn in (long_turn(), long_turn(turn_id="t2"), long_turn(session_id="s2"))
    ]

    assert not ids[0] & ids[1]
    assert not ids[0] & ids[2]
    assert not ids[1] & ids[2]


def test_message_ids_are_unique_in_a_turn() -> None:
    ids = [message.id for message in long_turn().machine.messages]

    assert len(ids) == len(set(ids))
    assert all(is_id(each) for each in ids)


def test_events_of_one_model_call_share_a_correlation_id_and_no_other_call_has_it() -> None:
    said = [
        (type(event).__name__, event.correlation_id)
        for event in long_turn().events
        if type(event).__name__ in ("ModelStarted", "UsageReported", "TextDelta", "ModelFinished")
    ]

    by_call = [f"c_{PREFIX}.{n}" for n in (2, 6, 9, 12)]
    assert said == [
        *[(kind, by_call[0]) for kind in ("ModelStarted", "UsageReported", "ModelFinished")],
        *[(kind, by_call[1]) for kind in ("ModelStarted", "UsageReported", "ModelFinished")],
        *[
            (kind, at)
            for at in by_call[2:]
            for kind in ("ModelStarted", "UsageReported", "TextDelta", "ModelFinished")
        ],
    ]


def test_every_tool_call_has_a_correlation_id_of_its_own_run_or_refused() -> None:
    finished = [event for event in long_turn().events if isinstance(event, ToolFinished)]

    assert len(finished) == 6
    assert len({event.correlation_id for event in finished}) == 6


def test_a_call_that_the_end_overtook_has_a_correlation_id_of_its_own_too() -> None:
    turn = machine()
    reply_to(turn, reply(call("x"), call("y"), call("z")))
    turn.finish(Stopped(reason="cancelled"))

    finished = [event for event in drive(turn, Answers()).events if isinstance(event, ToolFinished)]
    assert len({event.correlation_id for event in finished}) == 3


def test_what_belongs_to_the_turn_itself_is_correlated_with_effect_zero() -> None:
    ended = long_turn().events[-1]

    assert (type(ended).__name__, ended.correlation_id) == ("TurnEnded", f"c_{PREFIX}.0")


def test_a_replay_over_the_same_history_mints_what_the_first_run_minted() -> None:
    settings = config()
    first = TurnMachine(settings, [user("hi")])
    drive(first, Answers(), until=lambda effect: isinstance(effect, CallModel))
    snapshot = first.snapshot()

    # The replay shares the storage into which the first run has put its call already.
    ids = []
    for turn in (first, TurnMachine.restore(settings, snapshot)):
        turn.respond(ModelReplied(id=1, result=reply(call("x"), call("x"))))
        ids.append([part.call_id for part in calls_in(turn.messages[-1])])

    assert ids == [["x", f"call_{PREFIX}_0_1"]] * 2


def test_the_correlation_id_of_a_refused_call_is_an_id_whatever_its_provider_called_it() -> None:
    turn = machine()

    (finished,) = only(ToolFinished, reply_to(turn, reply(raw_call("x" * 128, "{"))))

    assert is_id(finished.correlation_id)


def test_a_refused_call_cannot_be_taken_for_one_that_ran() -> None:
    replies = [
        reply(call("a")),
        reply(call("b")),
        reply(raw_call("0", "{"), call("c")),
        reply(call("d")),
        say("done"),
    ]
    driven = drive(machine(), Answers(model=lambda _: replies.pop(0), tools={"add": lambda: 1}))

    finished = [event for event in driven.events if isinstance(event, ToolFinished)]
    assert len({event.correlation_id for event in finished}) == len(finished) == 5

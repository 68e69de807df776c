"""Semantic 5: when the limit is reached, who gets one more iteration, and who ends at once."""

from __future__ import annotations

from typing import Any

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
    drain,
    kept,
    kinds,
    machine,
    reply_to,
    result,
    user,
    words,
)
from windlass.errors import InvalidInput
from windlass.kernel import (
    Done,
    DriverView,
    Emit,
    Finish,
    Finished,
    LimitState,
    Message,
    ModelReply,
    NextIteration,
    Progress,
    ScheduleFinal,
    StartModel,
    Stopped,
    SyncEnvironment,
    Text,
    TurnEnded,
    TurnMachine,
    check_history,
)
from windlass.testing import Answers, drive, say
from windlass.testing import call as scripted_call

ADDS = {"add": lambda: 1}
LIMIT_TEXT = (
    "This turn has used its 1 iterations. Do not call tools any more: "
    "answer now with what you have."
)
TOO_LATE = Stopped(reason="max_iterations", detail="Work came in after the last iteration.")


def stopped_at(limit: int) -> Stopped:
    return Stopped(
        reason="max_iterations", detail=f"The turn stopped at its limit of {limit} iterations."
    )


def note(text: str, id: str) -> Message:
    return Message(id=id, role="system", parts=(Text(text=text),))


def test_a_limit_of_no_iterations_ends_the_turn_at_once() -> None:
    turn = machine(max_iterations=0, sync_environment=True)

    none = Stopped(reason="max_iterations", detail="The turn may take no iteration.")
    ended = TurnEnded(id=f"e_{PREFIX}.0", correlation_id=f"c_{PREFIX}.0", outcome=none)
    assert drain(turn) == [Emit(event=ended), Done(messages=(user("hi"),), outcome=none)]
    assert turn.outcome == none


def test_a_limit_of_no_iterations_holds_with_an_offset_too() -> None:
    turn = TurnMachine(config(max_iterations=0), [user("hi")], iteration_offset=3)

    assert kinds(drain(turn)) == ["TurnEnded", "Done"]
    assert turn.iteration == 3


# --- the standard tool loop ------------------------------------------------------------------


def test_the_tool_loop_ends_at_its_limit_at_once_with_a_system_note_in_the_records() -> None:
    driven = drive(machine(max_iterations=1), Answers(model=[scripted_call("add")], tools=ADDS))

    said = asks(call("call_0_0"), id=f"m_{PREFIX}.0.reply")
    answered = answers(result("call_0_0", "1"), id=f"m_{PREFIX}.0.results")
    stop = note("The turn stopped at its limit of 1 iterations.", f"m_{PREFIX}.0.limit")
    messages = (user("hi"), said, answered, stop)
    assert kinds(driven.effects) == [
        "ModelStarted",
        "CallModel",
        "UsageReported",
        "ModelFinished",
        "Progress",
        "CallTools",
        "ToolFinished",
        "Progress",
        "TurnEnded",
        "Done",
    ]
    assert driven.all(Progress) == [
        Progress(messages=messages[:2], new_records=kept(said), iteration=0),
        Progress(messages=messages, new_records=kept(answered, stop), iteration=1),
    ]
    assert driven.effects[-1] == Done(messages=messages, iteration=1, outcome=stopped_at(1))
    assert driven.outcome == stopped_at(1)


@pytest.mark.parametrize("limit", [1, 2, 5])
@pytest.mark.parametrize("offset", [0, 1, 7])
def test_the_tool_loop_takes_exactly_as_many_iterations_as_it_may(limit: int, offset: int) -> None:
    turn = TurnMachine(config(max_iterations=limit), [user("hi")], iteration_offset=offset)

    driven = drive(turn, Answers(model=lambda _: scripted_call("add"), tools=ADDS))

    assert len(driven.requests) == limit
    assert turn.iteration == offset + limit
    assert driven.outcome == stopped_at(limit)
    assert "waiting_checkpoint" not in turn.state
    check_history(turn.messages)


def test_a_loop_without_a_limit_goes_on_until_the_model_ends_it() -> None:
    script = [scripted_call("add")] * 30 + [say("done")]

    driven = drive(machine(max_iterations=None), Answers(model=script, tools=ADDS))

    assert driven.outcome == Finished(text="done")
    assert driven.machine.iteration == 30


def test_an_answer_in_the_last_iteration_is_an_answer() -> None:
    driven = drive(
        machine(max_iterations=2), Answers(model=[scripted_call("add"), say("one")], tools=ADDS)
    )

    assert driven.outcome == Finished(text="one")


# --- grace -----------------------------------------------------------------------------------


def test_work_that_arrives_at_the_limit_gets_one_grace_iteration_with_the_limit_message() -> None:
    driven = drive(
        machine(max_iterations=1),
        Answers(model=[say("one"), say("two")], checkpoints=[delivery("and?")]),
    )

    came = driven.machine.messages[2]
    told = note(LIMIT_TEXT, f"m_{PREFIX}.i1.limit")
    assert driven.outcome == Finished(text="two")
    assert tuple(driven.machine.messages) == (
        user("hi"),
        assistant("one", id=f"m_{PREFIX}.0.reply"),
        came,
        told,
        assistant("two", id=f"m_{PREFIX}.1.reply"),
    )
    assert [each.new_records for each in driven.all(Progress)] == [
        kept(driven.machine.messages[1]),
        kept(came, told),
        kept(driven.machine.messages[4]),
    ]
    assert [each.iteration for each in driven.all(Progress)] == [0, 1, 1]
    assert words(driven.requests[1].messages[-1:]) == ["[note from the system]\n" + LIMIT_TEXT]


def test_the_overrun_after_the_grace_iteration_ends_the_turn() -> None:
    driven = drive(
        machine(max_iterations=1),
        Answers(
            model=[say("one"), say("two")], checkpoints=[delivery("and?"), delivery("and then?")]
        ),
    )

    assert driven.outcome == TOO_LATE
    assert driven.machine.iteration == 2
    assert words(driven.machine.messages) == ["hi", "one", "and?", LIMIT_TEXT, "two", "and then?"]
    assert kinds(driven.effects)[-4:] == ["RunCheckpoint", "Progress", "TurnEnded", "Done"]
    last = driven.all(Progress)[-1]
    assert (last.new_records, last.iteration) == (kept(driven.machine.messages[5]), 2)


def test_work_below_the_limit_costs_no_grace() -> None:
    driven = drive(
        machine(max_iterations=3),
        Answers(
            model=[say(text) for text in "abcd"],
            checkpoints=[delivery("1"), delivery("2"), delivery("3"), delivery("4")],
        ),
    )

    limit_text = LIMIT_TEXT.replace("its 1 ", "its 3 ")
    assert words(driven.machine.messages) == [
        "hi",
        "a",
        "1",
        "b",
        "2",
        "c",
        "3",
        limit_text,
        "d",
        "4",
    ]
    assert driven.outcome == TOO_LATE


def test_an_offset_counts_towards_the_grace_too() -> None:
    turn = TurnMachine(config(max_iterations=2), [user("hi")], iteration_offset=10)

    driven = drive(
        turn,
        Answers(
            model=[say(text) for text in "abc"],
            checkpoints=[delivery("1"), delivery("2"), delivery("3")],
        ),
    )

    assert words(turn.messages) == [
        "hi",
        "a",
        "1",
        "b",
        "2",
        LIMIT_TEXT.replace("its 1 ", "its 2 "),
        "c",
        "3",
    ]
    assert driven.outcome == TOO_LATE
    assert turn.iteration == 13


def test_the_grace_that_was_given_survives_a_restore() -> None:
    settings = config(max_iterations=1)
    scripts = [
        Answers(
            model=[say("one"), say("two")], checkpoints=[delivery("and?"), delivery("and then?")]
        )
        for _ in range(2)
    ]

    straight = drive(TurnMachine(settings, [user("hi")]), scripts[0])
    restarted = drive(TurnMachine(settings, [user("hi")]), scripts[1], restart_with=settings)

    assert TOO_LATE == straight.outcome == restarted.outcome
    assert restarted.effects == straight.effects


def test_a_grace_iteration_is_synced_like_any_other() -> None:
    driven = drive(
        machine(max_iterations=1, sync_environment=True),
        Answers(model=[say("one"), say("two")], checkpoints=[delivery("and?")]),
    )

    assert [each.update_config for each in driven.all(SyncEnvironment)] == [False, True]


def test_tools_in_the_grace_iteration_end_the_turn_with_a_history_that_is_still_one() -> None:
    driven = drive(
        machine(max_iterations=1),
        Answers(
            model=[say("one"), scripted_call("add")], tools=ADDS, checkpoints=[delivery("and?")]
        ),
    )

    assert driven.outcome == stopped_at(1)
    ids = [message.id for message in driven.machine.messages]
    assert sorted(ids) == sorted(set(ids))
    check_history(driven.machine.messages)


def test_the_limit_message_may_be_worded_anew() -> None:
    driven = drive(
        machine(max_iterations=1, turn_limit_message="{max_iterations} of {max_iterations}!"),
        Answers(model=[say("one"), say("two")], checkpoints=[delivery("and?")]),
    )

    assert words(driven.machine.messages) == ["hi", "one", "and?", "1 of 1!", "two"]


def test_a_limit_message_that_could_not_be_stored_is_refused_when_the_turn_is_set_up() -> None:
    with pytest.raises(InvalidInput):
        config(max_iterations=1, turn_limit_message="\x00")


# --- what a driver can do about it -----------------------------------------------------------


def test_a_drivers_view_tells_when_the_limit_is_due_and_when_the_grace_is_spent() -> None:
    seen: list[tuple[int, bool, bool]] = []
    final = Message(id="final", role="system", parts=(Text(text="last"),))

    def prepare(view: DriverView) -> list[Any]:
        seen.append((view.iteration, view.limit_due, view.force_exit))
        if view.iteration == 3:
            return [Finish(outcome=Finished())]
        return [ScheduleFinal(message=final), StartModel(request=view.request())]

    turn = machine(Chooses(prepare=prepare, on_model=[NextIteration()]), max_iterations=2)
    drive(turn, Answers(model=[say(text) for text in "abc"]))

    assert seen == [
        (0, False, False),
        (1, False, False),
        (2, True, False),
        (3, False, True),
    ]
    assert tuple(turn.messages[1:]) == (final,)


def test_the_limit_message_is_scheduled_once() -> None:
    final = Message(id="final", role="system", parts=(Text(text="last"),))
    turn = machine(
        Chooses(
            on_model=[NextIteration(), ScheduleFinal(message=final), ScheduleFinal(message=final)]
        ),
        max_iterations=1,
    )

    reply_to(turn, ModelReply(text="a"))

    assert turn.records == kept(final)
    assert turn.snapshot().limit == LimitState(grace_given=True)


@pytest.mark.parametrize(
    ("iteration", "offset", "maximum", "given", "due"),
    [
        (0, 0, None, False, False),
        (9, 0, None, False, False),
        (1, 0, 2, False, False),
        (2, 0, 2, False, True),
        (3, 0, 2, False, True),
        (2, 0, 2, True, False),
        (6, 5, 2, False, False),
        (7, 5, 2, False, True),
        (0, 0, 0, False, True),
    ],
)
def test_the_limit_is_due_from_offset_plus_maximum_on_until_grace_is_given(
    iteration: int, offset: int, maximum: int | None, given: bool, due: bool
) -> None:
    assert LimitState(grace_given=given).is_due(iteration, offset, maximum) == due


def test_the_offset_survives_a_restart() -> None:
    settings = config(max_iterations=2)
    turn = TurnMachine(settings, [user("hi")], iteration_offset=5)

    driven = drive(
        turn, Answers(model=[scripted_call("add")] * 2, tools=ADDS), restart_with=settings
    )

    assert driven.outcome == stopped_at(2)
    assert driven.machine.iteration == 7

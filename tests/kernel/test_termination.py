"""A turn that has to finish by a value or by a tool gets one nudge, and then fails."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.kernel.builders import (
    PREFIX,
    call,
    completed,
    config,
    delivery,
    drain,
    machine,
    reply,
    user,
    words,
)
from windlass.kernel import (
    CallModel,
    CallTools,
    CheckpointPassed,
    EndTurn,
    FailTurn,
    Finished,
    FinishedByTool,
    HandedOff,
    HandOff,
    Json,
    ModelReplied,
    ModelReply,
    Outcome,
    RunCheckpoint,
    Stopped,
    ToolOutcome,
    ToolsReturned,
    TurnMachine,
)
from windlass.kernel.messages import PluginOrigin
from windlass.kernel.tool_call import Control
from windlass.testing import say

NUDGE = "This turn is not finished: it has to end with a call of submit. Do that now."
UNFINISHED = Stopped(
    reason="unfinished",
    detail="The turn had to end with a call of submit; it ended with words alone.",
)


def played(
    turn: TurnMachine,
    replies: Sequence[ModelReply],
    control: Control | None = None,
    steering: Sequence[str] = (),
) -> Outcome | None:
    """Drive a turn with these replies; its tools give `control`, and its first last checkpoint lets `steering` in."""
    said, coming = list(replies), list(steering)
    while (asked := drain(turn)[-1]) is not None:
        if isinstance(asked, CallModel):
            if not said:
                return None
            turn.respond(ModelReplied(id=asked.id, result=said.pop(0)))
        elif isinstance(asked, CallTools):
            outcome = ToolOutcome(control=control) if control is not None else ToolOutcome(value=1)
            results = [completed(one.call_id, outcome, one.name) for one in asked.calls]
            turn.respond(ToolsReturned(id=asked.id, results=tuple(results)))
        elif isinstance(asked, RunCheckpoint):
            if coming and asked.kind == "before_completion":
                turn.respond(CheckpointPassed(id=asked.id, delivery=delivery(coming.pop(0))))
            else:
                turn.respond(CheckpointPassed(id=asked.id))
        else:
            break
    return turn.outcome


SUBMITS = reply(call("c1", "submit"))


def test_words_alone_get_one_nudge_that_names_what_is_wanted() -> None:
    turn = machine(termination=["submit"])

    outcome = played(turn, [say("Here you are."), SUBMITS], EndTurn(value=7))

    assert outcome == FinishedByTool(tool="submit", value=7)
    assert words(turn.messages)[:3] == ["hi", "Here you are.", NUDGE]
    nudge = turn.messages[2]
    assert (nudge.id, nudge.role) == (f"m_{PREFIX}.0.nudge", "user")
    assert nudge.origin == PluginOrigin(plugin="finish")


def test_after_the_nudge_words_alone_are_a_failure() -> None:
    turn = machine(termination=["submit"])

    assert played(turn, [say("One."), say("Two."), say("Three.")]) == UNFINISHED
    assert words(turn.messages) == ["hi", "One.", NUDGE, "Two."]


def test_a_nudge_is_given_once_in_a_turn_whatever_comes_between() -> None:
    turn = machine(termination=["submit"])
    other = reply(call("c1", "look"))

    assert played(turn, [say("One."), other, say("Two.")]) == UNFINISHED


def test_input_that_comes_before_the_failure_lets_the_turn_go_on() -> None:
    turn = machine(termination=["submit"])
    replies = [say("One."), say("Two."), SUBMITS]

    outcome = played(turn, replies, EndTurn(), steering=["Go on."])

    assert outcome == FinishedByTool(tool="submit", value=None)


def test_without_an_iteration_left_there_is_no_nudge() -> None:
    turn = machine(termination=["submit"], max_iterations=1)

    assert played(turn, [say("One.")]) == UNFINISHED
    assert words(turn.messages) == ["hi", "One."]


def test_a_reply_that_was_cut_off_is_incomplete_all_the_same() -> None:
    turn = machine(termination=["submit"])

    outcome = played(turn, [say("One", terminal="output_limit")])

    assert isinstance(outcome, Stopped)
    assert outcome.reason == "incomplete"


def test_silence_after_results_is_nudged_too() -> None:
    turn = machine(termination=["submit"])
    look = reply(call("c1", "look"))

    outcome = played(turn, [look, ModelReply(), say("Two.")])

    assert outcome == UNFINISHED
    assert words(turn.messages)[3:] == [NUDGE, "Two."]


@pytest.mark.parametrize(
    ("control", "outcome"),
    [
        (EndTurn(value=1), FinishedByTool(tool="submit", value=1)),
        (HandOff(target="eva"), HandedOff(target="eva")),
        (FailTurn(value="no"), Stopped(reason="tool_failure", detail="submit: no")),
    ],
    ids=["ends", "hands off", "fails"],
)
def test_the_tool_finishes_the_turn_however_it_ends_it(control: Control, outcome: Outcome) -> None:
    assert played(machine(termination=["give_up", "submit"]), [SUBMITS], control) == outcome


@pytest.mark.parametrize(
    "control", [EndTurn(value=1), HandOff(target="eva")], ids=["ends", "hands off"]
)
def test_another_tool_that_ends_the_turn_leaves_it_unfinished(control: Control) -> None:
    turn = machine(termination=["submit", "give_up"])

    outcome = played(turn, [reply(call("c1", "quit"))], control)

    wanted = "a call of one of submit, give_up"
    detail = f"The turn had to end with {wanted}; it ended with a call of quit."
    assert outcome == Stopped(reason="unfinished", detail=detail)


def test_another_tool_that_fails_the_turn_says_what_it_says() -> None:
    outcome = played(machine(termination=["submit"]), [reply(call("c1", "quit"))], FailTurn())

    assert outcome == Stopped(reason="tool_failure", detail="quit")


def test_by_a_value_any_tool_may_finish_the_turn() -> None:
    turn = machine(termination="value")

    outcome = played(turn, [say("Seven."), SUBMITS], EndTurn(value=7))

    assert outcome == FinishedByTool(tool="submit", value=7)
    assert words(turn.messages)[2] == (
        "This turn is not finished: it has to end with a value, by a tool that ends the turn. Do that now."
    )


def test_by_a_value_words_alone_are_a_failure() -> None:
    outcome = played(machine(termination="value"), [say("Seven."), say("Seven!")])

    wanted = "a value, by a tool that ends the turn"
    detail = f"The turn had to end with {wanted}; it ended with words alone."
    assert outcome == Stopped(reason="unfinished", detail=detail)


@pytest.mark.parametrize("termination", [None, "other", {"kind": "other"}, []])
def test_what_another_driver_is_told_asks_for_nothing(termination: Json) -> None:
    assert played(machine(termination=termination), [say("Done.")]) == Finished(text="Done.")


def test_a_machine_that_is_restored_remembers_its_nudge() -> None:
    settings = config(termination=["submit"])
    turn = TurnMachine(settings, [user("hi")])
    assert played(turn, [say("One.")]) is None

    again = TurnMachine.restore(settings, turn.snapshot())

    assert played(again, [say("Two.")]) == UNFINISHED

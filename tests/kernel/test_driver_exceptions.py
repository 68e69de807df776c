"""A driver that raises is a bug of its author: the machine stays as it was, and can be asked again."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import pytest

from tests.kernel.builders import (
    ANSWERED_BY,
    Chooses,
    completed,
    config,
    drain,
    every_response,
    kinds,
    machine_in,
    restored,
    snapshot_bytes,
)
from windlass.kernel import Finished, Response, Stopped, TurnMachine, events

ASKED = {"waiting_model": "CallModel", "waiting_tools": "CallTools", "waiting_code": "RunCode"}


def raising(*_: object) -> NoReturn:
    raise LookupError("a bug in the driver")


def broken(state: str) -> TurnMachine:
    """A machine in `state`, taken over by a driver that raises whenever it is asked."""
    driver = Chooses(
        prepare=raising, on_model=raising, on_tools=raising, on_code=raising, close=raising
    )
    return restored(machine_in(state), config(driver))


def answer_to(state: str) -> Response:
    effect_id = 2 if state == "waiting_tools" else 1
    (answer,) = [
        response
        for response in every_response(effect_id)
        if type(response).__name__ == ANSWERED_BY[state]
    ]
    return answer


@pytest.mark.parametrize("state", ASKED)
def test_a_driver_that_raises_on_an_answer_leaves_the_machine_as_it_was(state: str) -> None:
    turn = broken(state)
    before = snapshot_bytes(turn)

    for _ in range(2):
        with pytest.raises(LookupError, match="a bug in the driver"):
            turn.respond(answer_to(state))
        assert snapshot_bytes(turn) == before

    assert kinds(drain(turn)) == [ASKED[state]]


def test_a_driver_that_raises_while_preparing_leaves_the_machine_as_it_was() -> None:
    turn = broken("prepare_iteration")
    before = snapshot_bytes(turn)

    for _ in range(2):
        with pytest.raises(LookupError, match="a bug in the driver"):
            turn.poll()
        assert snapshot_bytes(turn) == before


@pytest.mark.parametrize("state", ASKED)
def test_the_turn_goes_on_with_a_driver_that_was_mended(state: str) -> None:
    turn = broken(state)
    with pytest.raises(LookupError):
        turn.respond(answer_to(state))

    mended = restored(turn, config(Chooses()))
    mended.respond(answer_to(state))

    assert isinstance(mended.outcome, Finished)


@pytest.mark.parametrize(
    "end",
    [
        lambda turn: turn.finish(Stopped(reason="cancelled"), [completed("c1", 1)]),
        lambda turn: turn.fail(events.Error(message="lost"), [completed("c1", 1)]),
    ],
    ids=["finish", "fail"],
)
def test_a_driver_that_raises_while_closing_leaves_the_machine_as_it_was(
    end: Callable[[TurnMachine], None],
) -> None:
    turn = broken("waiting_tools")
    before = snapshot_bytes(turn)

    for _ in range(2):
        with pytest.raises(LookupError, match="a bug in the driver"):
            end(turn)
        assert snapshot_bytes(turn) == before

    assert turn.outcome is None

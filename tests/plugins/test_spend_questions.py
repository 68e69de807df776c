"""Spend limits that ask: what a person may answer, and how far a budget grows by it."""

from __future__ import annotations

import pytest

from tests.plugins.asked_spending import PRICES, PROMPT, ask, turn, used
from windlass.kernel.value import Json
from windlass.plugins.spend_limits import Budget, SpendLimits
from windlass.ports.directives import Hold, Send, Stop


def asking() -> SpendLimits:
    return SpendLimits(turn=Budget(tokens=1_000), when_spent="ask")


async def test_a_person_is_asked_when_a_budget_is_spent() -> None:
    found = await asking().before_model(turn(used(950)), ask())
    assert found == Hold(
        key="turn-0",
        title="The turn is out of budget: it spent 950 of 1,000 tokens, and the next call may take "
        f"{PROMPT + 100} more. Allow it to spend as much again?",
        detail={
            "scope": "turn",
            "budget": "tokens",
            "spent": 950,
            "limit": 1_000,
            "next_call": PROMPT + 100,
        },
    )


@pytest.mark.parametrize("answer", [None, True, {}, {"factor": 1}, {"by": "eva"}])
async def test_an_answer_lets_the_budget_grow_by_itself(answer: Json) -> None:
    at = turn(used(950))
    at.host.answered = {"turn-0": answer}
    assert isinstance(await asking().before_model(at, ask()), Send)
    at.settle()
    assert at.host.states["spend_limits"] == {"asked": 1, "grown": 1, "more_ms": 0}

    later = turn(used(1_950))
    later.host.states = at.host.states
    found = await asking().before_model(later, ask())
    assert isinstance(found, Hold)
    assert (found.key, found.detail["limit"]) == ("turn-1", 2_000)


async def test_a_person_may_say_how_much_more() -> None:
    at = turn(used(3_250))
    at.host.answered = {"turn-0": {"factor": 2.5}}
    assert isinstance(await asking().before_model(at, ask()), Send)
    at.host.usage = (used(3_450),)
    assert isinstance(await asking().before_model(at, ask()), Hold)


@pytest.mark.parametrize(
    "answer",
    [
        False,
        "no",
        0,
        {"factor": 0},
        {"factor": -1},
        {"factor": "2"},
        {"factor": float("inf")},
        {"factor": None},
        {"factor": True},
        [1],
        {"factor": 10**9},
    ],
)
async def test_only_a_clear_yes_is_one(answer: Json) -> None:
    at = turn(used(950))
    at.host.answered = {"turn-0": answer}
    found = await asking().before_model(at, ask())
    assert found == Stop("The turn may not spend more: an approver said so.", "limit")
    at.settle()
    assert at.host.states == {}


async def test_a_hook_that_runs_again_with_the_same_answer_grants_the_same() -> None:
    """The worker may die after the answer and before the reply."""
    at = turn(used(950))
    at.host.answered = {"turn-0": None}
    for _ in range(3):
        found = await asking().before_model(at, ask())
        assert isinstance(found, Send)
        at._changes.clear()  # nothing of it was recorded


async def test_an_answer_that_was_recorded_is_not_taken_twice() -> None:
    at = turn(used(950))
    at.host.answered = {"turn-0": None}
    for _ in range(2):
        await asking().before_model(at, ask())
        at.settle()
    assert at.host.states["spend_limits"]["grown"] == 1


async def test_who_is_asked_for_too_little_is_asked_again() -> None:
    at = turn(used(3_000))
    at.host.answered = {"turn-0": None}
    found = await asking().before_model(at, ask())
    assert isinstance(found, Hold)
    assert found.key == "turn-1"


async def test_what_a_session_was_granted_lasts_as_long_as_the_session() -> None:
    plugin = SpendLimits(session=Budget(tokens=1_000), when_spent="ask")
    at = turn(session=(used(950),))
    found = await plugin.before_model(at, ask())
    assert isinstance(found, Hold)
    assert found.key == "session-0"
    at.host.answered = {"session-0": None}
    assert isinstance(await plugin.before_model(at, ask()), Send)
    at.settle()

    other_turn = turn(session=(used(1_500),))
    other_turn.host.memories = at.host.memories
    assert isinstance(await plugin.before_model(other_turn, ask()), Send)


async def test_money_grows_exactly() -> None:
    plugin = SpendLimits(turn=Budget(cost="0.7"), prices=PRICES, when_spent="ask")
    at = turn(used(750))
    at.host.answered = {"turn-0": {"factor": 0.1}, "turn-1": {"factor": 0.2}}
    found = await plugin.before_model(at, ask())
    assert isinstance(found, Hold)
    assert (found.key, found.detail["limit"]) == ("turn-2", "0.91")


async def test_time_that_a_person_took_to_answer_is_not_the_turns() -> None:
    plugin = SpendLimits(turn=Budget(seconds=60), when_spent="ask")
    at = turn()
    at.host.now_ms += 61_000
    assert isinstance(await plugin.before_model(at, ask()), Hold)
    at.host.now_ms += 3_600_000
    at.host.answered = {"turn-0": None}
    assert isinstance(await plugin.before_model(at, ask()), Send)
    at.settle()
    at.host.now_ms += 59_999
    assert isinstance(await plugin.before_model(at, ask()), Send)
    at.host.now_ms += 1
    assert isinstance(await plugin.before_model(at, ask()), Hold)

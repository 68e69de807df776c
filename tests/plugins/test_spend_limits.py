"""Spend limits, hook by hook: what is reserved, what is refused, what people may answer."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.plugins.asked_spending import DEAR, PRICES, PROMPT, ask, turn, used
from windlass.errors import ConfigError
from windlass.journal import UsageLine
from windlass.kernel import ModelReply, Usage
from windlass.kernel.outcomes import Finished
from windlass.plugins.spend_limits import Budget, Price, SpendLimits
from windlass.ports.directives import Send, Stop

# ---------------------------------------------------------------------- reserve


async def test_a_call_that_fits_is_sent_with_all_that_it_may_take_reserved() -> None:
    plugin = SpendLimits(turn=Budget(tokens=10_000))
    found = await plugin.before_model(turn(), ask())
    assert found == Send(request=ask(), reserve=Usage(input_tokens=PROMPT, output_tokens=100))
    assert PROMPT > 0


async def test_a_request_without_a_bound_is_bound_by_what_was_reserved_for_it() -> None:
    plugin = SpendLimits(turn=Budget(tokens=10_000), max_output=700)
    found = await plugin.before_model(turn(), ask(max_output=None))
    assert found == Send(
        request=ask(max_output=700), reserve=Usage(input_tokens=PROMPT, output_tokens=700)
    )


async def test_a_reservation_for_a_model_with_a_dear_cache_is_of_cache_writes() -> None:
    prices = {"m": Price(input=1, output=1, cache_write=2)}
    plugin = SpendLimits(turn=Budget(cost=1), prices=prices)
    found = await plugin.before_model(turn(), ask())
    assert isinstance(found, Send)
    assert found.reserve == Usage(cache_write_tokens=PROMPT, output_tokens=100)


@pytest.mark.parametrize(("over", "kind"), [(0, Send), (1, Stop)])
async def test_a_call_may_take_the_last_token_of_a_budget_but_not_one_more(
    over: int, kind: type
) -> None:
    plugin = SpendLimits(turn=Budget(tokens=1_000))
    spent = used(1_000 - PROMPT - 100 + over)
    assert isinstance(await plugin.before_model(turn(spent), ask()), kind)


async def test_prompt_cache_and_output_tokens_all_count() -> None:
    plugin = SpendLimits(turn=Budget(tokens=1_000 + PROMPT + 100))
    usage = Usage(
        input_tokens=100, cached_input_tokens=200, cache_write_tokens=300, output_tokens=401
    )
    spent = UsageLine(source="turn", model="m", calls=1, usage=usage)
    found = await plugin.before_model(turn(spent), ask())
    assert found == Stop(
        f"The turn is out of budget: it spent 1,001 of {1_100 + PROMPT:,} tokens, "
        f"and the next call may take {PROMPT + 100} more.",
        "limit",
    )


async def test_a_reservation_that_was_lost_counts_as_spent() -> None:
    plugin = SpendLimits(turn=Budget(tokens=1_000))
    lost = used(950, lost=1)
    assert isinstance(await plugin.before_model(turn(lost), ask()), Stop)


async def test_what_children_and_tools_used_counts_too() -> None:
    plugin = SpendLimits(turn=Budget(tokens=1_000))
    by_tool = UsageLine(source="tool:look", model="m", calls=1, usage=Usage(output_tokens=950))
    assert isinstance(await plugin.before_model(turn(by_tool), ask()), Stop)


@pytest.mark.parametrize("scope", ["turn", "session"])
async def test_what_is_reserved_for_calls_under_way_is_as_good_as_spent(scope: str) -> None:
    plugin = SpendLimits(**{scope: Budget(tokens=1_000)})  # type: ignore[arg-type]
    at = turn()
    at.host.reserved = (used(950),)
    assert isinstance(await plugin.before_model(at, ask()), Stop)


async def test_the_session_has_spent_what_its_turns_did_and_this_one() -> None:
    plugin = SpendLimits(session=Budget(tokens=1_000))
    assert isinstance(await plugin.before_model(turn(used(500)), ask()), Send)
    assert isinstance(await plugin.before_model(turn(used(500), session=(used(450),)), ask()), Stop)


async def test_the_turn_does_not_pay_for_the_session() -> None:
    plugin = SpendLimits(turn=Budget(tokens=1_000))
    found = await plugin.before_model(turn(session=(used(100_000),)), ask())
    assert isinstance(found, Send)


async def test_calls_are_counted() -> None:
    plugin = SpendLimits(turn=Budget(calls=3))
    assert isinstance(await plugin.before_model(turn(used(calls=2)), ask()), Send)
    found = await plugin.before_model(turn(used(calls=3)), ask())
    assert found == Stop("The turn is out of budget: it spent 3 of 3 calls.", "limit")


async def test_a_turn_has_so_many_seconds_from_its_start() -> None:
    plugin = SpendLimits(turn=Budget(seconds=1.5))
    at = turn()
    at.host.now_ms = at.host.started_ms + 1_499
    assert isinstance(await plugin.before_model(at, ask()), Send)
    at.host.now_ms += 1
    found = await plugin.before_model(at, ask())
    assert found == Stop("The turn is out of budget: it spent 1.5 of 1.5 seconds.", "limit")


async def test_a_session_has_the_seconds_that_its_turns_took() -> None:
    plugin = SpendLimits(session=Budget(seconds=10))
    first = turn()
    first.host.now_ms += 6_000
    await plugin.after_turn(first, Finished(text=""))
    first.settle()

    second = turn()
    second.host.memories = first.host.memories
    second.host.now_ms += 3_999
    assert isinstance(await plugin.before_model(second, ask()), Send)
    second.host.now_ms += 1
    found = await plugin.before_model(second, ask())
    assert found == Stop("The session is out of budget: it spent 10.0 of 10.0 seconds.", "limit")


async def test_time_that_nobody_counts_is_not_kept() -> None:
    at = turn()
    await SpendLimits(session=Budget(calls=1)).after_turn(at, Finished(text=""))
    at.settle()
    assert at.host.memories == {}


# ---------------------------------------------------------------------- money


async def test_money_is_counted_to_the_last_digit() -> None:
    reserve = Decimal(PROMPT) / 1_000 + Decimal(100) * 2 / 1_000
    prices = {"m": DEAR, "other": Price(input="0.000001", output=0)}
    plugin = SpendLimits(turn=Budget(cost=reserve + 1), prices=prices)
    exactly = used(1_000)
    assert isinstance(await plugin.before_model(turn(exactly), ask()), Send)
    one_more = used(1, model="other")  # a millionth of a millionth
    found = await plugin.before_model(turn(exactly, one_more), ask())
    assert isinstance(found, Stop)
    assert found.detail.startswith("The turn is out of budget: it spent 1.000000000001 of ")


async def test_a_model_without_a_price_is_never_free() -> None:
    plugin = SpendLimits(turn=Budget(cost=1_000), prices=PRICES)
    found = await plugin.before_model(turn(), ask("other"))
    assert found == Stop("The turn has a cost budget, and there is no price for other.", "limit")


async def test_what_was_spent_on_a_model_without_a_price_ends_it_too() -> None:
    plugin = SpendLimits(session=Budget(cost=1_000), prices=PRICES, when_spent="ask")
    found = await plugin.before_model(turn(used(1, model="other")), ask())
    assert found == Stop("The session has a cost budget, and there is no price for other.", "limit")


async def test_prices_do_not_matter_where_money_is_not_counted() -> None:
    plugin = SpendLimits(turn=Budget(tokens=1_000), prices=PRICES)
    assert isinstance(await plugin.before_model(turn(), ask("other")), Send)


# ---------------------------------------------------------------------- cheaper


def cheaper() -> SpendLimits:
    return SpendLimits(turn=Budget(cost=1), prices=PRICES, when_spent="cheaper", cheaper="small")


async def test_a_call_that_is_too_dear_goes_to_the_cheaper_model() -> None:
    found = await cheaper().before_model(turn(used(900)), ask())
    assert isinstance(found, Send)
    assert found.request is not None
    assert (found.request.model, found.request.messages) == ("small", ask().messages)
    assert found.reserve == Usage(input_tokens=PROMPT, output_tokens=100)


async def test_a_call_that_fits_stays_where_it_was() -> None:
    found = await cheaper().before_model(turn(used(100)), ask())
    assert isinstance(found, Send)
    assert found.request == ask()


async def test_what_the_cheaper_model_takes_counts_and_ends_the_turn_at_last() -> None:
    lines = (used(900), used(9_900, model="small"))
    found = await cheaper().before_model(turn(*lines), ask())
    assert isinstance(found, Stop)
    assert found.detail.startswith("The turn is out of budget: it spent 0.999 of 1 in cost")


# ---------------------------------------------------------------------- report


async def test_what_is_spent_is_shown_after_each_reply() -> None:
    plugin = SpendLimits(
        turn=Budget(tokens=5_000, cost="0.5", seconds=60), session=Budget(calls=9), prices=PRICES
    )
    at = turn(used(250), used(50, lost=1), session=(used(1_000, model="other", calls=4),))
    at.host.now_ms += 1_500
    await plugin.after_model(at, ModelReply(text="hi"))
    turn_limits = {"tokens": 5_000, "cost": "0.5", "seconds": 60.0}
    both = {"lost": 1, "seconds": 1.5}
    assert at.host.emitted == [
        (
            "spend_limits",
            "spend",
            {
                "turn": {"tokens": 300, "calls": 2, "cost": "0.3", "limits": turn_limits, **both},
                "session": {
                    "tokens": 1_300,
                    "calls": 6,
                    "cost": None,  # nobody knows what the other model costs
                    "limits": {"calls": 9},
                    **both,
                },
            },
        )
    ]
    at.settle()
    assert (at.host.states, at.host.memories) == ({}, {})


# ---------------------------------------------------------------------- what is given


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "Budget"),
        ({"tokens": 0}, "Budget.tokens"),
        ({"tokens": 1.5}, "Budget.tokens"),
        ({"tokens": True}, "Budget.tokens"),
        ({"calls": -1}, "Budget.calls"),
        ({"seconds": 0}, "Budget.seconds"),
        ({"seconds": float("nan")}, "Budget.seconds"),
        ({"seconds": "5"}, "Budget.seconds"),
        ({"cost": 0}, "Budget.cost"),
        ({"cost": -1}, "Budget.cost"),
    ],
)
def test_a_budget_names_what_is_wrong_with_it(given: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Budget(**given)
    assert caught.value.field == field


SOME = Budget(tokens=1)
MONEY = Budget(cost=1)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "SpendLimits"),
        ({"turn": 1_000}, "turn"),
        ({"session": {"tokens": 5}}, "session"),
        ({"turn": SOME, "when_spent": "weep"}, "when_spent"),
        ({"turn": SOME, "max_output": 0}, "max_output"),
        ({"turn": SOME, "max_output": None}, "max_output"),
        ({"turn": SOME, "prices": [DEAR]}, "prices"),
        ({"turn": SOME, "prices": {"m": 3.0}}, "prices"),
        ({"turn": SOME, "cheaper": "small"}, "cheaper"),
        ({"turn": MONEY}, "prices"),
        ({"turn": MONEY, "prices": PRICES, "when_spent": "cheaper"}, "cheaper"),
        ({"turn": MONEY, "prices": PRICES, "when_spent": "cheaper", "cheaper": "x"}, "prices"),
        ({"turn": SOME, "prices": PRICES, "when_spent": "cheaper", "cheaper": "small"}, "cheaper"),
    ],
)
def test_limits_name_what_is_wrong_with_them(given: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SpendLimits(**given)
    assert caught.value.field == field


def test_calls_that_tools_make_are_covered() -> None:
    assert SpendLimits.covers_direct_calls

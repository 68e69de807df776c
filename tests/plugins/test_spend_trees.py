"""A budget for a tree of agents: each child gets a part of what is left, and no crash lets the tree spend more."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from tests.scenarios.family import agent, asks, idle, killed_in_time, used
from windlass import Agent, ModelReply, ModelRequest, Runtime, Usage, tool
from windlass.kernel import Stopped
from windlass.plugins import Budget, Price, SpendLimits
from windlass.testing import FunctionModel, Scenario, call, kill_everywhere, say

REPLY = Usage(input_tokens=20, output_tokens=50)
REPLY_TOKENS = 70


@tool(effect="pure")
async def look() -> str:
    """Look."""
    return "Nothing."


def greedy(bought: list[Usage]) -> Agent[Any, Any]:
    """Return an agent that never stops by itself; each reply that it gets is noted outside."""

    def answer(_: ModelRequest) -> ModelReply:
        bought.append(REPLY)
        return used(call("look"), REPLY)

    return Agent("greedy", model=FunctionModel(answer), tools=[look])


def lead_over(n: int, bought: list[Usage]) -> Agent[Any, Any]:
    """Return a lead that asks `n` greedy children at once, and then is done."""

    def answer(request: ModelRequest) -> ModelReply:
        bought.append(REPLY)
        is_first = len(request.messages) == 1
        return used(asks(*["greedy"] * n) if is_first else say("Done."), REPLY)

    return Agent("lead", model=FunctionModel(answer), tools=[greedy(bought).as_tool()])


def limits(budget: Budget, **more: Any) -> SpendLimits:
    return SpendLimits(tree=budget, max_output=50, **more)


async def allotted(rt: Runtime[Any]) -> list[Any]:
    """Return what each child was let use."""
    found = []
    for one in await rt.session("s").children():
        view = await rt._services.store.load_turn(one.session_id, "t")
        assert view is not None
        assert view.request is not None
        found.append(view.request.overrides["tree"]["allotted"]["spend_limits"])
    return found


async def test_children_share_what_the_tree_has_left() -> None:
    bought: list[Usage] = []
    plugins = [limits(Budget(tokens=10_070, calls=21))]
    async with Runtime(lead_over(2, bought), store="memory:", plugins=plugins) as rt:
        result = await rt.session("s").run("Go", turn_id="t")
        parts = await allotted(rt)
    # 10,070 less the 70 of the first reply, and 21 less one call: two equal parts.
    assert parts == [{"tokens": 5_000, "calls": 10}] * 2
    for one in result.tool_calls:
        assert one.outcome.status == "error"
        assert "The tree is out of budget: it spent 10 of 10 calls" in str(one.outcome.value)
    assert (result.usage.calls, result.child_usage.calls, len(bought)) == (1, 20, 21)
    assert result.outcome == Stopped(
        reason="limit",
        detail="The tree is out of budget: it spent 21 of 21 calls.",
    )


async def test_what_children_spent_counts_at_the_top() -> None:
    bought: list[Usage] = []
    plugins = [limits(Budget(calls=4))]
    async with Runtime(lead_over(1, bought), store="memory:", plugins=plugins) as rt:
        result = await rt.session("s").run("Go", turn_id="t")
    # The child has the three calls that were left, and the lead none after it.
    assert isinstance(result.outcome, Stopped)
    assert result.outcome.reason == "limit"
    assert "The tree is out of budget: it spent 4 of 4 calls" in result.outcome.detail
    assert len(bought) == 4


async def test_what_a_child_leaves_is_there_for_the_next() -> None:
    helper = agent("helper", say("Yes."))
    lead = agent("lead", asks("helper"), asks("helper"), say("Done."), tools=[helper.as_tool()])
    plugins = [limits(Budget(calls=5))]
    async with Runtime(lead, store="memory:", plugins=plugins) as rt:
        result = await rt.session("s").run("Go", turn_id="t")
        parts = await allotted(rt)
    assert result.text == "Done."
    assert sorted(one["calls"] for one in parts) == [2, 4]


async def test_money_is_shared_exactly() -> None:
    bought: list[Usage] = []
    price = Price(input=Decimal(1), output=Decimal(1))
    plugins = [
        limits(Budget(cost=Decimal("0.0004")), prices={"function": price, "scripted": price})
    ]
    lead = lead_over(3, bought)
    async with Runtime(lead, store="memory:", plugins=plugins) as rt:
        await rt.session("s").run("Go", turn_id="t")
        parts = await allotted(rt)
    # 400 millionths less the 70 of the first reply: three parts of 110 millionths.
    assert [Decimal(one["cost"]) for one in parts] == [Decimal("0.00011")] * 3
    assert sum(one.input_tokens + one.output_tokens for one in bought) <= 400


def killed(n: int, budget: int) -> Callable[[], Scenario]:
    """Return a scenario of greedy children under a budget of tokens, whose replies are counted outside."""

    def make() -> Scenario:
        bought: list[Usage] = []

        async def run(rt: Runtime[Any]) -> object:
            result = await rt.session("s").run("Go", turn_id="t")
            await idle(rt)
            spent = sum(one.input_tokens + one.output_tokens for one in bought)
            assert spent <= budget, f"{spent} tokens were bought"
            whole = await rt.session("s").usage(tree=True)
            # What was bought and not recorded counts as lost, at all that was reserved for it.
            assert spent <= whole.total_tokens
            return type(result.outcome).__name__

        plugins = [limits(Budget(tokens=budget))]
        return Scenario(agents=lambda: lead_over(n, bought), run=run, settings={"plugins": plugins})

    return make


async def test_no_kill_lets_a_tree_spend_more_than_its_budget() -> None:
    # What was lost is gone from the budget, so that a child may end a call earlier.
    report, problems = await killed_in_time(killed(2, 1_500))
    assert problems == []
    assert len(report.points) > 30


async def test_children_that_are_let_use_it_all_are_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The red proof: each child is let use all that is left."""
    monkeypatch.setattr(SpendLimits, "allot", lambda *_: {"tokens": 1_430})
    with pytest.raises(AssertionError, match="tokens were bought"):
        await kill_everywhere(killed(2, 1_500))

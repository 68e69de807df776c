"""For how long a yes of `approve=` holds: once, for the session, or for as long as the runtime is open."""

from __future__ import annotations

import threading
from typing import Any, Literal

import pytest

from tests.limits import HANGS_S
from tests.scenarios.payers import payer, pays
from tests.scenarios.stage import Desk, Stage, until
from windlass import Agent, Approve, ToolUncertain, Wait, tool
from windlass.testing import ScriptedModel, call, calls, say


class Counting:
    """Says the same each time, and counts."""

    def __init__(self, says: Any) -> None:  # noqa: ANN401 - whatever it says
        self.says = says
        self.asked: list[str] = []

    def __call__(self, wait: Wait) -> Any:  # noqa: ANN401 - whatever it says
        self.asked.append(wait.session_id)
        return self.says


@pytest.mark.parametrize(
    ("remember", "asked_first", "asked_again"),
    [
        ("once", ["a", "a", "b"], ["a", "b"]),
        ("session", ["a", "b"], []),
        ("runtime", ["a"], ["a"]),
    ],
)
async def test_a_yes_holds_for_once_for_the_session_or_for_as_long_as_the_runtime_is_open(
    stage: Stage,
    remember: Literal["once", "session", "runtime"],
    asked_first: list[str],
    asked_again: list[str],
) -> None:
    desk, counting = Desk(), Counting(Approve(remember=remember))
    async with stage.runtime(payer(desk, pays(3)), approve=counting) as rt:
        for session in ("a", "a", "b"):
            await rt.session(session).run("Pay 5.")
    assert counting.asked == asked_first
    counting.asked.clear()
    async with stage.runtime(payer(desk, pays(2)), approve=counting) as rt:
        for session in ("a", "b"):
            await rt.session(session).run("Pay 5.")
    assert counting.asked == asked_again
    assert desk.runs == [5] * 5


async def test_what_is_allowed_for_the_runtime_is_recorded_each_time(stage: Stage) -> None:
    counting = Counting(Approve(remember="runtime", by="eva"))
    async with stage.runtime(payer(Desk(), pays(2)), approve=counting) as rt:
        await rt.session("a").run("Pay 5.", turn_id="t")
        await rt.session("b").run("Pay 5.", turn_id="t")
        views = [await rt._services.store.load_turn(name, "t") for name in ("a", "b")]

    waits = [one for view in views if view is not None for one in view.waits]
    assert [(one.state, one.answer and one.answer.by) for one in waits] == [
        ("answered", "eva"),
        ("answered", "eva"),
    ]
    assert counting.asked == ["a"]


async def test_what_is_allowed_for_the_runtime_is_allowed_for_one_agent_and_one_action(
    stage: Stage,
) -> None:
    @tool(approval="ask")
    async def ship() -> str:
        """Ship."""
        return "shipped"

    def agent(name: str) -> Agent[None, str]:
        model = ScriptedModel([calls(("ship", {}), ("pay", {"cents": 5})), say("Done.")])
        return Agent(name, model=model, tools=[ship, *payer(Desk(), model).toolbox])

    counting = Counting(Approve(remember="runtime"))
    async with stage.runtime(agent("one"), agent("two"), approve=counting) as rt:
        await rt.session("a", "one").run("Go.")
        await rt.session("b", "two").run("Go.")

    assert counting.asked == ["a", "a", "b", "b"]


async def test_an_overruled_yes_for_the_runtime_allows_nothing_later(stage: Stage) -> None:
    desk, entered, gate = Desk(), threading.Event(), threading.Event()
    asked: list[Wait] = []

    def approve(wait: Wait) -> Any:  # noqa: ANN401 - bool or Approve
        asked.append(wait)
        if len(asked) > 1:
            return False
        entered.set()
        gate.wait(HANGS_S)
        return Approve(remember="runtime")

    async with stage.runtime(payer(desk, pays(2)), approve=approve) as rt:
        handle = await rt.session("a").submit("Pay 5.")
        await until(entered.is_set)
        (wait,) = await rt.waits()
        await rt.deny(wait.key)
        await handle.result(timeout=HANGS_S)
        gate.set()
        await rt.session("b").run("Pay 5.")

    assert len(asked) == 2
    assert desk.runs == []


async def test_leave_for_the_runtime_is_no_leave_for_a_second_time(stage: Stage) -> None:
    ran: list[int] = []

    @tool(approval="ask")
    async def pay(cents: int) -> str:
        """Pay."""
        ran.append(cents)
        if len(ran) == 1:
            raise ToolUncertain("the line was cut")
        return "paid"

    asked: list[Wait] = []

    def approve(wait: Wait) -> Any:  # noqa: ANN401 - bool or Approve
        asked.append(wait)
        return Approve(remember="runtime") if not wait.detail.get("may_have_acted") else False

    model = ScriptedModel([call("pay", cents=5), call("pay", cents=5), say("Done.")])
    async with stage.runtime(Agent("a", model=model, tools=[pay]), approve=approve) as rt:
        await rt.session("s").run("Go.")

    assert ran == [5]
    assert [wait.title for wait in asked] == [
        "Run pay?",
        "pay may have acted already; run it again?",
    ]

"""Scenarios of many kinds, killed everywhere: files, approvals, parallel calls, timers, results that come later."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.testing.shops import Bank, careless, refund, refund_once, shop
from windlass import Agent, Approve, Done, NotDone, Runtime, ToolContext, TurnResult, Wait, tool
from windlass.errors import Unavailable
from windlass.testing import (
    CrashFound,
    FunctionModel,
    Scenario,
    ScriptedModel,
    call,
    calls,
    crash_points,
    kill_everywhere,
    say,
)


async def approve(rt: Runtime[Any], wait: Wait) -> None:
    await rt.approve(wait.key, by="eva")


@tool(effect="keyed", approval="ask")
async def ask_and_refund(ctx: ToolContext[Bank], order: str) -> str:
    """Refund an order when a person agrees."""
    ctx.deps.refund(order, key=ctx.idempotency_key)
    return f"refunded {order}"


@tool(effect="pure")
async def look_up(order: str) -> str:
    """Look up an order."""
    return f"{order} is here"


@tool(effect="keyed")
def refund_in_a_thread(ctx: ToolContext[Bank], order: str) -> str:
    """Refund an order without awaiting anything."""
    ctx.deps.refund(order, key=ctx.idempotency_key)
    return f"refunded {order}"


async def test_a_file_survives_every_crash() -> None:
    report = await kill_everywhere(shop(refund), store="sqlite")

    assert len(report.points) == 14
    assert report.missed == ()


async def test_a_careless_tool_is_found_on_a_file_too() -> None:
    with pytest.raises(CrashFound) as found:
        await kill_everywhere(shop(careless), store="sqlite", only="careless (call_0_0) returned")

    assert len(found.value.findings) == 1


async def test_an_approval_is_asked_for_and_given_once_whatever_dies() -> None:
    make = shop(ask_and_refund, answer=approve)

    points = [str(point) for point in await crash_points(make)]
    report = await kill_everywhere(make)

    assert "after write 4: a wait is answered" in points
    assert [str(point) for point in report.points] == points
    assert (report.unknown, report.missed) == ((), ())


async def test_who_answers_in_the_process_is_asked_again_after_a_crash() -> None:
    asked: list[str] = []

    def approver(wait: Wait) -> bool:
        asked.append(wait.kind)
        return True

    report = await kill_everywhere(shop(ask_and_refund, approve=approver))

    assert set(asked) == {"approval"}
    # Whoever dies before the answer is written is asked again.
    assert len(asked) > len(report.points)


async def test_what_is_allowed_for_the_runtime_refunds_once_whatever_dies() -> None:
    asked: list[str] = []

    def approver(wait: Wait) -> Approve:
        asked.append(wait.kind)
        return Approve(remember="runtime", by="eva")

    report = await kill_everywhere(shop(ask_and_refund, approve=approver))

    assert (report.unknown, report.missed) == ((), ())
    assert len(asked) > len(report.points)  # a new process does not remember


async def test_a_function_that_fails_leaves_the_answer_to_a_person_whatever_dies() -> None:
    def approver(_wait: Wait) -> bool:
        raise ValueError

    report = await kill_everywhere(shop(ask_and_refund, approve=approver, answer=approve))

    assert (report.unknown, report.missed) == ((), ())


async def test_a_scenario_without_answers_ends_parked_and_ends_so_after_every_crash() -> None:
    def not_yet(bank: Bank, result: TurnResult[str]) -> bool:
        return result.parked and bank.refunds == []

    report = await kill_everywhere(shop(ask_and_refund, check=not_yet))

    assert report.missed == ()


async def test_a_program_may_answer_its_own_approvals() -> None:
    async def program(rt: Runtime[Any]) -> Any:  # noqa: ANN401 - a TurnResult
        result = await rt.session("s").run("Refund o1.", turn_id="t1")
        for wait in result.waits:
            await rt.approve(wait.key)
        return await rt.turn("s", "t1").result()

    report = await kill_everywhere(shop(ask_and_refund, run=program))

    assert report.missed == ()


async def test_parallel_calls_in_threads_and_in_the_loop_are_each_killed() -> None:
    script = [
        calls(("refund", {"order": "o1"}), ("look_up", {"order": "o1"}), ("refund_in_a_thread", {"order": "o2"})),
        say("done"),
    ]  # fmt: skip
    make = shop(
        refund,
        look_up,
        refund_in_a_thread,
        replies=script,
        check=lambda bank, _result: sorted(bank.refunds) == ["o1", "o2"],
    )

    report = await kill_everywhere(make)

    bodies = {point.where for point in report.points if "began" in point.where}
    assert bodies == {
        "before refund (call_0_0) began",
        "before look_up (call_0_1) began",
        "before refund_in_a_thread (call_0_2) began",
    }


async def test_a_tool_that_finds_out_what_it_did_passes() -> None:
    async def found_out(ctx: ToolContext[Bank], args: dict[str, Any]) -> Done | NotDone:
        order = args["order"]
        return Done(f"refunded {order}") if order in ctx.deps.refunds else NotDone()

    @tool(reconcile=found_out)
    async def reconciled(ctx: ToolContext[Bank], order: str) -> str:
        """Refund an order; the bank's books tell whether it was done."""
        ctx.deps.refund(order)
        return f"refunded {order}"

    report = await kill_everywhere(shop(reconciled), twice=True)

    assert (report.unknown, report.missed) == ((), ())
    assert any("after the reconciler of reconciled" in point.where for point in report.points)


async def test_a_result_that_comes_later_comes_once() -> None:
    @tool(effect="keyed")
    async def order_later(ctx: ToolContext[Bank], order: str) -> Any:  # noqa: ANN401 - Pending
        """Order something; somebody says when it is there."""
        pending = await ctx.defer(deadline=60)
        ctx.deps.refund(order, key=pending.key)
        return pending

    async def deliver(rt: Runtime[Any], wait: Wait) -> None:
        await rt.resolve(wait.key, "it is there")

    report = await kill_everywhere(shop(order_later, answer=deliver))

    assert report.missed == ()


async def test_time_passes_for_a_turn_that_waits_for_its_provider() -> None:
    make = shop(replies=[Unavailable("down"), say("done")], check=lambda _bank, result: result.text == "done")  # type: ignore[list-item]  # fmt: skip

    report = await kill_everywhere(make)

    assert any("a wait (provider)" in point.what for point in report.points)


async def test_a_deadline_that_nobody_keeps_runs_out_without_waiting() -> None:
    @tool(effect="keyed")
    async def order_later(ctx: ToolContext[Bank], order: str) -> Any:  # noqa: ANN401 - Pending
        """Order something; nobody ever says that it is there."""
        return await ctx.defer(deadline=3600)

    def gave_up(_bank: Bank, result: TurnResult[str]) -> bool:
        return [one.outcome.status for one in result.tool_calls] == ["timeout"]

    report = await kill_everywhere(shop(order_later, check=gave_up))

    assert report.missed == ()


async def test_a_reply_that_is_streamed_can_be_cut_off() -> None:
    def make() -> Scenario:
        return Scenario(
            agents=lambda: Agent("shop", model=ScriptedModel([say("one two")], chunks=2)),
            run=lambda rt: rt.session("s").run("Count.", turn_id="t1"),
            check=lambda result: result.text == "one two",
        )

    report = await kill_everywhere(make)

    assert "during model call 1" in [point.where for point in report.points]


async def test_several_turns_and_sessions_are_one_scenario() -> None:
    async def program(rt: Runtime[Any]) -> None:
        await asyncio.gather(
            rt.session("a").run("Refund o1.", turn_id="t1"),
            rt.session("b").run("Refund o2.", turn_id="t1"),
        )
        await rt.session("a").run("Thanks.", turn_id="t2")

    def answer(request: Any) -> Any:  # noqa: ANN401 - a reply
        text = request.messages[-1].parts[0]
        asked = getattr(text, "text", "")
        return call("refund", order=asked[7:9]) if asked.startswith("Refund") else say("done")

    make = shop(
        refund,
        run=program,
        agents=lambda: Agent("shop", model=FunctionModel(answer), tools=[refund], deps_type=Bank),
        check=lambda bank, _result: sorted(bank.refunds) == ["o1", "o2"],
    )

    report = await kill_everywhere(make)

    assert report.missed == ()
    assert "before refund (call_0_0) began (2nd time)" in [point.where for point in report.points]


async def test_a_model_of_the_settings_has_crash_points_as_well() -> None:
    def make() -> Scenario:
        return Scenario(
            agents=lambda: Agent("shop", model=ScriptedModel([say("never asked")])),
            settings={"models": [ScriptedModel([say("done")], name="other")]},
            run=lambda rt: rt.session("s").run("Hello.", turn_id="t1", model="other"),
            check=lambda result: result.text == "done",
        )

    points = [point.where for point in await crash_points(make)]

    assert points.count("before model call 1") == 1
    assert "before model call 1 (2nd time)" not in points


async def test_an_unknown_call_that_is_asked_about_again_is_answered() -> None:
    """An equal call after an unknown one asks for approval; whoever answers lets it run."""
    script = [call("refund_once", order="o1"), call("refund_once", order="o1"), say("done")]
    make = shop(
        refund_once,
        replies=script,
        answer=approve,
        check=lambda bank, _result: len(bank.refunds) <= 2,
    )

    report = await kill_everywhere(make)

    assert "before refund_once (call_1_0) began" in [point.where for point in report.unknown]

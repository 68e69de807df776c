"""Approvals: asked today, answered days later by somebody else, and nothing is lost on the way."""

from __future__ import annotations

import asyncio

import pytest

from tests.limits import HANGS_S
from tests.scenarios.payers import payer, script
from tests.scenarios.readings import Told, last_told, turn_view
from tests.scenarios.stage import DAY_S, Desk, Stage, until
from windlass import Agent, Limits, Runtime, Wait, tool
from windlass.errors import InvalidInput
from windlass.kernel.outcomes import Finished
from windlass.testing import ScriptedModel, call, calls, say


async def test_a_call_that_asks_parks_the_turn_and_says_what_it_wants(stage: Stage) -> None:
    desk = Desk()
    async with stage.runtime(payer(desk, script())) as rt:
        result = await rt.session("s").run("Pay 5.", turn_id="t")

        assert (result.status, result.parked, result.outcome) == ("parked", True, None)
        (wait,) = result.waits
        assert wait.key.startswith("w_")
        assert (wait.kind, wait.session_id, wait.turn_id) == ("approval", "s", "t")
        assert wait.call_id == "call_0_0"
        assert wait.title == "Run pay?"
        assert (wait.detail["tool"], wait.detail["args"]) == ("pay", {"cents": 5})
        assert wait.detail["risk"] == "low"
        assert await rt.approvals() == (wait,)
        assert await rt.waits() == (wait,)
        assert await rt.turn("s", "t").status() == "parked"
    assert desk.runs == []


async def test_asked_today_answered_after_six_days_by_another_worker(stage: Stage) -> None:
    desk, first = Desk(), script()
    async with stage.runtime(payer(desk, first)) as rt:
        parked = await rt.session("s").run("Pay 5.", turn_id="t")
    stage.later(6 * DAY_S)
    async with stage.runtime() as office:
        (wait,) = await office.approvals()
        assert wait == parked.waits[0]
        receipt = await office.approve(wait.key, by="eva")
        assert receipt.status == "accepted"
    second = script()
    async with stage.runtime(payer(desk, second)) as rt:
        result = await rt.turn("s", "t").result(timeout=HANGS_S)
        history = await rt.session("s").history()

    assert desk.runs == [5]
    assert result.outcome == Finished(text="Done.")
    assert result.duration_ms == 6 * 86_400_000
    assert (len(first.requests), len(second.requests)) == (1, 1)  # no reply is bought twice
    assert last_told(second) == [Told("call_0_0", "ok", "paid 5")]
    assert [message.role for message in history] == ["user", "assistant", "user", "assistant"]


async def test_approve_then_result_never_returns_the_old_park(stage: Stage) -> None:
    desk = Desk()
    model = ScriptedModel([call("pay", cents=n) for n in range(8)] + [say("All paid.")])
    async with stage.runtime(payer(desk, model)) as rt:
        result = await rt.session("s").run("Pay all.", turn_id="t")
        seen: list[str] = []
        while result.parked:
            (wait,) = result.waits
            seen.append(wait.key)
            await rt.approve(wait.key)
            result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert len(seen) == len(set(seen)) == 8
    assert desk.runs == list(range(8))
    assert result.text == "All paid."


async def test_an_answer_from_elsewhere_is_never_followed_by_the_old_park(stage: Stage) -> None:
    """The worker that answers is not the one that drives: result() still waits for what follows."""
    desk = Desk()
    async with stage.runtime(payer(desk, script())) as rt, stage.runtime() as office:
        parked = await rt.session("s").run("Pay 5.", turn_id="t")
        await office.approve(parked.waits[0].key)
        result = await office.turn("s", "t").result(timeout=HANGS_S)

    assert result.text == "Done."
    assert desk.runs == [5]


async def test_who_approved_is_written_down(stage: Stage) -> None:
    async with stage.runtime(payer(Desk(), script())) as rt:
        parked = await rt.session("s").run("Pay 5.", turn_id="t")
        await rt.approve(parked.waits[0].key, by="eva")
        await rt.turn("s", "t").result(timeout=HANGS_S)
        (view,) = (await turn_view(rt, "s", "t")).waits

    assert view.answer is not None
    assert (view.state, view.answer.by, view.consumed) == ("answered", "eva", True)


async def test_a_denial_goes_to_the_model_with_its_reason(stage: Stage) -> None:
    desk, model = Desk(), script()
    async with stage.runtime(payer(desk, model)) as rt:
        parked = await rt.session("s").run("Pay 5.", turn_id="t")
        receipt = await rt.deny(parked.waits[0].key, reason="Too much.", by="eva")
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert receipt.status == "accepted"
    assert desk.runs == []
    assert last_told(model) == [Told("call_0_0", "denied", "Denied by eva: Too much.")]
    assert [one.outcome.status for one in result.tool_calls] == ["denied"]
    assert result.text == "Done."


async def test_three_parallel_calls_of_which_one_asks_lose_nothing(stage: Stage) -> None:
    desk = Desk()
    model = ScriptedModel(
        [
            calls(("look", {"what": "a"}), ("pay", {"cents": 5}), ("look", {"what": "b"})),
            say("Done."),
        ]
    )
    async with stage.runtime(payer(desk, model)) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")
        assert desk.runs == ["a", "b"]  # the siblings did not wait
        assert len(parked.waits) == 1
    async with stage.runtime(payer(desk, model)) as rt:
        await rt.approve(parked.waits[0].key)
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert desk.runs == ["a", "b", 5]
    assert last_told(model) == [
        Told("call_0_0", "ok", "saw a"),
        Told("call_0_1", "ok", "paid 5"),
        Told("call_0_2", "ok", "saw b"),
    ]
    assert len(model.requests) == 2
    assert result.text == "Done."


async def test_siblings_that_act_run_once_while_one_waits(stage: Stage) -> None:
    desk = Desk()

    @tool(effect="once")
    async def act(n: int) -> str:
        """Act."""
        await desk.work(n)
        return f"did {n}"

    model = ScriptedModel(
        [calls(("act", {"n": 1}), ("pay", {"cents": 5}), ("act", {"n": 2})), say("Done.")]
    )
    agent = Agent("payer", model=model, tools=[act, *payer(desk, model).toolbox])
    async with stage.runtime(agent) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")
        assert sorted(desk.runs) == [1, 2]
        await rt.approve(parked.waits[0].key)
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert sorted(desk.runs) == [1, 2, 5]
    assert [one.outcome.value for one in result.tool_calls] == ["did 1", "paid 5", "did 2"]
    assert result.issues == ()


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "elsewhere"])
@pytest.mark.parametrize("allowed", [True, False])
async def test_an_answer_counts_at_once_though_a_sibling_still_runs(
    stage: Stage, allowed: bool, elsewhere: bool
) -> None:
    desk, slow = Desk(), Desk(is_open=False)

    @tool(effect="once")
    async def act() -> str:
        """Act slowly."""
        await slow.work()
        return "acted"

    model = ScriptedModel([calls(("act", {}), ("pay", {"cents": 5})), say("Done.")])
    agent = Agent("payer", model=model, tools=[act, *payer(desk, model).toolbox])
    async with stage.runtime(agent) as rt, stage.runtime() as other:
        answerer = other if elsewhere else rt
        handle = await rt.session("s").submit("Go.", turn_id="t")
        await slow.entered.wait()
        await until(lambda: _asks(rt))
        (wait,) = await answerer.approvals()
        await (answerer.approve(wait.key) if allowed else answerer.deny(wait.key, reason="No."))
        if allowed:
            async with asyncio.timeout(HANGS_S):
                await desk.entered.wait()  # while the sibling is still inside
        slow.gate.set()
        result = await handle.result(timeout=HANGS_S)

    assert result.text == "Done."
    assert [one.status for one in last_told(model)] == ["ok", "ok" if allowed else "denied"]
    assert (len(slow.runs), len(desk.runs)) == (1, int(allowed))


async def _asks(rt: Runtime[str]) -> bool:
    return len(await rt.approvals()) == 1


async def test_of_two_questions_one_answer_goes_as_far_as_it_can(stage: Stage) -> None:
    desk = Desk()
    model = ScriptedModel([calls(("pay", {"cents": 1}), ("pay", {"cents": 2})), say("Done.")])
    async with stage.runtime(payer(desk, model)) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")
        one, two = sorted(parked.waits, key=lambda wait: str(wait.call_id))
        await rt.approve(two.key)
        await until(lambda: desk.runs == [2])
        result = await rt.turn("s", "t").result(timeout=HANGS_S)
        assert (result.parked, result.waits) == (True, (one,))
        await rt.approve(one.key)
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert desk.runs == [2, 1]
    assert [told.text for told in last_told(model)] == ["paid 1", "paid 2"]
    assert result.text == "Done."


async def test_result_after_one_of_two_answers_waits_until_it_rests_again(stage: Stage) -> None:
    desk = Desk()
    model = ScriptedModel([calls(("pay", {"cents": 1}), ("pay", {"cents": 2})), say("Done.")])
    async with stage.runtime(payer(desk, model)) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")
        one, two = sorted(parked.waits, key=lambda wait: str(wait.call_id))
        await rt.approve(two.key)
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert (result.parked, result.waits) == (True, (one,))
    assert desk.runs == [2]


async def test_a_second_answer_changes_nothing(stage: Stage) -> None:
    desk = Desk()
    async with stage.runtime(payer(desk, script())) as rt, stage.runtime() as office:
        parked = await rt.session("s").run("Pay 5.", turn_id="t")
        key = parked.waits[0].key
        assert (await rt.approve(key, by="eva")).status == "accepted"
        late = await office.deny(key, reason="No!", by="tom")
        assert late.status == "already"
        assert late.answer is not None
        assert (late.answer.status, late.answer.by) == ("answered", "eva")
        result = await rt.turn("s", "t").result(timeout=HANGS_S)
        assert (await rt.approve(key)).status == "already"  # also after the end

    assert desk.runs == [5]
    assert [one.outcome.status for one in result.tool_calls] == ["ok"]


@pytest.mark.parametrize("change", ["other", "longer", "shorter", "empty"])
async def test_a_forged_key_is_refused_and_named_nowhere(stage: Stage, change: str) -> None:
    desk = Desk()
    async with stage.runtime(payer(desk, script())) as rt:
        parked = await rt.session("s").run("Pay 5.", turn_id="t")
        good = parked.waits[0].key
        forged = {
            "other": good[:-1] + ("0" if good[-1] != "0" else "1"),
            "longer": good + "0",
            "shorter": good[:-1],
            "empty": "",
        }[change]
        for answer in (rt.approve(forged), rt.deny(forged), rt.resolve(forged, 1)):
            with pytest.raises(InvalidInput) as caught:
                await answer
            assert good[2:20] not in str(caught.value)
        assert await rt.approvals() == parked.waits
    assert desk.runs == []


async def test_a_key_of_another_store_is_a_forged_key(stage: Stage, tmp_path: object) -> None:
    desk = Desk()
    async with Runtime(payer(desk, script()), store="memory:") as elsewhere:
        foreign = await elsewhere.session("s").run("Pay 5.", turn_id="t")
        async with stage.runtime(payer(desk, script())) as rt:
            own = await rt.session("s").run("Pay 5.", turn_id="t")
            assert own.waits[0].key != foreign.waits[0].key
            with pytest.raises(InvalidInput):
                await rt.approve(foreign.waits[0].key)
            assert len(await rt.approvals()) == 1
    assert desk.runs == []


async def test_nobody_in_time_is_no(stage: Stage) -> None:
    desk, model = Desk(), script()
    agent = payer(desk, model, limits=Limits(approval_timeout=60))
    async with stage.runtime(agent) as rt:
        parked = await rt.session("s").run("Pay 5.", turn_id="t")
        assert parked.waits[0].expires_ms == stage.clock.now_ms() + 60_000
        stage.later(59, rt)
        assert (await rt.turn("s", "t").result(timeout=HANGS_S)).parked
        stage.later(1, rt)
        await until(lambda: len(model.requests) == 2)
        result = await rt.turn("s", "t").result(timeout=HANGS_S)
        receipt = await rt.approve(parked.waits[0].key)

    assert receipt.status == "expired"
    assert desk.runs == []
    assert last_told(model) == [
        Told("call_0_0", "denied", "Nobody answered in time, so it was not allowed.")
    ]
    assert result.text == "Done."


async def test_an_approval_that_comes_too_late_is_refused_though_nobody_looked(
    stage: Stage,
) -> None:
    desk, model = Desk(), script()
    async with stage.runtime(payer(desk, model, limits=Limits(approval_timeout=60))) as rt:
        parked = await rt.session("s").run("Pay 5.", turn_id="t")
    stage.later(61)
    async with stage.runtime() as office:
        receipt = await office.approve(parked.waits[0].key, by="eva")
    assert receipt.status == "expired"
    async with stage.runtime(payer(desk, model)) as rt:
        await rt.turn("s", "t").result(timeout=HANGS_S)

    assert desk.runs == []
    assert [one.status for one in last_told(model)] == ["denied"]


@pytest.mark.parametrize("says", [True, False])
async def test_an_approver_in_the_process_is_asked_at_once(stage: Stage, says: bool) -> None:
    desk, model = Desk(), script()
    asked: list[Wait] = []

    async def approve(wait: Wait) -> bool:
        asked.append(wait)
        return says

    async with stage.runtime(payer(desk, model), approve=approve) as rt:
        result = await rt.session("s").run("Pay 5.", turn_id="t")

    assert [wait.detail["args"] for wait in asked] == [{"cents": 5}]
    assert desk.runs == ([5] if says else [])
    assert result.text == "Done."
    assert last_told(model)[0].status == ("ok" if says else "denied")


@pytest.mark.parametrize("says", [None, 1, "yes"])
async def test_an_approver_that_does_not_plainly_say_yes_allows_nothing(
    memory_stage: Stage, says: object
) -> None:
    desk, model = Desk(), script()

    def approve(_wait: Wait) -> bool:
        return says  # type: ignore[return-value]  # that is the point

    async with memory_stage.runtime(payer(desk, model), approve=approve) as rt:
        result = await rt.session("s").run("Pay 5.", turn_id="t")

    assert desk.runs == []
    assert result.text == "Done."
    assert last_told(model)[0].status == "denied"


async def test_a_parked_result_shows_what_was_said_and_done_so_far(stage: Stage) -> None:
    desk = Desk()

    @tool(effect="pure")
    async def look() -> str:
        """Look."""
        await desk.work()
        return "seen"

    @tool(approval="ask")
    async def act() -> str:
        """Act."""
        return "acted"

    model = ScriptedModel([call("look"), call("act"), say("Done.")])
    async with stage.runtime(Agent("a", model=model, tools=[look, act])) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")

    assert parked.parked
    assert [message.role for message in parked.messages] == [
        "user", "assistant", "user", "assistant",
    ]  # fmt: skip
    assert [(one.name, one.outcome.value) for one in parked.tool_calls] == [("look", "seen")]

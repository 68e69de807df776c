"""Callers that go away: a turn does not depend on who waits for it."""

from __future__ import annotations

import asyncio

import pytest

from tests.limits import HANGS_S
from tests.scenarios.payers import payer
from tests.scenarios.readings import said_by_user
from tests.scenarios.stage import Desk, Stage, until
from tests.scenarios.workers import echo, worker
from windlass import Runtime
from windlass.errors import UnknownSession
from windlass.kernel.outcomes import Finished, Stopped
from windlass.testing import ScriptedModel, call, say


async def _status(rt: Runtime[str], wanted: str) -> bool:
    return await rt.turn("s", "t").status() == wanted


async def test_a_caller_that_is_cancelled_cancels_no_turn(stage: Stage) -> None:
    desk, model = Desk(is_open=False), ScriptedModel([call("work"), say("Done.")])
    async with stage.runtime(worker(desk, model)) as rt:
        running = asyncio.get_running_loop().create_task(rt.session("s").run("Go.", turn_id="t"))
        await desk.entered.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        desk.gate.set()
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.outcome == Finished(text="Done.")
    assert len(desk.runs) == 1


async def test_a_caller_that_waits_no_longer_may_come_back(stage: Stage) -> None:
    desk, model = Desk(is_open=False), ScriptedModel([call("work"), say("Done.")])
    async with stage.runtime(worker(desk, model)) as rt:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        with pytest.raises(TimeoutError):
            await handle.result(timeout=0.01)
        desk.gate.set()
        result = await handle.result(timeout=HANGS_S)

    assert result.text == "Done."


async def test_a_turn_that_nobody_knows_is_unknown(stage: Stage) -> None:
    async with stage.runtime(worker(Desk(), echo())) as rt:
        handle = rt.turn("s", "nobody")
        for asked in (handle.result(timeout=HANGS_S), handle.status(), handle.messages()):
            with pytest.raises(UnknownSession):
                await asked


async def test_a_turn_says_where_it_is(stage: Stage) -> None:
    desk = Desk(is_open=False)
    model = ScriptedModel([call("pay", cents=5), say("Done.")])
    async with stage.runtime(payer(desk, model), worker=False) as door:
        handle = await door.session("s").submit("Pay.", turn_id="t")
        assert await handle.status() == "queued"
    async with stage.runtime(payer(desk, model)) as rt:
        parked = await rt.turn("s", "t").result(timeout=HANGS_S)
        assert await rt.turn("s", "t").status() == "parked"
    async with stage.runtime() as office:
        await office.approve(parked.waits[0].key)
        assert await office.turn("s", "t").status() == "ready"
    async with stage.runtime(payer(desk, model)) as rt:
        await desk.entered.wait()
        assert await rt.turn("s", "t").status() == "running"
        desk.gate.set()
        await until(lambda: _status(rt, "done"))


async def test_what_comes_while_a_turn_is_parked_enters_when_it_goes_on(stage: Stage) -> None:
    model = ScriptedModel([call("pay", cents=5), say("Noted."), say("Spare.")])
    async with stage.runtime(payer(Desk(), model)) as rt:
        session = rt.session("s")
        parked = await session.run("Pay.", turn_id="t")
        await session.enqueue("And hurry.", key="now")
        await session.enqueue("Later.", when="next_turn", key="later")
        await rt.approve(parked.waits[0].key)
        result = await rt.turn("s", "t").result(timeout=HANGS_S)
        await until(lambda: len(model.requests) == 3)

    assert result.text == "Noted."
    assert said_by_user(model.requests[1]) == ["Pay.", "And hurry."]
    assert said_by_user(model.requests[2]) == ["Pay.", "And hurry.", "Later."]


async def test_what_is_queued_behind_a_parked_turn_runs_when_that_is_cancelled(
    stage: Stage,
) -> None:
    model = ScriptedModel([call("pay", cents=5), say("Two.")])
    async with stage.runtime(payer(Desk(), model)) as rt:
        session = rt.session("s")
        await session.run("Pay.", turn_id="t1")
        second = await session.submit("Second.", turn_id="t2")
        await rt.cancel("s", "t1", "enough")
        first = await rt.turn("s", "t1").result(timeout=HANGS_S)
        result = await second.result(timeout=HANGS_S)

    assert first.outcome == Stopped(reason="cancelled", detail="enough")
    assert result.text == "Two."


async def test_a_parked_turn_takes_no_place_from_others(stage: Stage) -> None:
    model = ScriptedModel([call("pay", cents=5), say("Other."), say("Done.")])
    desk = Desk()
    async with stage.runtime(payer(desk, model), max_turns=1) as rt:
        parked = await rt.session("a").run("Pay.", turn_id="t")
        other = await asyncio.wait_for(rt.session("b").run("Hello.", turn_id="t"), HANGS_S)
        await rt.approve(parked.waits[0].key)
        result = await rt.turn("a", "t").result(timeout=HANGS_S)

    assert (other.text, result.text) == ("Other.", "Done.")
    assert desk.runs == [5]


async def test_leaving_a_runtime_lets_a_body_end_and_its_result_is_kept(stage: Stage) -> None:
    desk, model = Desk(is_open=False), ScriptedModel([call("work", n=1), say("Done.")])
    rt = stage.runtime(worker(desk, model, effect="once"))
    async with rt:
        await rt.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        asyncio.get_running_loop().call_later(0.05, desk.gate.set)
    async with stage.runtime(worker(Desk(), model, effect="once")) as other:
        result = await other.turn("s", "t").result(timeout=HANGS_S)

    assert result.text == "Done."
    assert [one.outcome.value for one in result.tool_calls] == ["worked 1"]
    assert result.issues == ()

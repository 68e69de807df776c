"""Another engine only has to say when: a worker that is told to look, or to drive one session, does the rest."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.engines import Engines, ToldEngine
from tests.scenarios.readings import said_by_user, turn_view
from tests.scenarios.stage import Desk, Stage, until
from tests.scenarios.workers import echo, worker
from windlass import Agent, Limits, Runtime, Text, tool
from windlass.errors import ConfigError
from windlass.kernel.outcomes import Finished, Stopped
from windlass.ports import NewTurn, TurnInfo, TurnRequest
from windlass.runtime.checkpoints import Checkpoints
from windlass.testing import ScriptedModel, call, say

MINUTE_MS = 60_000


@pytest.fixture(autouse=True)
def engines(monkeypatch: pytest.MonkeyPatch) -> Engines:
    made = Engines(monkeypatch)
    made.use(ToldEngine)
    return made


def payer(model: ScriptedModel, **options: Any) -> Agent[None, str]:
    @tool(effect="keyed", approval="ask")
    async def pay() -> str:
        """Pay."""
        return "paid"

    return Agent("payer", model=model, tools=[pay], **options)


async def drive(rt: Runtime[Any], session_id: str) -> int | None:
    return await asyncio.wait_for(rt._worker.drive(session_id), HANGS_S)


async def texts(rt: Runtime[Any], session_id: str) -> list[str]:
    """Return how the turns of a session ended, in order."""
    session = await rt._services.store.load_session(session_id)
    return [one.outcome.text for one in session.pages if isinstance(one.outcome, Finished)]


# ------------------------------------------------------------------------- looking, when told


async def test_an_engine_that_only_says_when_is_enough_to_run_turns(
    stage: Stage, engines: Engines
) -> None:
    async with stage.runtime(worker(Desk(), echo())) as rt:
        (engine,) = engines.made
        first = await rt.session("a").submit("One.")
        await rt.session("b").submit("work")
        # It heard that something is due; until it says so, the worker does nothing.
        assert engine.kicks == ["a", "b"]
        assert rt._worker.driving == set()
        assert await first.status() == "queued"

        await engine.look()
        assert (await first.result(timeout=HANGS_S)).text == "You said: One."
        await engine.look()
        await _quiet(rt)
        assert await texts(rt, "b") == ["worked"]


async def test_a_runtime_takes_an_engine_and_refuses_what_is_none(
    stage: Stage, engines: Engines
) -> None:
    own = ToldEngine(None)  # type: ignore[arg-type]  # it needs no store
    async with stage.runtime(worker(Desk(), echo()), engine=own) as rt:
        handle = await rt.session("a").submit("One.")
        await own.look()
        assert (await handle.result(timeout=HANGS_S)).text == "You said: One."

    assert engines.made == []
    with pytest.raises(ConfigError, match=r"Runtime\.engine: wanted local or an Engine"):
        Runtime(worker(Desk(), echo()), store="memory:", engine="restate")  # type: ignore[call-overload]  # no such one


async def _quiet(rt: Runtime[Any]) -> None:
    async with asyncio.timeout(HANGS_S):
        while rt._worker.driving:  # noqa: ASYNC110 - the loop's own
            await asyncio.sleep(0)


# ------------------------------------------------------------------------- one session


async def test_driving_a_session_drives_all_that_is_queued_there_and_nothing_else(
    stage: Stage,
) -> None:
    async with stage.runtime(worker(Desk(), echo())) as rt:
        await rt.session("s").submit("One.")
        await rt.session("other").submit("Not me.")
        await rt.session("s").submit("Two.")
        await rt.session("s").enqueue("Three.", when="next_turn")
        assert await drive(rt, "s") is None

        assert await texts(rt, "s") == ["You said: One.", "You said: Two.", "You said: Three."]
        assert await texts(rt, "other") == []


async def test_driving_a_session_that_is_not_there_does_nothing(stage: Stage) -> None:
    async with stage.runtime(worker(Desk(), echo())) as rt:
        assert await drive(rt, "never-was") is None


async def test_a_driven_session_rests_until_its_wait_is_answered_or_over(stage: Stage) -> None:
    model = ScriptedModel(
        [call("pay"), say("Paid."), call("pay"), say("Never mind."), say("Spare.")]
    )
    agent = payer(model, limits=Limits(approval_timeout=60))
    async with stage.runtime(agent) as rt:
        session, now_ms = rt.session("s"), stage.clock.now_ms()
        await session.submit("First.", turn_id="t1")
        await session.submit("Second.", turn_id="t2")
        # The time of the wait is when the session is to be driven again at the latest.
        assert await drive(rt, "s") == now_ms + MINUTE_MS
        assert (await turn_view(rt, "s", "t1")).state == "parked"
        assert await drive(rt, "s") == now_ms + MINUTE_MS

        (wait,) = await rt.waits()
        await rt.approve(wait.key)
        assert await drive(rt, "s") == now_ms + MINUTE_MS
        assert await texts(rt, "s") == ["Paid."]

        stage.clock.advance(60)
        assert await drive(rt, "s") is None
        assert await texts(rt, "s") == ["Paid.", "Never mind."]


async def test_what_is_due_in_a_hundred_other_sessions_hides_nothing_of_the_one_that_is_driven(
    memory_stage: Stage,
) -> None:
    async with memory_stage.runtime(worker(Desk(), echo())) as rt:
        for number in range(101):
            await rt.session(f"o{number}").submit("work")
            await rt.session(f"o{number}").enqueue("More.", when="next_turn")
        await rt.session("s").submit("One.")
        await rt.session("s").enqueue("Two.", when="next_turn")
        assert await drive(rt, "s") is None
        assert await texts(rt, "s") == ["You said: One.", "You said: Two."]


async def test_to_drive_a_session_again_tells_its_turn_of_an_item_that_came_meanwhile(
    stage: Stage,
) -> None:
    desk = Desk(is_open=False)
    model = ScriptedModel([call("work", n=1), call("work", n=2), say("Noted.")])
    async with stage.runtime(worker(desk, model)) as rt, stage.runtime(worker=False) as other:
        await rt.session("s").submit("Go.", turn_id="t")
        driving = asyncio.get_running_loop().create_task(drive(rt, "s"))
        await desk.entered.wait()
        desk.entered.clear()
        desk.gate.set()
        desk.gate.clear()
        await desk.entered.wait()  # behind a checkpoint at which the turn has looked into its inbox
        checkpoints = _checkpoints(rt, "s")
        assert not checkpoints.has_items

        await other.session("s").enqueue("Hurry.")
        again = asyncio.get_running_loop().create_task(drive(rt, "s"))
        await until(lambda: checkpoints.has_items)
        desk.gate.set()
        assert {await driving, await again} == {None}

    assert said_by_user(model.requests[2]) == ["Go.", "Hurry."]


def _checkpoints(rt: Runtime[Any], session_id: str) -> Checkpoints:
    performer = rt._worker._drives.by_session[session_id].drive._performer
    assert performer is not None
    return performer.checkpoints


async def test_to_drive_a_session_again_tells_its_turn_of_a_cancel_that_came_meanwhile(
    stage: Stage,
) -> None:
    desk, model = Desk(is_open=False), ScriptedModel([call("work"), say("Never.")])
    async with stage.runtime(worker(desk, model)) as rt, stage.runtime(worker=False) as other:
        await rt.session("s").submit("Go.", turn_id="t")
        driving = asyncio.get_running_loop().create_task(drive(rt, "s"))
        await desk.entered.wait()
        await other.cancel("s", "t", "Enough.")
        assert await drive(rt, "s") is None
        assert await driving is None
        cancelled = Stopped(reason="cancelled", detail="Enough.")
        assert (await turn_view(rt, "s", "t")).outcome == cancelled


async def test_a_turn_that_failed_is_driven_again_at_the_time_that_is_told(stage: Stage) -> None:
    tries: list[str] = []

    async def deps(info: TurnInfo) -> None:
        tries.append(info.turn_id)
        if len(tries) == 1:
            raise OSError("not yet")

    async with stage.runtime(worker(Desk(), echo()), deps=deps) as rt:
        await rt.session("s").submit("One.", turn_id="t")
        now_ms = stage.clock.now_ms()
        assert await drive(rt, "s") == now_ms + 500
        assert await drive(rt, "s") == now_ms + 500
        stage.clock.advance(0.5)
        assert await drive(rt, "s") is None
        assert await texts(rt, "s") == ["You said: One."]
    assert tries == ["t", "t"]


async def test_a_session_in_which_another_agents_turn_comes_next_is_released(stage: Stage) -> None:
    mine, theirs = worker(Desk(), echo(), name="mine"), worker(Desk(), echo(), name="theirs")
    async with stage.runtime(mine) as rt, stage.runtime(theirs) as other:
        await rt.session("s").run("One.")
        asked = TurnRequest(input=(Text(text="Two."),))
        await other._services.store.accept("s", "t2", NewTurn(agent="theirs", request=asked))
        assert await drive(other, "s") is None  # the session is another worker's
        assert await drive(rt, "s") is None
        assert await drive(other, "s") is None
        assert await texts(rt, "s") == ["You said: One.", "You said: Two."]

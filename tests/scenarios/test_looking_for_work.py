"""A worker that looks alive goes on looking for work, whatever it met the last time."""

from __future__ import annotations

import asyncio
from typing import Any

import apsw
import pytest

from tests.limits import HANGS_S
from tests.scenarios.stage import Stage, until
from windlass import Agent, Limits, tool
from windlass.errors import JournalCorrupt
from windlass.plugins import Finale, Plugin, PluginTurn
from windlass.testing import FunctionModel, call, say


@pytest.fixture
def stage(tmp_path: Any) -> Stage:  # noqa: ANN401 - a path
    return Stage("memory", tmp_path)


def echo() -> FunctionModel:
    return FunctionModel(lambda _request: say("Done."))


async def test_a_look_that_fails_is_not_the_last(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    async with stage.runtime(Agent("a", model=echo())) as rt:
        store: Any = rt._services.store
        due, failures = store.due, [RuntimeError("the table is gone")]

        async def fails_once(now_ms: int, **wanted: Any) -> Any:  # noqa: ANN401 - as the store says
            if failures:
                raise failures.pop()
            return await due(now_ms, **wanted)

        store.due = fails_once
        rt._worker.kick()
        async with asyncio.timeout(HANGS_S):
            while failures:  # noqa: ASYNC110 - the worker's own clock
                await asyncio.sleep(0.01)
        await rt.session("s").submit("work", turn_id="t")
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.text == "Done."
    assert "looking for work" in caplog.text


class Once(Plugin):
    """Leaves something behind, once in a session."""

    async def after_turn(self, turn: PluginTurn, outcome: object) -> Finale | None:
        if turn.memory.get("left"):
            return None
        turn.remember(left=True)
        return Finale(messages=["And now?"])


async def test_what_a_turn_leaves_behind_begins_at_once_and_waits_for_no_look(stage: Stage) -> None:
    async with stage.runtime(Agent("a", model=echo(), plugins=[Once()])) as rt:
        engine: Any = rt._worker._engine
        kick = engine._kick
        kicks: list[str] = []
        really = kick.set

        def told() -> None:
            kicks.append("now")
            really()

        kick.set = told
        await rt.session("s").run("work")
        kicked = [*kicks]
        async with asyncio.timeout(HANGS_S):
            while len(await rt.session("s").history()) < 4:  # noqa: ASYNC110 - the store's
                await asyncio.sleep(0.01)

    assert kicked


async def test_turns_of_agents_that_nobody_has_here_do_not_hide_one_that_is_due(
    stage: Stage,
) -> None:
    gone, mine = Agent("gone", model=echo()), Agent("mine", model=echo())
    async with stage.runtime(gone, mine, worker=False) as rt:
        for number in range(101):
            await rt.session(f"g{number}", gone).submit("work")
        await rt.session("s", mine).submit("work", turn_id="t")

    async with stage.runtime(mine) as rt:
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.text == "Done."


async def test_mail_behind_parked_turns_does_not_hide_the_mail_of_an_idle_session(
    stage: Stage,
) -> None:
    @tool(approval="ask")
    def act() -> str:
        """Act."""
        return "Acted."

    asks = FunctionModel(lambda _request: call("act"), name="asks")
    agent = Agent("a", model=echo(), tools=[act])
    async with stage.runtime(agent, models=[asks]) as rt:
        await rt.session("idle").run("work")
        for number in range(101):
            parked = rt.session(f"p{number}")
            assert (await parked.run("work", model="asks")).parked
            await parked.enqueue("And then?", when="next_turn")
        await rt.session("idle").enqueue("Go on.", when="next_turn")

        async def has_gone_on() -> bool:
            return len(await rt.session("idle").history()) == 4

        await until(has_gone_on)


async def test_a_damaged_turn_keeps_no_worker_from_opening_and_holds_up_no_other_turn(
    tmp_path: Any,  # noqa: ANN401 - a path
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = Stage("sqlite", tmp_path)
    agent = Agent("a", model=echo())
    async with stage.runtime(agent, worker=False) as rt:
        for session_id in ("damaged", "whole"):
            await rt.session(session_id).submit("work", turn_id="t")
    file = apsw.Connection(str(stage.path))
    file.execute("UPDATE log SET page = zeroblob(20) WHERE no = (SELECT min(no) FROM log)")
    file.close()

    async with stage.runtime(agent) as rt:
        assert (await rt.turn("whole", "t").result(timeout=HANGS_S)).text == "Done."
        with pytest.raises(JournalCorrupt, match="request of damaged/t"):
            await rt.turn("damaged", "t").result(timeout=HANGS_S)

    assert "taking up damaged/t: journal_corrupt" in caplog.text


async def test_a_damaged_wait_that_is_over_holds_up_no_other_turn(
    tmp_path: Any,  # noqa: ANN401 - a path
) -> None:
    stage = Stage("sqlite", tmp_path)

    @tool(approval="ask")
    def act() -> str:
        """Act."""
        return "Acted."

    asks = FunctionModel(lambda _request: call("act"), name="asks")
    agent = Agent("a", model=echo(), tools=[act])
    in_a_minute = Limits(approval_timeout=60)
    async with stage.runtime(agent, models=[asks]) as rt:
        assert (await rt.session("damaged").run("work", model="asks", limits=in_a_minute)).parked
    async with stage.runtime(agent, models=[asks], worker=False) as rt:
        await rt.session("whole").submit("work", turn_id="t")
    file = apsw.Connection(str(stage.path))
    file.execute("UPDATE waits SET wait = zeroblob(20)")
    file.close()
    stage.clock.advance(61)

    async with stage.runtime(agent, models=[asks]) as rt:
        assert (await rt.turn("whole", "t").result(timeout=HANGS_S)).text == "Done."


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_turn_begins_in_a_session_of_which_another_is_just_being_claimed(
    tmp_path: Any,  # noqa: ANN401 - a path
    kind: str,
) -> None:
    stage = Stage(kind, tmp_path)
    taken, told = asyncio.Event(), asyncio.Event()
    async with stage.runtime(Agent("a", model=echo())) as rt, stage.runtime(worker=False) as other:
        store: Any = rt._services.store
        claim = store.claim

        async def told_late(*names: str, **wanted: Any) -> Any:  # noqa: ANN401 - as the store says
            given = await claim(*names, **wanted)
            if given:
                taken.set()
                await told.wait()
            return given

        store.claim = told_late
        await rt.session("s").run("Zero.", turn_id="t0")  # the session is this worker's
        await other.session("s").submit("One.", turn_id="t1")
        await asyncio.wait_for(taken.wait(), HANGS_S)
        running = asyncio.ensure_future(rt.session("s").run("Two.", turn_id="t2"))
        await asyncio.sleep(0.05)
        told.set()
        result = await asyncio.wait_for(running, HANGS_S)
        first = await rt.turn("s", "t1").result(timeout=HANGS_S)

    assert (first.text, result.text) == ("Done.", "Done.")

"""Sessions that housekeeping deletes after they were listed and before they are read: whoever listed them passes them over."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.building import all_ended, builder
from tests.scenarios.stage import Desk, Stage
from tests.scenarios.test_triggers import Order, World, delivered
from tests.scenarios.ticking import Runs, pass_to, set_clock
from tests.scenarios.workers import worker
from windlass import Agent, Runtime, ToolContext, tool
from windlass.errors import HeadMoved, SessionDeleted
from windlass.kernel.outcomes import Stopped
from windlass.testing import FunctionModel, ScriptedModel, call, say


class Reclaimer:
    """Deletes what `listing` of a store returns if it was asked for `asked`, before the caller reads it."""

    def __init__(
        self,
        rt: Runtime[Any],
        monkeypatch: pytest.MonkeyPatch,
        listing: str = "list_sessions",
        **asked: str,
    ) -> None:
        self.deleted: list[str] = []
        self._store, self._asked = rt._services.store, asked
        self._list = getattr(self._store, listing)
        monkeypatch.setattr(self._store, listing, self._list_and_delete)

    async def _list_and_delete(self, **wanted: Any) -> tuple[Any, ...]:
        found: tuple[Any, ...] = await self._list(**wanted)
        if self._asked.items() <= wanted.items():
            for one in found:
                with suppress(HeadMoved, SessionDeleted):  # unfinished turns keep it
                    await self._store.delete_session(one.session_id, now_ms=0)
                    self.deleted.append(one.session_id)
        return found


async def test_a_tick_starts_its_run_though_earlier_runs_are_reclaimed_meanwhile(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    set_clock(stage, "2026-01-30 00:00")
    runs = Runs()
    async with stage.runtime(schedules=[runs.schedule("0 12 * * *")]) as rt:
        await pass_to(stage, "2026-02-01 00:00", rt)
        # What a later month's tick finds beside its own session.
        reclaimer = Reclaimer(rt, monkeypatch, label="schedule:digest/runs")
        await pass_to(stage, "2026-02-02 00:00", rt)
    assert len(reclaimer.deleted) >= 1
    assert runs.ran[-1] == "2026-02-01T12:00+00:00"
    assert [one for one in caplog.records if one.levelno >= logging.ERROR] == []


async def test_a_schedule_is_looked_at_though_its_runs_are_reclaimed_meanwhile(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_clock(stage, "2026-01-30 00:00")
    async with stage.runtime(schedules=[Runs().schedule("0 12 * * *")]) as rt:
        await pass_to(stage, "2026-02-01 00:00", rt)
        reclaimer = Reclaimer(rt, monkeypatch, label="schedule:digest/runs")
        (view,) = await rt.schedules.list()
    assert len(reclaimer.deleted) >= 1
    assert (view.running, view.next is None) == (0, False)


async def test_occurrences_are_listed_though_a_month_is_reclaimed_meanwhile(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    async with stage.runtime(triggers=[world.subscriber("each")]) as rt:
        await rt.emit(world.orders, Order("o1", 50), key="evt-1")
        await delivered(rt)
        reclaimer = Reclaimer(rt, monkeypatch, "list_turns")
        found = await rt.triggers.occurrences(world.orders)
    assert len(reclaimer.deleted) == 1
    assert found == ()


async def test_background_work_is_listed_though_what_ended_is_reclaimed_meanwhile(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    builds = Desk()
    built = [call("build", ref="main"), say("It builds."), say("It is built.")]
    model = ScriptedModel([*built, call("processes"), say("Nothing runs.")])
    async with stage.runtime(builder(builds, model)) as rt:
        await rt.session("s").run("Build.", turn_id="t")
        await all_ended(rt)
        # As if it had not ended when the list was made.
        reclaimer = Reclaimer(rt, monkeypatch, kind="process")
        monkeypatch.setattr("windlass.runtime.background_tools.BACKGROUND", "none:")
        result = await rt.session("s").run("What runs?", turn_id="u")
    assert len(reclaimer.deleted) == 1
    assert [one.outcome.value for one in result.tool_calls] == [[]]


async def test_a_turn_is_cancelled_though_a_child_of_its_is_reclaimed_meanwhile(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper: Agent[Any, Any] = Agent("helper", model=FunctionModel(lambda _: say("Yes.")))
    works = Desk(is_open=False)
    (work,) = worker(works, ScriptedModel([])).toolbox

    @tool(effect="keyed")
    async def begin(ctx: ToolContext[Any]) -> str:
        """Begin."""
        await ctx.spawn("helper", "Go", name="bob")
        return "Begun."

    script = iter([call("begin"), call("work")])
    model = FunctionModel(lambda _: next(script, say("So it is.")))
    lead: Agent[Any, Any] = Agent("lead", model=model, tools=[begin, work])
    async with stage.runtime(lead, helper) as rt:
        handle = await rt.session("s", lead).submit("Go", turn_id="t")
        await asyncio.wait_for(works.entered.wait(), HANGS_S)
        (child,) = await rt.session("s").children()
        await rt.session(child.session_id).wait(timeout=HANGS_S)
        reclaimer = Reclaimer(rt, monkeypatch, kind="child")
        await handle.cancel("Enough.")
        result = await handle.result(timeout=HANGS_S)
        works.gate.set()
    assert reclaimer.deleted == [child.session_id]
    assert result.outcome == Stopped(reason="cancelled", detail="Enough.")

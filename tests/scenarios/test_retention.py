"""Retention by kind: what runs for ever leaves a bounded number of rows, and nothing is run or delivered again for it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.stage import DAY_S, Stage
from tests.scenarios.test_triggers import Order, World, delivered
from tests.scenarios.ticking import Runs, pass_to, set_clock, settled, utc
from windlass import ProcessContext, Retention, Runtime, Source, on, process
from windlass.errors import ConfigError
from windlass.ports import SessionKind

LONG = 10_000


async def turns_of(rt: Runtime[Any], kind: SessionKind) -> int:
    """Return how many turns there are in sessions of a kind."""
    store = rt._services.store
    sessions = await store.list_sessions(kind=kind, limit=1_000)
    turns = [await store.list_turns(session_id=one.session_id, limit=LONG) for one in sessions]
    return sum(map(len, turns))


async def test_a_schedule_leaves_two_months_of_ticks_however_long_it_ticks(stage: Stage) -> None:
    set_clock(stage, "2026-01-01 00:00")
    runs, counts = Runs(), list[int]()
    digest = runs.schedule("0 12 * * *")
    async with stage.runtime(schedules=[digest]) as rt:
        for month in range(2, 10):
            await pass_to(stage, f"2026-{month:02}-01 00:00", rt)
            counts.append(await turns_of(rt, "schedule"))
            await rt.vacuum()
        (view,) = await rt.schedules.list()

    # From the first of January to the end of August.
    assert len(runs.ran) == len(set(runs.ran)) == 243
    assert view.next == utc("2026-09-01 12:00")
    # A tick and a run for each day of two months, the one that is kept and the one that is under way; and the next tick.
    assert max(counts) <= 2 * (31 + 31) + 1


async def test_a_schedule_that_is_kept_longer_leaves_more(memory_stage: Stage) -> None:
    set_clock(memory_stage, "2026-01-01 00:00")
    runs = Runs()
    kept = Retention(schedules=timedelta(days=3650))
    async with memory_stage.runtime(schedules=[runs.schedule("@daily")], retention=kept) as rt:
        for month in range(2, 6):
            await pass_to(memory_stage, f"2026-{month:02}-01 00:00", rt)
            await rt.vacuum()
        assert await turns_of(rt, "schedule") == 2 * (31 + 28 + 31 + 30) + 1


async def test_events_of_a_month_go_whole_when_their_keys_are_forgotten(stage: Stage) -> None:
    set_clock(stage, "2026-01-10 00:00")
    world, counts = World(dedupe=timedelta(days=7)), list[int]()
    retention = Retention(triggers=timedelta(days=7))
    async with stage.runtime(triggers=[world.subscriber("each")], retention=retention) as rt:
        for number in range(12):
            await rt.emit(world.orders, Order(f"o{number}", 1), key="the same every month")
            await delivered(rt)
            stage.later(31 * DAY_S, rt)
            await settled(rt)
            await rt.vacuum()
            counts.append(await turns_of(rt, "trigger"))

    assert len(world.got) == 12
    assert max(counts) <= 6


async def test_a_process_is_kept_for_as_long_as_it_is_said(stage: Stage) -> None:
    @process
    async def work(ctx: ProcessContext[Any]) -> Any:  # noqa: ANN401 - JSON
        return await ctx.step(lambda: 7, name="seven")

    retention = Retention(processes=timedelta(days=2))
    async with stage.runtime(processes=[work], retention=retention) as rt:
        handle = await rt.processes.start(work, id="p")
        assert await handle.result(timeout=HANGS_S) == 7
    # A worker tidies up by itself, which would be counted nowhere.
    async with stage.runtime(processes=[work], retention=retention, worker=False) as rt:
        stage.clock.advance(1 * DAY_S)
        assert (await rt.vacuum()).sessions == 0
        stage.clock.advance(2 * DAY_S)
        assert (await rt.vacuum()).sessions == 1
        assert await rt.sessions(kind="process") == ()


async def test_a_session_with_many_turns_of_code_is_taken_up_from_its_last_frame(
    stage: Stage,
) -> None:
    source, got = Source("ticks"), list[int]()

    @on(source)
    async def note(_ctx: ProcessContext[Any], event: int) -> None:
        got.append(event)

    async with stage.runtime(triggers=[note]) as rt:
        for number in range(140):
            await rt.emit(source, number, key=f"{number}")
        await delivered(rt)
        (occurrence,) = await rt.triggers.occurrences(source, limit=1)
        store = rt._services.store
        whole = await store.load_history(occurrence.session_id)
        frame = await store.load_history(occurrence.session_id, frame=True)
    async with stage.runtime(triggers=[note]) as rt:
        await rt.emit(source, 140, key="140")
        await delivered(rt)

    assert (len(whole), len(frame)) == (140, 140 - 127)
    assert sorted(got) == list(range(141))


def test_times_that_are_none_are_refused_by_name() -> None:
    for name in ("journals", "children", "processes", "schedules", "triggers"):
        for bad in (timedelta(days=-1), 7):
            with pytest.raises(ConfigError) as refused:
                Retention(**{name: bad})  # type: ignore[arg-type]  # what is tested
            assert refused.value.field == f"Retention.{name}"
    with pytest.raises(ConfigError, match="retention"):
        Runtime(retention=-1)
    source = Source("orders", dedupe=timedelta(days=90))
    with pytest.raises(ConfigError, match="dedupe of the source orders"):
        Runtime(triggers=[source])
    Runtime(triggers=[source], retention=Retention(triggers=timedelta(days=90)))

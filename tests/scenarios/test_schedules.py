"""Schedules: each tick runs once, at its time, whatever restarts, fails or takes long.

Length: one test for each thing that can happen to a tick.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.stage import Stage
from tests.scenarios.ticking import Runs, pass_to, set_clock, settled, utc
from windlass import ProcessContext, Runtime, Tick, process, schedule
from windlass.errors import ArgsInvalid, ConfigError, InvalidInput
from windlass.runtime.schedule_ticks import Missed, Overlap


async def test_a_schedule_runs_at_its_times_in_its_zone(stage: Stage) -> None:
    set_clock(stage, "2026-11-13 12:00")  # a Friday
    runs = Runs()
    digest = runs.schedule("0 9 * * MON-FRI", tz="Europe/Berlin")
    async with stage.runtime(schedules=[digest]) as rt:
        (view,) = await rt.schedules.list()
        assert (view.name, view.expression, view.tz) == (
            "digest",
            "0 9 * * MON-FRI",
            "Europe/Berlin",
        )
        assert (view.next, view.last, view.running) == (utc("2026-11-16 08:00"), None, 0)
        await pass_to(stage, "2026-11-17 12:00", rt)
        (view,) = await rt.schedules.list()

    assert runs.ran == ["2026-11-16T09:00+01:00", "2026-11-17T09:00+01:00"]
    assert (view.next, view.last) == (utc("2026-11-18 08:00"), utc("2026-11-17 08:00"))


async def test_a_tick_costs_two_commits_and_its_run(stage: Stage) -> None:
    set_clock(stage, "2026-11-17 12:00")
    runs = Runs()
    async with stage.runtime(schedules=[runs.schedule(every=timedelta(hours=1))]) as rt:
        await pass_to(stage, "2026-11-17 13:30", rt)
        ticks = [one for one in await rt.turns() if one.turn_id.endswith(".r1")]
        (ended,) = [one for one in ticks if one.state == "done"]
        view = await rt._services.store.load_turn(ended.session_id, ended.turn_id)

    assert view is not None
    # The first has its claim and the wait, the second what was decided, and the end.
    assert len(view.pages) == 2
    assert runs.ran == ["2026-11-17T13:00+00:00"]


# The clock of Berlin is set back from 3:00 to 2:00 on 2026-10-25, and on from 2:00 to 3:00 on 2027-03-28.
@pytest.mark.parametrize(
    ("cron", "start", "end", "ran"),
    [
        (
            "30 2 * * *",
            "2026-10-24 12:00",
            "2026-10-26 12:00",
            ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"],
        ),
        (
            "30 2 * * *",
            "2027-03-27 12:00",
            "2027-03-29 12:00",
            ["2027-03-28T03:00+02:00", "2027-03-29T02:30+02:00"],
        ),
        (
            "0 * * * *",
            "2026-10-24 23:30",
            "2026-10-25 02:30",
            ["2026-10-25T02:00+02:00", "2026-10-25T02:00+01:00", "2026-10-25T03:00+01:00"],
        ),
        (
            "0 * * * *",
            "2027-03-27 23:30",
            "2027-03-28 01:30",
            ["2027-03-28T01:00+01:00", "2027-03-28T03:00+02:00"],
        ),
    ],
)
async def test_the_nights_on_which_the_clock_changes(
    cron: str, start: str, end: str, ran: list[str], stage: Stage
) -> None:
    set_clock(stage, start)
    runs = Runs()
    async with stage.runtime(schedules=[runs.schedule(cron, tz="Europe/Berlin")]) as rt:
        await pass_to(stage, end, rt)
    assert runs.ran == ran


@pytest.mark.parametrize(
    ("missed", "ran", "told"),
    [
        ("one", ["17T09:00", "20T09:00", "21T09:00"], [0, 2, 0]),
        ("skip", ["17T09:00", "21T09:00"], [0, 3]),
        ("all", ["17T09:00", "18T09:00", "19T09:00", "20T09:00", "21T09:00"], [0] * 5),
    ],
)
async def test_down_for_three_days(
    missed: Missed, ran: list[str], told: list[int], stage: Stage
) -> None:
    set_clock(stage, "2026-11-17 08:00")
    runs = Runs()
    digest = runs.schedule("0 9 * * *", missed=missed)
    async with stage.runtime(schedules=[digest]) as rt:
        await pass_to(stage, "2026-11-17 10:00", rt)
    stage.clock.advance(3 * 86_400)
    async with stage.runtime(schedules=[digest]) as rt:
        await pass_to(stage, "2026-11-21 10:00", rt)
    assert [one[8:16] for one in runs.ran] == ran
    assert runs.missed == told


async def test_a_clock_that_is_set_back_runs_nothing_twice(stage: Stage) -> None:
    set_clock(stage, "2026-11-17 08:30")
    runs = Runs()
    digest = runs.schedule("*/30 * * * *")
    async with stage.runtime(schedules=[digest]) as rt:
        await pass_to(stage, "2026-11-17 10:10", rt)
    set_clock(stage, "2026-11-17 09:10")
    async with stage.runtime(schedules=[digest]) as rt:
        await pass_to(stage, "2026-11-17 11:10", rt)
    minutes = [one[11:16] for one in runs.ran]
    assert minutes == ["09:00", "09:30", "10:00", "10:30", "11:00"]


async def test_a_run_that_fails_does_not_stop_the_next(stage: Stage) -> None:
    set_clock(stage, "2026-11-17 08:30")
    ran: list[str] = []

    @schedule("0 * * * *")
    async def digest(ctx: Tick[Any]) -> None:
        ran.append(ctx.due.isoformat())
        raise OSError("down")

    async with stage.runtime(schedules=[digest]) as rt:
        await pass_to(stage, "2026-11-17 10:30", rt)
        runs = [one for one in await rt.turns() if one.turn_id.endswith("Z")]
        outcomes = [(await rt.turn(one.session_id, one.turn_id).result()).outcome for one in runs]
    assert len(ran) == 2
    assert [one.reason for one in outcomes] == ["runtime_error", "runtime_error"]  # type: ignore[union-attr]


# ---------------------------------------------------------------------- overlap


@pytest.mark.parametrize(
    ("overlap", "ran", "told"),
    [
        ("queue", ["09:00", "10:00", "11:00", "12:00"], [0, 0, 0, 0]),
        ("skip", ["09:00", "12:00"], [0, 2]),
    ],
)
async def test_a_run_that_waits_for_a_person_holds_up_no_clock(
    overlap: Overlap, ran: list[str], told: list[int], stage: Stage
) -> None:
    set_clock(stage, "2026-11-17 08:30")
    runs = Runs()

    @schedule("0 * * * *", overlap=overlap)
    async def digest(ctx: Tick[Any]) -> None:
        await ctx.step(runs.note, ctx.due.isoformat(timespec="minutes"), ctx.missed)
        if ctx.due.hour == 9:
            await ctx.wait("go")

    async with stage.runtime(schedules=[digest]) as rt:
        await pass_to(stage, "2026-11-17 11:30", rt)
        (view,) = await rt.schedules.list()
        queued = 3 if overlap == "queue" else 1
        assert (view.running, view.next) == (queued, utc("2026-11-17 12:00"))
        assert view.skipped == (0 if overlap == "queue" else 2)
        (wait,) = [one for one in await rt.waits() if one.kind == "signal"]
        await rt.resolve(wait.key, None)
        await settled(rt)
        await pass_to(stage, "2026-11-17 12:30", rt)
    assert [one[11:16] for one in runs.ran] == ran
    assert runs.missed == told


async def test_runs_do_not_overlap_from_one_month_to_the_next(stage: Stage) -> None:
    set_clock(stage, "2026-11-30 22:30")
    ran: list[str] = []

    @schedule("0 * * * *")
    async def digest(ctx: Tick[Any]) -> None:
        await ctx.step(ran.append, ctx.due.isoformat(timespec="hours"))
        if ctx.due.hour == 23:
            await ctx.wait("go")

    async with stage.runtime(schedules=[digest]) as rt:
        await pass_to(stage, "2026-12-01 01:30", rt)
        assert ran == ["2026-11-30T23+00:00"]
        (wait,) = [one for one in await rt.waits() if one.kind == "signal"]
        await rt.resolve(wait.key, None)
        await settled(rt)
        await pass_to(stage, "2026-12-01 02:30", rt)
    assert [one[8:13] for one in ran] == ["30T23", "01T00", "01T01", "01T02"]


# ---------------------------------------------------------------------- pause, resume, run now


async def test_a_pause_survives_restarts_and_its_ticks_do_not_run(stage: Stage) -> None:
    set_clock(stage, "2026-11-17 08:30")
    runs = Runs()
    digest = runs.schedule("0 * * * *")
    async with stage.runtime(schedules=[digest]) as rt:
        await pass_to(stage, "2026-11-17 09:30", rt)
        await rt.schedules.pause("digest")
        await rt.schedules.pause("digest")
        await pass_to(stage, "2026-11-17 10:30", rt)
    async with stage.runtime(schedules=[digest]) as rt:
        await pass_to(stage, "2026-11-17 12:30", rt)
        (view,) = await rt.schedules.list()
        assert (view.paused, view.next) == (True, None)
        await rt.schedules.resume("digest")
        await rt.schedules.resume("digest")
        (view,) = await rt.schedules.list()
        assert (view.paused, view.next) == (False, utc("2026-11-17 13:00"))
        await pass_to(stage, "2026-11-17 14:30", rt)
    assert [one[11:16] for one in runs.ran] == ["09:00", "13:00", "14:00"]
    assert runs.missed == [0, 0, 0]


async def test_a_schedule_that_is_paused_and_changed_stays_paused(stage: Stage) -> None:
    set_clock(stage, "2026-11-17 08:30")
    runs = Runs()
    async with stage.runtime(schedules=[runs.schedule("0 * * * *")]) as rt:
        await rt.schedules.pause("digest")
    async with stage.runtime(schedules=[runs.schedule("30 * * * *")]) as rt:
        await pass_to(stage, "2026-11-17 09:40", rt)
        (view,) = await rt.schedules.list()
        assert (view.paused, view.expression) == (True, "30 * * * *")
        await rt.schedules.resume("digest")
        await pass_to(stage, "2026-11-17 10:40", rt)
    assert [one[11:16] for one in runs.ran] == ["10:30"]


async def test_a_schedule_runs_now_and_its_ticks_go_on(stage: Stage) -> None:
    set_clock(stage, "2026-11-17 08:30")
    runs = Runs()
    async with stage.runtime(schedules=[runs.schedule("0 * * * *")]) as rt:
        handle = await rt.schedules.run_now("digest")
        async with asyncio.timeout(HANGS_S):
            await handle.result()
        (view,) = await rt.schedules.list()
        assert (view.next, view.last) == (utc("2026-11-17 09:00"), utc("2026-11-17 08:30"))
        await pass_to(stage, "2026-11-17 09:10", rt)
    assert [one[11:16] for one in runs.ran] == ["08:30", "09:00"]


# ---------------------------------------------------------------------- changed code


async def test_a_changed_expression_replaces_the_tick_that_waits(stage: Stage) -> None:
    set_clock(stage, "2026-11-17 08:30")
    runs = Runs()
    async with stage.runtime(schedules=[runs.schedule("0 12 * * *")]) as rt:
        await pass_to(stage, "2026-11-17 08:40", rt)
    async with stage.runtime(schedules=[runs.schedule("0 9 * * *")]) as rt:
        await pass_to(stage, "2026-11-17 13:00", rt)
        (view,) = await rt.schedules.list()
    # And back again, to times that waited before.
    async with stage.runtime(schedules=[runs.schedule("0 12 * * *")]) as rt:
        await pass_to(stage, "2026-11-18 13:00", rt)
    assert view.next == utc("2026-11-18 09:00")
    assert [one[8:16] for one in runs.ran] == ["17T09:00", "18T12:00"]


async def test_a_policy_alone_may_change(stage: Stage) -> None:
    set_clock(stage, "2026-11-17 08:30")
    runs = Runs()
    async with stage.runtime(schedules=[runs.schedule("0 9 * * *")]) as rt:
        await settled(rt)
    async with stage.runtime(schedules=[runs.schedule("0 9 * * *", missed="skip")]) as rt:
        await settled(rt)
    stage.clock.advance(3600)
    async with stage.runtime(schedules=[runs.schedule("0 9 * * *", missed="skip")]) as rt:
        await pass_to(stage, "2026-11-17 10:00", rt)
    assert runs.ran == []


async def test_of_two_releases_the_higher_version_decides(stage: Stage) -> None:
    set_clock(stage, "2026-11-17 08:30")
    old, new = Runs(), Runs()
    before = old.schedule("0 * * * *", version=1)
    after = new.schedule("30 * * * *", version=2)
    async with stage.runtime(schedules=[before]) as first:
        await pass_to(stage, "2026-11-17 09:10", first)
        async with stage.runtime(schedules=[after]) as second:
            await pass_to(stage, "2026-11-17 10:40", first, second)
            # The old release is started again, and neither cancels nor accepts anything.
            async with stage.runtime(schedules=[before]) as third:
                await pass_to(stage, "2026-11-17 11:40", first, second, third)
                (view,) = await third.schedules.list()
    assert (view.expression, view.version) == ("30 * * * *", 2)
    # Either release may run a tick: what it runs is its own function, when it runs is the newer one's.
    assert sorted(one[11:16] for one in old.ran + new.ran) == ["09:00", "09:30", "10:30", "11:30"]


async def test_two_workers_run_each_tick_once(stage: Stage) -> None:
    set_clock(stage, "2026-11-17 08:30")
    runs = Runs()
    digest = runs.schedule("*/10 * * * *")
    async with stage.runtime(schedules=[digest]) as one, stage.runtime(schedules=[digest]) as two:
        await pass_to(stage, "2026-11-17 11:35", one, two)
        assert len(await one.schedules.list()) == 1
    wanted = [f"{8 + n // 6:02}:{n % 6}0" for n in range(4, 22)]
    assert [one[11:16] for one in runs.ran] == wanted


# ---------------------------------------------------------------------- schedules that are added


async def test_a_schedule_is_added_changed_and_removed(stage: Stage) -> None:
    set_clock(stage, "2026-11-17 08:30")
    told: list[tuple[str, str]] = []

    @process
    async def report(ctx: ProcessContext[Any], customer: str) -> None:
        await ctx.step(lambda: told.append(("process", customer)), name="tell")

    @schedule("0 0 1 1 *")
    async def yearly(ctx: Tick[Any], customer: str = "none") -> None:
        await ctx.step(lambda: told.append((ctx.schedule, customer)), name="tell")

    async with stage.runtime(processes=[report], schedules=[yearly]) as rt:
        await rt.schedules.add("cust-7", "0 9 * * *", target=report, customer="ann")
        await rt.schedules.add("cust-8", "0 9 * * *", target=yearly, tz="UTC", customer="bob")
        await pass_to(stage, "2026-11-17 09:10", rt)
        assert sorted(told) == [("cust-8", "bob"), ("process", "ann")]
        await rt.schedules.add("cust-7", "30 9 * * *", target=report, customer="cid")
        await rt.schedules.remove("cust-8")
        assert [one.name for one in await rt.schedules.list()] == ["cust-7", "yearly"]
    async with stage.runtime(processes=[report], schedules=[yearly]) as rt:
        await pass_to(stage, "2026-11-18 09:40", rt)
        assert told[2:] == [("process", "cid")] * 2
        await rt.schedules.add("cust-8", "0 10 * * *", target=yearly)
        await pass_to(stage, "2026-11-18 10:10", rt)
    assert told[4:] == [("cust-8", "none")]


async def test_a_schedule_that_the_code_no_longer_has_waits_and_can_be_removed(
    stage: Stage,
) -> None:
    set_clock(stage, "2026-11-17 08:30")
    runs, other = Runs(), Runs()
    async with stage.runtime(schedules=[runs.schedule("0 * * * *")]) as rt:
        await settled(rt)
    async with stage.runtime(schedules=[other.schedule("0 * * * *", name="other")]) as rt:
        await pass_to(stage, "2026-11-17 10:10", rt)
        assert "schedule:digest" in {one.agent for one in (await rt.status()).foreign}
        await rt.schedules.remove("digest")
        assert [one.name for one in await rt.schedules.list()] == ["other"]
    assert (len(runs.ran), len(other.ran)) == (0, 2)


# ---------------------------------------------------------------------- what is refused


def test_what_no_schedule_can_do_is_refused_where_it_is_written() -> None:
    bad: tuple[tuple[dict[str, Any], str], ...] = (
        ({"cron": "0 0 30 2 *"}, "cron"),
        ({"cron": "0 25 * * *"}, "cron.hour"),
        ({"cron": "0 9 * * *", "tz": "Europe/Atlantis"}, "tz"),
        ({"cron": "0 9 * * *", "missed": "some"}, "missed"),
        ({"cron": "0 9 * * *", "overlap": "both"}, "overlap"),
        ({"cron": "0 9 * * *", "version": -1}, "version"),
        ({"cron": "0 9 * * *", "every": timedelta(hours=1)}, "cron, every"),
        ({}, "cron, every"),
        ({"every": timedelta(milliseconds=5)}, "every"),
    )
    for options, field in bad:
        with pytest.raises(InvalidInput) as refused:
            schedule(**options)
        assert refused.value.field == field, options


def test_what_is_not_a_schedule_is_refused() -> None:
    at_nine = schedule("0 9 * * *")

    async def plain(ctx: ProcessContext[Any]) -> None: ...

    async def needy(ctx: ProcessContext[Any], customer: str) -> None: ...

    for schedules, words in (
        ([plain], "without @schedule"),
        ([at_nine(plain), at_nine(plain)], "each name once"),
        ([at_nine(needy)], "customer"),
    ):
        with pytest.raises(ConfigError, match=words):
            Runtime(schedules=schedules)  # type: ignore[arg-type]  # what is tested


async def test_names_that_are_not_known_are_refused(stage: Stage) -> None:
    runs = Runs()

    @process
    async def report(ctx: ProcessContext[Any], customer: str) -> None: ...

    async with stage.runtime(
        schedules=[runs.schedule("0 0 1 1 *")], processes=[report], worker=False
    ) as rt:
        schedules = rt.schedules
        for refused in (
            schedules.pause("nobody"),
            schedules.resume("nobody"),
            schedules.run_now("nobody"),
            schedules.remove("nobody"),
            schedules.pause("no name"),
            schedules.remove("digest"),
            schedules.add("digest", "0 9 * * *", target=report, customer="ann"),
            schedules.add("no name", "0 9 * * *", target=report, customer="ann"),
            schedules.add("cust", "0 9 * * *", target="report"),  # type: ignore[arg-type]
            schedules.add("cust", "0 9 30 2 *", target=report, customer="ann"),
            schedules.add("cust", "0 9 * * *", target=report, missed="no", customer="ann"),  # type: ignore[arg-type]
        ):
            with pytest.raises(InvalidInput):
                await refused
        with pytest.raises(ArgsInvalid, match="customer"):
            await schedules.add("cust", "0 9 * * *", target=report)
        assert await schedules.list() == ()
        assert await rt.sessions(kind="schedule") == ()

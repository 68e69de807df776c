"""Schedules under any search: no tick is lost or doubled, and the ticks are those that a watched clock gives."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.limits import times
from tests.runtime.instants import ms, utc
from windlass.runtime.schedule_times import Cron, Every, Times, ticks_between

HOUR_MS = 3_600_000
MANY = 10_000

# Where and when a clock changes, and a time of day that it shows twice then, or not at all.
NIGHTS = [
    ("Europe/Berlin", "2026-03-29 01:00", "30 2"),
    ("Europe/Berlin", "2026-10-25 01:00", "30 2"),
    ("America/New_York", "2026-03-08 07:00", "30 2"),
    ("America/New_York", "2026-11-01 06:00", "30 1"),
    ("Australia/Lord_Howe", "2026-04-04 15:00", "45 1"),
    ("Australia/Lord_Howe", "2026-10-03 15:30", "15 2"),
    ("Pacific/Apia", "2011-12-30 10:00", "0 12"),
    ("Africa/Cairo", "2026-04-23 22:00", "30 0"),
    ("Africa/Cairo", "2026-10-29 21:00", "30 23"),
    ("America/Havana", "2026-03-08 05:00", "30 0"),
    ("America/Havana", "2026-11-01 05:00", "30 0"),
    ("Antarctica/Troll", "2026-03-29 01:00", "0 2"),  # by two hours
    ("Antarctica/Troll", "2026-10-25 01:00", "0 2"),
]
CHANGES = [(zone, instant) for zone, instant, _ in NIGHTS]

stars = st.sampled_from(["*", "*/7", "*/20", "*/30"])
minutes = stars | st.lists(st.integers(0, 59), min_size=1, max_size=4).map(
    lambda found: ",".join(map(str, found))
)
hours = st.sampled_from(["*", "*/2", "*/5"]) | st.lists(
    st.integers(0, 23) | st.integers(0, 4), min_size=1, max_size=4
).map(lambda found: ",".join(map(str, found)))
expressions = st.builds("{} {} * * *".format, minutes, hours)
changes = st.sampled_from(CHANGES)


def matching(field: str, size: int) -> set[int]:
    """The numbers that a field of these tests stands for."""
    if field.startswith("*"):
        return set(range(0, size, int(field[2:] or 1)))
    return {int(one) for one in field.split(",")}


def watched(expression: str, zone: str, after_ms: int, until_ms: int) -> list[int]:
    """Watch the clock of a zone minute by minute, as a person would: the ticks of one to three days."""
    in_minute, in_hour, *_ = expression.split()
    wanted = {(h, m) for h in matching(in_hour, 24) for m in matching(in_minute, 60)}
    follows_clock = in_minute.startswith("*") or in_hour.startswith("*")

    def shown(instant_ms: int) -> datetime:
        at = datetime.fromtimestamp(instant_ms / 1000, UTC)
        return at.astimezone(ZoneInfo(zone)).replace(tzinfo=None)

    ticks: list[int] = []
    # A day earlier, so that it is known which readings were shown before.
    instants = range(after_ms - 24 * HOUR_MS, until_ms + 1, 60_000)
    latest = shown(instants[0])
    for instant in instants[1:]:
        reading = shown(instant)
        if follows_clock:
            is_due = (reading.hour, reading.minute) in wanted
        else:
            # Due at the first minute that reaches or passes a wanted time of day.
            steps = max(0, (reading - latest) // timedelta(minutes=1))
            new = [latest + timedelta(minutes=n + 1) for n in range(steps)]
            is_due = any((one.hour, one.minute) in wanted for one in new)
        latest = max(latest, reading)
        if is_due and instant > after_ms:
            ticks.append(instant)
    return ticks


@settings(max_examples=times(60), deadline=None)
@given(expressions, changes, st.integers(-30, 30))
@example("*/20 2 * * *", ("Australia/Lord_Howe", "2026-04-04 15:00"), -24)
@example("0 9 * * *", ("Pacific/Apia", "2011-12-30 10:00"), -24)
def test_the_ticks_are_those_of_a_watched_clock(
    expression: str, changing: tuple[str, str], hours_off: int
) -> None:
    zone, change = changing
    after_ms = ms(change) + hours_off * HOUR_MS
    until_ms = after_ms + 30 * HOUR_MS

    found = ticks_between(Cron(expression, zone), after_ms, until_ms, MANY)

    assert utc(found) == utc(watched(expression, zone, after_ms, until_ms))


@pytest.mark.parametrize(("zone", "change", "time_of_day"), NIGHTS)
def test_a_time_of_day_that_follows_the_clock_is_seen(
    zone: str, change: str, time_of_day: str
) -> None:
    """The red proof: on each of these nights it differs from what was watched."""
    expression = f"{time_of_day} * * *"
    after_ms, until_ms = ms(change) - 24 * HOUR_MS, ms(change) + 24 * HOUR_MS
    planted = Cron(expression, zone)
    planted._is_time_of_day = False

    found = ticks_between(planted, after_ms, until_ms, MANY)

    right = watched(expression, zone, after_ms, until_ms)
    assert found != right
    assert ticks_between(Cron(expression, zone), after_ms, until_ms, MANY) == right


def split_differs(schedule: Times, start_ms: int, cuts_ms: list[int], end_ms: int) -> bool:
    """Whether ticks are lost, doubled or out of order when an interval is searched in pieces."""
    whole = ticks_between(schedule, start_ms, end_ms, MANY)
    edges = [start_ms, *sorted(start_ms + one for one in cuts_ms), end_ms]
    pieces = [
        tick
        for after, until in pairwise(edges)
        for tick in ticks_between(schedule, after, until, MANY)
    ]
    return not (pieces == whole == sorted(set(whole)))


schedules = st.one_of(
    st.builds(Cron, expressions, changes.map(lambda changing: changing[0])),
    st.builds(Cron, st.sampled_from(["0 0 1 * *", "0 12 * * MON-FRI", "*/5 1-3 L * *", "@weekly"])),
    st.integers(600, 90_000).map(lambda seconds: Every(timedelta(seconds=seconds))),
)


@settings(max_examples=times(100), deadline=None)
@given(
    schedules,
    changes.map(lambda changing: changing[1]),
    st.lists(st.integers(0, 48 * HOUR_MS), max_size=5),
)
def test_an_interval_may_be_split_anywhere(
    schedule: Times, change: str, cuts_ms: list[int]
) -> None:
    start_ms = ms(change) - 24 * HOUR_MS

    assert not split_differs(schedule, start_ms, cuts_ms, start_ms + 48 * HOUR_MS)


def test_ticks_that_depend_on_where_the_search_starts_are_seen() -> None:
    """The red proof: an interval that counts from the start of the search."""

    class FromHere(Every):
        def next_after(self, instant_ms: int) -> int | None:
            return instant_ms + self.interval_ms

    hourly = FromHere(timedelta(hours=1))

    assert not split_differs(hourly, 0, [2 * HOUR_MS], 5 * HOUR_MS)
    assert split_differs(hourly, 0, [2 * HOUR_MS + 1], 5 * HOUR_MS)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC"])
@pytest.mark.parametrize(
    "expression",
    ["0 9 * * MON-FRI", "30 2 * * *", "30 1 * * *", "15 */3 * * *", "0 0 L * *", "0 0 LW 1-6 *",
     "0 12 1-7 * MON", "0 12 */2 * FRI", "5 4 * * 5L", "0 8 * JAN,JUL MON#1", "0 0 1 1 *"],
)  # fmt: skip
def test_in_zones_that_change_by_an_hour_cronsim_says_the_same(expression: str, zone: str) -> None:
    start, end = datetime(2026, 1, 1, tzinfo=ZoneInfo(zone)), ms("2028-01-01 00:00")
    theirs: list[int] = []
    for tick in CronSim(expression, start):
        if (tick_ms := int(tick.timestamp()) * 1000) > end:
            break
        theirs.append(tick_ms)

    found = ticks_between(Cron(expression, zone), int(start.timestamp()) * 1000, end, MANY)

    assert found == theirs
    assert found

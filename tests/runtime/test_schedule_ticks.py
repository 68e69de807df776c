"""Which ticks run after an outage or a change of the clock, and how ticks and versions of schedules are named."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from hashlib import sha256
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.limits import times
from tests.runtime.instants import ms, utc
from windlass.errors import InvalidInput
from windlass.guards.ids import is_id
from windlass.kernel import canonical
from windlass.runtime.schedule_ticks import (
    MOST_COUNTED,
    MOST_TICKS,
    ON_TIME_MS,
    DueTicks,
    Missed,
    Overlap,
    decide_ticks,
    due_ms_of,
    period_of,
    schedule_digest,
    tick_id,
)
from windlass.runtime.schedule_times import Cron, Every, Times, ticks_between

POLICIES: tuple[Missed, ...] = get_args(Missed)
HOUR_MS = 3_600_000
MORNING = Cron("0 9 * * *", "Europe/Berlin")
MINUTELY = Cron("* * * * *", "Europe/Berlin")
SECONDLY = Every(timedelta(seconds=1))


@pytest.mark.parametrize(
    ("missed", "run", "n_missed"),
    [
        ("one", ["2026-11-19 08:00"], 2),
        ("skip", [], 3),
        ("all", ["2026-11-17 08:00", "2026-11-18 08:00", "2026-11-19 08:00"], 0),
    ],
)
def test_after_three_days_without_a_worker(missed: Missed, run: list[str], n_missed: int) -> None:
    decided = decide_ticks(ms("2026-11-17 08:00"), ms("2026-11-19 20:15"), missed, MORNING)

    assert utc(decided.run) == run
    assert decided.missed == n_missed
    assert decided.next_ms == ms("2026-11-20 08:00")


@pytest.mark.parametrize("missed", POLICIES)
@pytest.mark.parametrize("late_ms", [0, 1, 5_000, ON_TIME_MS])
def test_a_tick_on_time_runs_under_each_policy(missed: Missed, late_ms: int) -> None:
    due = ms("2026-11-17 08:00")

    decided = decide_ticks(due, due + late_ms, missed, MORNING)

    assert decided == DueTicks(run=(due,), missed=0, next_ms=ms("2026-11-18 08:00"))


@pytest.mark.parametrize(("missed", "runs"), [("one", True), ("skip", False), ("all", True)])
def test_a_tick_that_is_more_than_a_minute_late(missed: Missed, runs: bool) -> None:
    due = ms("2026-11-17 08:00")

    decided = decide_ticks(due, due + ON_TIME_MS + 1, missed, MORNING)

    assert decided.run == ((due,) if runs else ())
    assert decided.missed == (0 if runs else 1)


@pytest.mark.parametrize("missed", POLICIES)
def test_before_the_tick_is_due_nothing_runs(missed: Missed) -> None:
    due = ms("2026-11-17 08:00")

    for now in (due - 1, due - HOUR_MS, due - 400 * 24 * HOUR_MS):
        assert decide_ticks(due, now, missed, MORNING) == DueTicks(next_ms=due)


def test_a_short_interval_skips_to_the_newest_tick() -> None:
    decided = decide_ticks(10_000, 30_400, "skip", SECONDLY)

    assert decided == DueTicks(run=(30_000,), missed=20, next_ms=31_000)


def test_a_waiting_tick_that_the_schedule_no_longer_has_still_counts() -> None:
    waiting = ms("2026-11-17 07:30")

    alone = decide_ticks(waiting, ms("2026-11-17 07:45"), "one", MORNING)
    among = decide_ticks(waiting, ms("2026-11-18 09:00"), "all", MORNING)
    newer = decide_ticks(waiting, ms("2026-11-18 09:00"), "one", MORNING)

    assert (utc(alone.run), alone.missed) == (["2026-11-17 07:30"], 0)
    assert utc(among.run) == ["2026-11-17 07:30", "2026-11-17 08:00", "2026-11-18 08:00"]
    assert (utc(newer.run), newer.missed) == (["2026-11-18 08:00"], 2)


def test_across_the_night_on_which_the_clock_goes_back() -> None:
    half_hourly = Cron("*/30 * * * *", "Europe/Berlin")

    decided = decide_ticks(ms("2026-10-25 00:00"), ms("2026-10-25 02:10"), "all", half_hourly)

    assert utc(decided.run) == [
        "2026-10-25 00:00", "2026-10-25 00:30", "2026-10-25 01:00", "2026-10-25 01:30",
        "2026-10-25 02:00",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("most", "run", "n_missed"),
    [
        (1, ["2026-11-19 08:00"], 2),
        (2, ["2026-11-18 08:00", "2026-11-19 08:00"], 1),
        (3, ["2026-11-17 08:00", "2026-11-18 08:00", "2026-11-19 08:00"], 0),
        (4, ["2026-11-17 08:00", "2026-11-18 08:00", "2026-11-19 08:00"], 0),
    ],
)
def test_all_keeps_the_newest(most: int, run: list[str], n_missed: int) -> None:
    now = ms("2026-11-19 20:15")

    decided = decide_ticks(ms("2026-11-17 08:00"), now, "all", MORNING, most=most)

    assert (utc(decided.run), decided.missed) == (run, n_missed)


class Counted(Cron):
    """A schedule that counts how often it is asked."""

    asked = 0

    def next_after(self, instant_ms: int) -> int | None:
        self.asked += 1
        return super().next_after(instant_ms)


@pytest.mark.parametrize("missed", POLICIES)
@pytest.mark.parametrize(
    ("expression", "last_hour"),
    [
        ("* * * * *", "2026-01-31 22:00"),
        ("* * * 1 *", "2026-01-31 22:00"),
        ("* 9 1 * *", "2026-01-01 08:00"),
    ],
)
def test_ten_years_without_a_worker_are_decided_in_bounded_steps(
    missed: Missed, expression: str, last_hour: str
) -> None:
    """5 million ticks were missed; a search through all of them would take minutes."""
    schedule = Counted(expression, "Europe/Berlin")
    start, now = ms("2016-01-01 00:00"), ms("2026-01-31 22:59")

    decided = decide_ticks(start, now, missed, schedule, most=50)

    assert schedule.asked < MOST_COUNTED + 40 * 200
    assert decided.missed == MOST_COUNTED
    is_on_time = last_hour.startswith("2026-01-31")
    assert len(decided.run) == {"one": 1, "skip": int(is_on_time), "all": 50}[missed]
    newest = [ms(last_hour) + minute * 60_000 for minute in range(60)]
    assert list(decided.run) == newest[60 - len(decided.run) :]
    assert decided.next_ms == schedule.next_after(now)


def test_the_bound_of_all_is_a_thousand() -> None:
    decided = decide_ticks(0, 5_000_000, "all", SECONDLY)

    assert decided.run == tuple(range(4_001_000, 5_000_001, 1_000))
    assert len(decided.run) == MOST_TICKS == 1_000
    assert decided.missed == 4_001
    assert decide_ticks(0, 10_000_000, "all", SECONDLY).missed == MOST_COUNTED == 5_000


@pytest.mark.parametrize("missed", ["never", "", None, "ONE"])
def test_an_unknown_policy_is_refused(missed: Missed) -> None:
    with pytest.raises(InvalidInput, match=r"^missed: found .*, wanted one of one, skip, all$"):
        decide_ticks(0, 0, missed, SECONDLY)


def test_at_least_one_tick_is_kept() -> None:
    with pytest.raises(InvalidInput, match="most: found 0, wanted 1 or more"):
        decide_ticks(0, 0, "all", SECONDLY, most=0)


Decide = Callable[[int, int, Missed, Times], DueTicks]


def worked(
    schedule: Times, missed: Missed, nows: list[int], decide: Decide
) -> tuple[list[int], int]:
    """What a worker runs and misses that looks at the clock at these instants, and what waits at the end."""
    ran: list[int] = []
    n_missed = 0
    waiting = schedule.next_after(nows[0])
    for now in nows:
        assert waiting is not None
        decided = decide(waiting, now, missed, schedule)
        ran += decided.run
        n_missed += decided.missed
        waiting = decided.next_ms
    return ran, n_missed


def went_wrong(
    schedule: Times, missed: Missed, nows: list[int], decide: Decide = decide_ticks
) -> bool:
    """Whether a tick ran twice, out of order or before it was due, or was neither run nor counted."""
    ran, n_missed = worked(schedule, missed, nows, decide)
    due = ticks_between(schedule, nows[0], max(nows), 100_000)
    return not (
        ran == sorted(set(ran)) and set(ran) <= set(due) and len(ran) + n_missed == len(due)
    )


@settings(max_examples=times(100), deadline=None)
@given(
    st.sampled_from([MINUTELY, MORNING, Cron("*/20 1-3 * * *", "America/New_York"), SECONDLY]),
    st.sampled_from(POLICIES),
    st.lists(st.integers(-4_000_000, 4_000_000), min_size=1, max_size=12),
)
def test_whatever_the_clock_does_each_tick_runs_once_or_is_counted(
    schedule: Times, missed: Missed, jumps_ms: list[int]
) -> None:
    nows = [ms("2026-11-01 04:00")]
    for jump in jumps_ms:
        nows.append(nows[-1] + jump)

    # SECONDLY misses more than `most` of an hour, and all of them are counted.
    assert not went_wrong(schedule, missed, nows)


@pytest.mark.parametrize("missed", POLICIES)
def test_a_clock_set_back_an_hour_runs_nothing_twice(missed: Missed) -> None:
    half_past = ms("2026-11-17 08:30")
    nows = [half_past + minute * 60_000 for minute in (*range(60), *range(90))]

    ran, n_missed = worked(MINUTELY, missed, nows, decide_ticks)

    assert ran == [half_past + minute * 60_000 for minute in range(1, 90)]
    assert n_missed == 0


def test_a_decision_that_trusts_the_clock_is_seen() -> None:
    """The red proof: wait for the next tick of the clock as it is now, and an hour runs twice."""

    def trusting(waiting_ms: int, now_ms: int, missed: Missed, schedule: Times) -> DueTicks:
        if now_ms < waiting_ms:
            return DueTicks(next_ms=schedule.next_after(now_ms))
        return decide_ticks(waiting_ms, now_ms, missed, schedule)

    start = ms("2026-11-17 08:30")
    nows = [start + minute * 60_000 for minute in (*range(60), *range(90))]

    assert not went_wrong(MINUTELY, "one", nows)
    assert went_wrong(MINUTELY, "one", nows, trusting)


@pytest.mark.parametrize(
    ("due", "id", "period"),
    [
        ("2026-11-17 08:00", "2026-11-17T08:00:00Z", "2026-11"),
        ("1970-01-01 00:00", "1970-01-01T00:00:00Z", "1970-01"),
        ("2028-02-29 23:59", "2028-02-29T23:59:00Z", "2028-02"),
        ("9998-12-31 23:59", "9998-12-31T23:59:00Z", "9998-12"),
    ],
)
def test_a_tick_is_named_by_its_instant(due: str, id: str, period: str) -> None:
    assert tick_id(ms(due)) == id
    assert is_id(id)
    assert due_ms_of(id) == ms(due)
    assert period_of(ms(due)) == period


@given(st.integers(0, 253_370_764_799))
def test_a_tick_is_found_again_by_its_name(second: int) -> None:
    assert due_ms_of(tick_id(second * 1000)) == second * 1000


@pytest.mark.parametrize("due_ms", [-1_000, 1, 1_500, ms("9999-01-01 00:00"), True, 1.0, None])
def test_what_is_not_the_instant_of_a_tick_has_no_name(due_ms: int) -> None:
    for name in (tick_id, period_of):
        with pytest.raises(InvalidInput, match=r"^due_ms: found .*, wanted a whole second"):
            name(due_ms)


@pytest.mark.parametrize(
    "id",
    [
        "", "t1", "2026-11-17T08:00:00", "2026-11-17T08:00:00z", "2026-11-17 08:00:00Z",
        "2026-11-17T09:00:00+01:00", "2026-02-31T08:00:00Z", "2026-11-17T24:00:00Z",
        "2026-11-17T08:00:60Z", "1969-12-31T23:59:59Z", "9999-01-01T00:00:00Z",
        "0000-01-01T00:00:00Z", "2026-11-17T08:00:00Z\n", "٢٠٢٦-11-17T08:00:00Z", None,
    ],
)  # fmt: skip
def test_what_is_not_the_name_of_a_tick_is_refused(id: str) -> None:
    with pytest.raises(InvalidInput, match="tick id: found other text, wanted an instant such as"):
        due_ms_of(id)


def test_a_digest_tells_versions_of_a_schedule_apart() -> None:
    hourly = Every(timedelta(hours=1))
    versions = [
        schedule_digest(schedule, missed=missed, overlap=overlap)
        for schedule in (MORNING, Cron("0 9 * * *"), Cron("0 8 * * *"), Cron("@hourly"), hourly)
        for missed in POLICIES
        for overlap in get_args(Overlap)
    ]

    assert len(set(versions)) == len(versions) == 30
    assert schedule_digest(Cron("@daily"), missed="one", overlap="queue") == schedule_digest(
        Cron(" 0  0 * * * "), missed="one", overlap="queue"
    )


def test_a_digest_stays_what_it_is() -> None:
    """Digests are stored with waiting ticks: another one would start each schedule anew."""
    cron = b'{"cron":"0 9 * * *","missed":"one","overlap":"queue","tz":"Europe/Berlin"}'
    every = b'{"every_ms":900000,"missed":"all","overlap":"skip"}'
    quarter = Every(timedelta(minutes=15))

    assert schedule_digest(MORNING, missed="one", overlap="queue") == sha256(cron).hexdigest()
    assert schedule_digest(quarter, missed="all", overlap="skip") == sha256(every).hexdigest()


def test_an_unknown_overlap_is_refused() -> None:
    with pytest.raises(InvalidInput, match="overlap: found 'twice', wanted one of queue, skip"):
        schedule_digest(MORNING, missed="one", overlap="twice")  # type: ignore[arg-type]  # what is refused


def test_a_decision_can_be_recorded() -> None:
    decided = DueTicks(run=(1_000, 2_000), missed=3, next_ms=4_000)

    assert canonical.decode(canonical.encode(decided), DueTicks) == decided

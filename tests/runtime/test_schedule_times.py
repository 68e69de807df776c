"""When schedules are due: instants written by hand for the nights on which clocks change, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta

import pytest

from tests.runtime.instants import ms, utc
from windlass.errors import InvalidInput, LimitExceeded, WindlassError
from windlass.runtime.schedule_times import END_MS, Cron, Every, Times, ticks_between, times_of

MANY = 100
BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
LORD_HOWE, APIA, CAIRO = "Australia/Lord_Howe", "Pacific/Apia", "Africa/Cairo"


@pytest.mark.parametrize(
    ("zone", "expression", "after", "until", "ticks"),
    [
        # Berlin, 2026-03-29: 02:00 +01 becomes 03:00 +02 at 01:00 UTC.
        (BERLIN, "30 2 * * *", "2026-03-28 23:00", "2026-03-29 22:00", ["2026-03-29 01:00"]),
        (BERLIN, "30 1 * * *", "2026-03-28 23:00", "2026-03-29 22:00", ["2026-03-29 00:30"]),
        (BERLIN, "*/20 * * * *", "2026-03-29 00:30", "2026-03-29 01:30",
         ["2026-03-29 00:40", "2026-03-29 01:00", "2026-03-29 01:20"]),
        (BERLIN, "0 * * * *", "2026-03-28 23:30", "2026-03-29 02:30",
         ["2026-03-29 00:00", "2026-03-29 01:00", "2026-03-29 02:00"]),
        (BERLIN, "*/30 2 * * *", "2026-03-28 23:00", "2026-03-29 22:00", []),
        (BERLIN, "0,30 2,3 * * *", "2026-03-28 23:00", "2026-03-29 22:00",
         ["2026-03-29 01:00", "2026-03-29 01:30"]),
        # Berlin, 2026-10-25: 03:00 +02 becomes 02:00 +01 at 01:00 UTC.
        (BERLIN, "30 2 * * *", "2026-10-24 22:00", "2026-10-25 23:00", ["2026-10-25 00:30"]),
        (BERLIN, "30 1 * * *", "2026-10-24 22:00", "2026-10-25 23:00", ["2026-10-24 23:30"]),
        (BERLIN, "*/20 * * * *", "2026-10-25 00:30", "2026-10-25 01:30",
         ["2026-10-25 00:40", "2026-10-25 01:00", "2026-10-25 01:20"]),
        (BERLIN, "0 * * * *", "2026-10-24 23:30", "2026-10-25 02:30",
         ["2026-10-25 00:00", "2026-10-25 01:00", "2026-10-25 02:00"]),
        (BERLIN, "*/30 2 * * *", "2026-10-24 22:00", "2026-10-25 23:00",
         ["2026-10-25 00:00", "2026-10-25 00:30", "2026-10-25 01:00", "2026-10-25 01:30"]),
        # New York, 2026-03-08: 02:00 -05 becomes 03:00 -04 at 07:00 UTC.
        (NEW_YORK, "30 2 * * *", "2026-03-08 05:00", "2026-03-09 04:00", ["2026-03-08 07:00"]),
        (NEW_YORK, "30 1 * * *", "2026-03-08 05:00", "2026-03-09 04:00", ["2026-03-08 06:30"]),
        (NEW_YORK, "*/20 * * * *", "2026-03-08 06:30", "2026-03-08 07:30",
         ["2026-03-08 06:40", "2026-03-08 07:00", "2026-03-08 07:20"]),
        (NEW_YORK, "0 * * * *", "2026-03-08 05:30", "2026-03-08 08:30",
         ["2026-03-08 06:00", "2026-03-08 07:00", "2026-03-08 08:00"]),
        # New York, 2026-11-01: 02:00 -04 becomes 01:00 -05 at 06:00 UTC.
        (NEW_YORK, "30 2 * * *", "2026-11-01 04:00", "2026-11-02 05:00", ["2026-11-01 07:30"]),
        (NEW_YORK, "30 1 * * *", "2026-11-01 04:00", "2026-11-02 05:00", ["2026-11-01 05:30"]),
        (NEW_YORK, "*/20 * * * *", "2026-11-01 05:30", "2026-11-01 06:30",
         ["2026-11-01 05:40", "2026-11-01 06:00", "2026-11-01 06:20"]),
        (NEW_YORK, "0 * * * *", "2026-11-01 04:30", "2026-11-01 07:30",
         ["2026-11-01 05:00", "2026-11-01 06:00", "2026-11-01 07:00"]),
        # Lord Howe, 2026-04-05: 02:00 +11 becomes 01:30 +10:30 at 15:00 UTC of the day before.
        (LORD_HOWE, "45 1 * * *", "2026-04-04 13:00", "2026-04-05 13:00", ["2026-04-04 14:45"]),
        (LORD_HOWE, "*/15 1 * * *", "2026-04-04 13:00", "2026-04-05 13:00",
         ["2026-04-04 14:00", "2026-04-04 14:15", "2026-04-04 14:30", "2026-04-04 14:45",
          "2026-04-04 15:00", "2026-04-04 15:15"]),
        (LORD_HOWE, "*/20 2 * * *", "2026-04-04 13:00", "2026-04-05 13:00",
         ["2026-04-04 15:30", "2026-04-04 15:50", "2026-04-04 16:10"]),
        (LORD_HOWE, "0 * * * *", "2026-04-04 13:30", "2026-04-04 17:00",
         ["2026-04-04 14:00", "2026-04-04 15:30", "2026-04-04 16:30"]),
        # Lord Howe, 2026-10-04: 02:00 +10:30 becomes 02:30 +11 at 15:30 UTC of the day before.
        (LORD_HOWE, "15 2 * * *", "2026-10-03 13:30", "2026-10-04 13:00", ["2026-10-03 15:30"]),
        (LORD_HOWE, "*/20 3 * * *", "2026-10-03 13:30", "2026-10-04 13:00",
         ["2026-10-03 16:00", "2026-10-03 16:20", "2026-10-03 16:40"]),
        (LORD_HOWE, "0 * * * *", "2026-10-03 14:00", "2026-10-03 17:30",
         ["2026-10-03 14:30", "2026-10-03 16:00", "2026-10-03 17:00"]),
        # Apia had no 2011-12-30: 24:00 of the 29th, -10, was 00:00 of the 31st, +14, at 10:00 UTC.
        (APIA, "0 9 * * *", "2011-12-29 12:00", "2011-12-31 12:00",
         ["2011-12-29 19:00", "2011-12-30 10:00", "2011-12-30 19:00"]),
        (APIA, "0 9 30 12 *", "2011-01-01 00:00", "2012-12-01 00:00", ["2011-12-30 10:00"]),
        (APIA, "0 */6 * * *", "2011-12-30 00:00", "2011-12-30 20:00",
         ["2011-12-30 04:00", "2011-12-30 10:00", "2011-12-30 16:00"]),
        # Cairo, 2026-04-24: midnight +02 becomes 01:00 +03 at 22:00 UTC of the day before.
        (CAIRO, "0 0 * * *", "2026-04-23 12:00", "2026-04-24 12:00", ["2026-04-23 22:00"]),
        (CAIRO, "*/20 0 * * *", "2026-04-23 12:00", "2026-04-24 20:59", []),
        (CAIRO, "*/20 0 * * FRI", "2026-04-19 12:00", "2026-04-24 20:59", []),
    ],
)  # fmt: skip
def test_where_the_clock_changes(
    zone: str, expression: str, after: str, until: str, ticks: list[str]
) -> None:
    found = ticks_between(Cron(expression, zone), ms(after), ms(until), MANY)

    assert utc(found) == ticks


@pytest.mark.parametrize(
    ("expression", "after", "tick"),
    [
        # In the repeated hour, the time of day has passed.
        ("50 1 * * *", "2026-11-01 06:40", "2026-11-02 06:50"),
        # Before it, the clock shows 01:10 once more.
        ("10 * * * *", "2026-11-01 05:50", "2026-11-01 06:10"),
        ("*/10 1 * * *", "2026-11-01 05:50", "2026-11-01 06:00"),
        ("*/10 1 * * *", "2026-11-01 06:50", "2026-11-02 06:00"),
    ],
)
def test_the_search_may_start_in_an_hour_that_is_shown_twice(
    expression: str, after: str, tick: str
) -> None:
    found = Cron(expression, NEW_YORK).next_after(ms(after))

    assert found == ms(tick)


@pytest.mark.parametrize(
    ("name", "after", "tick"),
    [
        ("@hourly", "2026-11-17 08:00", "2026-11-17 09:00"),
        ("@daily", "2026-11-17 08:00", "2026-11-18 00:00"),
        ("@midnight", "2026-11-17 08:00", "2026-11-18 00:00"),
        ("@weekly", "2026-11-17 08:00", "2026-11-22 00:00"),
        ("@monthly", "2026-11-17 08:00", "2026-12-01 00:00"),
        ("@yearly", "2026-11-17 08:00", "2027-01-01 00:00"),
        ("@Annually", "2026-11-17 08:00", "2027-01-01 00:00"),
        ("0 9 * * mon-fri", "2026-11-20 09:00", "2026-11-23 09:00"),
        ("  0  9 * * SAT,SUN ", "2026-11-20 09:00", "2026-11-21 09:00"),
        ("0 0 29 2 *", "2026-11-20 09:00", "2028-02-29 00:00"),
        ("0 0 L * *", "2026-02-01 00:00", "2026-02-28 00:00"),
        # The day of month or the day of week, since neither begins with a star.
        ("0 0 31 2 MON", "2026-02-01 00:00", "2026-02-02 00:00"),
        # A Monday the 29th of February: every 28 years, and 40 where a century has no leap year.
        ("0 0 */28 2 MON#5", "2072-03-01 00:00", "2112-02-29 00:00"),
    ],
)
def test_names_days_and_months(name: str, after: str, tick: str) -> None:
    assert Cron(name).next_after(ms(after)) == ms(tick)


@pytest.mark.parametrize(
    ("minutes", "after", "tick"),
    [
        (15, "2026-11-17 08:00", "2026-11-17 08:15"),
        (15, "2026-11-17 08:14", "2026-11-17 08:15"),
        # 90 minutes since 1970: 16 of them make a day.
        (90, "2026-11-17 00:00", "2026-11-17 01:30"),
        # 7 days since a Thursday.
        (7 * 24 * 60, "2026-11-17 08:00", "2026-11-19 00:00"),
    ],
)
def test_an_interval_counts_from_the_epoch(minutes: int, after: str, tick: str) -> None:
    assert Every(timedelta(minutes=minutes)).next_after(ms(after)) == ms(tick)


@pytest.mark.parametrize("times", [Cron("* * * * *"), Every(timedelta(minutes=1))])
def test_a_tick_is_strictly_after_and_between_the_epoch_and_the_end(times: Times) -> None:
    assert times.next_after(-5_000_000) == 0
    assert times.next_after(0) == 60_000
    assert times.next_after(59_999) == 60_000
    assert times.next_after(60_000) == 120_000
    assert times.next_after(END_MS - 60_000) is None
    assert times.next_after(END_MS) is None
    assert times.next_after(END_MS * 1000) is None


def test_a_rare_tick_that_would_be_after_the_last_date_is_none() -> None:
    assert Cron("0 0 29 2 *").next_after(ms("9997-01-01 00:00")) is None


def test_ticks_between_include_the_end_and_stop_at_the_limit() -> None:
    hourly = Cron("@hourly")

    assert utc(ticks_between(hourly, ms("2026-11-17 08:00"), ms("2026-11-17 10:00"), MANY)) == [
        "2026-11-17 09:00",
        "2026-11-17 10:00",
    ]
    assert ticks_between(hourly, 0, ms("2026-11-17 08:00"), 2) == [3_600_000, 7_200_000]
    assert ticks_between(hourly, 0, 7_200_000, 0) == []
    assert ticks_between(hourly, 7_200_000, 0, MANY) == []


@pytest.mark.parametrize(
    ("expression", "field", "found"),
    [
        ("61 * * * *", "cron.minute", "'61'"),
        ("-1 * * * *", "cron.minute", "'-1'"),
        ("*/0 * * * *", "cron.minute", "'*/0'"),
        ("*/60 * * * *", "cron.minute", "a step of 60"),
        ("* 24 * * *", "cron.hour", "'24'"),
        ("0 */24 * * *", "cron.hour", "a step of 24"),
        ("0 0 32 * *", "cron.day-of-month", "'32'"),
        ("0 0 0 * *", "cron.day-of-month", "'0'"),
        ("0 0 * 13 *", "cron.month", "'13'"),
        ("0 0 * * 8", "cron.day-of-week", "'8'"),
        ("0 0 * * SAT-SUN", "cron.day-of-week", "'SAT-SUN'"),
        ("0 0 * * MON#6", "cron.day-of-week", "'MON#6'"),
        ("0 0 30 2 *", "cron", "an expression that never fires"),
        ("0 0 31 2,4,6 *", "cron", "an expression that never fires"),
        ("0 0 */31 2 MON#5", "cron", "an expression that never fires"),
        ("* * * *", "cron", "4 fields"),
        ("0 * * * * *", "cron", "6 fields"),
        ("CRON_TZ=UTC 0 9 * * *", "cron", "6 fields"),
        ("", "cron", "0 fields"),
        ("@reboot", "cron", "'@reboot'"),
        ("0\t9 * * *", "cron", "the character U+0009"),
        ("0 9 * * *\n", "cron", "the character U+000A"),
        ("0 9 * * *\0", "cron", "the character U+0000"),
        ("٣ 9 * * *", "cron", "the character U+0663"),
        (None, "cron", "NoneType"),
        (9, "cron", "int"),
    ],
)
def test_an_expression_is_refused_by_field(expression: str, field: str, found: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Cron(expression)

    assert (refused.value.field, refused.value.found) == (field, found)
    assert refused.value.wanted
    assert str(refused.value).startswith(f"{field}: found {found}, wanted ")


def test_the_largest_steps_are_accepted() -> None:
    fields = Cron("*/59 */23 */31 */12 */7").expression

    assert fields == "*/59 */23 */31 */12 */7"


def test_an_expression_has_at_most_256_characters() -> None:
    Cron("0 9 * * *".ljust(255))
    Cron("0 9 * * *".ljust(256))

    with pytest.raises(LimitExceeded, match="cron: cron_chars is 257, the limit is 256"):
        Cron("0 9 * * *".ljust(257))


@pytest.mark.parametrize(
    ("zone", "found"),
    [
        ("Mars/Olympus", "'Mars/Olympus'"),
        ("europe/berlin-", "'europe/berlin-'"),
        ("Europe", "'Europe'"),
        ("", "''"),
        ("+01:00", "'+01:00'"),
        ("localtime", "'localtime'"),
        ("posixrules", "'posixrules'"),
        ("right/Europe/Berlin", "'right/Europe/Berlin'"),
        ("leapseconds", "'leapseconds'"),
        ("../../etc/passwd", "'../../etc/passwd'"),
        ("/etc/localtime", "'/etc/localtime'"),
        ("Europe/Berlin\n", "another text"),
        ("Europe/Berlin\0", "another text"),
        ("E" * 65, "another text"),
        (None, "NoneType"),
    ],
)
def test_a_zone_is_a_name_that_means_the_same_on_each_machine(zone: str, found: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Cron("0 9 * * *", zone)

    assert (refused.value.field, refused.value.found) == ("tz", found)
    assert refused.value.wanted == "a name of the IANA time zone database, such as Europe/Berlin"


@pytest.mark.parametrize(
    "interval",
    [
        timedelta(0),
        timedelta(milliseconds=999),
        timedelta(seconds=-1),
        timedelta(seconds=1, microseconds=1),
        timedelta(days=366, seconds=1),
        timedelta.max,
        60,
    ],
)
def test_an_interval_is_whole_seconds_within_a_year(interval: timedelta) -> None:
    with pytest.raises(InvalidInput, match=r"^every: found .*, wanted ") as refused:
        Every(interval)

    assert refused.value.field == "every"


def test_the_shortest_and_the_longest_interval_pass() -> None:
    assert Every(timedelta(seconds=1)).next_after(0) == 1_000
    assert Every(timedelta(days=366)).next_after(0) == 366 * 86_400_000


def test_a_schedule_has_an_expression_or_an_interval() -> None:
    assert times_of("@daily") == Cron("0 0 * * *", "UTC")
    assert times_of("@daily", tz=BERLIN) == Cron("0 0 * * *", BERLIN)
    assert times_of(every=timedelta(hours=1)) == Every(timedelta(hours=1))
    refused: list[WindlassError] = []
    for expression, tz, every in (
        (None, None, None),
        ("@daily", None, timedelta(hours=1)),
        (None, BERLIN, timedelta(hours=1)),
        ("", None, None),
    ):
        with pytest.raises(InvalidInput) as caught:
            times_of(expression, tz=tz, every=every)
        refused.append(caught.value)

    assert [(one.field, one.found) for one in refused] == [
        ("cron, every", "neither"),
        ("cron, every", "both"),
        ("tz", "a zone beside every"),
        ("cron", "0 fields"),
    ]


def test_equal_times_are_equal_and_say_what_they_are() -> None:
    assert Cron(" 0 9 * * mon", BERLIN) == Cron("0 9 * * MON", BERLIN)
    assert hash(Cron("@daily")) == hash(Cron("0 0 * * *"))
    assert Cron("@daily") != Cron("@daily", BERLIN)
    assert Every(timedelta(hours=1)) != Cron("@hourly")
    assert len({Every(timedelta(hours=1)), Every(timedelta(minutes=60))}) == 1
    assert repr(Cron("@daily", BERLIN)) == "Cron('0 0 * * *', 'Europe/Berlin')"
    assert repr(Every(timedelta(hours=1))) == "Every(datetime.timedelta(seconds=3600))"


def said_by(program: str, *, zones: str | None = None) -> str:
    """Run a program in another process, where the system has time zones in these folders alone."""
    env = {} if zones is None else {"PYTHONTZPATH": zones}
    path = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=env | path
    )
    return done.stdout.strip()


def test_cronsim_and_zones_are_loaded_by_the_first_expression() -> None:
    said = said_by(
        "import sys, windlass\n"
        "from datetime import timedelta\n"
        "from windlass.runtime.schedule_times import Cron, Every\n"
        "Every(timedelta(hours=1)).next_after(0)\n"
        "late = ('cronsim', 'zoneinfo')\n"
        "print([name in sys.modules for name in late])\n"
        "Cron('@daily')\n"
        "print([name in sys.modules for name in late])"
    )

    assert said.splitlines() == ["[False, False]", "[True, True]"]


def test_without_the_extra_the_error_says_how_to_install_it() -> None:
    said = said_by(
        "import sys; sys.modules['cronsim'] = None\n"
        "from windlass.errors import ConfigError\n"
        "from windlass.runtime.schedule_times import Cron\n"
        "try:\n    Cron('@daily')\n"
        "except ConfigError as error:\n    print(error, error.wanted, sep='|')"
    )

    assert said == (
        "cron: schedules need a package that is not installed: pip install '.[schedules]' "
        "in a checkout of windlass (windlass-runtime is not published yet)|windlass-runtime[schedules]"
    )


@pytest.mark.parametrize(
    ("first", "said"), [("", "1806480000000"), ("sys.modules['tzdata'] = None", "refused")]
)
def test_a_system_without_zones_has_those_of_the_extra(first: str, said: str) -> None:
    """The second case is the fault: without the package, such a system knows no zone."""
    program = (
        f"import sys\n{first}\n"
        "from windlass.errors import InvalidInput\n"
        "from windlass.runtime.schedule_times import Cron\n"
        # 2027-03-31 10:00 in Berlin is 08:00 UTC.
        "try:\n    print(Cron('0 10 31 3 *', 'Europe/Berlin').next_after(1_800_000_000_000))\n"
        "except InvalidInput:\n    print('refused')"
    )

    assert said_by(program, zones="") == said

"""When a schedule is due: a cron expression on the clock of a time zone, or an interval. Pure: no clock is read.

Law 1. A schedule is a fixed set of instants, whole seconds of UTC. `next_after` is the first of them after an
    instant, no matter where the search starts: an interval may be split anywhere and no tick is lost or doubled.
Law 2. Clock changes are treated as by Debian's cron. An expression with neither minute nor hour beginning with `*`
    names a time of day: a time that the clock shows twice runs the first time, and a time that the clock
    jumps over runs when the jump is over. Any other expression follows the clock: it runs each time
    that the clock shows a match, so it runs again in a repeated hour and not in a skipped one.
Law 3. cronsim sees clock readings without a zone, and the zone is applied here. Its own arithmetic with zones loses
    ticks where the clock changes by half an hour (`*/20 2 * * *` in Australia/Lord_Howe).
"""

from __future__ import annotations

import re
from copy import copy
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from windlass.errors import ConfigError, InvalidInput
from windlass.guards.limits import check_limit
from windlass.release import DISTRIBUTION, install_hint

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from cronsim import CronSim

_NAMED: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
# Name, largest step, what may stand there. cron takes a larger step for "only the first", so that */90 runs hourly.
_FIELDS: Final = (
    ("minute", 59, "0 to 59"),
    ("hour", 23, "0 to 23"),
    ("day-of-month", 31, "1 to 31, L or LW"),
    ("month", 12, "1 to 12 or JAN to DEC"),
    ("day-of-week", 7, "0 to 7 or SUN to SAT, 5L or MON#1; a range goes up: SAT,SUN"),
)
_STEP = re.compile(r"/([0-9]+)")
_ZONE_NAME = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*\Z")
_ZONE_CHARS = 64
# Files beside the zones: with leap seconds, without clock changes, or different on each machine.
_NO_ZONES = ("posix", "right/", "localtime", "Factory")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND_MS = 1_000
_MINUTE = timedelta(minutes=1)
_LAST_YEAR = 9_998  # the year after it is the last one of Python; a zone may push an instant beyond
END_MS: Final = int(datetime(_LAST_YEAR + 1, 1, 1, tzinfo=UTC).timestamp()) * _SECOND_MS
"""Ticks are before this instant, the end of the year 9998, and from 1970 on."""
_LONGEST = timedelta(days=366)


class Cron:
    """A cron expression on the clock of a time zone; parsed and checked when it is made.

    Args:
        expression: Five fields (minute, hour, day of month, month, day of week), or a name such as `@daily`.
        tz: A name of the IANA time zone database.

    Attributes:
        expression: The five fields, in capitals, with one space between them.
        tz: The name of the zone.

    Raises:
        InvalidInput: the zone is unknown, the expression has another form or never fires; names the field.
        LimitExceeded: the expression is too long.
        ConfigError: the extra `schedules` is not installed.
    """

    __slots__ = ("_is_time_of_day", "_pattern", "_zone", "expression", "tz")

    def __init__(self, expression: str, tz: str = "UTC") -> None:
        fields = _fields_of(expression)
        self.expression: Final = " ".join(fields)
        self.tz: Final = tz
        self._zone = _zone_of(tz)
        self._pattern = _parsed(fields)
        self._is_time_of_day = not fields[0].startswith("*") and not fields[1].startswith("*")

    def __repr__(self) -> str:
        return f"Cron({self.expression!r}, {self.tz!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Cron):
            return NotImplemented
        return (self.expression, self.tz) == (other.expression, other.tz)

    def __hash__(self) -> int:
        return hash((self.expression, self.tz))

    def next_after(self, instant_ms: int) -> int | None:
        """Return the first tick strictly after an instant; None if there is none within 50 years."""
        if instant_ms >= END_MS:
            return None
        after_s = max(instant_ms, -1) // _SECOND_MS
        clock = (_EPOCH + timedelta(seconds=after_s)).astimezone(self._zone)
        reading = clock.replace(tzinfo=None, fold=0)
        found = [self._first_tick(reading, after_s)]
        if len(shown := self._instants(reading)) > 1:
            # The clock shows this reading twice: it may go back to an earlier match before it comes to the next.
            goes_back = timedelta(seconds=shown[1] - shown[0])
            found.append(self._first_tick(reading - goes_back, after_s))
        tick_s = min((one for one in found if one is not None), default=None)
        return None if tick_s is None else tick_s * _SECOND_MS

    def _first_tick(self, reading: datetime, after_s: int) -> int | None:
        """Return the instant after `after_s` at which the clock shows the first match after a reading."""
        matches = copy(self._pattern)
        matches.dt = reading
        try:
            for match in matches:
                if match.year > _LAST_YEAR:
                    return None
                for instant_s in self._instants(match):
                    if instant_s > after_s:
                        return instant_s
        except OverflowError:  # no match up to the last date of Python
            return None
        return None

    def _instants(self, reading: datetime) -> tuple[int, ...]:
        """Return when a tick at a reading of the clock is due, in seconds: never, once or twice (Law 2)."""
        first, second = self._both(reading)
        if first == second:
            return (first,)
        if first < second:
            return (first,) if self._is_time_of_day else (first, second)
        if not self._is_time_of_day:
            return ()
        while first > second:
            reading += _MINUTE
            first, second = self._both(reading)
        return (first,)

    def _both(self, reading: datetime) -> tuple[int, int]:
        """Return the instants of a reading with the offset before a change of the clock, and with the one after.

        They differ only where the clock changes. The first is the smaller one if the clock shows the reading twice,
        and the larger one if it jumps over the reading.
        """
        before, after = (reading.replace(tzinfo=self._zone, fold=fold) for fold in (0, 1))
        return int(before.timestamp()), int(after.timestamp())


class Every:
    """An interval. Its ticks are the multiples of it since 1970-01-01T00:00:00Z, so each worker finds the same ones.

    Args:
        interval: Whole seconds, from 1 second to 366 days.

    Raises:
        InvalidInput: naming `every`.
    """

    __slots__ = ("interval_ms",)

    def __init__(self, interval: timedelta) -> None:
        if not isinstance(interval, timedelta):
            raise InvalidInput.at("every", type(interval).__name__, "a timedelta")
        is_whole = not interval.microseconds
        if not (is_whole and timedelta(seconds=1) <= interval <= _LONGEST):
            raise InvalidInput.at("every", interval, "whole seconds, from 1 second to 366 days")
        self.interval_ms: Final = interval // timedelta(seconds=1) * _SECOND_MS

    def __repr__(self) -> str:
        return f"Every({timedelta(milliseconds=self.interval_ms)!r})"

    def __eq__(self, other: object) -> bool:
        return self.interval_ms == other.interval_ms if isinstance(other, Every) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.interval_ms)

    def next_after(self, instant_ms: int) -> int | None:
        """Return the first tick strictly after an instant; None beyond the year 9998."""
        tick_ms = (max(instant_ms, -1) // self.interval_ms + 1) * self.interval_ms
        return tick_ms if tick_ms < END_MS else None


Times: TypeAlias = Cron | Every
"""When a schedule is due."""


def times_of(
    expression: str | None = None, *, tz: str | None = None, every: timedelta | None = None
) -> Times:
    """Return when a schedule is due, from an expression and its zone (UTC without one), or from an interval.

    Raises:
        InvalidInput: both are given or neither; a zone with an interval; or what `Cron` and `Every` refuse.
    """
    if (expression is None) == (every is None):
        found = "neither" if every is None else "both"
        raise InvalidInput.at("cron, every", found, "one of them")
    if every is None:
        return Cron(expression or "", "UTC" if tz is None else tz)
    if tz is not None:
        raise InvalidInput.at("tz", "a zone beside every", "none: an interval has no clock")
    return Every(every)


def ticks_between(times: Times, after_ms: int, until_ms: int, limit: int) -> list[int]:
    """Return the ticks after `after_ms` up to and including `until_ms`: the first `limit` of them."""
    ticks: list[int] = []
    tick_ms = times.next_after(after_ms)
    while tick_ms is not None and tick_ms <= until_ms and len(ticks) < limit:
        ticks.append(tick_ms)
        tick_ms = times.next_after(tick_ms)
    return ticks


def _fields_of(expression: object) -> tuple[str, ...]:
    """Return the five fields of an expression or of a name for one, in capitals."""
    if not isinstance(expression, str):
        raise InvalidInput.at("cron", type(expression).__name__, "text such as 0 9 * * MON-FRI")
    check_limit("cron_chars", len(expression), field="cron")
    for char in expression:
        if not (char.isascii() and char.isprintable()):
            raise InvalidInput.at("cron", f"the character U+{ord(char):04X}", "printable ASCII")
    text = expression.strip()
    if text.startswith("@"):
        if (named := _NAMED.get(text.lower())) is None:
            raise InvalidInput.at("cron", repr(text[:40]), f"one of {', '.join(_NAMED)}")
        text = named
    fields = tuple(text.upper().split())
    if len(fields) != len(_FIELDS):
        wanted = f"5: {' '.join(name for name, _, _ in _FIELDS)}"
        raise InvalidInput.at("cron", f"{len(fields)} fields", wanted)
    return fields


def _parsed(fields: tuple[str, ...]) -> CronSim:
    """Return five fields as cronsim parses them, after checking that they fire at all."""
    try:
        from cronsim import CronSim, CronSimError  # noqa: PLC0415 - an extra; needed by schedules alone
    except ImportError:
        told = f"cron: schedules need a package that is not installed: {install_hint('schedules')}"
        wanted = f"{DISTRIBUTION}[schedules]"
        raise ConfigError(told, field="cron", wanted=wanted) from None
    start = datetime(2000, 1, 1)  # noqa: DTZ001 - a reading of the clock (Law 3)
    for place, (text, (name, largest, wanted)) in enumerate(zip(fields, _FIELDS, strict=True)):
        others = ["*"] * len(_FIELDS)
        others[place] = text
        try:
            CronSim(" ".join(others), start)
        except CronSimError:
            raise InvalidInput.at(f"cron.{name}", repr(text[:40]), wanted) from None
        for step in _STEP.findall(text):
            if int(step) > largest:
                up_to = f"1 to {largest}; an interval is given with every="
                raise InvalidInput.at(f"cron.{name}", f"a step of {step}", up_to)
    try:
        pattern = CronSim(" ".join(fields), start)
        fires = next(copy(pattern), None) is not None
    except CronSimError:
        fires = False
    if not fires:
        raise InvalidInput.at("cron", "an expression that never fires", "a day that exists")
    return pattern


def _zone_of(tz: object) -> ZoneInfo:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # noqa: PLC0415 - schedules alone need it

    if isinstance(tz, str) and len(tz) <= _ZONE_CHARS and tz.isascii() and tz.isprintable():
        shown = repr(tz)
        try:
            if _ZONE_NAME.match(tz) and not tz.startswith(_NO_ZONES):
                return ZoneInfo(tz)
        except (ZoneInfoNotFoundError, ValueError, OSError):  # none, no zone, a folder of zones
            pass
    else:
        shown = "another text" if isinstance(tz, str) else type(tz).__name__
    wanted = "a name of the IANA time zone database, such as Europe/Berlin"
    raise InvalidInput.at("tz", shown, wanted)

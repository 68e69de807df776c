"""Which ticks of a schedule to run at an instant, and how ticks are named. Pure: the instant arrives as an argument."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, TypeAlias, get_args

from windlass.errors import InvalidInput
from windlass.kernel import canonical
from windlass.kernel.value import Value
from windlass.runtime.schedule_times import END_MS, Cron, Times, ticks_between

Missed: TypeAlias = Literal["one", "skip", "all"]
"""What happens to ticks that came due while no worker ran: the newest runs, only a recent one runs, each runs."""
Overlap: TypeAlias = Literal["queue", "skip"]
"""What happens to a tick that is due while an earlier run has not ended: it waits, or it does not run."""

MOST_TICKS: Final = 1_000
"""How many ticks `missed="all"` runs after one gap: the newest ones."""
MOST_COUNTED: Final = 5_000
"""How far missed ticks are counted; at this count it means "at least"."""
ON_TIME_MS: Final = 60_000
"""How late `missed="skip"` still runs a tick: a restart of the worker is not an outage."""

_TICK_ID = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z\Z")
_TICK_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND_MS = 1_000
_MINUTE_MS = 60 * _SECOND_MS


class DueTicks(Value, kw_only=True):
    """What to do about the ticks of a schedule at one instant.

    Attributes:
        run: The ticks to run now, oldest first.
        missed: How many ticks came due and will not run; from `MOST_COUNTED` on "at least".
        next_ms: The tick to wait for when these have run; None if the schedule has no more.
    """

    run: tuple[int, ...] = ()
    missed: int = 0
    next_ms: int | None = None


def decide_ticks(
    waiting_ms: int, now_ms: int, missed: Missed, times: Times, *, most: int = MOST_TICKS
) -> DueTicks:
    """Decide which ticks to run at `now_ms`, given the tick that waits to become due.

    Ticks from the waiting one on are considered, never earlier ones, so a clock that is set back runs none twice.

    - `one`: the newest tick that is due runs, however late it is; those before it are missed.
    - `skip`: as `one`, but only up to `ON_TIME_MS` late; else it is missed, too.
    - `all`: each runs; of more than `most`, the newest `most`.

    The decision depends on `now_ms`: record it before acting on it, so that a recovered tick keeps to it.
    """
    _check_choice("missed", missed, get_args(Missed))
    if most < 1:
        raise InvalidInput.at("most", most, "1 or more")
    if now_ms < waiting_ms:
        return DueTicks(next_ms=waiting_ms)
    wanted = most if missed == "all" else 1
    run = _newest(times, waiting_ms, now_ms, wanted)
    if len(run) < wanted:
        # The waiting tick counts even if the schedule has changed since and no longer has it.
        run.insert(0, waiting_ms)
    n_missed = 0
    if run[0] > waiting_ms:
        n_missed = 1 + len(ticks_between(times, waiting_ms, run[0] - 1, MOST_COUNTED - 1))
    if missed == "skip" and now_ms - run[-1] > ON_TIME_MS:
        n_missed = min(n_missed + 1, MOST_COUNTED)
        run = []
    return DueTicks(run=tuple(run), missed=n_missed, next_ms=times.next_after(now_ms))


def tick_id(due_ms: int) -> str:
    """Return the id of a tick's turn: its instant in UTC, such as `2026-11-17T08:00:00Z`.

    Raises:
        InvalidInput: it is not a whole second from 1970 to 9998.
    """
    return _instant(due_ms).strftime(_TICK_FORMAT)


def due_ms_of(id: str) -> int:
    """Return the instant of a tick from its turn's id.

    Raises:
        InvalidInput: it is not the id of a tick.
    """
    if isinstance(id, str) and _TICK_ID.match(id):
        try:
            due_ms = int(datetime.fromisoformat(id).timestamp()) * _SECOND_MS
        except ValueError:  # the 31st of February
            due_ms = -1
        if 0 <= due_ms < END_MS and tick_id(due_ms) == id:
            return due_ms
    raise InvalidInput.at("tick id", "other text", "an instant such as 2026-11-17T08:00:00Z")


def period_of(due_ms: int) -> str:
    """Return the month of a tick in UTC, such as `2026-11`: a schedule has one session for each month.

    Raises:
        InvalidInput: it is not a whole second from 1970 to 9998.
    """
    return _instant(due_ms).strftime("%Y-%m")


def schedule_digest(times: Times, *, missed: Missed, overlap: Overlap) -> str:
    """Return a digest of a schedule: equal for equal times and policies.

    Raises:
        InvalidInput: a policy is unknown.
    """
    _check_choice("missed", missed, get_args(Missed))
    _check_choice("overlap", overlap, get_args(Overlap))
    said: dict[str, str | int] = {"missed": missed, "overlap": overlap}
    if isinstance(times, Cron):
        said |= {"cron": times.expression, "tz": times.tz}
    else:
        said |= {"every_ms": times.interval_ms}
    return canonical.digest(said)


def _newest(times: Times, after_ms: int, until_ms: int, wanted: int) -> list[int]:
    """Return the last `wanted` ticks after one instant up to another; fast for a gap of any length."""
    listed = ticks_between(times, after_ms, until_ms, wanted + 1)
    if len(listed) <= wanted:
        return listed
    # After `enough` there are at least as many as wanted, after `too_late` fewer; a second has one tick at most.
    enough, too_late = after_ms, until_ms
    whole = wanted * 4
    while too_late - enough > _SECOND_MS:
        # The search goes back from the end in growing steps, since a gap may be long and its ticks dense.
        back = too_late - (until_ms - too_late) - _MINUTE_MS
        start = max(back, (enough + too_late) // 2)
        listed = ticks_between(times, start, until_ms, whole)
        if wanted <= len(listed) < whole:
            return listed[-wanted:]
        if len(listed) == whole:
            enough = start
        else:
            too_late = start
    return ticks_between(times, enough, until_ms, wanted)


def _instant(due_ms: int) -> datetime:
    if type(due_ms) is not int or due_ms % _SECOND_MS or not 0 <= due_ms < END_MS:
        shown = due_ms if type(due_ms) is int else type(due_ms).__name__
        raise InvalidInput.at("due_ms", shown, "a whole second from 1970 to 9998")
    return _EPOCH + timedelta(milliseconds=due_ms)


def _check_choice(field: str, found: object, wanted: tuple[str, ...]) -> None:
    if found not in wanted:
        shown = repr(found[:40]) if isinstance(found, str) else type(found).__name__
        raise InvalidInput.at(field, shown, f"one of {', '.join(wanted)}")

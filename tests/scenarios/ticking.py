"""Schedules on a stage: time that passes in steps, and what ran."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.limits import HANGS_S
from tests.scenarios.stage import Stage
from windlass import Runtime, Schedule, Tick, schedule
from windlass.testing import virtual_clock


def utc(text: str) -> datetime:
    """Return an instant in UTC, such as `2026-11-17 09:00`."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def set_clock(stage: Stage, text: str) -> None:
    """Let the stage have a clock that stands at an instant, which may be earlier than before."""
    stage.clock = virtual_clock(int(utc(text).timestamp()) * 1000)


async def settled(*runtimes: Runtime[Any]) -> None:
    """Wait until nothing is driven, and nothing is there to be driven."""
    async with asyncio.timeout(HANGS_S):
        while any([await _is_busy(rt) for rt in runtimes]):
            for rt in runtimes:
                rt._worker.kick()
            await asyncio.sleep(0.001)


async def _is_busy(rt: Runtime[Any]) -> bool:
    services = rt._services
    store, now_ms = services.store, services.clock.now_ms()
    mark = (await store.changes(None)).mark
    due = await store.due(now_ms, agents=tuple(rt._programs))
    if rt._worker.driving or due.turns or due.waits:
        return True
    # Another worker may have the session of a turn that it has not come to yet. What waits behind a parked turn is not due.
    for state in ("ready", "running", "queued"):
        for turn in await store.list_turns(state=state):
            session = await store.load_session(turn.session_id, history=False)
            if turn.agent in rt._programs and session.active in (None, turn.turn_id):
                return True
    # What moved while this looked may have been passed over.
    return mark != (await store.changes(None)).mark


async def pass_to(stage: Stage, text: str, *runtimes: Runtime[Any]) -> None:
    """Let time pass to an instant, stopping wherever a wait is due, as real time would."""
    end_ms = int(utc(text).timestamp()) * 1000
    while True:
        await settled(*runtimes)
        waits = await runtimes[0].waits()
        dues = [one.expires_ms for one in waits if one.expires_ms is not None]
        now_ms = stage.clock.now_ms()
        to_ms = min((one for one in dues if now_ms < one <= end_ms), default=end_ms)
        stage.later((to_ms - now_ms) / 1000, *runtimes)
        for rt in runtimes:
            # No time has passed for the thread that renews the lease.
            rt._services.store.renew(rt._services.worker_id, until_ms=rt._services.until_ms())
        if to_ms == end_ms:
            await settled(*runtimes)
            return


class Runs:
    """What a schedule ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.missed: list[int] = []

    def schedule(
        self, cron: str | None = None, *, name: str = "digest", **options: Any
    ) -> Schedule:
        """Return a schedule that notes its runs."""

        @schedule(cron, name=name, **options)
        async def digest(ctx: Tick[Any]) -> None:
            await ctx.step(self.note, ctx.due.isoformat(timespec="minutes"), ctx.missed)

        return digest

    def note(self, due: str, missed: int) -> None:
        self.ran.append(due)
        self.missed.append(missed)


HOUR = timedelta(hours=1)

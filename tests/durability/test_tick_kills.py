"""Two workers with a schedule and a subscriber, killed over and over: each tick and each event is done once."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.durability.ticking_process import done, work
from tests.limits import HANGS_S, times
from tests.scenarios.stage import until
from windlass import Runtime
from windlass.runtime.schedule_clock import due_of_run

ROOT = Path(__file__).parents[2]
KEYS = 3
KILLS = times(6)
TICKS = 3


class Workers:
    """Two processes, each of which is started again when it was killed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.running = [self._start(), self._start()]

    def _start(self) -> subprocess.Popen[bytes]:
        name = "tests.durability.ticking_process"
        return subprocess.Popen(
            [sys.executable, "-m", name, str(self._folder)], cwd=ROOT, stdout=subprocess.DEVNULL
        )

    def kill(self, which: int) -> None:
        """Kill one where it is, and start another."""
        self.stop(self.running[which])
        self.running[which] = self._start()

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """Kill one."""
        process.send_signal(signal.SIGKILL)
        process.wait(HANGS_S)


async def check_all(folder: Path, emitted: int) -> None:
    """Compare what was done with what the store says."""
    counted = Counter(done(folder))
    assert [what for what, count in counted.items() if count > 1] == []
    second, handle = work(folder)
    async with Runtime(
        store=f"sqlite:///{folder / 'w.db'}", worker=False, schedules=[second], triggers=[handle]
    ) as rt:
        ticks = await runs_in(rt)
        occurrences = await rt.triggers.occurrences("events", limit=1_000)
        assert len(occurrences) == emitted
        assert all(one.delivered == ("handle",) for one in occurrences)
    # No second between the first and the last has no run, and none has two.
    assert sorted(ticks) == list(range(min(ticks), max(ticks) + 1))
    assert len(set(ticks)) == len(ticks)
    lines = [line.split()[1:] for line in done(folder) if line.startswith("event")]
    for key in range(KEYS):
        numbers = [int(number) for name, number in lines if name == f"k{key}"]
        assert numbers == sorted(numbers)


async def runs_in(rt: Runtime[Any]) -> list[int]:
    """Return the seconds for which there is a run."""
    store, found = rt._services.store, list[int]()
    for session in await store.list_sessions(kind="schedule", label="schedule:second/runs"):
        turns = await store.list_turns(session_id=session.session_id, limit=1_000)
        found += [due // 1000 for one in turns if (due := due_of_run(one.turn_id)) is not None]
    return found


def has_ticked(folder: Path, wanted: int) -> bool:
    """Whether so many ticks have run: it takes as many seconds, however fast events are handled."""
    return len([line for line in done(folder) if line.startswith("tick")]) >= wanted


def has_done(folder: Path, wanted: int) -> bool:
    return len(done(folder)) >= wanted


@pytest.mark.slow
async def test_each_tick_and_each_event_is_done_once_whatever_is_killed(tmp_path: Path) -> None:
    workers, rng, emitted = Workers(tmp_path), random.Random(7), 0
    try:
        async with Runtime(store=f"sqlite:///{tmp_path / 'w.db'}", durability="process") as door:
            for kill in range(KILLS):
                before = len(done(tmp_path))
                for _ in range(9):
                    event = {"key": f"k{emitted % KEYS}", "number": emitted}
                    await door.emit("events", event, key=f"{emitted}")
                    emitted += 1
                wanted = before + rng.randint(1, 8)
                await until(partial(has_done, tmp_path, wanted), within_s=HANGS_S)
                workers.kill(kill % 2)

            async def all_done() -> bool:
                # In this order: an event that is delivered between the two reads is seen in one of them.
                for agent in ("trigger:events", "on:handle"):
                    turns = await door.turns(agent=agent, limit=1_000)
                    if any(one.state != "done" for one in turns):
                        return False
                return True

            await until(all_done, within_s=HANGS_S)
            await until(partial(has_ticked, tmp_path, TICKS), within_s=HANGS_S)
    finally:
        for one in workers.running:
            workers.stop(one)
    await check_all(tmp_path, emitted)
    events = [line for line in done(tmp_path) if line.startswith("event")]
    # A step with the contract "once" that is cut off is not done again: at most one for each kill.
    assert emitted - KILLS <= len(events) <= emitted
    assert has_ticked(tmp_path, TICKS)

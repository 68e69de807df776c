"""Many sessions at once: what shares a commit, against a bare writer thread that shares commits, too."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from queue import SimpleQueue
from time import perf_counter_ns, process_time_ns
from typing import TypeAlias

import apsw

from bench.progress import progress
from bench.samples import Figure, figure, ratio
from bench.store_file import (
    PUT,
    LogRow,
    OpenStore,
    bare_file,
    log_row,
    measured_folder,
    open_store,
)
from bench.store_turns import begin_turn
from windlass.ports import Unit

SESSIONS = 200
PER_SESSION = 5
# At least half the units in the same time: at most twice the time for the same units.
GROUP_BAR = 2.0

_Waiting: TypeAlias = "tuple[LogRow, asyncio.Future[None]]"
_N_UNITS = SESSIONS * PER_SESSION


def measure_groups(rounds: int) -> list[Figure]:
    """Time many sessions that each write one unit after another; a bare group commit in turn."""
    return asyncio.run(_measure_groups(rounds))


async def _measure_groups(rounds: int) -> list[Figure]:
    bares: list[_Times] = []
    stores: list[_Times] = []
    with measured_folder() as folder, bare_file(folder / "bare.db") as bare:
        async with open_store(folder / "store.db") as opened:
            names = [f"s{number}" for number in range(SESSIONS)]
            turns = [await begin_turn(opened.store, opened.worker_id, name) for name in names]
            writer = BareWriter(bare)
            commits = 0
            for _ in progress("groups", rounds):
                units = [turn.units(PER_SESSION) for turn in turns]
                rows = [[log_row(u, number) for u in of_one] for number, of_one in enumerate(units)]
                bares.append(await _timed(_write_bare(writer, of_one) for of_one in rows))
                before, _ = opened.commits()
                stores.append(await _timed(_write_store(opened, of_one) for of_one in units))
                commits += opened.commits()[0] - before
            writer.close()
    return [
        figure(
            f"raw: {SESSIONS} tasks share commits, per row", "µs", [each.wall for each in bares]
        ),
        figure(
            f"store: {SESSIONS} sessions at once, per unit", "µs", [each.wall for each in stores]
        ),
        ratio(
            "  time of the store to raw's",
            [[each.wall] for each in stores],
            [[each.wall] for each in bares],
            bar=GROUP_BAR,
        ),
        figure("  CPU of raw, per row", "µs", [each.cpu for each in bares]),
        figure("  CPU of the store, per unit", "µs", [each.cpu for each in stores]),
        figure("units per commit, raw", "", [rounds * _N_UNITS / writer.commits] * 2),
        figure("units per commit, store", "", [rounds * _N_UNITS / commits] * 2),
    ]


class _Times:
    """What a unit took, in µs: on the clock and of the processor."""

    def __init__(self, wall_ns: int, cpu_ns: int) -> None:
        self.wall = wall_ns / 1_000 / _N_UNITS
        self.cpu = cpu_ns / 1_000 / _N_UNITS


async def _timed(sessions: Iterable[object]) -> _Times:
    work = list(sessions)
    wall, cpu = perf_counter_ns(), process_time_ns()
    await asyncio.gather(*work)  # type: ignore[call-overload]  # coroutines
    return _Times(perf_counter_ns() - wall, process_time_ns() - cpu)


async def _write_store(opened: OpenStore, units: Iterable[Unit]) -> None:
    for unit in units:
        await opened.store.submit(unit).durable()


async def _write_bare(writer: BareWriter, rows: Iterable[LogRow]) -> None:
    for row in rows:
        await writer.write(row)


class BareWriter:
    """A thread that commits whatever waits in one transaction, and does nothing else."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self._queue: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.commits = 0
        self._thread.start()

    async def write(self, row: LogRow) -> None:
        """Hand a row in and wait until it is durable."""
        done = self._loop.create_future()
        self._queue.put((row, done))
        await done

    def close(self) -> None:
        """Stop the thread."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            first = self._queue.get()
            if first is None:
                return
            batch = [first]
            while not self._queue.empty():
                more = self._queue.get()
                if more is None:
                    return
                batch.append(more)
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany(PUT, [row for row, _ in batch])
            self._db.execute("COMMIT")
            self.commits += 1
            self._loop.call_soon_threadsafe(_tell, batch)


def _tell(batch: Iterable[_Waiting]) -> None:
    for _, done in batch:
        done.set_result(None)

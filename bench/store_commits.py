"""Durable units: of one turn alone, against a bare transaction with the same row."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from time import perf_counter_ns, process_time_ns

import apsw

from bench.progress import progress
from bench.samples import Figure, figure, ratio
from bench.store_file import (
    LogRow,
    OpenStore,
    bare_file,
    commit_bare,
    log_megabytes,
    log_row,
    measured_folder,
    open_store,
)
from bench.store_turns import OpenTurn, begin_turn
from windlass.ports import Unit

UNIT_BAR = 1.2
_PER_BLOCK = 8
_NEVER_TIMED = 16


def measure_units(rounds: int) -> list[Figure]:
    """Time single units, submitted and waited for; bare transactions in turn."""
    return asyncio.run(_measure_units(rounds))


async def _measure_units(rounds: int) -> list[Figure]:
    samples = _Samples()
    with measured_folder() as folder, bare_file(folder / "bare.db") as bare:
        async with open_store(folder / "store.db") as opened:
            ready = await begin_turn(opened.store, opened.worker_id, "ready")
            built = await begin_turn(opened.store, opened.worker_id, "built")
            await _time_store(opened, ready.units(_NEVER_TIMED))
            before = opened.commits()
            log_before = log_megabytes(folder / "store.db")
            for at in progress("units", rounds):
                units = ready.units(_PER_BLOCK)
                rows = [log_row(unit, 1) for unit in units]
                samples.bytes += [float(len(row[-1])) for row in rows]
                # The one that was second is first the next time.
                if at % 2:
                    samples.of_bare(bare, rows)
                await samples.of_store(opened, units)
                samples.builts.append(await _time_building(opened, built))
                if not at % 2:
                    samples.of_bare(bare, rows)
            sizes = [log_before, log_megabytes(folder / "store.db")]
            return [
                *samples.figures(),
                *_counts(opened, before, 2 * rounds * _PER_BLOCK),
                figure("write-ahead log, from before to after", "MB", sizes),
            ]


class _Samples:
    """Blocks of times in µs: without a store, with one, and with the unit built in the timed part."""

    def __init__(self) -> None:
        self.bytes: list[float] = []
        self.builts: list[list[float]] = []
        self._bares: list[list[float]] = []
        self._stores: list[list[float]] = []
        self._bare_cpu: list[float] = []
        self._store_cpu: list[float] = []

    def of_bare(self, db: apsw.Connection, rows: Iterable[LogRow]) -> None:
        """Time a block of bare transactions."""
        begin = process_time_ns()
        self._bares.append(_time_bare(db, rows))
        self._bare_cpu.append((process_time_ns() - begin) / 1_000 / _PER_BLOCK)

    async def of_store(self, opened: OpenStore, units: Iterable[Unit]) -> None:
        """Time a block of units."""
        begin = process_time_ns()
        self._stores.append(await _time_store(opened, units))
        self._store_cpu.append((process_time_ns() - begin) / 1_000 / _PER_BLOCK)

    def figures(self) -> list[Figure]:
        """Return the times and their ratios."""
        return [
            figure("a unit: result, reply, decision, intent", "B", self.bytes),
            figure("raw: BEGIN, the same INSERT, COMMIT", "µs", _flat(self._bares)),
            figure("store: submit a unit, wait until durable", "µs", _flat(self._stores)),
            ratio("  store to raw", self._stores, self._bares, bar=UNIT_BAR),
            figure("store: build its entries, submit, wait", "µs", _flat(self.builts)),
            ratio("  store with building to raw", self.builts, self._bares),
            figure("  CPU of raw, per row", "µs", self._bare_cpu),
            figure("  CPU of the store, per unit", "µs", self._store_cpu),
        ]


def _flat(blocks: list[list[float]]) -> list[float]:
    return [sample for block in blocks for sample in block]


def _time_bare(db: apsw.Connection, rows: Iterable[LogRow]) -> list[float]:
    samples = []
    for row in rows:
        begin = perf_counter_ns()
        commit_bare(db, row)
        samples.append((perf_counter_ns() - begin) / 1_000)
    return samples


async def _time_store(opened: OpenStore, units: Iterable[Unit]) -> list[float]:
    submit = opened.store.submit
    samples = []
    for unit in units:
        begin = perf_counter_ns()
        await submit(unit).durable()
        samples.append((perf_counter_ns() - begin) / 1_000)
    return samples


async def _time_building(opened: OpenStore, turn: OpenTurn) -> list[float]:
    submit = opened.store.submit
    samples = []
    for _ in range(_PER_BLOCK):
        begin = perf_counter_ns()
        await submit(turn.next_unit()).durable()
        samples.append((perf_counter_ns() - begin) / 1_000)
    return samples


def _counts(opened: OpenStore, before: tuple[int, int], n_units: int) -> list[Figure]:
    commits, in_loop = (now - then for now, then in zip(opened.commits(), before, strict=True))
    return [
        figure("commits per unit", "", [commits / n_units] * 2),
        figure("commits made on the loop's thread", "%", [100 * in_loop / commits] * 2),
    ]

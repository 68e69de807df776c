"""What the disk itself takes: every durable write of the store waits for it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from time import perf_counter_ns

import apsw

from bench.progress import progress
from bench.samples import Figure, figure
from bench.store_file import PAGE_BYTES, LogRow, bare_file, commit_bare, log_row, measured_folder
from bench.store_turns import OpenTurn, TurnPlace

_PER_ROUND = 8
_PAGES = 256


def measure_disk(rounds: int) -> list[Figure]:
    """Time a page that is written and waited for, and bare commits into a warm and a growing log."""
    turn = OpenTurn(TurnPlace("disk", "t1"))
    syncs: list[float] = []
    warm_commits: list[float] = []
    cold_commits: list[float] = []
    with measured_folder() as folder, bare_file(folder / "warm.db") as warm:
        for at in progress("disk", rounds):
            rows = [log_row(unit, 1) for unit in turn.units(_PER_ROUND)]
            syncs += _time_syncs(folder / "page")
            warm_commits += _time_commits(warm, rows)
            with bare_file(folder / f"cold{at}.db", warm=False) as cold:
                cold_commits += _time_commits(cold, rows)
    return [
        figure("4 KiB written over and fdatasync", "µs", syncs),
        figure("raw commit of one unit, warm log", "µs", warm_commits),
        figure("raw commit of one unit, growing log", "µs", cold_commits),
    ]


def _time_syncs(path: Path) -> list[float]:
    samples = []
    page = os.urandom(PAGE_BYTES)
    if not path.exists():
        path.write_bytes(page * _PAGES)
    file = os.open(path, os.O_RDWR)
    try:
        os.fsync(file)
        for at in range(_PER_ROUND):
            begin = perf_counter_ns()
            os.pwrite(file, page, at * PAGE_BYTES)
            os.fdatasync(file)
            samples.append((perf_counter_ns() - begin) / 1_000)
    finally:
        os.close(file)
    return samples


def _time_commits(db: apsw.Connection, rows: Iterable[LogRow]) -> list[float]:
    samples = []
    for row in rows:
        begin = perf_counter_ns()
        commit_bare(db, row)
        samples.append((perf_counter_ns() - begin) / 1_000)
    return samples

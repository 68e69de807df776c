"""W7: the first turn on a long session in a runtime that does not know it, against reading the same rows."""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import perf_counter_ns

import msgspec

from bench.progress import progress
from bench.samples import Figure, figure, ratio
from bench.store_file import bare_file, commit_bare, log_row, measured_folder
from bench.store_turns import OpenTurn, TurnPlace
from bench.workloads.candidate import opened
from bench.workloads.gauges import measured_turn
from bench.workloads.script import TEXT, loop, question
from bench.workloads.windlass_turns import FILE, WindlassTurns
from windlass.journal import HistoryPage
from windlass.stores.sqlite import connection

MESSAGES = 1_000
REOPEN_BAR = 1.4
_PER_TURN = 4
_SELECT = (
    "SELECT page FROM log WHERE strand = 0 AND"
    " session = (SELECT no FROM sessions WHERE id = 'long') ORDER BY seq"
)


def measure_reopening(rounds: int) -> list[Figure]:
    """Time a bare SELECT with decoding and one commit, and the turn, in turn."""
    raws: list[float] = []
    turns: list[float] = []
    with measured_folder() as folder, bare_file(folder / "bare.db") as bare:
        asyncio.run(_grow(folder))
        rows = iter([log_row(u, 1) for u in OpenTurn(TurnPlace("s", "t1")).units(rounds + 1)])
        for at in progress("reopening", rounds + 1):
            raw = _read_raw(folder / FILE)
            begin = perf_counter_ns()
            commit_bare(bare, next(rows))
            raw += (perf_counter_ns() - begin) / 1e3
            turn = asyncio.run(_reopen(folder))
            if at:  # the first finds cold caches
                raws.append(raw)
                turns.append(turn)
    return [
        figure(f"W7, SELECT, decode {MESSAGES:,} messages, one commit", "ms", [e / 1e3 for e in raws]),
        figure("  first turn on that session, reopened", "ms", [each / 1e3 for each in turns]),
        ratio("  turn to raw", [[e] for e in turns], [[e] for e in raws], bar=REOPEN_BAR),
    ]  # fmt: skip


async def _grow(folder: Path) -> None:
    async with opened(WindlassTurns("once", folder, durability="process")) as candidate:
        for _ in progress("a history", MESSAGES // _PER_TURN):
            await candidate.turn("long", question(loop(1)))


def _read_raw(path: Path) -> float:
    decoder = msgspec.json.Decoder(HistoryPage)
    db = connection.connect(path)
    try:
        begin = perf_counter_ns()
        pages = [decoder.decode(page) for (page,) in db.execute(_SELECT)]
        taken = perf_counter_ns() - begin
        assert sum(len(page.nodes) for page in pages) >= MESSAGES
    finally:
        db.close()
    return taken / 1e3


async def _reopen(folder: Path) -> float:
    async with opened(WindlassTurns("once", folder)) as candidate:
        return (await measured_turn(candidate, "long", question(TEXT))).wall_us

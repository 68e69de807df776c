"""Reading back: a turn's journal and a session's history, against a bare SELECT of the same pages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter_ns

import msgspec

from bench.progress import progress
from bench.samples import Figure, figure, ratio
from bench.store_file import OpenStore, measured_folder, open_store
from bench.store_turns import begin_turn, whole_turn
from windlass.journal import HistoryPage, JournalPage, lengthened
from windlass.stores.sqlite import connection

ENTRIES = 1_000
MESSAGES = 10_000
REPLAY_BAR = 2.0
SESSION_BAR = 1.5

_PER_UNIT = 4
_PER_TURN = 4
_SELECT = (
    "SELECT page FROM log WHERE strand = ? AND"
    " session = (SELECT no FROM sessions WHERE id = ?) ORDER BY seq"
)
_LONG = "long"


def measure_reads(rounds: int) -> list[Figure]:
    """Time both reads, each with a bare one of the same pages in turn."""
    return asyncio.run(_measure_reads(rounds))


async def _measure_reads(rounds: int) -> list[Figure]:
    with measured_folder() as folder:
        path = folder / "store.db"
        # Whether what is read was waited for makes no difference to reading it.
        async with open_store(path, durability="process") as opened:
            await _write_turn(opened)
            for number in progress("a history", MESSAGES // _PER_TURN):
                await whole_turn(opened.store, opened.worker_id, _LONG, number + 1)
            turn = await _compare(
                _Read(f"journal of {ENTRIES:,} entries", REPLAY_BAR, 1, "turn", JournalPage),
                path,
                lambda: _replay(opened),
                rounds,
            )
            session = await _compare(
                _Read(f"session of {MESSAGES:,} messages", SESSION_BAR, 0, _LONG, HistoryPage),
                path,
                lambda: _open_session(opened),
                rounds,
            )
    return [*turn, *session]


async def _write_turn(opened: OpenStore) -> None:
    turn = await begin_turn(opened.store, opened.worker_id, "turn")
    for unit in turn.units(ENTRIES // _PER_UNIT - 1):
        await opened.store.submit(unit).durable()


async def _replay(opened: OpenStore) -> object:
    turn = await opened.store.load_turn("turn", "t1")
    assert turn is not None
    assert sum(len(page.entries) for page in turn.pages) == ENTRIES
    assert turn.journal().started is not None
    return turn


async def _open_session(opened: OpenStore) -> object:
    session = await opened.store.load_session(_LONG)
    assert sum(len(page.nodes) for page in session.pages) == MESSAGES
    return session


class _Read(msgspec.Struct, frozen=True):
    """What is read: its name, its bar, its place in the log, and the type of its pages."""

    name: str
    bar: float
    strand: int
    session_id: str
    type: type[msgspec.Struct]


async def _compare(
    read: _Read, path: Path, of_store: Callable[[], Awaitable[object]], rounds: int
) -> list[Figure]:
    decoder = msgspec.json.Decoder(read.type)
    bares: list[float] = []
    stores: list[float] = []
    db = connection.connect(path)
    try:
        for at in progress(read.name, rounds + 1):
            begin = perf_counter_ns()
            found = db.execute(_SELECT, (read.strand, read.session_id))
            pages = [decoder.decode(lengthened(page, read.session_id, "t1")) for (page,) in found]
            middle = perf_counter_ns()
            assert pages
            del pages
            again = perf_counter_ns()
            read_back = await of_store()
            end = perf_counter_ns()
            # What was read is let go outside the time, here and above; the loop holds on to it for a pass.
            await asyncio.sleep(0)
            del read_back
            if at:  # the first read finds cold caches
                bares.append((middle - begin) / 1e6)
                stores.append((end - again) / 1e6)
    finally:
        db.close()
    pairs = [[each] for each in stores], [[each] for each in bares]
    return [
        figure(f"raw SELECT, decode: {read.name}", "ms", bares),
        figure(f"store: {read.name}", "ms", stores),
        ratio("  store to raw", *pairs, bar=read.bar),
    ]

"""Vacuum: whatever there is to reclaim, nobody waits for all of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.runtime.turns import GENERATION, UNTIL_MS, begin, ending, new_turn
from tests.stores.files import raw
from tests.unit_shortcuts import UnitShortcuts
from windlass.stores.sqlite import SqliteStore

N_OLD = 250
REQUESTS = (
    "SELECT count(*) FROM log JOIN turns ON turns.no = -log.strand WHERE turns.state = 'done'"
)


async def test_whoever_writes_while_much_is_reclaimed_waits_for_one_step_of_it(
    path: Path, store: SqliteStore
) -> None:
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    for number in range(N_OLD):
        await begin(store, f"s{number}", worker)
        await UnitShortcuts(store).commit(f"s{number}", "t1", ending("ends"), generation=GENERATION)

    vacuum = asyncio.ensure_future(store.vacuum(now_ms=10**9, retention_ms=0))
    left: list[int] = []
    while not vacuum.done():
        await store.accept(f"new{len(left)}", "t1", new_turn())
        left.append(raw(path).execute(REQUESTS).get)

    assert (await vacuum).journals == N_OLD
    assert any(0 < count < N_OLD for count in left)  # somebody wrote in the middle of it


async def test_a_session_that_goes_while_its_journals_are_looked_for_is_no_trouble(
    store: SqliteStore,
) -> None:
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    for name in ("a", "b"):
        await begin(store, name, worker)
        await UnitShortcuts(store).commit(name, "t1", ending("ends"), generation=GENERATION)

    # Both are under way at once, and whichever is first wins.
    report, _ = await asyncio.gather(
        store.vacuum(now_ms=10**9, retention_ms=0), store.delete_session("a", now_ms=9)
    )

    assert report.journals in (1, 2)
    assert (await store.load_turn("b", "t1")).request is None  # type: ignore[union-attr]  # it is there

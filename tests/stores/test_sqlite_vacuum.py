"""Vacuum: whatever there is to reclaim, nobody waits for all of it."""

# ruff: noqa: ASYNC240 - files are what these tests are about

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
import pytest

from tests.durability.faulty_vfs import Fault, FaultyVfs
from tests.durability.recording_vfs import unregistered_name
from tests.runtime.turns import GENERATION, UNTIL_MS, begin, ending, new_turn, unit
from tests.stores.files import raw
from tests.unit_shortcuts import UnitShortcuts
from windlass.errors import StoreUnavailable
from windlass.ports import Wait
from windlass.stores.sqlite import SqliteStore, reclaim

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


# --- space that is given back ----------------------------------------------------------------------------------

MIB = 1024 * 1024


async def fill(store: SqliteStore, n_blobs: int) -> None:
    """Put blobs that nothing refers to: in a day, vacuum takes them."""
    for number in range(n_blobs):
        await store.put_blob(bytes([number]) * MIB, now_ms=0)


async def test_vacuum_gives_the_space_back_when_most_of_the_file_is_free(
    path: Path, store: SqliteStore
) -> None:
    await store.accept("a", "t1", new_turn())
    await fill(store, 12)
    await store.vacuum(now_ms=0, retention_ms=0)
    assert path.stat().st_size > 12 * MIB

    report = await store.vacuum(now_ms=10**9, retention_ms=0)

    assert report.bodies == 12
    assert report.freed_bytes > 12 * MIB
    assert path.stat().st_size < MIB
    assert (await store.load_session("a")).queued == ("t1",)


async def test_a_file_that_is_half_in_use_is_compacted_when_that_is_wanted(
    path: Path, store: SqliteStore
) -> None:
    await fill(store, 12)
    for number in range(100, 114):
        await store.put_blob(bytes([number]) * MIB, now_ms=10**9)
    before = path.stat().st_size

    report = await store.vacuum(now_ms=10**9, retention_ms=0)
    assert (report.bodies, report.freed_bytes) == (12, 0)
    assert path.stat().st_size >= before

    report = await store.vacuum(now_ms=10**9, retention_ms=0, compact=True)
    assert report.freed_bytes > 12 * MIB
    assert path.stat().st_size < 15 * MIB


async def test_others_read_and_write_on_after_a_file_was_compacted(
    path: Path, store: SqliteStore
) -> None:
    other = SqliteStore(path)
    await other.open()
    await other.accept("a", "t1", new_turn())
    await fill(store, 12)
    assert (await store.vacuum(now_ms=10**9, retention_ms=0)).freed_bytes > 12 * MIB

    assert (await other.load_session("a")).queued == ("t1",)
    await other.accept("b", "t1", new_turn())
    assert (await store.load_session("b")).queued == ("t1",)
    await other.close()


@pytest.mark.parametrize("nth", [1, 5, 50, 500, 2_000])
async def test_a_disk_that_fills_up_while_a_file_is_compacted_harms_nothing(
    path: Path, nth: int
) -> None:
    vfs = FaultyVfs(unregistered_name())
    store = SqliteStore(path, vfs=vfs.name, busy_s=0.05)
    await store.open()
    await store.accept("a", "t1", new_turn())
    await fill(store, 12)
    for number in range(100, 114):
        await store.put_blob(bytes([number]) * MIB, now_ms=10**9)
    await store.vacuum(now_ms=10**9, retention_ms=0)

    vfs.arm(Fault(kind="write", code=apsw.SQLITE_FULL, nth=nth, stays=True))
    with pytest.raises(StoreUnavailable, match="the disk is full; free some space and try again"):
        reclaim.give_back(store._connect, path.name, is_wanted=True)
    assert vfs.fired
    vfs.lift()

    assert raw(path).pragma("integrity_check") == "ok"
    assert (await store.load_session("a")).queued == ("t1",)
    assert (await store.vacuum(now_ms=10**9, retention_ms=0, compact=True)).freed_bytes > 12 * MIB
    await store.close()


# --- waits that were lost --------------------------------------------------------------------------------------


async def test_a_parked_turn_whose_wait_was_lost_is_due_again(
    path: Path, store: SqliteStore
) -> None:
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    for name in ("kept", "lost"):
        await begin(store, name, worker)
        wait = Wait(key=f"w-{name}", kind="approval", session_id=name, turn_id="t1", created_ms=0)
        await store.submit(unit(name, 0, waits=(wait,), parks=True)).durable()
        await store.release(name, generation=GENERATION)
    db = raw(path)
    db.execute("DELETE FROM waits WHERE session = (SELECT no FROM sessions WHERE id = 'lost')")
    db.close()
    assert (await store.due(0)).turns == ()

    assert (await store.vacuum(now_ms=0, retention_ms=0)).reopened == 1

    due = (await store.due(0)).turns
    assert [(turn.session_id, turn.why) for turn in due] == [("lost", "answered")]

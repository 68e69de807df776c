"""The lane's first five laws on a real file, and for each a lane or a store that breaks it and is caught."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.runtime import turns
from tests.runtime.lanes import (
    Recording,
    lane_of,
    pages_on_disk,
    passes,
    refused_lane,
    wait_of,
    write_lock,
)
from tests.runtime.turns import GENERATION, begin, decided, ending, new_turn, reply
from windlass.errors import IdempotencyConflict, StoreError, WindlassError
from windlass.journal import Entry
from windlass.ports import UnitReceipt
from windlass.runtime.lane import Lane, Submits
from windlass.stores.sqlite import SqliteStore

# --- law 1: in order --------------------------------------------------------------------------

MakeLane = Callable[[Submits, str], Lane]


async def check_order(path: Path, make_lane: MakeLane) -> None:
    """Write four turns at once, by barriers and by idling; read their pages back from a closed file."""
    store = SqliteStore(path)
    await store.open()
    worker = await store.join(until_ms=turns.UNTIL_MS, now_ms=0)
    sessions = ("a", "b", "c", "d")

    async def drive(session_id: str, stride: int) -> None:
        lane = make_lane(store, session_id)
        for n in range(0, 30, 2):
            lane.add(reply(session_id, n))
            lane.add(reply(session_id, n + 1))
            if n % stride == 0:
                await lane.durable()
            await passes(n % 7)
        await lane.durable()

    for session_id in sessions:
        await begin(store, session_id, worker)
    async with asyncio.TaskGroup() as group:
        for stride, session_id in enumerate(sessions, start=3):
            group.create_task(drive(session_id, stride))
    await store.close()

    again = SqliteStore(path)
    await again.open()
    try:
        for session_id in sessions:
            turn = await again.load_turn(session_id, "t1")
            assert turns.said(turn) == [f"reply {n}" for n in range(30)]
    finally:
        await again.close()


async def test_what_was_added_becomes_durable_in_the_order_in_which_it_was_added(
    tmp_path: Path,
) -> None:
    await check_order(tmp_path / "w.db", lane_of)


class LastFirst(Lane):
    """Breaks law 1: what is added goes before what waits already."""

    def add(self, entry: Entry, blobs: Iterable[str] = ()) -> None:
        kept, self._entries = self._entries, []
        super().add(entry, blobs=blobs)
        self._entries.extend(kept)


async def test_a_lane_that_lets_the_last_go_first_is_caught(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        await check_order(
            tmp_path / "w.db", lambda store, id_: LastFirst(store, id_, "t1", generation=GENERATION)
        )


# --- law 3: adding waits for nothing -----------------------------------------------------------


async def check_handed_in_by_itself(store: SqliteStore, make_lane: MakeLane) -> None:
    worker = await store.join(until_ms=turns.UNTIL_MS, now_ms=0)
    await begin(store, "a", worker)
    recording = Recording(store)
    lane = make_lane(recording, "a")

    lane.add(reply("a", 0))
    assert recording.units == []
    lane.add(decided("a", 0))
    await passes()

    assert [len(unit.entries) for unit in recording.units] == [2]
    await recording.tickets[0].durable()
    assert turns.said(await store.load_turn("a", "t1")) == ["reply 0"]


async def test_what_was_added_is_handed_in_by_itself_within_a_few_passes(
    store: SqliteStore,
) -> None:
    await check_handed_in_by_itself(store, lane_of)


class Idle(Lane):
    """Breaks law 3: hands in at barriers only."""

    def _pass(self) -> None:
        pass


async def test_a_lane_that_waits_for_a_barrier_is_caught(store: SqliteStore) -> None:
    with pytest.raises(AssertionError):
        await check_handed_in_by_itself(
            store, lambda store, id_: Idle(store, id_, "t1", generation=GENERATION)
        )


async def test_adding_waits_for_nothing_while_the_disk_stands_still(
    tmp_path: Path, store: SqliteStore
) -> None:
    worker = await store.join(until_ms=turns.UNTIL_MS, now_ms=0)
    await begin(store, "a", worker)
    lane = lane_of(store, "a")
    loop = asyncio.get_running_loop()

    with write_lock(tmp_path / "w.db"):
        began = loop.time()
        for n in range(200):
            lane.add(reply("a", n))
            await asyncio.sleep(0)
        took_s = loop.time() - began
        assert pages_on_disk(tmp_path / "w.db") == 0

    await lane.durable()
    assert took_s < 2
    assert turns.said(await store.load_turn("a", "t1")) == [f"reply {n}" for n in range(200)]


async def test_nothing_is_added_behind_a_turns_end(store: SqliteStore) -> None:
    worker = await store.join(until_ms=turns.UNTIL_MS, now_ms=0)
    await begin(store, "a", worker)
    lane = lane_of(store, "a")

    async with asyncio.TaskGroup() as group:
        end = group.create_task(lane.commit(ending()))
        await asyncio.sleep(0)
        # Already handed in: it is a unit of its own, and comes too late.
        lane.add(reply("a", 0))
    assert (await end).head == 1
    with pytest.raises(StoreError):
        await lane.durable()
    turn = await store.load_turn("a", "t1")
    assert turn is not None
    assert turn.pages == ()


# --- law 4: durable means on disk --------------------------------------------------------------


async def check_durable(path: Path, store: SqliteStore, make_lane: MakeLane) -> None:
    worker = await store.join(until_ms=turns.UNTIL_MS, now_ms=0)
    await begin(store, "a", worker)
    lane = make_lane(store, "a")
    for n in range(10):
        lane.add(reply("a", n))
        await lane.durable()
        assert pages_on_disk(path) == n + 1
    with write_lock(path):
        lane.add(reply("a", 10))
        waits = asyncio.get_running_loop().create_task(lane.durable())
        done, _ = await asyncio.wait({waits}, timeout=0.1)
        assert not done
        assert pages_on_disk(path) == 10
    await waits
    assert pages_on_disk(path) == 11


async def test_whoever_waited_for_durable_finds_it_on_disk(
    tmp_path: Path, store: SqliteStore
) -> None:
    await check_durable(tmp_path / "w.db", store, lane_of)


class Hasty(Lane):
    """Breaks law 4: returns when it was handed in."""

    async def durable(self) -> UnitReceipt | None:
        self._hand_in()
        return None


async def test_a_lane_that_does_not_wait_is_caught(tmp_path: Path, store: SqliteStore) -> None:
    with pytest.raises(AssertionError):
        await check_durable(
            tmp_path / "w.db",
            store,
            lambda store, id_: Hasty(store, id_, "t1", generation=GENERATION),
        )


async def test_an_empty_lane_is_durable_at_once(store: SqliteStore) -> None:
    assert await lane_of(store, "a").durable() is None


# --- law 5: one reply ahead of the disk, and no more ---------------------------------------------

N_CALLS = 10


async def check_runs_one_ahead(
    path: Path, store: SqliteStore, make_lane: MakeLane, lock_s: float
) -> None:
    """Let a turn loop while the disk stands still."""
    worker = await store.join(until_ms=turns.UNTIL_MS, now_ms=0)
    await begin(store, "a", worker)
    lane = make_lane(store, "a")
    lane.add(turns.STARTED)
    await lane.durable()
    calls = 0

    async def drive() -> None:
        nonlocal calls
        for n in range(N_CALLS):
            await lane.may_call_model()
            calls += 1
            await asyncio.sleep(0)
            lane.add(reply("a", n))
        await lane.durable()

    with write_lock(path):
        task = asyncio.get_running_loop().create_task(drive())
        done, _ = await asyncio.wait({task}, timeout=lock_s)
        ahead = calls
    await task
    assert not done
    # The first reply is not on disk when the second is asked for, and must be before the third is.
    assert ahead == 2
    assert calls == N_CALLS
    turn = await store.load_turn("a", "t1")
    assert turns.said(turn) == [f"reply {n}" for n in range(N_CALLS)]


async def test_a_turn_whose_disk_has_stopped_runs_ahead_by_one_reply(
    tmp_path: Path, store: SqliteStore
) -> None:
    await check_runs_one_ahead(tmp_path / "w.db", store, lane_of, lock_s=3)


class Reckless(Lane):
    """Breaks law 5: asks the model whatever the disk says."""

    async def may_call_model(self) -> None:
        pass


async def test_a_lane_that_runs_far_ahead_is_caught(tmp_path: Path, store: SqliteStore) -> None:
    with pytest.raises(AssertionError):
        await check_runs_one_ahead(
            tmp_path / "w.db",
            store,
            lambda store, id_: Reckless(store, id_, "t1", generation=GENERATION),
            lock_s=0.2,
        )


async def test_a_turn_that_waits_for_its_reply_hears_of_its_refusal(
    store: SqliteStore,
) -> None:
    lane = await refused_lane(store)
    lane.add(reply("a", 1))

    with pytest.raises(IdempotencyConflict):
        await lane.may_call_model()


# --- the parts of a unit ---------------------------------------------------------------------------


async def test_accepting_and_starting_late_begin_a_unit_of_their_own(store: SqliteStore) -> None:
    worker = await store.join(until_ms=turns.UNTIL_MS, now_ms=0)
    await begin(store, "a", worker)
    recording = Recording(store)
    lane = lane_of(recording, "a")
    lane.add(reply("a", 0))
    lane.accept(new_turn())
    lane.add(reply("a", 1))

    receipt = await lane.durable()

    assert receipt is not None
    assert receipt.accepted is not None
    assert receipt.accepted.known
    assert [(unit.accept is None, unit.position) for unit in recording.units] == [
        (True, 0),
        (False, 1),
    ]


async def test_a_parked_turn_rests_behind_all_that_was_added(store: SqliteStore) -> None:
    worker = await store.join(until_ms=turns.UNTIL_MS, now_ms=0)
    await begin(store, "a", worker)
    lane = lane_of(store, "a")
    lane.add(reply("a", 0))
    lane.open_wait(wait_of("a", "w_1"))

    await lane.park()

    turn = await store.load_turn("a", "t1")
    assert turn is not None
    assert (turn.state, len(turn.pages), len(turn.waits)) == ("parked", 1, 1)


async def test_a_lane_goes_on_where_a_turns_pages_end(store: SqliteStore) -> None:
    worker = await store.join(until_ms=turns.UNTIL_MS, now_ms=0)
    await begin(store, "a", worker)
    first = lane_of(store, "a")
    first.add(reply("a", 0))
    await first.durable()

    then = lane_of(store, "a", position=1)
    then.add(reply("a", 1))
    await then.durable()

    assert turns.said(await store.load_turn("a", "t1")) == ["reply 0", "reply 1"]


async def test_a_lane_at_the_wrong_place_is_refused_and_writes_nothing(
    tmp_path: Path, store: SqliteStore
) -> None:
    worker = await store.join(until_ms=turns.UNTIL_MS, now_ms=0)
    await begin(store, "a", worker)
    before = turns.dump(tmp_path / "w.db")
    lane = lane_of(store, "a", position=3)
    lane.add(reply("a", 0))

    with pytest.raises(WindlassError):
        await lane.durable()

    assert turns.dump(tmp_path / "w.db") == before

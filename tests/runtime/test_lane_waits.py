"""The lane's sixth law: readers find entries and waits in the order in which they were added."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.runtime import turns
from tests.runtime.lanes import lane_of, wait_of
from tests.runtime.turns import GENERATION, begin, reply
from windlass.journal import DriveEnded
from windlass.ports import Wait
from windlass.runtime.lane import Lane, Submits
from windlass.stores.sqlite import SqliteStore

MakeLane = Callable[[Submits, str], Lane]


async def check_waits_in_order(store: SqliteStore, make_lane: MakeLane) -> None:
    """Add entries and waits by turns; find each wait behind the pages of what was added before it."""
    worker = await store.join(until_ms=turns.UNTIL_MS, now_ms=0)
    await begin(store, "a", worker)
    lane = make_lane(store, "a")
    lane.open_wait(wait_of("a", "w_0"))
    lane.add(reply("a", 0))
    lane.add(reply("a", 1))
    lane.open_wait(wait_of("a", "w_1"))
    lane.open_wait(wait_of("a", "w_2"))
    lane.add(reply("a", 2))
    await lane.durable()

    turn = await store.load_turn("a", "t1")
    assert turn is not None
    assert [len(page.entries) for page in turn.pages] == [2, 1]
    assert [(one.wait.key, one.page) for one in turn.waits] == [("w_0", 0), ("w_1", 1), ("w_2", 1)]


async def test_what_is_added_behind_a_wait_is_found_behind_it(store: SqliteStore) -> None:
    before = store._writer.commits
    await check_waits_in_order(store, lane_of)

    assert store._writer.commits - before == 4  # the worker, the turn, its start, and all of this


class EntriesFirst(Lane):
    """Breaks law 6: what is added joins the open unit, also behind a wait."""

    def open_wait(self, wait: Wait) -> None:
        super().open_wait(wait)
        self._takes_entries = True


async def test_a_lane_that_puts_entries_before_a_wait_is_caught(store: SqliteStore) -> None:
    with pytest.raises(AssertionError):
        await check_waits_in_order(
            store, lambda store, id_: EntriesFirst(store, id_, "t1", generation=GENERATION)
        )


async def test_the_last_entry_of_a_drive_parks_with_the_wait(store: SqliteStore) -> None:
    worker = await store.join(until_ms=turns.UNTIL_MS, now_ms=0)
    await begin(store, "a", worker)
    lane = lane_of(store, "a")
    lane.add(reply("a", 0))
    lane.open_wait(wait_of("a", "w_1"))

    await lane.park(DriveEnded(at_ms=1, why="parked"))

    turn = await store.load_turn("a", "t1")
    assert turn is not None
    assert [len(page.entries) for page in turn.pages] == [2]
    assert [one.page for one in turn.waits] == [1]

"""How often a turn goes to disk: one iteration, one commit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.runtime import turns
from tests.runtime.lanes import PASSES, lane_of, passes
from tests.runtime.turns import begins, decided, ending, intent, new_turn, reply, result
from windlass.ports import Ticket, Unit, UnitReceipt
from windlass.runtime.lane import Lane
from windlass.stores.sqlite import SqliteStore

ITERATIONS = 20


async def begun(store: SqliteStore) -> tuple[Lane, int]:
    """Return the lane of a turn that is only just asked for, and how many commits there were."""
    worker = await store.join(until_ms=turns.UNTIL_MS, now_ms=0)
    before = store._writer.commits
    lane = lane_of(store, "a")
    lane.accept(new_turn())
    lane.start(begins(worker))
    lane.add(turns.STARTED)
    return lane, before


async def test_a_short_turn_is_one_commit(store: SqliteStore) -> None:
    lane, before = await begun(store)
    await lane.may_call_model()
    await asyncio.sleep(0)
    lane.add(reply("a", 0))
    receipt = await lane.commit(ending())

    assert store._writer.commits - before == 1
    assert receipt.head == 1
    assert (await store.load_session("a")).active is None


async def drive_once_tools(lane: Lane, *, model_passes: int, tool_passes: int) -> None:
    """Drive iterations with a tool that acts: its intent is on disk before its body runs."""
    for n in range(ITERATIONS):
        await lane.may_call_model()
        await passes(model_passes)
        lane.add(reply("a", n))
        lane.add(decided("a", n))
        lane.add(intent("a", n))
        await lane.durable()
        await passes(tool_passes)
        lane.add(result("a", n))
    await lane.may_call_model()
    await passes(model_passes)
    lane.add(reply("a", ITERATIONS))
    await lane.commit(ending())


async def check_once_tools(store: SqliteStore, *, model_passes: int, tool_passes: int) -> None:
    lane, before = await begun(store)

    await drive_once_tools(lane, model_passes=model_passes, tool_passes=tool_passes)

    assert store._writer.commits - before == ITERATIONS + 1
    turn = await store.load_turn("a", "t1")
    assert turn is not None
    assert len(turn.pages) == ITERATIONS + 1
    assert turns.said(turn) == [f"reply {n}" for n in range(ITERATIONS + 1)]


async def test_twenty_iterations_with_a_tool_that_acts_are_twenty_one_commits(
    store: SqliteStore,
) -> None:
    await check_once_tools(store, model_passes=0, tool_passes=0)


@pytest.fixture
async def quick_store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """A store that waits for no disk, so that it commits on the loop itself."""
    store = SqliteStore(tmp_path / "quick.db", durability="process")
    await store.open()
    yield store
    await store.close()


async def test_twenty_iterations_are_twenty_one_commits_also_where_the_disk_is_quick(
    quick_store: SqliteStore,
) -> None:
    await check_once_tools(quick_store, model_passes=0, tool_passes=0)


async def test_a_turn_with_tools_that_only_read_commits_every_second_reply(
    store: SqliteStore,
) -> None:
    """Twenty iterations in which nothing acts: nothing but the replies has to be on disk early."""
    lane, before = await begun(store)
    for n in range(ITERATIONS):
        await lane.may_call_model()
        lane.add(reply("a", n))
        lane.add(decided("a", n))
        lane.add(intent("a", n))
        lane.add(result("a", n))
    await lane.may_call_model()
    lane.add(reply("a", ITERATIONS))
    await lane.commit(ending())

    assert turns.said(await store.load_turn("a", "t1")) == [
        f"reply {n}" for n in range(ITERATIONS + 1)
    ]
    assert store._writer.commits - before == 11


async def test_a_short_turn_with_tools_that_only_read_is_at_most_three_commits(
    store: SqliteStore,
) -> None:
    lane, before = await begun(store)
    for n in range(4):
        await lane.may_call_model()
        lane.add(reply("a", n))
        lane.add(decided("a", n))
        lane.add(intent("a", n))
        lane.add(result("a", n))
    await lane.may_call_model()
    lane.add(reply("a", 4))
    await lane.commit(ending())

    # Replies 0 and 1 before the third call, 2 and 3 before the fifth, and the end.
    assert store._writer.commits - before == 3


# --- patience ------------------------------------------------------------------------------------


class Settled:
    """A ticket of something that is on disk already."""

    is_settled = True
    refusal: BaseException | None = None
    receipt: UnitReceipt | None = None

    def settle_now(self) -> bool:
        return True

    def when_settled(self, tell: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(tell)

    async def durable(self) -> UnitReceipt:
        return UnitReceipt()


class AtOnce:
    """A store whose disk takes no time at all."""

    def __init__(self) -> None:
        self.units: list[Unit] = []

    def submit(
        self, unit: Unit, *, after: Ticket[UnitReceipt] | None = None
    ) -> Ticket[UnitReceipt]:
        self.units.append(unit)
        return Settled()


async def patience_of(store: AtOnce, lane: Lane, iteration: int) -> int:
    """Return how many passes of the loop an open unit waits for company."""
    before = len(store.units)
    lane.add(reply("a", iteration))
    for n in range(PASSES):
        if len(store.units) > before:
            return n
        await asyncio.sleep(0)
    return PASSES


@pytest.mark.parametrize("since", [0, 1, 2, 3, 4])
async def test_every_open_unit_waits_equally_long_for_company(since: int) -> None:
    """However long ago a barrier took the one before."""
    fresh = AtOnce()
    wanted = await patience_of(fresh, lane_of(fresh, "a"), 0)
    store = AtOnce()
    lane = lane_of(store, "a")
    lane.add(reply("a", 0))
    await lane.durable()
    await passes(since)

    assert await patience_of(store, lane, 1) == wanted

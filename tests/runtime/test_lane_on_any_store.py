"""A lane knows nothing of its store: on one in memory it keeps the same laws."""

from __future__ import annotations

import pytest

from tests.runtime.lanes import lane_of, passes, refused_claim, rejected_wait
from tests.runtime.turns import UNTIL_MS, begins, ending, intent, new_turn, reply, result, said
from windlass.errors import IdempotencyConflict
from windlass.runtime.lane import Lane
from windlass.stores.memory import MemoryStore


@pytest.fixture
async def store() -> MemoryStore:
    store = MemoryStore()
    await store.open()
    return store


async def begun(store: MemoryStore, told: list[BaseException]) -> Lane:
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    lane = lane_of(store, "a", on_refused=told.append)
    lane.accept(new_turn())
    lane.start(begins(worker))
    return lane


async def test_a_whole_turn_lands_in_the_order_in_which_it_was_added(store: MemoryStore) -> None:
    told: list[BaseException] = []
    lane = await begun(store, told)
    for n in range(3):
        await lane.may_call_model()
        lane.add(reply("a", n))
        lane.add(intent("a", n))
        await lane.durable()
        lane.add(result("a", n))
    lane.add(reply("a", 3))

    receipt = await lane.commit(ending())

    turn = await store.load_turn("a", "t1")
    assert turn is not None
    assert said(turn) == ["reply 0", "reply 1", "reply 2", "reply 3"]
    assert (receipt.head, len(turn.pages), told) == (1, 4, [])


async def test_one_refused_unit_refuses_what_comes_after_it(store: MemoryStore) -> None:
    told: list[BaseException] = []
    lane = await begun(store, told)
    lane.add(reply("a", 0))
    await lane.durable()
    await rejected_wait(store, "a")
    lane.add(refused_claim("a"))
    await passes()

    with pytest.raises(IdempotencyConflict):
        lane.add(reply("a", 1))
    with pytest.raises(IdempotencyConflict):
        await lane.commit(ending())

    turn = await store.load_turn("a", "t1")
    assert turn is not None
    assert (turn.state, said(turn)) == ("running", ["reply 0"])
    assert [type(refusal) for refusal in told] == [IdempotencyConflict]

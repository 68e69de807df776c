"""Law 2 of the lane: one refused, all later ones refused, and the turn is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.runtime import turns
from tests.runtime.lanes import (
    lane_of,
    passes,
    refused_claim,
    refused_lane,
    rejected_wait,
    wait_of,
    write_lock,
)
from tests.runtime.turns import begin, begins, ending, new_turn, reply
from windlass.errors import IdempotencyConflict, InvalidInput, StoreError
from windlass.journal import TurnStarted
from windlass.ports import Ticket, Unit, UnitReceipt
from windlass.runtime.lane import Submits
from windlass.stores.sqlite import SqliteStore


async def check_refusal(
    path: Path, store: SqliteStore, wrap: Callable[[SqliteStore], Submits]
) -> None:
    """Refuse the second of a turn's four units, all in one transaction with those of two neighbours."""
    worker = await store.join(until_ms=turns.UNTIL_MS, now_ms=0)
    told: list[BaseException] = []
    lanes = {
        "a": lane_of(wrap(store), "a", on_refused=told.append),
        "b": lane_of(wrap(store), "b"),
        "c": lane_of(wrap(store), "c"),
    }
    for session_id in lanes:
        await begin(store, session_id, worker)
    await rejected_wait(store, "a")
    commits = store._writer.commits

    with write_lock(path):
        for n in range(2):
            for session_id, lane in lanes.items():
                is_refused = session_id == "a" and n == 1
                lane.add(refused_claim("a") if is_refused else reply(session_id, n))
            await passes()
        for session_id, lane in lanes.items():
            lane.open_wait(wait_of(session_id, f"w_{session_id}"))
        await passes()
        for session_id, lane in lanes.items():
            lane.add(reply(session_id, 2))
        await passes()
        assert told == []

    for session_id in ("b", "c"):
        await lanes[session_id].durable()
        turn = await store.load_turn(session_id, "t1")
        assert turns.said(turn) == ["reply 0", "reply 1", "reply 2"]
    with pytest.raises(IdempotencyConflict) as refused:
        await lanes["a"].durable()
    assert store._writer.commits == commits + 1
    assert turns.said(await store.load_turn("a", "t1")) == ["reply 0"]
    waits = await store.list_waits()
    assert sorted(view.wait.session_id for view in waits) == ["b", "c"]
    assert told == [refused.value]
    assert lanes["a"].refusal is refused.value


async def test_one_refused_unit_takes_all_later_ones_along_and_no_neighbour(
    tmp_path: Path, store: SqliteStore
) -> None:
    await check_refusal(tmp_path / "w.db", store, lambda store: store)


class ForgetsOrder:
    """Breaks law 2: units are handed in as if they were strangers."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store

    def submit(
        self, unit: Unit, *, after: Ticket[UnitReceipt] | None = None
    ) -> Ticket[UnitReceipt]:
        return self.store.submit(unit)


async def test_a_store_that_forgets_what_comes_after_what_is_caught(
    tmp_path: Path, store: SqliteStore
) -> None:
    with pytest.raises(AssertionError):
        await check_refusal(tmp_path / "w.db", store, ForgetsOrder)


async def test_a_refused_lane_raises_the_same_refusal_at_every_door(store: SqliteStore) -> None:
    lane = await refused_lane(store)
    with pytest.raises(IdempotencyConflict) as first:
        await lane.durable()
    await passes()

    doors: list[Callable[[], object]] = [
        lambda: lane.add(reply("a", 1)),
        lambda: lane.open_wait(wait_of("a", "w")),
        lambda: lane.start(begins("w-1")),
        lambda: lane.accept(new_turn()),
    ]
    for door in doors:
        with pytest.raises(IdempotencyConflict) as again:
            door()
        assert again.value is first.value
    barriers: list[Callable[[], Awaitable[object]]] = [
        lane.durable,
        lane.may_call_model,
        lane.park,
        lambda: lane.commit(ending()),
    ]
    for barrier in barriers:
        with pytest.raises(IdempotencyConflict) as again:
            await barrier()
        assert again.value is first.value
    await passes()
    assert turns.said(await store.load_turn("a", "t1")) == ["reply 0"]


async def test_the_turns_task_can_be_cancelled_by_its_refusal(store: SqliteStore) -> None:
    told: list[BaseException] = []
    task: asyncio.Task[None] | None = None

    def stop(refusal: BaseException) -> None:
        told.append(refusal)
        assert task is not None
        task.cancel()

    async def turn() -> None:
        await refused_lane(store, on_refused=stop)
        await asyncio.Event().wait()  # a model that never answers

    async with asyncio.TaskGroup() as group:
        task = group.create_task(turn())

    assert task.cancelled()
    assert [type(refusal) for refusal in told] == [IdempotencyConflict]


class Refused:
    """A ticket of something that was refused before anybody could ask; the lane is told soon, as the port says."""

    is_settled = True

    def __init__(self) -> None:
        self.refusal: BaseException | None = IdempotencyConflict("refused")
        self.receipt: UnitReceipt | None = None

    def settle_now(self) -> bool:
        return True

    def when_settled(self, tell: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(tell)

    async def durable(self) -> UnitReceipt:
        assert self.refusal is not None
        raise self.refusal


class RefusesAll:
    """A store that refuses at once, as another thread may have by the time one looks."""

    def submit(
        self, unit: Unit, *, after: Ticket[UnitReceipt] | None = None
    ) -> Ticket[UnitReceipt]:
        return Refused()


async def test_whoever_heard_a_refusal_at_a_barrier_finds_the_lane_refused() -> None:
    told: list[BaseException] = []
    lane = lane_of(RefusesAll(), "a", on_refused=told.append)
    lane.add(reply("a", 0))
    with pytest.raises(IdempotencyConflict) as refused:
        await lane.durable()

    assert lane.refusal is refused.value
    with pytest.raises(IdempotencyConflict):
        lane.add(reply("a", 1))
    await passes()
    assert told == [refused.value]


UNWRITABLE = TurnStarted(agent="helper", model="m", instructions="half a \ud83d pair")
"""No bytes can hold it, so a store refuses it before it is in line."""


async def test_a_unit_that_is_refused_at_the_stores_door_refuses_the_lane(
    store: SqliteStore,
) -> None:
    worker = await store.join(until_ms=turns.UNTIL_MS, now_ms=0)
    await begin(store, "a", worker)
    told: list[BaseException] = []
    lane = lane_of(store, "a", on_refused=told.append)
    lane.add(UNWRITABLE)

    with pytest.raises(InvalidInput):
        await lane.durable()
    with pytest.raises(InvalidInput):
        await lane.commit(ending())

    await passes()
    assert [type(refusal) for refusal in told] == [InvalidInput]
    assert (await store.load_session("a")).head == 0


async def test_a_unit_that_is_refused_at_the_door_when_nobody_waits_refuses_the_lane(
    store: SqliteStore,
) -> None:
    worker = await store.join(until_ms=turns.UNTIL_MS, now_ms=0)
    await begin(store, "a", worker)
    told: list[BaseException] = []
    unheard: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
    lane = lane_of(store, "a", on_refused=told.append)
    lane.add(UNWRITABLE)
    await passes()

    with pytest.raises(InvalidInput):
        await lane.commit(ending())

    assert [type(refusal) for refusal in told] == [InvalidInput]
    assert unheard == []
    assert (await store.load_session("a")).head == 0


async def test_a_lane_whose_store_was_closed_is_refused(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "w.db")
    await store.open()
    worker = await store.join(until_ms=turns.UNTIL_MS, now_ms=0)
    await begin(store, "a", worker)
    told: list[BaseException] = []
    lane = lane_of(store, "a", on_refused=told.append)
    await store.close()
    lane.add(reply("a", 0))

    with pytest.raises(StoreError):
        await lane.durable()
    with pytest.raises(StoreError):
        await lane.durable()

    assert len(told) == 1

"""What is due costs what there is to do: not the turns that wait for days, nor the signals that none of them asks for.

SQLite counts the steps that its queries take, so the counts are the same on every run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import apsw
import pytest

from bench.store_file import OpenStore, open_store
from windlass.ports import (
    NewItem,
    NewTurn,
    PostItem,
    Start,
    TurnRequest,
    Unit,
    Wait,
    WaitKind,
)
from windlass.stores.sqlite import SqliteStore
from windlass.stores.sqlite import signals as signal_rows

FEW, MANY = 40, 400
UNTIL_MS = 10**9
NEW = NewTurn(agent="helper", request=TurnRequest())
KINDS: tuple[WaitKind, ...] = ("timer", "child", "signal")

Ask: TypeAlias = Callable[[SqliteStore, str], Awaitable[object]]
QUESTIONS: dict[str, Ask] = {
    "due": lambda store, _: store.due(0),
    "due to a worker": lambda store, worker: store.due(0, agents=["helper"], worker_id=worker),
    "due to a worker of another agent": lambda store, worker: store.due(
        0, agents=["other"], worker_id=worker
    ),
    "a claim": lambda store, worker: store.claim(
        worker, agents=["helper"], limit=10, until_ms=UNTIL_MS, now_ms=0
    ),
    "open waits of a session": lambda store, _: store.list_waits(session_id="timer-7"),
    "a session": lambda store, _: store.load_session("timer-7"),
    "an inbox": lambda store, _: store.inbox("signal-7"),
}


def parked(kind: WaitKind, number: int, worker_id: str) -> Unit:
    """Return the unit of a turn that begins and parks; a timer is due at a time of its own."""
    session_id = f"{kind}-{number}"
    expires_ms = UNTIL_MS + number if kind == "timer" else None
    detail = {"signal": "go"} if kind == "signal" else None
    wait = Wait(
        key=f"w-{session_id}",
        kind=kind,
        session_id=session_id,
        turn_id="t",
        detail=detail,
        expires_ms=expires_ms,
    )
    start = Start(worker_id=worker_id, until_ms=UNTIL_MS)
    place: dict[str, Any] = {"session_id": session_id, "turn_id": "t", "generation": 1}
    return Unit(**place, accept=NEW, start=start, waits=(wait,), parks=True)


def unasked(number: int) -> list[PostItem]:
    """Return what sends a signal that its session does not ask for."""
    content = {"name": "other", "value": number}
    item = NewItem(item_id=f"k{number}", kind="signal", when="asked", content=content)
    return [PostItem(session_id=f"signal-{number}", item=item)]


async def fill(opened: OpenStore, count: int) -> str:
    """Let so many turns of each kind be parked, and as many signals lie unasked; return another worker."""
    store = opened.store
    units = [parked(kind, at, opened.worker_id) for kind in KINDS for at in range(count)]
    for ticket in [store.submit(unit) for unit in units]:
        await ticket.durable()
    for at in range(count):
        await store.run_errands(unasked(at), now_ms=0)
    return await store.join(until_ms=UNTIL_MS, now_ms=0)


class Steps:
    """Counts the steps of all connections of a store, also of those that it opens later."""

    def __init__(self, store: SqliteStore) -> None:
        self.count = 0
        assert store._writer._rows is not None
        self._trace(store._writer._rows.db)
        self._take = store._readers._take
        store._readers._take = self._take_traced  # type: ignore[method-assign]

    def _take_traced(self) -> apsw.Connection:
        return self._trace(self._take())

    def _trace(self, db: apsw.Connection) -> apsw.Connection:
        db.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._note)
        return db

    def _note(self, event: dict[str, Any]) -> None:
        self.count += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]


async def steps_of(ask: Ask, path: Path, count: int, change: str = "") -> int:
    async with open_store(path, durability="process") as opened:
        worker = await fill(opened, count)
        assert opened.store._writer._rows is not None
        opened.store._writer._rows.db.execute(change)
        steps = Steps(opened.store)
        await ask(opened.store, worker)
        return steps.count


@pytest.mark.parametrize("name", QUESTIONS)
async def test_turns_that_wait_cost_nothing_when_it_is_asked_what_is_due(
    tmp_path: Path, name: str
) -> None:
    few = await steps_of(QUESTIONS[name], tmp_path / "few.db", FEW)
    many = await steps_of(QUESTIONS[name], tmp_path / "many.db", MANY)

    assert few > 0
    assert abs(many - few) < 30


async def test_the_steps_of_a_connection_that_is_opened_meanwhile_are_counted(
    tmp_path: Path,
) -> None:
    async with open_store(tmp_path / "s.db", durability="process") as opened:
        worker = await fill(opened, FEW)
        steps = Steps(opened.store)
        busy = opened.store._readers._take()
        await QUESTIONS["due"](opened.store, worker)
        busy.close()

    assert steps.count > 0


# Each is the index as it would be if what waits were in it.
FAULTS = {
    "turns": "DROP INDEX turns_open; CREATE INDEX turns_open ON turns (session, arrived, state, agent)"
    " WHERE state <> 'done'",
    "signals": "DROP INDEX inbox_waiting; CREATE INDEX inbox_waiting ON inbox (session, arrived, state, due)"
    " WHERE state IN ('pending', 'taken')",
}


@pytest.mark.parametrize("name", FAULTS)
async def test_an_index_that_holds_what_waits_is_seen(tmp_path: Path, name: str) -> None:
    ask = QUESTIONS["due"]

    few = await steps_of(ask, tmp_path / "few.db", FEW, FAULTS[name])
    many = await steps_of(ask, tmp_path / "many.db", MANY, FAULTS[name])

    assert many - few > MANY - FEW


async def test_a_signal_and_the_wait_that_asks_for_it_are_each_one_search(tmp_path: Path) -> None:
    async with open_store(tmp_path / "s.db", durability="process") as opened:
        rows = opened.store._writer._rows
        assert rows is not None

        def plan(query: str, *values: object) -> list[str]:
            return [row[3] for row in rows.db.execute(f"EXPLAIN QUERY PLAN {query}", values)]

        assert plan(signal_rows.OLDEST_WAIT, 1, "go", 0) == [
            "SEARCH waits USING INDEX waits_open_by_turn (turn=? AND signal=?)"
        ]
        assert plan(signal_rows.OLDEST_ITEM, 1, "go") == [
            "SEARCH inbox USING INDEX inbox_asked (session=? AND signal=?)"
        ]


async def test_a_signal_costs_the_same_however_many_turns_wait(tmp_path: Path) -> None:
    async def send(store: SqliteStore, _: str) -> object:
        content = {"name": "go", "value": 1}
        item = NewItem(item_id="now", kind="signal", when="asked", content=content)
        (receipt,) = await store.run_errands([PostItem(session_id="signal-7", item=item)], now_ms=0)
        assert receipt.status == "done"
        return receipt

    few = await steps_of(send, tmp_path / "few.db", FEW)
    many = await steps_of(send, tmp_path / "many.db", MANY)

    assert few > 0
    assert abs(many - few) < 30

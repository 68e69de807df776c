"""A write whose COMMIT landed and said that it failed is answered as if it had said nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import apsw
import pytest

from tests.runtime import turns
from tests.runtime.turns import GENERATION, UNTIL_MS, begin, begins, ending, new_turn, reply, unit
from tests.unit_shortcuts import UnitShortcuts
from windlass.guards.secret import Secret, register_secret
from windlass.journal import ForkedFrom, HistoryPage
from windlass.kernel import Stopped
from windlass.ports import (
    AcceptTurn,
    AnswerWait,
    CancelTurn,
    Errand,
    ErrandReceipt,
    NewItem,
    PostItem,
    Unit,
    Wait,
    WaitAnswer,
)
from windlass.stores.sqlite import SqliteStore

KEY = "sk-canary-4711"
WAIT = Wait(key="w_1", kind="approval", session_id="a", turn_id="t1")
PARKED = Wait(key="w_parked", kind="child", session_id="parked", turn_id="t1")
Do: TypeAlias = Callable[[SqliteStore, str], Awaitable[object]]


async def prepared(path: Path) -> tuple[SqliteStore, str]:
    """Return a store with a turn under way, one that has ended and began a child, a parked and a queued one."""
    register_secret(Secret(KEY, name="KEY"))
    store = SqliteStore(path)
    await store.open()
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    await begin(store, "a", worker)
    await store.submit(unit("a", 0, reply("a", 0), waits=(WAIT,))).durable()
    await store.enqueue("a", NewItem(item_id="i1", content={"n": 1}))
    await begin(store, "ended", worker)
    told = AcceptTurn(session_id="kid", turn_id="t1", turn=new_turn(), kind="child")
    await store.submit(unit("ended", 0, commit=ending(), errands=(told,))).durable()
    await store.submit(unit("kid", 0, start=begins(worker), commit=ending())).durable()
    await begin(store, "parked", worker)
    await store.submit(unit("parked", 0, waits=(PARKED,), parks=True)).durable()
    await store.accept("queued", "t1", new_turn())
    return store, worker


async def take_over(store: SqliteStore, worker: str) -> object:
    lease = await store.take_over("a", "t1", worker_id=worker, until_ms=UNTIL_MS, now_ms=1)
    turn = await store.load_turn("a", "t1")
    assert turn is not None
    return lease.generation, lease.takeovers, turn.generation, turn.takeovers


async def claim(store: SqliteStore, worker: str) -> object:
    agents = [new_turn().agent]
    found = await store.claim(worker, agents=agents, limit=5, until_ms=UNTIL_MS, now_ms=1)
    return [(one.lease.session_id, one.lease.generation, one.turn.state) for one in found]


async def join(store: SqliteStore, worker: str) -> object:
    return len(await store.join(until_ms=UNTIL_MS, now_ms=0))


def errands(note: str = "up") -> tuple[Errand, ...]:
    """Return an errand of each kind, and one of each that is dropped: of a turn, which is then told so."""
    return (
        AcceptTurn(session_id="c", turn_id="t1", turn=new_turn(note), kind="child"),
        PostItem(session_id="ended", item=NewItem(item_id="i9", content=note)),
        AnswerWait(key="w_parked", answer=WaitAnswer(value=note, by="c")),
        CancelTurn(session_id="parked", turn_id="t1", reason=note),
        AcceptTurn(session_id="d", turn_id="t1", turn=new_turn(), most=0, rejects="w_1"),
        PostItem(session_id="nowhere", item=NewItem(item_id="i9")),
        AnswerWait(key="w_none", answer=WaitAnswer()),
        CancelTurn(session_id="ended", turn_id="t1"),
    )


async def send(store: SqliteStore, unit: Unit, worker: str) -> object:
    receipt = await store.submit(unit).durable()
    return (receipt.page, receipt.committed, named(receipt.errands, worker))


async def run_alone(store: SqliteStore, worker: str) -> object:
    return named(await store.run_errands(errands()[:4] + errands()[5:], now_ms=9), worker)


def named(receipts: tuple[ErrandReceipt, ...], worker: str) -> list[object]:
    """Return receipts without the names of workers, which are different in every file."""
    return [
        (one.status, one.session_id, one.turn_id, one.owner == worker, one.reason)
        for one in receipts
    ]


async def fork(store: SqliteStore, worker: str) -> object:
    return await store.fork("ended", "f", now_ms=1)


async def fork_inside(store: SqliteStore, worker: str) -> object:
    page = HistoryPage(
        format=HistoryPage.FORMAT,
        turn_id="t1",
        nodes=(),
        outcome=Stopped(reason="incomplete"),
        forked=ForkedFrom(session_id="ended", turn_id="t1", iterations=1),
    )
    return await store.fork("ended", "f", at=0, now_ms=1, page=page)


WRITES: dict[str, Do] = {
    "accept": lambda store, _: store.accept("b", "t1", new_turn()),
    "accept in a known session": lambda store, _: store.accept("a", "t2", new_turn()),
    "accept with an item": lambda store, _: store.accept("a", "t2", new_turn(takes=("i1",))),
    "unit": lambda store, _: store.submit(unit("a", 1, reply("a", 1))).durable(),
    "commit": lambda store, _: UnitShortcuts(store).commit(
        "a", "t1", ending(), generation=GENERATION
    ),
    "unit with errands": lambda store, worker: send(
        store, unit("a", 1, reply("a", 1), errands=errands()), worker
    ),
    "unit of errands alone": lambda store, worker: send(
        store, unit("a", 1, errands=errands()), worker
    ),
    "unit with a secret in its errands": lambda store, worker: send(
        store, unit("a", 1, reply("a", 1), errands=errands(f"no {KEY}")), worker
    ),
    "commit with errands": lambda store, worker: send(
        store, unit("a", 1, commit=ending(), errands=errands()), worker
    ),
    "errands of no unit": run_alone,
    "cancel": lambda store, _: store.request_cancel("a", "t1", reason="enough"),
    "cancel with a secret": lambda store, _: store.request_cancel("a", "t1", reason=f"no {KEY}"),
    "take over": take_over,
    "claim": claim,
    "join": join,
    "park": lambda store, _: store.submit(unit("a", 1, parks=True)).durable(),
    "release": lambda store, _: store.release("a", generation=GENERATION),
    "leave": lambda store, worker: store.leave(worker),
    "renew": lambda store, worker: store.renew(worker, until_ms=UNTIL_MS * 2).durable(),
    "fork": fork,
    "fork inside a turn": fork_inside,
    "delete": lambda store, _: store.delete_session("ended", now_ms=3),
    "enqueue": lambda store, _: store.enqueue("a", NewItem(item_id="i2", content="x")),
    "withdraw": lambda store, _: store.withdraw("a", "i1"),
    "take inbox": lambda store, _: store.take_inbox("a", "t1", generation=GENERATION),
    "open wait": lambda store, _: UnitShortcuts(store).open_wait(
        "a",
        "t1",
        Wait(key="w_2", kind="approval", session_id="a", turn_id="t1"),
        generation=GENERATION,
    ),
    "resolve": lambda store, _: store.resolve_wait("w_1", WaitAnswer(value="yes", by="ann")),
    "resolve with a secret": lambda store, _: store.resolve_wait("w_1", WaitAnswer(value=KEY)),
    "put blob": lambda store, _: store.put_blob(b"bytes", now_ms=1),
}


class Hook:
    """Raises once, when a transaction has landed and its COMMIT has not returned."""

    def __init__(self) -> None:
        self.fired = 0

    def __call__(self, db: apsw.Connection, name: str, pages: int) -> int:
        self.fired += 1
        if self.fired == 1:
            raise apsw.exception_for(apsw.SQLITE_IOERR)
        return apsw.SQLITE_OK


def without_names(path: Path) -> dict[str, list[Any]]:
    """Return all rows but what is different in every file: its own name and its workers'."""
    rows = turns.dump(path)
    joined = [row[6] for row in sorted(rows["news"]) if row[2] == "joined"]
    workers = {str(name): f"worker {at}" for at, name in enumerate(joined)}
    del rows["meta"]
    return {
        table: [tuple(workers.get(str(cell), cell) for cell in row) for row in found]
        for table, found in rows.items()
    }


@pytest.mark.parametrize("name", WRITES)
async def test_a_write_whose_commit_landed_unheard_is_answered_as_ever(
    tmp_path: Path, name: str
) -> None:
    control, worker = await prepared(tmp_path / "control.db")
    wanted = await WRITES[name](control, worker)
    store, worker = await prepared(tmp_path / "w.db")
    hook = Hook()
    assert store._writer._rows is not None
    store._writer._rows.db.set_wal_hook(hook)

    try:
        found = await WRITES[name](store, worker)

        assert hook.fired >= 1
        assert found == wanted
        assert without_names(tmp_path / "w.db") == without_names(tmp_path / "control.db")
    finally:
        await control.close()
        await store.close()

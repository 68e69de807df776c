"""A COMMIT that fails after everything in it succeeded says nothing about what landed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal, TypeAlias

import apsw
import pytest

from tests.runtime import turns
from tests.runtime.lanes import lane_of, passes, write_lock
from tests.runtime.turns import begin, begins, ending, new_turn, reply
from tests.runtime.wal_faults import WalFaults
from windlass.journal import UsageLine
from windlass.kernel.model_call import Usage
from windlass.ports import UnitReceipt, Wait
from windlass.stores.sqlite import SqliteStore, units

# landed: all of it is in the file for everybody to see, and COMMIT says that it failed.
Fault: TypeAlias = Literal["landed", "sync", "commit frame"]
FAULTS: tuple[Fault, ...] = ("landed", "sync", "commit frame")

SESSIONS = ("a", "b", "c", "d")
UNITS = 3
USED = UsageLine(source="turn", model="m", calls=UNITS, usage=Usage(output_tokens=10 * UNITS))


@pytest.fixture
def vfs() -> WalFaults:
    return WalFaults()


@pytest.fixture
async def faulty(tmp_path: Path, vfs: WalFaults) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "w.db", vfs=vfs.name)
    await store.open()
    yield store
    await store.close()


class Hook:
    """Raises once, after a transaction has landed and before its COMMIT has returned."""

    def __init__(self) -> None:
        self.fired = 0

    def __call__(self, db: apsw.Connection, name: str, pages: int) -> int:
        self.fired += 1
        raise apsw.exception_for(apsw.SQLITE_IOERR)


def arm(store: SqliteStore, vfs: WalFaults, fault: Fault) -> WalFaults | Hook:
    """Let the next commit fail; return what counts the failures."""
    if fault != "landed":
        vfs.fail_once(fault)
        return vfs
    hook = Hook()
    assert store._writer._rows is not None
    store._writer._rows.db.set_wal_hook(hook)
    return hook


async def write_batch(
    path: Path, store: SqliteStore, vfs: WalFaults, fault: Fault
) -> list[UnitReceipt | None]:
    """Hand in units of four turns, of which one is new and one ends, and let their one COMMIT fail."""
    worker = await store.join(until_ms=turns.UNTIL_MS, now_ms=0)
    for session_id in SESSIONS:
        await begin(store, session_id, worker)
    lanes = {session_id: lane_of(store, session_id) for session_id in (*SESSIONS, "new")}
    armed = arm(store, vfs, fault)
    with write_lock(path):
        for n in range(UNITS):
            for session_id in SESSIONS:
                lanes[session_id].add(reply(session_id, n))
            await passes()
        wait = Wait(key="w_1", kind="approval", session_id="a", turn_id="t1")
        lanes["a"].open_wait(wait)
        lanes["new"].accept(new_turn())
        lanes["new"].start(begins(worker))
        lanes["new"].add(reply("new", 0))
        loop = asyncio.get_running_loop()
        ended = loop.create_task(lanes["d"].commit(ending(usage=(USED,))))
        tasks = [loop.create_task(lane.durable()) for lane in lanes.values()]
        await passes()
    # Together: if one is refused, none is left behind with a refusal that is not heard.
    end, receipts = await asyncio.gather(ended, asyncio.gather(*tasks))
    assert end.head == 1
    assert armed.fired == 1
    return receipts


@pytest.mark.parametrize("fault", FAULTS)
async def test_after_a_commit_that_failed_every_unit_is_there_exactly_once(
    tmp_path: Path, vfs: WalFaults, faulty: SqliteStore, fault: Fault
) -> None:
    receipts = await write_batch(tmp_path / "w.db", faulty, vfs, fault)

    assert [receipt.page for receipt in receipts if receipt is not None] == [3, 3, 3, 3, 1]
    for session_id in SESSIONS:
        turn = await faulty.load_turn(session_id, "t1")
        assert turns.said(turn) == ["reply 0", "reply 1", "reply 2"]
    assert turns.said(await faulty.load_turn("new", "t1")) == ["reply 0"]
    assert [view.wait.key for view in await faulty.list_waits()] == ["w_1"]
    ended = await faulty.load_session("d")
    assert (ended.head, ended.active, len(ended.pages)) == (1, None, 1)
    assert [(line.calls, line.usage.output_tokens) for line in ended.usage] == [(3, 30)]
    rows = turns.dump(tmp_path / "w.db")
    # A request for each of five turns, their pages, and one page of history.
    assert len(rows["log"]) == 5 + len(SESSIONS) * UNITS + 1 + 1


@pytest.mark.parametrize("fault", FAULTS)
async def test_after_a_commit_that_failed_the_same_lane_goes_on(
    tmp_path: Path, vfs: WalFaults, faulty: SqliteStore, fault: Fault
) -> None:
    worker = await faulty.join(until_ms=turns.UNTIL_MS, now_ms=0)
    await begin(faulty, "a", worker)
    lane = lane_of(faulty, "a")
    for n in range(6):
        armed = arm(faulty, vfs, fault)
        lane.add(reply("a", n))
        await lane.durable()
        assert armed.fired > 0
        assert turns.said(await faulty.load_turn("a", "t1")) == [
            f"reply {at}" for at in range(n + 1)
        ]


async def test_a_store_that_does_not_look_up_what_landed_is_caught(
    tmp_path: Path, vfs: WalFaults, faulty: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "_landed", lambda *_: None)

    with pytest.raises(Exception) as refused:  # noqa: PT011 - that it cannot go well is the claim
        await write_batch(tmp_path / "w.db", faulty, vfs, "landed")
    assert type(refused.value).__name__ in ("HeadMoved", "IdempotencyConflict")

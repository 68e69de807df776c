"""What is due to one worker, and what it is given: turns of others cost next to nothing, and damaged ones stop no other."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path
from time import process_time
from typing import Any

import apsw
import pytest

from tests.runtime.lanes import write_lock
from tests.runtime.turns import GENERATION, UNTIL_MS, begin, begins, ending, new_turn, reply, unit
from tests.stores.files import raw
from windlass.errors import JournalCorrupt
from windlass.ports import ClaimedTurn, NewTurn, TurnRequest, Unit
from windlass.stores.sqlite import SqliteStore, due

FOREIGN = 8_000
# The bar is on processor time, of which a machine under load takes no more.
BAR_S = 0.002


def of(agent: str) -> NewTurn:
    return NewTurn(agent=agent, request=TurnRequest(), now_ms=1)


async def accept_many(store: SqliteStore, count: int, agent: str) -> None:
    units = [Unit.accepting(f"{agent}{at}", "t1", of(agent)) for at in range(count)]
    for ticket in [store.submit(one) for one in units]:
        await ticket.durable()


def plan(path: Path, where: str) -> list[str]:
    values = {"agents": '["mine"]', "worker": "w", "session": "s"}
    query = f"EXPLAIN QUERY PLAN {due._TURNS.format(where=where)}"
    return [row[3] for row in raw(path).execute(query, values)]


async def test_no_row_of_a_foreign_turn_is_read_to_find_ours(
    path: Path, store: SqliteStore
) -> None:
    found = plan(path, due._OURS)

    assert "SCAN turns USING COVERING INDEX turns_open" in found
    inner, outer = found[: found.index("SCAN open")], found[found.index("SCAN open") :]
    assert not [step for step in inner if "PRIMARY KEY" in step]
    assert "SEARCH turns USING INTEGER PRIMARY KEY (rowid=?)" in outer


async def test_with_an_index_that_says_less_the_rows_of_foreign_turns_would_be_read(
    path: Path, store: SqliteStore
) -> None:
    db = raw(path)
    db.execute("DROP INDEX turns_open")
    db.execute("CREATE INDEX turns_open ON turns (session, arrived) WHERE state <> 'done'")

    assert "SCAN turns USING INDEX turns_open" in plan(path, due._OURS)


async def test_what_is_to_be_released_is_found_by_what_is_less(
    path: Path, store: SqliteStore
) -> None:
    few, many = (plan(path, due._OF_OTHERS + where) for where in (due._IN_FEW, due._IN_MANY))

    assert "SEARCH turns USING COVERING INDEX turns_open (session=?)" in few
    assert "SEARCH sessions USING COVERING INDEX sessions_by_owner (owner=?)" in few
    assert "SCAN turns USING COVERING INDEX turns_open" in many
    assert [
        step for step in many if "COVERING INDEX sessions_by_owner (owner=? AND rowid=?)" in step
    ]


@pytest.mark.parametrize("few", [0, 1_000])
async def test_turns_to_be_released_are_found_however_many_sessions_a_worker_has(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(due, "_FEW", few)
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    parts: dict[str, Any] = {"start": begins(worker), "commit": ending()}
    await store.submit(unit("a", 0, reply("a", 0), accept=new_turn(), **parts)).durable()
    await store.accept("a", "t2", of("foreign"))
    await store.accept("b", "t1", of("foreign"))

    found = await store.due(0, agents=["helper"], worker_id=worker)

    assert [(turn.session_id, turn.owner) for turn in found.turns] == [("a", worker)]


async def test_thousands_of_foreign_turns_do_not_hold_a_worker_up(store: SqliteStore) -> None:
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    await accept_many(store, FOREIGN, "foreign")
    await store.accept("a", "t1", of("mine"))

    took: list[float] = []
    for _ in range(20):
        began = process_time()
        found = await store.due(0, agents=["mine"], worker_id=worker)
        took.append(process_time() - began)

    assert [turn.session_id for turn in found.turns] == ["a"]
    assert min(took) < BAR_S


async def test_ours_are_read_until_there_are_enough(store: SqliteStore) -> None:
    steps: list[int] = []
    db = store._readers._take()
    db.trace_v2(
        apsw.SQLITE_TRACE_PROFILE,
        lambda event: steps.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]),
    )
    store._readers._free.append(db)
    await accept_many(store, 500, "mine")

    counts: list[int] = []
    for limit in (1, 500):
        steps.clear()
        assert len((await store.due(0, agents=["mine"], limit=limit)).turns) == limit
        counts.append(sum(steps))

    # The index is walked for both; the rows of each turn only for those that are shown.
    assert counts[0] * 2 < counts[1]


# --- claims ----------------------------------------------------------------------------------------


def named(claimed: Collection[ClaimedTurn]) -> list[str]:
    return [one.lease.session_id for one in claimed]


async def claim(
    store: SqliteStore, worker: str, *, limit: int = 10, session_id: str | None = None
) -> tuple[ClaimedTurn, ...]:
    return await store.claim(
        worker,
        agents=["helper"],
        limit=limit,
        until_ms=UNTIL_MS,
        now_ms=1,
        session_id=session_id,
    )


async def abandoned(store: SqliteStore, *names: str) -> None:
    """Let turns be begun, each with a page, whose worker has left."""
    gone = await store.join(until_ms=UNTIL_MS, now_ms=0)
    for name in names:
        await begin(store, name, gone)
        await store.submit(unit(name, 0, reply(name, 0))).durable()
    await store.leave(gone)


DAMAGES = (
    "UPDATE log SET page = x'7b' WHERE session = 1 AND strand > 0",
    "UPDATE log SET link = x'00' WHERE session = 1 AND strand > 0",
    "DELETE FROM log WHERE session = 1 AND strand < 0",
    "UPDATE sessions SET link = x'00' WHERE no = 1",
    "UPDATE turns SET state = 'zombie' WHERE session = 1",
)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("limit", [1, 2])
async def test_a_turn_that_cannot_be_read_keeps_no_other_from_being_given(
    path: Path, store: SqliteStore, damage: str, limit: int
) -> None:
    await abandoned(store, "damaged", "good", "other")
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    db = raw(path)
    db.execute(damage)
    before = db.execute("SELECT * FROM sessions JOIN turns ON session = 1 LIMIT 1").fetchall()

    assert named(await claim(store, worker, limit=limit)) == ["good", "other"][:limit]

    after = db.execute("SELECT * FROM sessions JOIN turns ON session = 1 LIMIT 1").fetchall()
    assert after == before
    with pytest.raises(JournalCorrupt):
        await claim(store, worker, session_id="damaged")
    assert (
        db.execute("SELECT * FROM sessions JOIN turns ON session = 1 LIMIT 1").fetchall() == before
    )


async def test_what_a_claim_left_as_it_was_is_not_remembered_as_taken(
    path: Path, store: SqliteStore
) -> None:
    await abandoned(store, "a")
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    db = raw(path)
    kept = db.execute("SELECT link FROM sessions").get
    db.execute("UPDATE sessions SET link = x'00'")
    assert await claim(store, worker) == ()
    db.execute("UPDATE sessions SET link = ?", (kept,))

    (claimed,) = await claim(store, worker)

    assert (claimed.lease.generation, claimed.lease.takeovers) == (GENERATION + 1, 1)


async def test_a_claim_waits_for_the_lock_as_every_write_does(
    path: Path, store: SqliteStore
) -> None:
    await store.accept("a", "t1", new_turn())
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)

    with write_lock(path):
        claiming = asyncio.ensure_future(claim(store, worker))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not claiming.done()

    assert named(await claiming) == ["a"]


async def test_a_claim_that_finds_nothing_writes_nothing(path: Path, store: SqliteStore) -> None:
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    db = raw(path)
    before = db.pragma("data_version")

    assert await claim(store, worker) == ()

    assert db.pragma("data_version") == before

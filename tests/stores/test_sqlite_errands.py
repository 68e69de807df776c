"""Errands in a file: between workers of different stores, into damaged rows, and what the writer remembers after."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.runtime.turns import (
    UNTIL_MS,
    begin,
    begins,
    ending,
    intent,
    new_turn,
    reply,
    unit,
)
from tests.stores.files import raw
from windlass.errors import TurnCancelled
from windlass.ports import (
    AcceptTurn,
    AnswerWait,
    CancelTurn,
    Errand,
    NewItem,
    PostItem,
    Wait,
    WaitAnswer,
)
from windlass.stores.sqlite import SqliteStore

YES = WaitAnswer(value="yes")


def child(session_id: str, **more: object) -> AcceptTurn:
    told: dict[str, object] = {"kind": "child", **more}
    return AcceptTurn(session_id=session_id, turn_id="t1", turn=new_turn(), **told)  # type: ignore[arg-type]  # its fields


def post(session_id: str, item_id: str = "i1") -> PostItem:
    return PostItem(session_id=session_id, item=NewItem(item_id=item_id))


@pytest.fixture
async def other(store: SqliteStore, path: Path) -> AsyncIterator[SqliteStore]:
    """The same file, as another process has it open."""
    found = SqliteStore(path)
    await found.open()
    yield found
    await found.close()


async def test_what_the_worker_of_another_store_remembers_is_not_believed(
    store: SqliteStore, other: SqliteStore
) -> None:
    """Each store's writer remembers the sessions of its own worker; errands of the other one change them."""
    mine = await store.join(until_ms=UNTIL_MS, now_ms=0)
    theirs = await other.join(until_ms=UNTIL_MS, now_ms=0)
    await begin(store, "a", mine)
    await begin(other, "b", theirs)
    wait = Wait(key="w_b", kind="child", session_id="b", turn_id="t1")
    await other.submit(unit("b", 0, reply("b", 0), waits=(wait,), parks=True)).durable()

    told: tuple[Errand, ...] = (
        AnswerWait(key="w_b", answer=YES),
        AcceptTurn(session_id="b", turn_id="t2", turn=new_turn()),
        post("b"),
    )
    receipt = await store.submit(unit("a", 0, reply("a", 0), errands=told)).durable()

    assert [(one.status, one.owner) for one in receipt.errands] == [("done", theirs)] * 3
    turn = await other.load_turn("b", "t1")
    assert turn is not None
    assert (turn.state, turn.waits[0].answer) == ("ready", YES)
    # The worker of b goes on where it was, and answers in the same way.
    back = (post("a"), CancelTurn(session_id="a", turn_id="t1", reason="done"))
    end = unit("b", 1, reply("b", 1), commit=ending(), errands=back)
    receipt = await other.submit(end).durable()
    assert [(one.status, one.owner) for one in receipt.errands] == [("done", mine)] * 2
    with pytest.raises(TurnCancelled):
        await store.submit(unit("a", 1, intent("a", 1))).durable()
    assert [item.arrived for item in (await store.inbox("a")).items] == [2]
    await other.submit(unit("b", 0, turn_id="t2", start=begins(theirs))).durable()


@pytest.mark.parametrize(
    ("damage", "dropped"),
    [
        ("UPDATE turns SET state = 'zombie' WHERE session = 2", [True, False, True, True]),
        ("UPDATE sessions SET kind = 'zombie' WHERE id = 'b'", [True, True, True, True]),
        ("UPDATE waits SET wait = x'00' WHERE key = 'w_b'", [False, False, True, False]),
        ("UPDATE inbox SET state = 'zombie'", [False, True, False, False]),
    ],
)
async def test_a_target_that_is_damaged_drops_its_errands_and_the_unit_lands(
    path: Path, damage: str, dropped: list[bool]
) -> None:
    """A unit is not refused for what another session holds; whoever reads that session is told."""
    store = SqliteStore(path)
    await store.open()
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    await begin(store, "a", worker)
    await begin(store, "b", worker)
    wait = Wait(key="w_b", kind="child", session_id="b", turn_id="t1")
    await store.submit(unit("b", 0, reply("b", 0), waits=(wait,))).durable()
    await store.enqueue("b", NewItem(item_id="i1"))
    db = raw(path)
    db.execute(damage)
    assert db.changes() > 0
    db.close()

    told: tuple[Errand, ...] = (
        AcceptTurn(session_id="b", turn_id="t1", turn=new_turn()),
        post("b"),
        AnswerWait(key="w_b", answer=YES),
        CancelTurn(session_id="b", turn_id="t1"),
    )
    receipt = await store.submit(unit("a", 0, reply("a", 0), errands=(*told, child("c")))).durable()

    assert receipt.page == 1
    assert [one.status == "dropped" for one in receipt.errands] == [*dropped, False]
    for one in receipt.errands:
        assert bool(one.reason) is (one.status == "dropped")
    await store.close()


async def test_a_dropped_errand_into_the_units_own_session_leaves_its_turn_as_it_is(
    store: SqliteStore,
) -> None:
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    await begin(store, "a", worker)
    no_such_item = AcceptTurn(session_id="a", turn_id="t2", turn=new_turn(takes=("none",)))

    for position in range(3):
        entry = reply("a", position)
        told = (no_such_item, AnswerWait(key="w_none", answer=YES), post("a", f"i{position}"))
        receipt = await store.submit(unit("a", position, entry, errands=told)).durable()
        assert [one.status for one in receipt.errands] == ["dropped", "dropped", "done"]
        assert receipt.page == position + 1

    assert [item.arrived for item in (await store.inbox("a")).items] == [2, 3, 4]
    assert (await store.load_session("a")).queued == ()


async def test_an_unknown_target_costs_the_writer_nothing_that_it_remembers(
    store: SqliteStore,
) -> None:
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    for session_id in ("a", "b"):
        await begin(store, session_id, worker)
    rows = store._writer._rows
    assert rows is not None
    told = (AnswerWait(key="w_none", answer=YES), post("nowhere"))

    await store.submit(unit("a", 0, reply("a", 0), errands=told)).durable()

    assert set(rows.sessions) == {"a", "b"}


async def test_a_deep_tree_is_deleted_whole(store: SqliteStore, path: Path) -> None:
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    await begin(store, "c0", worker)
    for depth in range(200):
        told = (child(f"c{depth + 1}"),)
        await store.submit(unit(f"c{depth}", 0, commit=ending(), errands=told)).durable()
        await store.submit(unit(f"c{depth + 1}", 0, start=begins(worker))).durable()
    await store.submit(unit("c200", 0, commit=ending())).durable()

    report = await store.delete_session("c0", now_ms=9)

    assert report.pages == 2 * 201
    db = raw(path)
    # But for the one that keeps the last number from being given out again.
    assert db.execute("SELECT count(*) FROM log WHERE session <> 0").fetchall() == [(0,)]
    assert db.execute("SELECT count(*) FROM sessions WHERE deleted_ms = 9").fetchall() == [(201,)]
    db.close()

"""Changes in the file: what they cost, whose they are, and that no number of theirs is given out twice."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.runtime.turns import GENERATION, UNTIL_MS, begin, begins, ending, new_turn, reply, unit
from tests.stores.files import raw
from tests.unit_shortcuts import UnitShortcuts
from windlass.errors import InvalidInput
from windlass.ports import Change, NewItem, Wait
from windlass.stores.sqlite import SqliteStore, news

LAST = 9_223_372_036_854_775_807


async def mark_of(store: SqliteStore) -> str:
    return (await store.changes(None)).mark


async def told(store: SqliteStore, mark: str) -> list[tuple[str, str, str]]:
    found = await store.changes(mark)
    assert not found.has_more
    return [(one.kind, one.session_id, one.turn_id) for one in found.changes]


async def end(store: SqliteStore, session_id: str, worker: str) -> None:
    """Let a turn begin, write a page and end."""
    start, commit = begins(worker), ending()
    parts: dict[str, Any] = {"accept": new_turn(), "start": start, "commit": commit}
    await store.submit(unit(session_id, 0, reply(session_id, 0), **parts)).durable()


# --- what is written -------------------------------------------------------------------------------


async def test_a_turn_without_waits_writes_no_news_and_asks_for_none(
    path: Path, store: SqliteStore
) -> None:
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    statements: list[str] = []
    assert store._writer._rows is not None
    store._writer._rows.db.set_exec_trace(lambda _, sql, __: statements.append(sql) or True)  # type: ignore[func-returns-value]  # goes on

    await end(store, "whole", worker)
    await begin(store, "a", worker)
    for at in range(3):
        await store.submit(unit("a", at, reply("a", at))).durable()
    await UnitShortcuts(store).commit("a", "t1", ending(), generation=GENERATION)

    assert [sql for sql in statements if "news" in sql] == []
    assert raw(path).execute("SELECT kind FROM news").fetchall() == [("joined",)]


async def test_news_stand_behind_the_page_that_was_the_last(path: Path, store: SqliteStore) -> None:
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    await begin(store, "a", worker)
    wait = Wait(key="w", kind="approval", session_id="a", turn_id="t1")
    await store.submit(unit("a", 0, reply("a", 0), waits=(wait,), parks=True)).durable()
    await store.enqueue("a", NewItem(item_id="i"))

    found = raw(path).execute("SELECT after, kind FROM news ORDER BY no").fetchall()

    assert found == [(0, "joined"), (2, "opened"), (2, "parked"), (2, "arrived")]


# --- numbers ---------------------------------------------------------------------------------------


async def delete(store: SqliteStore) -> None:
    await store.delete_session("last", now_ms=5)


async def vacuum(store: SqliteStore) -> None:
    await store.vacuum(now_ms=10**9, retention_ms=0)


@pytest.mark.parametrize("reclaim", [delete, vacuum])
async def test_a_number_that_was_the_highest_is_not_given_out_again(
    path: Path, store: SqliteStore, reclaim: Callable[[SqliteStore], Awaitable[None]]
) -> None:
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    before = await mark_of(store)
    await begin(store, "kept", worker)
    await end(store, "last", worker)
    seen = await mark_of(store)
    highest = raw(path).execute("SELECT max(no) FROM log").get

    await reclaim(store)
    assert raw(path).execute("SELECT max(no) FROM log").get == highest
    news = [("deleted", "last", "")] if reclaim is delete else []
    assert await told(store, seen) == news

    await store.accept("new", "t1", new_turn())
    assert raw(path).execute("SELECT max(no) FROM log").get == highest + 1
    assert await told(store, seen) == [*news, ("accepted", "new", "t1")]
    assert [one for one in await told(store, before) if one[1] in ("kept", "new")] == [
        ("accepted", "kept", "t1"),
        ("accepted", "new", "t1"),
    ]


async def test_one_row_at_the_most_keeps_a_number(path: Path, store: SqliteStore) -> None:
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    kept: list[list[Any]] = []
    for name in ("a", "b", "c"):
        await end(store, name, worker)
        await store.delete_session(name, now_ms=5)
        rows = raw(path).execute("SELECT no, session, strand, seq, link, page FROM log")
        kept.append(rows.fetchall())

    assert kept == [[(number, 0, 0, 0, b"", b"")] for number in (3, 6, 9)]


async def test_vacuum_leaves_the_newest_news(
    path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(news, "KEPT", 3)
    await store.accept("a", "t1", new_turn())
    for number in range(5):
        await store.enqueue("a", NewItem(item_id=f"i{number}"))
    seen = await mark_of(store)

    await store.vacuum(now_ms=0, retention_ms=10**9)
    assert raw(path).execute("SELECT no FROM news").fetchall() == [(3,), (4,), (5,)]
    monkeypatch.setattr(news, "KEPT", 0)
    await store.vacuum(now_ms=0, retention_ms=10**9)
    await store.enqueue("a", NewItem(item_id="next"))

    assert raw(path).execute("SELECT no FROM news").fetchall() == [(5,), (6,)]
    assert await told(store, seen) == [("arrived", "a", "")]


async def test_a_turn_that_has_the_number_of_one_that_was_deleted_is_not_taken_for_it(
    store: SqliteStore,
) -> None:
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    before = await mark_of(store)
    wait = Wait(key="w", kind="approval", session_id="old", turn_id="gone")
    await store.accept("old", "gone", new_turn())
    start: dict[str, Any] = {"turn_id": "gone", "start": begins(worker), "waits": (wait,)}
    await store.submit(unit("old", 0, reply("old", 0, turn_id="gone"), **start)).durable()
    await UnitShortcuts(store).commit("old", "gone", ending(), generation=GENERATION)
    await store.delete_session("old", now_ms=5)
    await store.accept("new", "here", new_turn())
    other = Wait(key="w2", kind="approval", session_id="new", turn_id="here")
    again: dict[str, Any] = {"turn_id": "here", "start": begins(worker), "waits": (other,)}
    await store.submit(unit("new", 0, reply("new", 0, turn_id="here"), **again)).durable()

    found = (await store.changes(before)).changes

    place: dict[str, Any] = {"session_id": "new", "turn_id": "here"}
    assert found == (
        Change(kind="deleted", session_id="old"),
        Change(kind="accepted", **place),
        Change(kind="page", **place),
        Change(kind="opened", wait=other, **place),
    )


@pytest.mark.parametrize(
    "counts", ["1.0", "0.1", f"{LAST}.0", f"0.{LAST}", f"{LAST}9.0", "0", "0.0.0"]
)
async def test_a_mark_that_counts_what_was_not_written_is_refused(
    store: SqliteStore, counts: str
) -> None:
    tag, now = (await mark_of(store)).split(".", 1)
    assert now == "0.0"

    with pytest.raises(InvalidInput, match=r"^mark: found"):
        await store.changes(f"{tag}.{counts}")


# --- what cannot be read ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        ("UPDATE log SET page = x'7b' WHERE strand > 0", "page"),
        ("UPDATE waits SET wait = x'00'", "opened"),
    ],
)
async def test_what_is_damaged_is_told_without_its_content(
    path: Path, store: SqliteStore, damage: str, kind: str
) -> None:
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    mark = await mark_of(store)
    wait = Wait(key="w", kind="approval", session_id="a", turn_id="t1")
    await begin(store, "a", worker)
    await store.submit(unit("a", 0, reply("a", 0), waits=(wait,))).durable()
    raw(path).execute(damage)

    found = (await store.changes(mark, pages=True)).changes

    assert [one.kind for one in found] == ["accepted", "page", "opened"]
    empty = [one.kind for one in found[1:] if one.page is None and one.wait is None]
    assert empty == [kind]


async def test_a_page_whose_turn_cannot_be_found_is_told_all_the_same(
    path: Path, store: SqliteStore
) -> None:
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    mark = await mark_of(store)
    await end(store, "a", worker)
    raw(path).execute("UPDATE log SET page = x'7b' WHERE strand = 0")

    assert await told(store, mark) == [
        ("accepted", "a", "t1"),
        ("page", "a", ""),
        ("ended", "a", ""),
    ]


# --- what it costs ---------------------------------------------------------------------------------


def plan(path: Path, query: str) -> list[str]:
    values = {"log": 0, "news": 0, "limit": 1, "pages": True}
    return [row[3] for row in raw(path).execute(f"EXPLAIN QUERY PLAN {query}", values)]


async def test_what_is_new_is_read_by_number(path: Path, store: SqliteStore) -> None:
    assert "SEARCH log USING INTEGER PRIMARY KEY (rowid>?)" in plan(path, news._PAGES)
    assert "SEARCH news USING INTEGER PRIMARY KEY (rowid>?)" in plan(path, news._NEWS)
    for query in (news._PAGES, news._NEWS):
        assert not [step for step in plan(path, query) if step.startswith("SCAN")]
    newest = [step for step in plan(path, news._NEWEST) if "log" in step or "news" in step]
    assert newest == ["SEARCH log", "SEARCH news"]  # one step from the end


class Steps:
    """Counts the steps that SQLite takes to read."""

    def __init__(self, store: SqliteStore) -> None:
        self.count = 0
        db = store._readers._take()
        db.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._note)
        store._readers._free.append(db)

    def _note(self, event: dict[str, Any]) -> None:
        self.count += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]


@pytest.mark.parametrize("new", [0, 1])
async def test_what_was_written_before_a_mark_costs_nothing(tmp_path: Path, new: int) -> None:
    found: list[int] = []
    for count in (3, 300):
        store = SqliteStore(tmp_path / f"{count}.db", durability="process")
        await store.open()
        worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
        for number in range(count):
            await end(store, f"s{number}", worker)
        mark = await mark_of(store)
        for number in range(new):
            await store.accept(f"new{number}", "t1", new_turn())
        steps = Steps(store)
        assert len((await store.changes(mark)).changes) == new
        found.append(steps.count)
        await store.close()

    assert found[0] == found[1] > 0

"""Sessions that others began, in lists: by kind, by the session that began them, and beside the chats."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.turns import new_turn
from tests.stores.files import raw
from windlass.ports import Store
from windlass.stores.memory import MemoryStore
from windlass.stores.sqlite import SqliteStore, listing

SESSIONS = ("chat", "other", "child", "process")


async def in_memory(_: Path) -> MemoryStore:
    store = MemoryStore()
    for name in SESSIONS:
        await store.accept(name, "t1", new_turn())
    rows = store._tables.sessions
    for name in ("child", "process"):
        rows[name].started_by = rows["chat"]
    rows["child"].kind, rows["process"].kind = "child", "process"
    return store


async def in_a_file(path: Path) -> SqliteStore:
    store = SqliteStore(path)
    await store.open()
    for name in SESSIONS:
        await store.accept(name, "t1", new_turn())
    begun = "UPDATE sessions SET kind = id, started_by = 1 WHERE id IN ('child', 'process')"
    raw(path).execute(begun)
    return store


PLANS = {
    "kind": "SEARCH sessions USING INDEX sessions_by_kind (kind=? AND id>?)",
    "root": "SEARCH sessions USING INDEX sessions_by_root (root=? AND id>?)",
    "label": "SEARCH sessions USING INDEX sessions_by_label (label=? AND id>?)",
}


@pytest.mark.parametrize("name", PLANS)
async def test_what_errands_began_is_listed_without_a_look_at_the_chats(
    path: Path, name: str
) -> None:
    store = await in_a_file(path)
    wanted = {"after": "", "limit": 10, "kind": None} | {name: "process"}
    query, values = listing.sessions_query(wanted)

    first, *_ = [row[3] for row in raw(path).execute(f"EXPLAIN QUERY PLAN {query}", values)]

    assert first == PLANS[name]
    await store.close()


@pytest.mark.parametrize("make", [in_memory, in_a_file])
async def test_sessions_are_listed_by_kind_and_by_what_began_them(make: object, path: Path) -> None:
    store: Store = await make(path)  # type: ignore[operator]  # one of the two

    async def names(**wanted: object) -> list[str]:
        found = await store.list_sessions(**wanted)  # type: ignore[arg-type]  # filters
        return [one.session_id for one in found]

    assert await names() == ["chat", "other"]
    assert await names(kind=None) == ["chat", "child", "other", "process"]
    assert await names(kind="child") == ["child"]
    assert await names(kind=None, started_by="chat") == ["child", "process"]
    assert await names(kind="process", started_by="chat", agent="helper") == ["process"]
    assert await names(kind=None, started_by="other") == []
    assert await names(kind=None, started_by="chat", after="child") == ["process"]
    lines = await store.list_sessions(kind=None)
    assert [(line.kind, line.started_by) for line in lines] == [
        ("chat", None),
        ("child", "chat"),
        ("chat", None),
        ("process", "chat"),
    ]
    await store.close()

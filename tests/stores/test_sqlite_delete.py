"""S20: what was deleted can be read nowhere."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.runtime.turns import GENERATION, UNTIL_MS, begin, ending, reply, unit
from tests.stores.files import MIB
from tests.unit_shortcuts import UnitShortcuts
from windlass.ports import NewItem, Wait
from windlass.stores.sqlite import SqliteStore

# --- deleted for good -------------------------------------------------------------------------------------

CANARY = "canary-1f9c77"


def where(folder: Path, word: str) -> list[str]:
    """Return the files in which a word can be read."""
    files = [found for found in folder.rglob("*") if found.is_file()]
    return sorted(found.name for found in files if word.encode() in found.read_bytes())


async def test_what_a_deleted_session_said_is_nowhere_any_more(
    tmp_path: Path, path: Path, store: SqliteStore
) -> None:
    """I23, and a byte search."""
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    small = await store.put_blob(f"{CANARY} small".encode(), now_ms=1)
    large = await store.put_blob(CANARY.encode() * (MIB // 8), now_ms=1)
    await begin(store, "a", worker, text=f"{CANARY} asks")
    await store.enqueue("a", NewItem(item_id="i1", content={"note": CANARY}))
    wait = Wait(
        key="w_1", kind="approval", session_id="a", turn_id="t1", title=CANARY, detail=[CANARY]
    )
    long = f"{CANARY} " * 500
    await store.submit(
        unit("a", 0, reply("a", 0, text=long), waits=(wait,), blobs=(small, large))
    ).durable()
    await store.submit(unit("a", 1, reply("a", 1, text=f"{CANARY} short"))).durable()
    await UnitShortcuts(store).commit("a", "t1", ending(f"{CANARY} ends"), generation=GENERATION)
    await begin(store, "b", worker, text="stays")
    assert where(tmp_path, CANARY) == [large, "w.db-wal"]

    await store.delete_session("a", now_ms=9)

    assert where(tmp_path, CANARY) == []
    assert where(tmp_path, "stays") != []


async def test_what_a_deleted_session_said_is_nowhere_after_readers_were_at_it(
    tmp_path: Path, store: SqliteStore
) -> None:
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    await begin(store, "a", worker, text=f"{CANARY} asks")
    await UnitShortcuts(store).commit("a", "t1", ending(f"{CANARY} ends"), generation=GENERATION)
    await asyncio.gather(*(store.load_session("a") for _ in range(20)))

    await store.delete_session("a", now_ms=9)

    assert where(tmp_path, CANARY) == []


async def test_vacuumed_journals_are_nowhere_in_the_file(tmp_path: Path, path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    await begin(store, "a", worker, text=f"{CANARY} asks")
    await store.submit(unit("a", 0, reply("a", 0, text=f"{CANARY} " * 500))).durable()
    await UnitShortcuts(store).commit("a", "t1", ending("ends"), generation=GENERATION)

    await store.vacuum(now_ms=10**9, retention_ms=0)
    await store.delete_session("a", now_ms=10**9)

    assert where(tmp_path, CANARY) == []
    await store.close()

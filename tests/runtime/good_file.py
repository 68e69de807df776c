"""A good file to be tampered with, as it lies there after its process was killed, and the doors into it.

Session `a` has two turns in its history, a third under way with three pages, and a fourth that waits; session
`b` has one under way; `f` is a fork of `a`. There are an answered wait, an open one, and an item.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import apsw

from tests.runtime import turns
from tests.runtime.turns import (
    GENERATION,
    UNTIL_MS,
    begin,
    decided,
    ending,
    intent,
    new_turn,
    reply,
    result,
    unit,
)
from tests.unit_shortcuts import UnitShortcuts
from windlass.journal import UsageLine
from windlass.kernel.model_call import Usage
from windlass.ports import NewItem, Unit, Wait, WaitAnswer
from windlass.stores.sqlite import SqliteStore

LONG = "a long reply that is kept apart " * 100
LATER_MS = UNTIL_MS * 2
USED = UsageLine(source="turn", model="m", calls=1, usage=Usage(output_tokens=10))

Door: TypeAlias = Callable[[SqliteStore], Awaitable[object]]


def wait(key: str) -> Wait:
    return Wait(key=key, kind="approval", session_id="a", turn_id="t3", detail={"of": key})


async def _build(path: Path, copy: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    for head, turn_id in enumerate(("t1", "t2")):
        await begin(store, "a", worker, turn_id=turn_id, text=f"ask {turn_id}")
        await store.submit(unit("a", 0, reply("a", 0, turn_id=turn_id), turn_id=turn_id)).durable()
        end = ending(f"end of {turn_id}", head=head, usage=(USED,))
        await UnitShortcuts(store).commit("a", turn_id, end, generation=GENERATION)
    await store.fork("a", "f", now_ms=1)
    await begin(store, "a", worker, turn_id="t3", text="ask t3")
    pages = (
        (turns.STARTED, reply("a", 0, turn_id="t3", text=LONG)),
        (decided("a", 0, turn_id="t3"), intent("a", 0, turn_id="t3")),
        (result("a", 0, turn_id="t3"),),
    )
    for position, entries in enumerate(pages):
        await store.submit(unit("a", position, *entries, turn_id="t3")).durable()
    waits = (wait("w_open"), wait("w_answered"))
    await store.submit(unit("a", 3, turn_id="t3", waits=waits)).durable()
    await store.resolve_wait("w_answered", WaitAnswer(value="yes", by="ann"))
    await store.accept("a", "t4", new_turn("ask t4"))
    await store.enqueue("a", NewItem(item_id="i1", content={"n": 1}))
    await begin(store, "b", worker)
    await store.submit(unit("b", 0, reply("b", 0))).durable()
    # As a killed process leaves it: nobody has let go of anything.
    for suffix in ("", "-wal"):
        shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
    await store.close()


def build(folder: Path) -> Path:
    """Make the file and return its path."""
    (folder / "made").mkdir()
    copy = folder / "good.db"
    asyncio.run(_build(folder / "made" / "w.db", copy))
    # Folded into one file, so that a copy is one file.
    db = apsw.Connection(str(copy))
    assert db.execute("SELECT count(*) FROM sessions").fetchall() == [(3,)]
    db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    db.close()
    return copy


def next_unit() -> Unit:
    return unit("a", 3, reply("a", 1, turn_id="t3"), turn_id="t3")


async def _take_over(store: SqliteStore) -> object:
    return await store.take_over(
        "a", "t3", worker_id=_worker(store), until_ms=LATER_MS * 2, now_ms=LATER_MS
    )


async def _claim(store: SqliteStore) -> object:
    (claimed,) = await store.claim(
        _worker(store),
        agents=["helper"],
        limit=1,
        until_ms=LATER_MS * 2,
        now_ms=LATER_MS,
        session_id="a",
    )
    return claimed


async def _start(store: SqliteStore) -> object:
    return await UnitShortcuts(store).start(
        "a", "t4", turns.begins(_worker(store)), generation=GENERATION
    )


def _worker(store: SqliteStore) -> str:
    """Return the worker that was killed; it is in the file."""
    return str(turns.dump(store.path)["workers"][0][1])


DOORS: dict[str, Door] = {
    "load_session": lambda store: store.load_session("a"),
    "load_fork": lambda store: store.load_session("f"),
    "load_frame": lambda store: store.load_session("a", frame=True),
    "load_frame_of_fork": lambda store: store.load_session("f", frame=True),
    "load_turn": lambda store: store.load_turn("a", "t3"),
    "load_ended": lambda store: store.load_turn("a", "t1"),
    "load_queued": lambda store: store.load_turn("a", "t4"),
    "submit": lambda store: store.submit(next_unit()).durable(),
    "commit": lambda store: UnitShortcuts(store).commit(
        "a", "t3", ending("end of t3", head=2, usage=(USED,)), generation=GENERATION
    ),
    "take_over": _take_over,
    "claim": _claim,
    "load_history": lambda store: store.load_history("a"),
    "list_turns": lambda store: store.list_turns(),
    "start": _start,
    "fork": lambda store: store.fork("a", "g"),
    "due": lambda store: store.due(LATER_MS),
    "list_waits": lambda store: store.list_waits(),
    "resolve_open": lambda store: store.resolve_wait("w_open", WaitAnswer(value=1)),
    "resolve_answered": lambda store: store.resolve_wait("w_answered", WaitAnswer(value=1)),
    "inbox": lambda store: store.inbox("a"),
    "take_inbox": lambda store: store.take_inbox("a", "t3", generation=GENERATION),
    "withdraw": lambda store: store.withdraw("a", "i1"),
    "enqueue": lambda store: store.enqueue("a", NewItem(item_id="i1", content={"n": 1})),
}

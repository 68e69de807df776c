"""What is asked for or written all the time costs what is unfinished, not what there ever was."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import apsw
import pytest

from tests.runtime.turns import GENERATION, UNTIL_MS, begins, ending, new_turn, unit
from tests.unit_shortcuts import UnitShortcuts
from windlass.ports import NewItem, Wait
from windlass.stores.sqlite import SqliteStore

Ask: TypeAlias = Callable[[SqliteStore, str], Awaitable[object]]
N_FEW = 3
N_MANY = 60

# Session `a` has turns that have ended, then `now` under way and `next` queued.
QUESTIONS: dict[str, Ask] = {
    "due": lambda store, _: store.due(0),
    "due, much later": lambda store, _: store.due(UNTIL_MS * 2),
    "a session without its history": lambda store, _: store.load_session("a", history=False),
    "inbox": lambda store, _: store.inbox("a"),
    "open waits": lambda store, _: store.list_waits(),
    "open waits of a session": lambda store, _: store.list_waits(session_id="a"),
    "open waits of a turn": lambda store, _: store.list_waits(session_id="a", turn_id="now"),
    "presence": lambda store, worker: store.is_present(worker, now_ms=0),
    "take inbox": lambda store, _: store.take_inbox("a", "now", generation=GENERATION),
    "accept with an item": lambda store, _: store.accept("a", "t", new_turn(takes=("soon",))),
}


class Steps:
    """Counts the steps that SQLite takes, on every connection of a store that is opened after."""

    def __init__(self, store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        connect = store._readers._connect

        def traced() -> apsw.Connection:
            db = connect()
            self.trace(db)
            return db

        monkeypatch.setattr(store._readers, "_connect", traced)
        assert store._writer._rows is not None
        self.trace(store._writer._rows.db)

    def trace(self, db: apsw.Connection) -> None:
        db.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._note)

    def _note(self, event: dict[str, Any]) -> None:
        self.count += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]


def wait(turn_id: str) -> Wait:
    key = f"w_{turn_id}"
    return Wait(key=key, kind="timer", session_id="a", turn_id=turn_id, expires_ms=5)


async def filled(path: Path, ended: int) -> tuple[SqliteStore, str]:
    """Return a store in which so many turns have ended, each with an item that it settled and a wait."""
    store = SqliteStore(path, durability="process")
    await store.open()
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    for head in range(ended):
        turn_id, item_id = f"t{head:03}", f"i{head:03}"
        await begin(store, turn_id, worker)
        await store.enqueue("a", NewItem(item_id=item_id))
        await store.take_inbox("a", turn_id, generation=GENERATION)
        end = ending(head=head, settle=(item_id,))
        await UnitShortcuts(store).commit("a", turn_id, end, generation=GENERATION)
    await begin(store, "now", worker)
    await store.accept("a", "next", new_turn())
    await store.enqueue("a", NewItem(item_id="soon"))
    await store.enqueue("a", NewItem(item_id="later", when="next_turn"))
    await store.request_cancel("a", "next")
    return store, worker


async def begin(store: SqliteStore, turn_id: str, worker: str) -> None:
    await store.submit(
        unit(
            "a", 0, turn_id=turn_id, accept=new_turn(), start=begins(worker), waits=(wait(turn_id),)
        )
    ).durable()


async def steps_of(ask: Ask, path: Path, ended: int, monkeypatch: pytest.MonkeyPatch) -> int:
    store, worker = await filled(path, ended)
    steps = Steps(store, monkeypatch)
    await ask(store, worker)
    found = steps.count
    await store.close()
    return found


@pytest.mark.parametrize("name", QUESTIONS)
async def test_what_has_ended_costs_nothing_when_asked_for(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = await steps_of(QUESTIONS[name], tmp_path / "few.db", N_FEW, monkeypatch)
    many = await steps_of(QUESTIONS[name], tmp_path / "many.db", N_MANY, monkeypatch)

    assert few > 0
    # A comparison more or less for other numbers, and nothing for each of the turns that have ended.
    assert abs(many - few) < (N_MANY - N_FEW) / 3


async def test_what_has_ended_costs_nothing_when_a_turn_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def commit(head: int) -> Ask:
        end = ending(head=head)
        return lambda store, _: UnitShortcuts(store).commit("a", "now", end, generation=GENERATION)

    few = await steps_of(commit(N_FEW), tmp_path / "few.db", N_FEW, monkeypatch)
    many = await steps_of(commit(N_MANY), tmp_path / "many.db", N_MANY, monkeypatch)

    assert few > 0
    assert abs(many - few) < (N_MANY - N_FEW) / 3

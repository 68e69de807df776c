"""What is particular to the store in memory; the rest is the suite that every store passes."""

from __future__ import annotations

import pytest

from windlass.errors import LeaseLost
from windlass.journal import wait_key
from windlass.ports import NewTurn, TurnRequest, Unit
from windlass.stores.memory import MemoryStore
from windlass.stores.memory.rows import Changes


def test_it_says_that_nothing_survives_the_process() -> None:
    assert MemoryStore.is_durable is False
    assert "Nothing survives" in (MemoryStore.__doc__ or "")


async def test_workers_are_named_in_the_order_in_which_they_join() -> None:
    store = MemoryStore()

    names = [await store.join(until_ms=9, now_ms=0) for _ in range(2)]
    await store.leave("w2")

    assert names == ["w1", "w2"]
    assert await store.join(until_ms=9, now_ms=0) == "w3"


async def test_killing_a_worker_that_is_not_there_does_nothing() -> None:
    store = MemoryStore()

    store.kill_worker("w1")

    with pytest.raises(LeaseLost):
        await store.renew("w1", until_ms=9).durable()


def test_two_stores_share_neither_name_nor_secret() -> None:
    one, other = MemoryStore(), MemoryStore()

    assert one.store_id != other.store_id
    assert wait_key(one.secret, "key", "args") != wait_key(other.secret, "key", "args")


def test_a_name_and_a_secret_can_be_given() -> None:
    store = MemoryStore(store_id="mine", secret=b"1")

    assert (store.store_id, store.secret) == ("mine", b"1")


async def test_a_write_is_settled_as_it_is_handed_in() -> None:
    store = MemoryStore()
    new = NewTurn(agent="helper", request=TurnRequest())

    ticket = store.submit(Unit(session_id="s1", turn_id="t1", accept=new))

    assert (ticket.is_settled, ticket.refusal) == (True, None)
    assert (await store.load_session("s1")).agent == "helper"


class Row:
    def __init__(self) -> None:
        self.name = "old"


def test_changes_are_taken_back_in_reverse_to_the_very_order_of_keys() -> None:
    row, turns, pages = Row(), {"a": 1, "b": 2, "c": 3}, [1]
    done: list[str] = []
    changes = Changes()
    changes.set(row, name="new")
    changes.set(row, name="newer")
    changes.put(turns, "a", 5)
    changes.put(turns, "d", 4)
    changes.put(turns, "d", 6)
    changes.append(pages, 2)
    changes.at_last(lambda: done.append("last"))
    assert (row.name, turns["a"], list(turns), pages) == ("newer", 5, ["a", "b", "c", "d"], [1, 2])

    changes.take_back()

    assert (row.name, pages, done) == ("old", [1], [])
    assert list(turns.items()) == [("a", 1), ("b", 2), ("c", 3)]


def test_what_is_kept_is_not_taken_back() -> None:
    row = Row()
    done: list[str] = []
    changes = Changes()
    changes.set(row, name="new")
    changes.at_last(lambda: done.append("last"))

    changes.keep()
    changes.take_back()

    assert (row.name, done) == ("new", ["last"])

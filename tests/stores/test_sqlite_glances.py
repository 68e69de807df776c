"""A look that is short is taken on the event loop, one that may be long on a thread; both see the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.runtime.turns import UNTIL_MS, begin, reply, unit
from windlass.kernel import Text
from windlass.ports import NewTurn, TurnRequest, Wait
from windlass.ports.views import NO_PAGES
from windlass.stores.sqlite import SqliteStore, reads
from windlass.stores.sqlite.readers import Readers

# One has a row of its own; the others are short, so all of them are in the row of the request.
LONG_TEXT = "a long text " * 100_000
SHORT_TEXTS = ["w" * 100 for _ in range(300)]


def turn(text: str = "Go.", **context: Any) -> NewTurn:
    request = TurnRequest(input=(Text(text=text),), context=context)
    return NewTurn(agent="a", request=request)


@pytest.fixture
def on_threads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the looks that are taken on a thread."""
    found: list[str] = []
    read = Readers.read

    async def noted(self: Readers, look: Callable[..., Any], args: tuple[Any, ...]) -> object:
        found.append(look.__name__)
        return await read(self, look, args)

    monkeypatch.setattr(Readers, "read", noted)
    return found


async def begun(store: SqliteStore) -> None:
    """Begin a turn in `s`, which waits."""
    worker = await store.join(until_ms=UNTIL_MS, now_ms=0)
    await begin(store, "s", worker)
    wait = Wait(key="w", kind="approval", session_id="s", turn_id="t1", title="May I?")
    await store.submit(unit("s", 0, reply("s", 0), waits=(wait,), parks=True)).durable()


async def test_a_turn_that_is_not_there_is_known_at_once(
    store: SqliteStore, on_threads: list[str]
) -> None:
    await store.accept("s", "t", turn())
    assert await store.load_turn("none", "t") is None
    assert await store.load_turn("s", "none") is None
    assert on_threads == []


async def test_how_an_unfinished_turn_stands_is_known_at_once(
    store: SqliteStore, on_threads: list[str]
) -> None:
    await begun(store)
    on_threads.clear()
    found = await store.load_turn("s", "t1", since=NO_PAGES)
    assert on_threads == []
    assert found is not None
    assert (found.state, [one.wait.key for one in found.waits]) == ("parked", ["w"])
    assert found == store._readers.glance(reads.load_turn, ("s", "t1", NO_PAGES))


async def test_a_journal_is_read_on_a_thread(store: SqliteStore, on_threads: list[str]) -> None:
    await begun(store)
    on_threads.clear()
    found = await store.load_turn("s", "t1")
    assert found is not None
    assert found.pages
    assert on_threads == ["load_turn"]


@pytest.mark.parametrize("asked", [turn(LONG_TEXT), turn(words=SHORT_TEXTS)], ids=["text", "row"])
async def test_a_long_request_is_read_on_a_thread(
    store: SqliteStore, on_threads: list[str], asked: NewTurn
) -> None:
    await store.accept("s", "t", asked)
    on_threads.clear()
    found = await store.load_turn("s", "t", since=NO_PAGES)
    assert found is not None
    assert found.request == asked.request
    assert on_threads == ["load_turn"]

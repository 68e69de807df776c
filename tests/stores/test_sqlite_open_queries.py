"""What was refused in the middle of a query does not keep a connection at an old moment of the file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.runtime.turns import new_turn
from tests.stores.files import raw
from windlass.errors import JournalCorrupt
from windlass.stores.sqlite import SqliteStore
from windlass.stores.sqlite.rows import Rows

N_SESSIONS = 4


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path, busy_s=2.0)
    await store.open()
    for number in range(N_SESSIONS):  # a query that is read in part stays open
        await store.accept(f"s{number}", "t1", new_turn())
    yield store
    await store.close()


@pytest.fixture
async def other(path: Path, store: SqliteStore) -> AsyncIterator[SqliteStore]:
    """Another process, as far as the file can tell."""
    other = SqliteStore(path)
    await other.open()
    yield other
    await other.close()


def refuse_midway(rows: Rows, *_: Any) -> None:
    """Refuse while a query is open: the exception keeps this frame, and the frame the query."""
    query = rows.db.execute("SELECT id FROM sessions")
    for _session in query:
        raise JournalCorrupt("session: is broken")


def count(rows: Rows, *_: Any) -> int:
    found = rows.db.execute("SELECT count(*) FROM sessions").get
    assert isinstance(found, int)
    return found


@pytest.mark.parametrize("is_glance", [False, True], ids=["on a thread", "on the loop"])
async def test_a_read_sees_what_was_written_after_a_read_that_was_refused(
    store: SqliteStore, other: SqliteStore, is_glance: bool
) -> None:
    async def read(look: Callable[..., object]) -> object:
        if is_glance:
            return store._readers.glance(look, ())
        return await store._readers.read(look, ())

    with pytest.raises(JournalCorrupt) as kept:
        await read(refuse_midway)
    await other.accept("new", "t1", new_turn())

    assert await read(count) == N_SESSIONS + 1
    assert kept.value.__traceback__ is not None


@pytest.mark.parametrize("with_company", [False, True], ids=["alone", "in a batch"])
async def test_a_store_writes_on_after_a_write_that_was_refused(
    store: SqliteStore, other: SqliteStore, with_company: bool
) -> None:
    refused = store._do(refuse_midway)
    if with_company:
        store._do(count)
    with pytest.raises(JournalCorrupt) as kept:
        await refused.durable()
    await other.accept("theirs", "t1", new_turn())

    async with asyncio.timeout(HANGS_S):
        await store.accept("ours", "t1", new_turn())

    assert await store._readers.read(count, ()) == N_SESSIONS + 2
    assert kept.value.__traceback__ is not None


async def test_a_store_writes_on_after_a_refusal_when_another_program_has_looked_at_the_file(
    path: Path, store: SqliteStore
) -> None:
    with pytest.raises(JournalCorrupt) as kept:
        await store._do(refuse_midway).durable()
    db = raw(path)  # this one takes the log away if it is the last to close
    assert db.execute("SELECT count(*) FROM sessions").get == N_SESSIONS
    db.close()

    await store.accept("ours", "t1", new_turn())

    assert await store._readers.read(count, ()) == N_SESSIONS + 1
    assert kept.value.__traceback__ is not None


async def test_a_store_writes_on_after_a_refusal_in_the_callers_own_call(
    store: SqliteStore, other: SqliteStore
) -> None:
    for number in range(40):  # until the writer trusts the disk to be quick
        await store.accept(f"more{number}", "t1", new_turn())
    store._writer._pace_s = 0.0
    refused = store._do(refuse_midway)
    assert refused.settle_now()
    await other.accept("theirs", "t1", new_turn())

    async with asyncio.timeout(HANGS_S):
        await store.accept("ours", "t1", new_turn())
    assert isinstance(refused.refusal, JournalCorrupt)

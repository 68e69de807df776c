"""Whoever hands in a write is answered, whatever goes wrong with it."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from tests.limits import HANGS_S
from tests.runtime.lanes import write_lock
from tests.runtime.turns import new_turn
from windlass.errors import WindlassBug
from windlass.stores.sqlite import SqliteStore
from windlass.stores.sqlite.rows import Rows


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "w.db", durability="process")
    await store.open()
    yield store
    await store.close()


def broken(rows: Rows, again: object) -> None:
    raise TypeError("nobody thought of this")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_fault_that_nobody_thought_of_is_answered_as_a_bug(store: SqliteStore) -> None:
    with pytest.raises(WindlassBug):
        async with asyncio.timeout(HANGS_S):
            await store._do(broken).durable()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_the_writer_goes_on_behind_a_fault_that_nobody_thought_of(
    store: SqliteStore,
) -> None:
    fault = store._do(broken)
    neighbour = store._do(lambda rows, again: 7)
    async with asyncio.timeout(HANGS_S):
        await store.accept("a", "t1", new_turn())
        assert await neighbour.durable() == 7
    assert fault.refusal is not None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_fault_on_the_loop_itself_is_answered_too(store: SqliteStore) -> None:
    for n in range(40):  # until the writer trusts the disk to be quick
        await store.accept(f"s{n}", "t1", new_turn())
    unheard: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))

    with pytest.raises(WindlassBug):
        async with asyncio.timeout(HANGS_S):
            await store._do(broken).durable()
    assert unheard == []
    async with asyncio.timeout(HANGS_S):
        await store.accept("after", "t1", new_turn())


async def test_a_listener_that_fails_keeps_nobody_from_being_told(store: SqliteStore) -> None:
    heard: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: heard.append(context["exception"])
    )
    fault, told = LookupError("nobody thought of this"), asyncio.Event()

    def fail() -> None:
        raise fault

    operation = store._do(lambda rows, again: 7)
    operation.when_settled(fail)
    operation.when_settled(told.set)
    async with asyncio.timeout(HANGS_S):
        assert await operation.durable() == 7
        await told.wait()
    assert heard == [fault]


class Payload:
    """Stands for a unit's bytes."""


def write(_payload: Payload, _rows: Rows, _again: object) -> None:
    """Do nothing with it."""


async def test_nothing_of_a_write_lives_on_in_the_thread_that_wrote_it(store: SqliteStore) -> None:
    payload = Payload()
    gone = threading.Event()
    weakref.finalize(payload, gone.set)
    with write_lock(store.path):  # so that it is the thread's
        operation = store._do(partial(write, payload))
        await asyncio.sleep(0)
    await operation.durable()
    del payload, operation

    assert await asyncio.to_thread(gone.wait, HANGS_S)

"""Whoever hands in a write is answered, whatever goes wrong with it."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from tests.limits import HANGS_S
from tests.runtime import turns
from tests.runtime.lanes import write_lock
from tests.runtime.turns import new_turn
from windlass.errors import IdempotencyConflict, WindlassBug
from windlass.ports import NewTurn, TurnRequest, Unit
from windlass.stores.sqlite import SqliteStore
from windlass.stores.sqlite.rows import Rows


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "w.db", durability="process")
    await store.open()
    yield store
    await store.close()


def broken(rows: Rows) -> None:
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
    neighbour = store._do(lambda rows: 7)
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

    operation = store._do(lambda rows: 7)
    operation.when_settled(fail)
    operation.when_settled(told.set)
    async with asyncio.timeout(HANGS_S):
        assert await operation.durable() == 7
        await told.wait()
    assert heard == [fault]


class Payload:
    """Stands for a unit's bytes."""


def write(_rows: Rows, _payload: Payload) -> None:
    """Do nothing with it."""


async def test_nothing_of_a_write_lives_on_in_the_thread_that_wrote_it(store: SqliteStore) -> None:
    payload = Payload()
    gone = threading.Event()
    weakref.finalize(payload, gone.set)
    with write_lock(store.path):  # so that it is the thread's
        operation = store._do(write, payload)
        assert not operation.settle_now()
        await asyncio.sleep(0)
    await operation.durable()
    del payload, operation

    assert await asyncio.to_thread(gone.wait, HANGS_S)


# --- in the call ---------------------------------------------------------------------------------


async def trusted(store: SqliteStore) -> None:
    """Let the writer trust the disk, whatever else this machine does."""
    await store.accept("first", "t1", new_turn())
    store._writer._pace_s = 0.0


def accepting(session_id: str) -> Unit:
    return Unit(session_id=session_id, turn_id="t1", accept=new_turn())


async def test_a_unit_is_settled_in_the_call_and_leaves_nothing_for_the_loop(
    store: SqliteStore,
) -> None:
    await trusted(store)
    told: list[str] = []
    before = store._writer.commits

    ticket = store.submit(accepting("a"))
    assert waiting() == 0
    assert ticket.settle_now()

    assert waiting() == 0
    assert (ticket.is_settled, ticket.refusal, store._writer.commits) == (True, None, before + 1)
    ticket.when_settled(lambda: told.append("told"))
    await asyncio.sleep(0)
    assert told == ["told"]
    assert (await store.load_session("a")).queued == ("t1",)
    assert ticket.settle_now()


def waiting() -> int:
    """Return how many callbacks wait for the next pass of the loop."""
    return len(asyncio.get_running_loop()._ready)  # type: ignore[attr-defined]  # asyncio's own


async def test_listeners_are_told_in_the_call(store: SqliteStore) -> None:
    await trusted(store)
    told: list[str] = []
    ticket = store.submit(accepting("a"))
    ticket.when_settled(lambda: told.append("told"))

    assert ticket.settle_now()
    assert told == ["told"]
    await asyncio.sleep(0)
    assert told == ["told"]


async def test_a_refusal_is_known_in_the_call_and_changes_nothing(store: SqliteStore) -> None:
    await trusted(store)
    other = TurnRequest(context={"other": True})
    refused = store.submit(
        Unit(session_id="first", turn_id="t1", accept=NewTurn(agent="helper", request=other))
    )
    before = turns.dump(store.path)

    assert refused.settle_now()

    assert isinstance(refused.refusal, IdempotencyConflict)
    assert turns.dump(store.path) == before
    with pytest.raises(IdempotencyConflict):
        await refused.durable()
    store._writer._pace_s = 0.0
    assert store.submit(accepting("a")).settle_now()


async def test_what_was_handed_in_before_is_settled_first(store: SqliteStore) -> None:
    await trusted(store)
    order: list[str] = []
    first, second = store.submit(accepting("a")), store.submit(accepting("b"))
    first.when_settled(lambda: order.append("first"))
    second.when_settled(lambda: order.append("second"))

    assert second.settle_now()
    assert first.is_settled
    assert order == ["first", "second"]


async def test_with_company_or_a_slow_disk_the_loop_is_not_held_up(store: SqliteStore) -> None:
    await trusted(store)
    tickets = [store.submit(accepting(f"s{n}")) for n in range(5)]
    assert not tickets[-1].settle_now()
    await asyncio.gather(*(ticket.durable() for ticket in tickets))

    store._writer._pace_s = 1.0
    ticket = store.submit(accepting("slow"))
    assert not ticket.settle_now()
    assert (await ticket.durable()).accepted is not None


async def test_a_lock_that_another_process_holds_is_waited_for_elsewhere(
    store: SqliteStore,
) -> None:
    await trusted(store)
    with write_lock(store.path):
        ticket = store.submit(accepting("a"))
        assert not ticket.settle_now()
    assert (await ticket.durable()).accepted is not None


async def test_a_fault_in_the_call_is_met_again_and_told(store: SqliteStore) -> None:
    await trusted(store)
    fault = store._do(broken)
    assert fault.settle_now()
    assert isinstance(fault.refusal, WindlassBug)


async def test_a_unit_that_is_handed_in_and_not_asked_for_goes_with_the_next(
    store: SqliteStore,
) -> None:
    first = store.submit(accepting("a"))
    await store.accept("b", "t1", new_turn())
    assert first.is_settled
    left = store.submit(accepting("c"))
    await store.close()
    assert left.is_settled


async def test_a_commit_that_fails_in_the_call_and_landed_all_the_same_lands_once(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await trusted(store)
    commit = store._writer._commit

    def lost(rows: Rows) -> None:
        monkeypatch.undo()
        commit(rows)
        raise apsw.IOError("the answer was lost")

    monkeypatch.setattr(store._writer, "_commit", lost)
    ticket = store.submit(accepting("a"))
    assert not ticket.settle_now()
    receipt = await ticket.durable()

    assert receipt.accepted is not None
    assert not receipt.accepted.known
    assert (await store.load_session("a")).queued == ("t1",)

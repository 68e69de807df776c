"""What observers cost: nothing while nothing happens, one look per process, and little memory each."""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.perf.test_parked_counts import Steps
from tests.stores.files import raw
from windlass import Agent, Runtime, tool
from windlass.kernel import ModelReply, ModelRequest, Text, events
from windlass.ports import NewTurn, TurnRequest
from windlass.ports.views import Due
from windlass.stores.sqlite import SqliteStore
from windlass.stores.sqlite.due import _OURS, _TURNS
from windlass.testing import FunctionModel, call

OBSERVERS = 1_000
MAX_CORE = 0.02
MAX_BYTES = 20_000
MAX_DELAY_S = 0.3
WATCHED_S = 2.0
LOOKS = 3
FOREIGN = 8_000
# Of SQLite, for all that is asked in one look, and for one index entry that is passed over.
STEPS_OF_A_LOOK = 500
STEPS_OF_A_FOREIGN_TURN = 6


@tool(effect="keyed", approval="ask")
async def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


def payer() -> Agent[None, str]:
    def answer(request: ModelRequest) -> ModelReply | str:
        return "Paid." if len(request.messages) > 1 else call("pay", cents=5)

    return Agent("payer", model=FunctionModel(answer), tools=[pay])


async def parked(path: Path, n_sessions: int) -> None:
    """Leave a file with so many sessions, each with a parked turn."""
    async with Runtime(payer(), store=f"sqlite:///{path}", durability="process") as rt:
        for n in range(n_sessions):
            await rt.session(f"s{n}").run("Pay.", turn_id="t")


async def watch(
    stack: AsyncExitStack, rt: Runtime[Any], n: int, seen: list[Any]
) -> asyncio.Task[None]:
    """Begin to observe a session, and read what comes."""
    watched = await stack.enter_async_context(rt.session(f"s{n}").observe())

    async def read() -> None:
        async for event in watched:
            seen.append((n, event))  # noqa: PERF401 - it is cancelled in the middle

    return asyncio.get_running_loop().create_task(read())


async def core_used(most: float) -> float:
    """Return what share of a core this process uses: the least of some looks, because other work only adds to it."""
    found: list[float] = []
    while len(found) < LOOKS and min(found, default=1.0) > most:
        cpu_s, real_s = time.process_time(), time.monotonic()
        await asyncio.sleep(WATCHED_S)
        found.append((time.process_time() - cpu_s) / (time.monotonic() - real_s))
    return min(found)


@pytest.mark.slow
async def test_a_thousand_idle_observers_cost_next_to_nothing(tmp_path: Path) -> None:
    path = tmp_path / "watched.db"
    await parked(path, OBSERVERS)
    store = SqliteStore(path, durability="process")
    await store.open()
    seen: list[Any] = []
    async with Runtime(store=store) as rt, AsyncExitStack() as stack:
        first = [await watch(stack, rt, n, seen) for n in range(100)]
        gc.collect()
        tracemalloc.start()
        rest = [await watch(stack, rt, n, seen) for n in range(100, OBSERVERS)]
        await asyncio.sleep(0.2)
        gc.collect()
        bytes_each = tracemalloc.get_traced_memory()[0] / len(rest)
        tracemalloc.stop()

        commits, looks, files = store._writer.commits, rt._worker.watch.looks, _bytes(path)
        assert await core_used(MAX_CORE) <= MAX_CORE
        assert store._writer.commits == commits
        assert _bytes(path) == files
        assert rt._worker.watch.looks - looks <= 2  # no bell rang: one look each five seconds
        assert bytes_each <= MAX_BYTES
        for task in (*first, *rest):
            task.cancel()
    await store.close()


def _bytes(path: Path) -> list[tuple[str, bytes]]:
    return [
        (one.name, one.read_bytes())
        for one in sorted(path.parent.glob(f"{path.name}*"))
        if one.is_file() and "shm" not in one.name
    ]


@pytest.mark.slow
async def test_a_fact_of_another_process_is_seen_soon_by_one_look_for_all(tmp_path: Path) -> None:
    path = tmp_path / "watched.db"
    await parked(path, 50)
    store = SqliteStore(path, durability="process")
    await store.open()
    seen: list[Any] = []
    async with Runtime(store=store) as rt, AsyncExitStack() as stack:
        tasks = [await watch(stack, rt, n % 50, seen) for n in range(200)]
        async with Runtime(payer(), store=f"sqlite:///{path}", durability="process") as other:
            (wait,) = await other.waits(session_id="s7")
            looks = rt._worker.watch.looks
            await other.approve(wait.key)
            await other.turn("s7", "t").result(timeout=HANGS_S)
            began_s = time.monotonic()
            async with asyncio.timeout(HANGS_S):
                while sum(isinstance(event, events.TurnEnded) for _, event in seen) < 4:  # noqa: ASYNC110 - the readers'
                    await asyncio.sleep(0.005)
            delay_s = time.monotonic() - began_s
            assert {n for n, _ in seen} == {7}
            assert rt._worker.watch.looks - looks <= 20
        for task in tasks:
            task.cancel()
    await store.close()
    assert delay_s <= 3 * MAX_DELAY_S  # on a quiet machine a third of it


@pytest.mark.slow
async def test_an_idle_worker_does_not_read_the_turns_of_other_agents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "foreign.db"
    store = SqliteStore(path, durability="process")
    await store.open()
    request = TurnRequest(input=(Text(text="Go."),))
    for at in range(0, FOREIGN, 500):
        await asyncio.gather(*(
            store.accept(f"f{n}", "t", NewTurn(agent="foreign", request=request))
            for n in range(at, at + 500)
        ))  # fmt: skip
    looks, due = [0], store.due

    async def counted(*args: Any, **options: Any) -> Due:
        looks[0] += 1
        return await due(*args, **options)

    monkeypatch.setattr(store, "due", counted)
    async with Runtime(payer(), store=store):
        await asyncio.sleep(0.5)
        steps, before = Steps(store), looks[0]
        await asyncio.sleep(WATCHED_S)
        n_looks, n_steps = looks[0] - before, steps.count
    await store.close()
    assert 0 < n_looks <= WATCHED_S / store.scan_s + 1
    assert 0 < n_steps / n_looks <= STEPS_OF_A_LOOK + FOREIGN * STEPS_OF_A_FOREIGN_TURN
    asked = f"EXPLAIN QUERY PLAN {_TURNS.format(where=_OURS)}"
    plan = [row[3] for row in raw(path).execute(asked, {"agents": '["payer"]'})]
    assert "SCAN turns USING COVERING INDEX turns_open" in plan  # no row of theirs is read

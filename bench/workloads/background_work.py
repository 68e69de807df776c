"""Background work that is measured: agents that call agents, processes with steps, processes that sleep.

Started as `python -m bench.workloads.background_work ROLE FOLDER`, it is a worker of its own: `parents` and `children`
drive one of both agents until they are killed, `idle` opens a store and prints what idling there takes.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from bench.workloads.child import MARK
from bench.workloads.gauges import cpu_us, memory_mb
from bench.workloads.script import script
from bench.workloads.windlass_turns import FILE
from windlass import Agent, Limits, ProcessContext, Runtime, process
from windlass.kernel import ModelReply, ModelRequest, Text, ToolCall, Usage
from windlass.ports import Ticket, Unit, UnitReceipt
from windlass.ports.model import EmitModelEvent
from windlass.stores.sqlite import SqliteStore
from windlass.stores.sqlite.store import Durability
from windlass.stores.sqlite.writer import Operation

PARENT, CHILD = "lead", "helper"
ANSWER = "It holds."
N_DUE = 100
_MAX_CHILDREN = 20
_SETTLE_S = 1.0
_USAGE = Usage(input_tokens=1_200, output_tokens=40)

Note = Callable[[str], None]


# --- agents that call agents -------------------------------------------------------------------


class LeadModel:
    """Calls as many children as it is asked for, each with a task of its own, and answers when they have."""

    name = "bench:lead"

    def __init__(self, note: Note) -> None:
        self._note = note

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:  # noqa: ARG002 - the port's
        """Call, or answer."""
        (asked, *_) = request.messages[-1].parts
        if not isinstance(asked, Text):
            self._note("woken 0")
        elif n_children := int(asked.text):
            tasks = [f"Hold number {at}." for at in range(n_children)]
            calls = [
                ToolCall(call_id=script.call_id(), name=CHILD, args={"task": task})
                for task in tasks
            ]
            return ModelReply(parts=tuple(calls), usage=_USAGE, terminal="tool_use")
        return _answer()


class HelperModel:
    """Answers at once; or after a moment of any length up to `think_s`."""

    name = "bench:helper"

    def __init__(self, think_s: float) -> None:
        self._think_s = think_s
        self._moments = random.Random(7)

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:  # noqa: ARG002 - the port's
        """Answer."""
        if self._think_s:
            await asyncio.sleep(self._moments.uniform(0, self._think_s))
        return _answer()


def _answer() -> ModelReply:
    return ModelReply(text=ANSWER, parts=(Text(text=ANSWER),), usage=_USAGE)


def family(
    note: Note = lambda _: None, *, think_s: float = 0.0
) -> tuple[Agent[None, str], Agent[None, str]]:
    """Return an agent, and the one that is a tool of it."""
    helper = Agent(CHILD, model=HelperModel(think_s))
    limits = Limits(max_children=_MAX_CHILDREN)
    lead = Agent(PARENT, model=LeadModel(note), tools=[helper.as_tool()], limits=limits)
    return lead, helper


class NotingStore(SqliteStore):
    """A store that notes when the end of a child is on disk, and with it the answer that its parent waits for."""

    def __init__(self, path: Path, note: Note, durability: Durability = "power") -> None:
        super().__init__(path, durability=durability)
        self._note = note

    def submit(
        self, unit: Unit, *, after: Ticket[UnitReceipt] | None = None
    ) -> Operation[UnitReceipt]:
        """Hand in a unit."""
        ticket = super().submit(unit, after=after)
        if unit.commit is not None and unit.errands:
            ticket.when_settled(partial(self._note, "ended 0"))
        return ticket

    @property
    def commits(self) -> int:
        """How many commits the file has seen from here."""
        return self._writer.commits


# --- processes ---------------------------------------------------------------------------------


@process
async def soundings(ctx: ProcessContext[Any], n: int) -> int:
    """Sound as often as a turn of `n` iterations does."""
    for i in range(n):
        await ctx.step(script.run_tool, i)
    return n


@process
async def nap(ctx: ProcessContext[Any]) -> None:
    """Sleep for longer than anybody measures."""
    await ctx.sleep(days=30)


# --- workers of their own ----------------------------------------------------------------------


@asynccontextmanager
async def opened(store: SqliteStore, runtime: Runtime[Any]) -> AsyncIterator[Runtime[Any]]:
    """Open a store that is ours, because we count its commits, and a runtime on it."""
    await store.open()
    try:
        async with runtime:
            yield runtime
    finally:
        await store.close()


async def _work(role: str, folder: Path) -> None:
    """Drive the turns of one agent until somebody kills this process."""
    # Both processes look at fixed intervals. A child that took the same time always would always meet the same moment of
    # the other's interval.
    lead, helper = family(script.note, think_s=SqliteStore.scan_s)
    store = NotingStore(folder / FILE, script.note)
    runtime = Runtime(lead if role == "parents" else helper, store=store)
    # A runtime drives the agents that its agents call as well. This one is to leave them to the other process.
    if role == "parents":
        del runtime._programs[CHILD]  # noqa: SLF001 - see above
    async with opened(store, runtime):
        script.note("opening 0")
        await asyncio.Event().wait()


async def _idle(folder: Path) -> None:
    """Open a runtime on what is there, and do nothing."""
    lease_s, idle_s = float(os.environ["BENCH_LEASE_S"]), float(os.environ["BENCH_IDLE_S"])
    store = NotingStore(folder / FILE, script.note)
    async with opened(store, Runtime(store=store, processes=[nap], lease_s=lease_s)) as runtime:
        await asyncio.sleep(_SETTLE_S)  # what opening leaves to be done is done
        gc.collect()
        commits, cpu, begin = store.commits, cpu_us(), perf_counter_ns()
        await asyncio.sleep(idle_s)
        seconds = (perf_counter_ns() - begin) / 1e9
        figures = {
            "commits": store.commits - commits,
            "cpu_ms_per_s": (cpu_us() - cpu) / 1e3 / seconds,
            "memory_mb": memory_mb(),
            "due_ms": [await _due_ms(runtime, store) for _ in range(N_DUE)],
        }
        print(MARK + json.dumps(figures), flush=True)


async def _due_ms(runtime: Runtime[Any], store: SqliteStore) -> float:
    """Ask what is due, as a worker does at each look."""
    worker = runtime._worker  # noqa: SLF001 - what it asks with is nobody else's business
    worker_id, now_ms = await worker.join(), worker.services.clock.now_ms()
    begin = perf_counter_ns()
    due = await store.due(now_ms, agents=tuple(worker.programs), worker_id=worker_id)
    taken_ms = (perf_counter_ns() - begin) / 1e6
    assert not due.turns
    assert not due.waits
    return taken_ms


if __name__ == "__main__":
    wanted, place = sys.argv[1], Path(sys.argv[2])
    asyncio.run(_idle(place) if wanted == "idle" else _work(wanted, place))

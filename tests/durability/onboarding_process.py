"""A program that is made to be killed: `python -m tests.durability.onboarding_process FOLDER AT WHEN`.

It starts a process that charges a customer, sleeps three days, waits for two signals and wakes a chat. Its signals are sent
before the process waits for them, and again in every life. At its write number AT the program kills itself with SIGKILL,
before or after the store has it; 0 is never. What its steps do is counted in a file.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec

from windlass import Agent, ProcessContext, Runtime, process
from windlass.errors import StepUnknown
from windlass.ports import Unit
from windlass.stores.sqlite import SqliteStore
from windlass.testing import FunctionModel, VirtualClock

START_MS = 1_700_000_000_000
DAYS_MS = 3 * 86_400_000
DIED = -signal.SIGKILL


class Mortal(SqliteStore):
    """A store whose process dies at one of its writes."""

    dies_at = 0
    dies_before = False
    n_writes = 0

    def _write(self, is_before: bool) -> None:
        if is_before:
            self.n_writes += 1
        if self.n_writes == self.dies_at and is_before == self.dies_before:
            os.kill(os.getpid(), signal.SIGKILL)

    def submit(self, unit: Unit, *args: Any, **more: Any) -> Any:  # noqa: ANN401 - as of the store
        self._write(True)
        ticket = super().submit(unit, *args, **more)
        self._write(False)
        return ticket

    async def run_errands(self, *args: Any, **more: Any) -> Any:  # noqa: ANN401 - as of the store
        self._write(True)
        found = await super().run_errands(*args, **more)
        self._write(False)
        return found

    async def resolve_wait(self, *args: Any, **more: Any) -> Any:  # noqa: ANN401 - as of the store
        self._write(True)
        found = await super().resolve_wait(*args, **more)
        self._write(False)
        return found

    async def claim(self, *args: Any, **more: Any) -> Any:  # noqa: ANN401 - as of the store
        self._write(True)
        found = await super().claim(*args, **more)
        self._write(False)
        return found


def onboarding(folder: Path) -> Any:  # noqa: ANN401 - a process
    """Return the process; each run of a step is a line in the ledger."""

    def note(word: str) -> str:
        ledger = os.open(folder / "ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(ledger, f"{word}\n".encode())
        os.close(ledger)
        return word

    @process(signals={"paid": int})
    async def onboard(ctx: ProcessContext[Any], customer: str) -> dict[str, Any]:
        began = await ctx.now()
        try:
            charged = await ctx.step(note, "charge")
        except StepUnknown:
            charged = "unknown"
        await ctx.step(note, "mail", effect="idempotent")
        await ctx.sleep(days=3)
        slept = (await ctx.now()) - began
        paid = [await ctx.wait("paid"), await ctx.wait("paid")]
        await ctx.wake("chat", f"{customer} paid {sum(paid)}.", event="paid")
        await ctx.emit("onboarded", charged)
        return {"charged": charged, "paid": paid, "slept_days": slept.days}

    return onboard


async def play(folder: Path, store: Mortal, clock: VirtualClock) -> dict[str, Any]:
    """Play the program to its end: whatever an earlier life has done."""
    agent = Agent("clerk", model=FunctionModel(lambda _: "Noted."))
    onboard = onboarding(folder)
    async with Runtime(agent, store=store, clock=clock, processes=[onboard]) as rt:
        await rt.session("chat").run("Hello.", turn_id="hello")
        handle = await rt.processes.start(onboard, id="ann", customer="Ann")
        for eur, key in ((1, "evt-1"), (1, "evt-1"), (2, "evt-2")):
            await handle.signal("paid", eur, key=key)
        while not (await handle.status()).is_over:
            if any(wait.kind == "timer" for wait in (await handle.status()).waits):
                (folder / "later").touch()  # time does not go back with the next life
                clock.advance((START_MS + DAYS_MS - clock.now_ms()) / 1000)
            rt._worker.kick()
            await asyncio.sleep(0.001)
        value = await handle.result()
        await rt.session("chat").wait()
        events = [one for one in await rt.session("chat").history() if one.role == "event"]
        record = (await handle.status()).record
    return {"value": value, "events": len(events), "record": record, "writes": store.n_writes}


async def main(folder: Path, dies_at: int, when: str) -> None:
    """Run one life."""
    store = Mortal(folder / "onboarding.db", durability="process")
    store.dies_at, store.dies_before = dies_at, when == "before"
    await store.open()
    try:
        begins_ms = START_MS + DAYS_MS * (folder / "later").exists()
        found = await play(folder, store, VirtualClock(begins_ms))
    finally:
        await store.close()
    sys.stdout.write(msgspec.json.encode(found).decode())


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))

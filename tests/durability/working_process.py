"""A script with a process and children, as a user writes it. It kills itself: `working_process.py STORE LOG KILL_AT`.

LOG gets a line for everything that is done to the world, before anything else happens. With KILL_AT above 0 the script
kills itself right behind the line of that number; at `.5` it does so later, when the next unit of a turn is on disk: the one
with the result of what the line tells of.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from windlass import Agent, ProcessContext, Runtime, process, tool
from windlass.kernel import ModelReply, ModelRequest, ToolResult
from windlass.runtime.lane import Lane
from windlass.testing import FunctionModel, call


def _die_at_next_unit() -> None:
    settled = Lane._settled

    def die(self: Lane, *ticket: Any) -> None:
        settled(self, *ticket)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(Lane, "_settled", die)  # noqa: B010 - of what is left of this life


def main(store: str, log: Path, kill_at: float) -> None:
    n_lines = len(log.read_text().splitlines()) if log.exists() else 0

    def act(what: str) -> str:
        nonlocal n_lines
        with log.open("a") as file:
            file.write(what + "\n")
        n_lines += 1
        if n_lines == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if n_lines == int(kill_at) and kill_at != int(kill_at):
            _die_at_next_unit()
        return what

    async def step(what: str) -> str:
        return act(what)

    @tool(effect="keyed")
    async def pay(cents: int) -> str:
        """Pay."""
        return act(f"paid {cents}")

    async def answer(request: ModelRequest) -> str | ModelReply:
        has_paid = isinstance(request.messages[-1].parts[0], ToolResult)
        return "Paid." if has_paid else call("pay", cents=5)

    payer = Agent("payer", model=FunctionModel(answer), tools=[pay])

    @process
    async def work(ctx: ProcessContext[Any]) -> list[str]:
        first = await ctx.step(step, "first", effect="keyed")
        await ctx.sleep(0.01)
        both = await asyncio.gather(*[ctx.step(step, name, effect="keyed") for name in "ab"])
        told = await ctx.turn("payer", "Pay.")
        await ctx.emit("paid", told)
        return [first, *both, told, await ctx.step(step, "last", effect="keyed")]

    async def run() -> None:
        async with Runtime(payer, store=store, durability="process", processes=[work]) as rt:
            handle = await rt.processes.start(work, id="work")
            print(*await handle.result(timeout=60))  # noqa: T201 - the test reads it

    asyncio.run(run())


main(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]))

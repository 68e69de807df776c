"""A script with a batch, as a user writes it. It dies where it is told to: `batch_process.py STORE LOG DONE KILL_AT`.

LOG gets a line for every model call, DONE one for every item that the script was given, both before anything else happens.
With KILL_AT above 0 the process kills itself when LOG has that many lines.
"""

# ruff: noqa: ASYNC240 - files are what it leaves behind

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from windlass import Agent, Runtime
from windlass.kernel import ModelRequest, Text
from windlass.testing import FunctionModel

N_ITEMS = 500
CONCURRENCY = 8
# How far the generator was ahead of what the script was given, at most.
ahead = [0, 0]


def inputs() -> Iterator[str]:
    for number in range(N_ITEMS):
        ahead[0] += 1
        ahead[1] = max(ahead)
        yield f"Sort mail {number}."


async def main(store: str, log: Path, done: Path, kill_at: int) -> None:
    n_calls = len(log.read_text().splitlines()) if log.exists() else 0

    def note(path: Path, line: str) -> None:
        with path.open("a") as file:
            file.write(line + "\n")

    async def answer(request: ModelRequest) -> str:
        nonlocal n_calls
        part = request.messages[-1].parts[0]
        assert isinstance(part, Text)
        note(log, part.text)
        n_calls += 1
        if n_calls == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(0)
        return f"Sorted: {part.text}"

    agent = Agent("sorter", model=FunctionModel(answer))
    async with Runtime(agent, store=store, durability="process") as rt:
        items = rt.map(
            inputs(), batch="mails", concurrency=CONCURRENCY, progress=True, total=N_ITEMS
        )
        async for item in items:
            ahead[0] -= 1
            note(done, f"{item.session_id} {item.output}")
    print(max(ahead))  # noqa: T201 - the test reads it


asyncio.run(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])))

"""One of several workers on a file: `python -m tests.durability.soak.member FOLDER [OPTIONS]`.

Works until it is told to leave with SIGTERM. Its input is for orders, one to a line: a turn to run, as JSON. What came of it
is written down in the ledger.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

from tests.durability.soak import gang, mutants
from tests.durability.soak.ledger import Ledger
from windlass import Runtime
from windlass.errors import WindlassError
from windlass.ports import Due
from windlass.stores.sqlite import SqliteStore


async def run_one(runtime: Runtime[str], ledger: Ledger, order: dict[str, Any]) -> None:
    """Run a turn and say what it came to."""
    session = order["session"]
    try:
        result = await runtime.session(session).run(order["task"], turn_id=order["turn"])
    except WindlassError as error:
        ledger.write("failed", session, order["turn"], error=f"{error.code}: {error}")
    else:
        ledger.write("result", session, order["turn"], text=result.text, status=result.status)


async def obey(runtime: Runtime[str], ledger: Ledger, group: asyncio.TaskGroup) -> None:
    """Do what the input says, each order beside the others."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        order = json.loads(line)
        for _ in range(order.get("times", 1)):
            group.create_task(run_one(runtime, ledger, order))


def write_looks_down(ledger: Ledger) -> None:
    """Write a line for each look for work: how soon a worker comes is counted in looks, whatever the machine's load."""
    due = SqliteStore.due

    async def looked(self: SqliteStore, *args: Any, **options: Any) -> Due:
        ledger.write("looked")
        return await due(self, *args, **options)

    SqliteStore.due = looked  # type: ignore[method-assign]


async def work(folder: Path, lease_s: float, max_turns: int) -> None:
    """Work until SIGTERM."""
    ledger = Ledger(folder / "ledger")
    write_looks_down(ledger)
    leave = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leave.set)
    store = f"sqlite:///{folder / 'gang.db'}"
    agent = gang.gang(ledger)
    async with Runtime(agent, store=store, lease_s=lease_s, max_turns=max_turns) as runtime:
        ledger.write("ready")
        async with asyncio.TaskGroup() as group:
            orders = group.create_task(obey(runtime, ledger, group))
            await leave.wait()
            orders.cancel()
        ledger.write("leaves")
    ledger.write("left")


def main() -> None:
    """Read the command line and work."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lease", type=float, default=15.0)
    parser.add_argument("--max-turns", type=int, default=32)
    parser.add_argument("--mutant", default="")
    options = parser.parse_args()
    if options.mutant:
        mutants.apply(options.mutant)
    asyncio.run(work(options.folder, options.lease, options.max_turns))


if __name__ == "__main__":
    main()

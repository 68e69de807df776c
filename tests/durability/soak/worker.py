"""A worker that is made to be killed: `python -m tests.durability.soak.worker FOLDER`.

Each life submits the same turns again, drives whatever is unfinished, and writes down what it is shown.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import msgspec

from tests.durability.soak import crew, mutants
from tests.durability.soak.ledger import Ledger
from windlass import Runtime, TurnHandle
from windlass.kernel.events import Event


def ledger_of(folder: Path) -> Ledger:
    """Return the ledger of a round."""
    return Ledger(folder / "ledger")


def file_of(folder: Path) -> Path:
    """Return the store's file of a round."""
    return folder / "soak.db"


def tell(ledger: Ledger, session: str, event: Event) -> None:
    """Write down what was shown as a fact, and when."""
    if event.preview:
        return
    shown_ms = time.time_ns() // 1_000_000
    ledger.write("shown", session, event=msgspec.to_builtins(event), shown_ms=shown_ms)


async def follow(runtime: Runtime[str], ledger: Ledger, session: str) -> None:
    """See one turn to its end; do what an operator does when it is thought to be poison."""
    asked = crew.task(session)
    handle: TurnHandle[str] = await runtime.session(session).submit(asked, turn_id=crew.TURN)
    ledger.write("accepted", session)
    while True:
        async for event in handle.events():
            tell(ledger, session, event)
        result = await handle.result()
        if not result.parked:
            return
        ledger.write("parked", session, kinds=[wait.kind for wait in result.waits])
        await runtime.retry(session, crew.TURN)


async def live(folder: Path) -> None:
    """Work until all turns are done."""
    ledger = ledger_of(folder)
    agent = crew.crew(ledger)
    async with Runtime(agent, store=f"sqlite:///{file_of(folder)}") as runtime:
        async with asyncio.TaskGroup() as group:
            for session in crew.sessions():
                group.create_task(follow(runtime, ledger, session))
        ledger.write("over")


def main(folder: str, mutant: str = "") -> None:
    """Live one life, with one of the mutants if it is named."""
    if mutant:
        mutants.apply(mutant)
    asyncio.run(live(Path(folder)))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A worker that is given the script again in every life, and is made to be killed: `worker.main(FOLDER, LEAVES_S, [MUTANT])`.

With LEAVES_S it leaves after so many seconds, in the middle of its work; a kill is somebody else's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.durability.queue import mutants, office
from tests.durability.soak.ledger import Ledger
from windlass import Runtime
from windlass.errors import ConfigError, EngineError
from windlass.ports import ClaimedTurn, When
from windlass.stores.sqlite import SqliteStore


def ledger_of(folder: Path) -> Ledger:
    """Return the ledger of a round."""
    return Ledger(folder / "ledger")


def file_of(folder: Path) -> Path:
    """Return the store's file of a round."""
    return folder / "queue.db"


class SlowClaims(SqliteStore):
    """Takes a moment to say which turns it gives, so that much happens meanwhile."""

    takes_s = 0.010

    async def claim(self, *args: Any, **wanted: Any) -> tuple[ClaimedTurn, ...]:
        """Take turns, and tell a little later."""
        given = await super().claim(*args, **wanted)
        await asyncio.sleep(self.takes_s)
        return given


async def _recovered(runtime: Runtime[str], session: str) -> None:
    """Let a turn that an earlier life left begun come to its end; do what an operator does if it is thought to be poison."""
    for turn in await runtime.turns(session_id=session):
        if turn.state not in ("done", "queued"):
            handle = runtime.turn(session, turn.turn_id)
            while (await handle.result()).parked:
                await runtime.retry(session, turn.turn_id)


async def _give(runtime: Runtime[str], ledger: Ledger, session: str, entry: office.Entry) -> None:
    """Give a session one entry, and see its turn to the end."""
    to, said = runtime.session(session), office.words(session, entry.name)
    match entry.how:
        case "run":
            await to.run(said, turn_id=entry.name)
        case "item" | "note":
            when: When = "now" if entry.how == "note" else "next_turn"
            await to.enqueue(said, when=when, key=entry.name)
            ledger.write("given", session, entry.name)
        case "submit" | "cancel":
            handle = await to.submit(said, turn_id=entry.name)
            ledger.write("given", session, entry.name)
            if entry.how == "cancel":
                await handle.cancel("enough")
            await handle.result()


async def _follow(runtime: Runtime[str], ledger: Ledger, session: str) -> None:
    await _recovered(runtime, session)
    for batch in office.SCRIPT:
        # Each is given in the task's first step, in this order and without a pause between two.
        given = [asyncio.create_task(_give(runtime, ledger, session, one)) for one in batch]
        try:
            await asyncio.gather(*given)
        finally:
            await _end(given)


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _has_more(runtime: Runtime[str], session: str) -> bool:
    turns = await runtime.turns(session_id=session)
    waiting = (await runtime.session(session).inbox()).items
    return bool(waiting) or any(turn.state != "done" for turn in turns)


async def _work(runtime: Runtime[str], ledger: Ledger) -> None:
    sessions = office.sessions()
    async with asyncio.TaskGroup() as group:
        for session in sessions:
            group.create_task(_follow(runtime, ledger, session))
    # What the last turns left, and notes that came at the end, begin turns of their own.
    for session in sessions:
        while await _has_more(runtime, session):  # noqa: ASYNC110 - the store rings for no single session
            await asyncio.sleep(0.005)
    ledger.write("over")


async def live(folder: Path, leaves_s: float) -> None:
    """Work until everything has entered, or leave before."""
    ledger = ledger_of(folder)
    store = SlowClaims(file_of(folder), durability="process")
    await store.open()
    try:
        async with Runtime(office.office(ledger), store=store) as runtime:
            work = asyncio.create_task(_work(runtime, ledger))
            await asyncio.wait([work], timeout=leaves_s or None)
            ledger.write("leaving")
        work.cancel()
        # It may have asked the runtime for something after that was closed.
        with suppress(asyncio.CancelledError, ConfigError, EngineError, ExceptionGroup):
            await work
    finally:
        await store.close()


def main(folder: str, leaves_s: str, mutant: str = "") -> None:
    """Live one life, with one of the mutants if it is named."""
    if mutant:
        mutants.apply(mutant)
    asyncio.run(live(Path(folder), float(leaves_s)))

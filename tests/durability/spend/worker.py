"""A worker on a budget that is made to be killed: `worker.main(FOLDER, [MUTANT])`.

Each life submits the same turns again and drives whatever is unfinished.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests.durability.soak import mutants
from tests.durability.soak.ledger import Ledger
from tests.durability.spend import clerk
from windlass import Runtime
from windlass.journal import UsageLine, turn_journal
from windlass.kernel.model_call import ModelRequest
from windlass.plugins import PluginTurn, Send
from windlass.plugins.spend_limits import SpendLimits
from windlass.runtime import recovery


def ledger_of(folder: Path) -> Ledger:
    """Return the ledger of a round."""
    return Ledger(folder / "ledger")


def file_of(folder: Path) -> Path:
    """Return the store's file of a round."""
    return folder / "spend.db"


async def follow(runtime: Runtime[str], ledger: Ledger, session: str) -> None:
    """See the turns of a session to their end; do what an operator does when one is thought to be poison."""
    for turn in clerk.turns():
        handle = await runtime.session(session).submit(clerk.task(session, turn), turn_id=turn)
        while (result := await handle.result()).parked:
            ledger.write("parked", session, turn, kinds=[wait.kind for wait in result.waits])
            await runtime.retry(session, turn)


async def live(folder: Path) -> None:
    """Work until all turns are done."""
    ledger = ledger_of(folder)
    store = f"sqlite:///{file_of(folder)}"
    async with Runtime(clerk.clerk(ledger), store=store, durability="process") as runtime:
        async with asyncio.TaskGroup() as group:
            for session in clerk.sessions():
                group.create_task(follow(runtime, ledger, session))
        ledger.write("over")


def forget_to_reserve() -> None:
    """Make calls without writing down before what they may take."""
    before_model = SpendLimits.before_model

    async def lax(self: SpendLimits, turn: PluginTurn, request: ModelRequest) -> object:
        said = await before_model(self, turn, request)
        return msgspec.structs.replace(said, reserve=None) if isinstance(said, Send) else said

    mutants._plant(SpendLimits, "before_model", lax)


def forgive_what_was_lost() -> None:
    """Take every call that was cut short for one that spent nothing."""

    def lost_lines(*_: object, **__: object) -> Iterator[UsageLine]:
        return iter(())

    for place in (turn_journal, recovery):
        mutants._plant(place, "lost_lines", lost_lines)


MUTANTS = {each.__name__: each for each in (forget_to_reserve, forgive_what_was_lost)}


def main(folder: str, mutant: str = "") -> None:
    """Live one life, with the fault if it is named."""
    if mutant:
        MUTANTS[mutant]()
    asyncio.run(live(Path(folder)))

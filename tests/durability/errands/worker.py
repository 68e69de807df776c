"""A worker that runs errands and is made to be killed: `python -m tests.durability.errands.nursery` starts it.

It drives what is due until it is told to leave with SIGTERM. For each unit with errands that landed it writes down what became
of them, and a while later it hands the unit in again, as a caller would that did not hear the answer.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import random
from typing import Any

from tests.durability.errands import mutants
from tests.durability.errands.yard import yard
from tests.durability.soak.ledger import Ledger
from windlass import Runtime
from windlass.errors import StoreUnavailable
from windlass.ports import (
    AcceptTurn,
    AnswerWait,
    CancelTurn,
    Errand,
    MoveSession,
    PostItem,
    Ticket,
    Unit,
    UnitReceipt,
)
from windlass.stores.sqlite import SqliteStore

MAX_TURNS = 6
# How long `stop` waits for a tree. With a fault in the worker, the tree may never grow.
PATIENCE_S, PATIENCE_WITH_FAULTS_S = 60.0, 2.0
# How often and until when a unit that landed is handed in again.
N_AGAIN, AGAIN_S = 3, 1.2


def file_of(folder: Path) -> Path:
    """Return the store's file of a round."""
    return folder / "errands.db"


def ledger_of(folder: Path, pid: int) -> Ledger:
    """Return the ledger of one life."""
    return Ledger(folder / f"ledger.{pid}")


def ledgers_in(folder: Path) -> list[Ledger]:
    """Return the ledgers of all lives, and of the operator."""
    return [Ledger(path) for path in sorted(folder.glob("ledger.*"))]


def name_of(errand: Errand) -> str:
    """Return what tells an errand from all others."""
    match errand:
        case AcceptTurn():
            return f"accept {errand.session_id} {errand.turn_id}"
        case PostItem():
            return f"post {errand.session_id} {errand.item.item_id}"
        case AnswerWait():
            return f"answer {errand.key}"
        case CancelTurn():
            return f"cancel {errand.session_id} {errand.turn_id}"
        case MoveSession():
            return f"move {errand.session_id} {errand.to}"


def write_receipts_down(ledger: Ledger, worker_id: list[str]) -> None:
    """Write a line for each errand that was run, and hand each unit in again."""
    submit = SqliteStore.submit

    def tell(unit: Unit, ticket: Ticket[UnitReceipt], kind: str) -> None:
        if ticket.receipt is None:
            return
        for errand, receipt in zip(unit.errands, ticket.receipt.errands, strict=False):
            said = {"status": receipt.status, "owner": receipt.owner, "by": worker_id[0]}
            ledger.write(kind, unit.session_id, name_of(errand), **said)

    def again(store: SqliteStore, unit: Unit) -> None:
        with suppress(StoreUnavailable):  # this worker has left
            ticket = submit(store, unit)
            ticket.when_settled(partial(tell, unit, ticket, "again"))

    def submitted(store: SqliteStore, unit: Unit, **how: Any) -> Any:  # noqa: ANN401 - the store's own
        ticket = submit(store, unit, **how)
        if unit.errands:
            ticket.when_settled(partial(tell, unit, ticket, "errand"))
            for _ in range(N_AGAIN):
                asyncio.get_running_loop().call_later(AGAIN_S * random(), again, store, unit)
        return ticket

    setattr(SqliteStore, "submit", submitted)  # noqa: B010 - its signature is narrower


async def live(folder: Path, mutant: str) -> None:
    """Work until SIGTERM, with one of the mutants if it is named."""
    ledger = ledger_of(folder, os.getpid())
    leave = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leave.set)
    worker_id = [""]
    write_receipts_down(ledger, worker_id)
    if mutant:
        mutants.apply(mutant)
    patience_s = PATIENCE_WITH_FAULTS_S if mutant else PATIENCE_S
    agent, store = yard(ledger, patience_s), f"sqlite:///{file_of(folder)}"
    async with Runtime(agent, store=store, max_turns=MAX_TURNS) as runtime:
        worker_id[0] = runtime._services.worker_id
        await leave.wait()


def main(folder: str, mutant: str = "") -> None:
    """Live one life."""
    asyncio.run(live(Path(folder), mutant))

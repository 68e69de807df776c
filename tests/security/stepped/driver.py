"""A process that drives the turn step by step: `python -m tests.security.stepped.driver FILE [unregistered]`.

It stands still before and after each write, and in the middle of each hook: it says where, and goes on when it is told to.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

from tests.security.stepped.agent import KEY, NAME, SECRETS, SESSION, TURN, blabbing
from windlass import Runtime
from windlass.guards import Secret, register_secret
from windlass.ports import Store, Ticket, Unit, UnitReceipt
from windlass.stores.sqlite import SqliteStore

_WRITES = frozenset(
    {"accept", "claim", "enqueue", "join", "leave", "release", "resolve_wait", "take_over"}
)


def stop(where: str) -> None:
    """Say where the process stands, and wait. All of it stands still: nothing is written meanwhile."""
    sys.stdout.write(f"{where}\n")
    sys.stdout.flush()
    if not sys.stdin.readline():
        raise SystemExit("nobody is there any more")


class SteppedStore:
    """A store that stops before and after each write, which is on disk by then."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a store has
        found = getattr(self._store, name)
        return partial(self._write, name, found) if name in _WRITES else found

    def submit(
        self, unit: Unit, *, after: Ticket[UnitReceipt] | None = None
    ) -> Ticket[UnitReceipt]:
        """Write a unit at once."""
        stop("before a unit")
        ticket = self._store.submit(unit, after=after)
        self._store._writer._serve()
        assert ticket.is_settled
        stop("after a unit")
        return ticket

    async def _write(
        self, name: str, write: Callable[..., Awaitable[Any]], *args: object, **options: object
    ) -> Any:  # noqa: ANN401 - what the store answers
        stop(f"before {name}")
        answer = await write(*args, **options)
        stop(f"after {name}")
        return answer


async def drive(path: Path) -> None:
    """Drive the turn to its end, and say yes to what it asks."""
    file = SqliteStore(path, durability="process")
    await file.open()
    store = cast("Store", SteppedStore(file))
    runtime: Runtime[str] = Runtime(
        blabbing(stop, lambda: runtime), store=store, lease_s=3_600, durability="process"
    )
    async with runtime:
        said = f"{SECRETS['on_input']} and {KEY}, do it."
        handle = await runtime.session(SESSION).submit(said, turn_id=TURN, context={"k": KEY})
        while (result := await handle.result()).parked:
            stop("parked")
            for wait in result.waits:
                await runtime.approve(wait.key, by="eva")
    await file.close()
    stop("over")


if __name__ == "__main__":
    if sys.argv[2:] != ["unregistered"]:
        register_secret(Secret(KEY, name=NAME))
    asyncio.run(drive(Path(sys.argv[1])))

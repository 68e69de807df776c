"""A store with a point before and after every write: at the one that was named, the process is killed."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NoReturn

from tests.durability.soak.ledger import Ledger
from windlass.ports import Ticket, Unit, UnitReceipt
from windlass.stores.sqlite import SqliteStore

_WRITES = frozenset({"accept", "claim", "join", "leave", "release", "resolve_wait", "take_over"})
_READS = frozenset(
    {
        "changes", "due", "get_blob", "inbox", "is_durable", "is_present", "list_waits", "list_workers", "load_history",
        "load_session", "load_turn", "renew", "scan_s", "secret", "store_id", "take_inbox", "watch",
    }
)  # fmt: skip


def die(ledger: Ledger, at: str) -> NoReturn:
    """Kill this process, and say so before: no line comes behind it."""
    ledger.write("dies", at=at)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("it lives")


class SeamStore:
    """A file whose writes are points to die at. Each is on disk before the next thing happens.

    The store is asked for work ten times as often as it wants to be: rounds are many, and an answer comes from outside.
    """

    scan_s = SqliteStore.scan_s / 10

    def __init__(self, store: SqliteStore, ledger: Ledger, dies_at: str | None) -> None:
        self._store = store
        self._ledger = ledger
        self._dies_at = dies_at
        self._seen: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a store has
        found = getattr(self._store, name)
        if name in _WRITES:
            return partial(self._write, name, found)
        assert name in _READS, f"{name}: is it a write?"
        return found

    def submit(
        self, unit: Unit, *, after: Ticket[UnitReceipt] | None = None
    ) -> Ticket[UnitReceipt]:
        """Write a unit at once."""
        name = self._numbered(f"unit of {unit.turn_id}")
        self._at(f"before {name}")
        ticket = self._store.submit(unit, after=after)
        self._store._writer._serve()
        assert ticket.is_settled
        self._at(f"after {name}")
        return ticket

    async def _write(
        self, name: str, write: Callable[..., Awaitable[Any]], *args: object, **options: object
    ) -> Any:  # noqa: ANN401 - what the store answers
        name = self._numbered(name)
        self._at(f"before {name}")
        answer = await write(*args, **options)
        self._at(f"after {name}")
        return answer

    def _numbered(self, name: str) -> str:
        self._seen[name] += 1
        return f"{name} {self._seen[name]}"

    def _at(self, point: str) -> None:
        if point == self._dies_at:
            die(self._ledger, point)
        self._ledger.write("point", at=point)

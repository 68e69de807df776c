"""A store that tells before and after each write that the process may die here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from windlass.errors import StoreUnavailable
from windlass.ports import Store, Ticket, Unit, UnitReceipt
from windlass.testing.crashing.fuse import Fuse
from windlass.testing.crashing.write_names import WRITES, WriteNames


class CrashingStore:
    """Stands before a store during one life. Once that life is over, nothing more is written by it."""

    def __init__(self, store: Store, fuse: Fuse, names: WriteNames) -> None:
        self._store = store
        self._fuse = fuse
        self._names = names
        self._writes = 0
        self.workers: list[str] = []

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a store has
        found = getattr(self._store, name)
        return partial(self._write, name, found) if name in WRITES else found

    def submit(
        self, unit: Unit, *, after: Ticket[UnitReceipt] | None = None
    ) -> Ticket[UnitReceipt]:
        """Hand in a unit."""
        number, what = self._next(), self._names.of(unit)
        self._fuse.reach(f"before write {number}", what)
        ticket = self._store.submit(unit, after=after)

        def settled() -> None:
            if ticket.refusal is None and not self._fuse.is_burnt:
                self._fuse.reach(f"after write {number}", what)

        if ticket.is_settled:
            settled()
        else:
            # Told first, because it asked first: nobody acts on the write before the process dies.
            ticket.when_settled(settled)
        return ticket

    async def _write(
        self, name: str, write: Callable[..., Awaitable[Any]], *args: object, **options: object
    ) -> Any:  # noqa: ANN401 - what the store answers
        number = self._next()
        self._fuse.reach(f"before write {number}", WRITES[name])
        answer = await write(*args, **options)
        if name == "join":
            self.workers.append(answer)
        self._fuse.reach(f"after write {number}", WRITES[name])
        return answer

    def _next(self) -> int:
        if self._fuse.is_burnt:
            raise StoreUnavailable("the process is dead: nothing more is written")
        self._writes += 1
        return self._writes

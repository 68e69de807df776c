"""A store whose sessions have locks, as rows of a database server have: a unit locks its own and those of its errands.

It stands for stores in which several units are written at the same time; the stores of windlass write one after
another, and would pass whatever they lock first.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack

from windlass.ports import Ticket, Unit, UnitReceipt, lock_order, sessions_of
from windlass.stores.memory import MemoryStore


def as_named(session_ids: Iterable[str]) -> tuple[str, ...]:
    """Return sessions in the order in which a unit names them: the fault that is planted here."""
    return tuple(dict.fromkeys(session_ids))


class LockingTicket:
    """A unit that is written once its sessions are locked."""

    is_settled = False
    refusal: BaseException | None = None
    receipt: UnitReceipt | None = None

    def __init__(self, store: LockingStore, unit: Unit) -> None:
        self._store = store
        self._unit = unit

    def settle_now(self) -> bool:
        """Say that it has to wait."""
        return False

    def when_settled(self, tell: Callable[[], None]) -> None:
        """Refuse: what is tested here waits for units."""
        raise NotImplementedError

    async def durable(self) -> UnitReceipt:
        """Lock what the unit touches, one session after another, and write it."""
        async with AsyncExitStack() as locked:
            for session_id in self._store.sessions_of(self._unit):
                await locked.enter_async_context(self._store.locks[session_id])
                await asyncio.sleep(0)  # to ask a server for a lock takes time
            return await self._store.write(self._unit)


class LockingStore(MemoryStore):
    """Locks the sessions of a unit in some order before it writes the unit."""

    def __init__(self, order: Callable[[Iterable[str]], tuple[str, ...]] = lock_order) -> None:
        super().__init__()
        self.locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._order = order

    def sessions_of(self, unit: Unit) -> tuple[str, ...]:
        """Return the sessions that a unit touches, in this store's order."""
        named = (sessions_of(errand, self._session_of) for errand in unit.errands)
        return self._order([unit.session_id, *(name for names in named for name in names)])

    def _session_of(self, key: str) -> str | None:
        turn = self._tables.waits.get(key)
        return None if turn is None else turn.session.id

    def submit(
        self, unit: Unit, *, after: Ticket[UnitReceipt] | None = None
    ) -> Ticket[UnitReceipt]:
        if unit.errands and after is None:
            return LockingTicket(self, unit)
        return super().submit(unit, after=after)

    async def write(self, unit: Unit) -> UnitReceipt:
        """Write a unit whose sessions are locked."""
        return await super().submit(unit).durable()

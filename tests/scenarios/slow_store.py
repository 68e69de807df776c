"""A store whose disk can be held up: what is handed in is there, but nobody is told that it is durable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from windlass.ports import Ticket, Unit, UnitReceipt
from windlass.stores.memory import MemoryStore


class _HeldTicket:
    """A ticket that is settled when the disk is let go."""

    def __init__(self, ticket: Ticket[UnitReceipt], disk: asyncio.Event) -> None:
        self._ticket = ticket
        self._disk = disk

    @property
    def is_settled(self) -> bool:
        return self._disk.is_set()

    @property
    def refusal(self) -> BaseException | None:
        return self._ticket.refusal if self.is_settled else None

    @property
    def receipt(self) -> UnitReceipt | None:
        return self._ticket.receipt if self.is_settled else None

    def settle_now(self) -> bool:
        return self.is_settled

    def when_settled(self, tell: Callable[[], None]) -> None:
        waiting = asyncio.get_running_loop().create_task(self._disk.wait())
        waiting.add_done_callback(lambda _: tell())

    async def durable(self) -> UnitReceipt:
        await self._disk.wait()
        return await self._ticket.durable()


class SlowStore(MemoryStore):
    """Holds up every unit until `disk` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = asyncio.Event()

    def submit(
        self, unit: Unit, *, after: Ticket[UnitReceipt] | None = None
    ) -> Ticket[UnitReceipt]:
        return _HeldTicket(super().submit(unit, after=after), self.disk)

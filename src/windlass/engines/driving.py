"""A turn that is being driven in this process."""

from __future__ import annotations

import asyncio
from typing import Any

from windlass.runtime.drive import Drive, Parked
from windlass.runtime.turn_record import TurnRecord


class Driving:
    """The drive, its task, and whoever waits for what it comes to."""

    __slots__ = ("_waiters", "drive", "task", "turn_id")

    task: asyncio.Task[Any]

    def __init__(self, turn_id: str, drive: Drive) -> None:
        self.turn_id = turn_id
        self.drive = drive
        self._waiters: list[asyncio.Future[TurnRecord | Parked | None]] = []

    async def end(self) -> TurnRecord | Parked | None:
        """Wait, while it is driven. None: it goes on elsewhere, or failed; the store knows more."""
        # One for each who waits: whoever goes away takes only its own along.
        waiter: asyncio.Future[TurnRecord | Parked | None] = (
            asyncio.get_running_loop().create_future()
        )
        self._waiters.append(waiter)
        return await waiter

    def finish(self, ended: TurnRecord | Parked | None) -> None:
        """Tell whoever waits."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(ended)

"""A turn that is being driven in this process."""

from __future__ import annotations

import asyncio
from typing import Any

from windlass.runtime.drive import Drive
from windlass.runtime.turn_record import TurnRecord
from windlass.runtime.turn_runner import Parked


class Driving:
    """The drive, its task, and what it came to for whoever waits."""

    __slots__ = ("done", "drive", "task", "turn_id")

    task: asyncio.Task[Any]

    def __init__(self, turn_id: str, drive: Drive) -> None:
        self.turn_id = turn_id
        self.drive = drive
        self.done: asyncio.Future[TurnRecord | Parked | None] = (
            asyncio.get_running_loop().create_future()
        )

    def finish(self, ended: TurnRecord | Parked | None) -> None:
        """Tell whoever waits. None: it goes on elsewhere, or failed; the store knows more."""
        if not self.done.done():
            self.done.set_result(ended)

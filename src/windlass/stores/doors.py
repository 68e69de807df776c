"""Doors: the named writes of a turn, each a unit with one part, so that a store has one way to write."""

from __future__ import annotations

from typing import Protocol

from windlass.errors import InvalidInput, WindlassBug
from windlass.kernel.messages import Attachment
from windlass.ports import (
    CommitReceipt,
    NewTurn,
    Start,
    Ticket,
    TurnCommit,
    TurnReceipt,
    TurnView,
    Unit,
    UnitReceipt,
    Wait,
    WaitView,
)


def check_place(session_id: str | None, turn_id: str | None) -> None:
    """Refuse to look for a turn in no session: turn ids are of their session."""
    if turn_id is not None and session_id is None:
        raise InvalidInput("turn_id: found no session_id with it", field="turn_id")


class Doors(Protocol):
    """Gives a store `accept`, `start`, `commit` and `open_wait`; it has `submit` and `load_turn`."""

    def submit(
        self, unit: Unit, *, after: Ticket[UnitReceipt] | None = None
    ) -> Ticket[UnitReceipt]:
        """Hand in a unit."""
        ...

    async def load_turn(self, session_id: str, turn_id: str) -> TurnView | None:
        """Return a turn as it stands."""
        ...

    async def accept(self, session_id: str, turn_id: str, turn: NewTurn) -> TurnReceipt:
        """Accept a turn; the session is made if it is new."""
        # What it brings is in use from now on, however long it waits its turn.
        files = tuple(part.ref for part in turn.request.input if isinstance(part, Attachment))
        unit = Unit(session_id=session_id, turn_id=turn_id, accept=turn, blobs=files)
        receipt = await self.submit(unit).durable()
        if receipt.accepted is None:
            raise WindlassBug("a unit that accepts a turn was answered without its receipt")
        return receipt.accepted

    async def start(
        self, session_id: str, turn_id: str, start: Start, *, generation: int
    ) -> UnitReceipt:
        """Begin an accepted turn."""
        unit = Unit(session_id=session_id, turn_id=turn_id, generation=generation, start=start)
        return await self.submit(unit).durable()

    async def commit(
        self, session_id: str, turn_id: str, commit: TurnCommit, *, generation: int
    ) -> CommitReceipt:
        """End a turn."""
        unit = Unit(session_id=session_id, turn_id=turn_id, generation=generation, commit=commit)
        receipt = await self.submit(unit).durable()
        if receipt.committed is None:
            raise WindlassBug("a unit that commits a turn was answered without its receipt")
        return receipt.committed

    async def open_wait(
        self, session_id: str, turn_id: str, wait: Wait, *, generation: int
    ) -> WaitView:
        """Open a wait, or return the one of that key as it stands."""
        unit = Unit(session_id=session_id, turn_id=turn_id, generation=generation, waits=(wait,))
        await self.submit(unit).durable()
        return await self.read_wait(session_id, turn_id, wait.key)

    async def read_wait(self, session_id: str, turn_id: str, key: str) -> WaitView:
        """Return a wait that is there. A store that can read one without its turn does so."""
        turn = await self.load_turn(session_id, turn_id)
        for view in turn.waits if turn is not None else ():
            if view.wait.key == key:
                return view
        raise WindlassBug("a wait that was just opened is not there")

"""Shortcuts for tests of stores: the parts of a unit, each as a unit of its own."""

from __future__ import annotations

from windlass.errors import WindlassBug
from windlass.ports import (
    CommitReceipt,
    Start,
    Store,
    TurnCommit,
    Unit,
    UnitReceipt,
    Wait,
    WaitView,
)


class UnitShortcuts:
    """Begins turns, ends them and opens waits in a store, and waits until that is durable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def start(
        self, session_id: str, turn_id: str, start: Start, *, generation: int
    ) -> UnitReceipt:
        """Begin an accepted turn."""
        unit = Unit(session_id=session_id, turn_id=turn_id, generation=generation, start=start)
        return await self._store.submit(unit).durable()

    async def commit(
        self, session_id: str, turn_id: str, commit: TurnCommit, *, generation: int
    ) -> CommitReceipt:
        """End a turn."""
        unit = Unit(session_id=session_id, turn_id=turn_id, generation=generation, commit=commit)
        receipt = await self._store.submit(unit).durable()
        if receipt.committed is None:
            raise WindlassBug("a unit that commits a turn was answered without its receipt")
        return receipt.committed

    async def open_wait(
        self, session_id: str, turn_id: str, wait: Wait, *, generation: int
    ) -> WaitView:
        """Open a wait, or return the one of that key as it stands."""
        unit = Unit(session_id=session_id, turn_id=turn_id, generation=generation, waits=(wait,))
        await self._store.submit(unit).durable()
        turn = await self._store.load_turn(session_id, turn_id)
        for view in turn.waits if turn is not None else ():
            if view.wait.key == wait.key:
                return view
        raise WindlassBug("a wait that was just opened is not there")

"""The lane: a turn's writes, in order, handed to the store as late as allowed and as early as useful.

Law 1. What was added becomes durable in the order in which it was added.
Law 2. When the store refuses a unit, the lane is refused: nothing that was added later lands, every barrier raises,
    and `on_refused` is told once, so that the turn's task can be cancelled.
Law 3. Adding waits for nothing. What was added joins the open unit, which is handed in at the next barrier, or a few
    passes of the loop later if none comes: a reply that was paid for is on disk within milliseconds.
Law 4. `durable` returns when all that was added before it is on disk. A turn waits for it before the body of a tool
    that is not pure, before a fact is shown or a receipt handed out, and before it parks.
Law 5. `may_call_model` returns when every reply but the last is on disk. So a turn whose disk has stopped runs
    ahead by one reply and no more.

With one barrier in an iteration, reply, decision, intent and the result of the call before share one unit: one
iteration, one commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Protocol

from windlass.errors import InvalidInput, WindlassError
from windlass.journal import Entry, ModelAnswered, Recorded
from windlass.ports import (
    CommitReceipt,
    NewTurn,
    Start,
    Ticket,
    TurnCommit,
    TurnReceipt,
    Unit,
    UnitReceipt,
    Wait,
)

# How long an open unit waits for company. A scripted model answers within these passes; one that takes real
# time leaves the loop idle long before it answers.
_PATIENCE = 4


class Submits(Protocol):
    """What a lane needs of a store."""

    def submit(
        self, unit: Unit, *, after: Ticket[UnitReceipt] | None = None
    ) -> Ticket[UnitReceipt]: ...


class Lane:
    """The one way to write for one turn under one generation."""

    def __init__(  # noqa: PLR0913 - each is a part of what it is
        self,
        store: Submits,
        session_id: str,
        turn_id: str,
        *,
        generation: int,
        position: int = 0,
        on_refused: Callable[[BaseException], None] | None = None,
        on_durable: Callable[[int], None] | None = None,
    ) -> None:
        self._store = store
        self._session_id = session_id
        self._turn_id = turn_id
        self._generation = generation
        self._position = position
        self._on_refused = on_refused
        self._on_durable = on_durable
        self._handed_in = 0
        self._open = _OpenUnit()
        self._last: Ticket[UnitReceipt] | None = None
        # Tickets of the units with the last two replies; None: still in the open unit.
        self._replies: list[Ticket[UnitReceipt] | None] = []
        # How many passes the open unit still waits for company; 0: nothing is open.
        self._passes_left = 0
        self.refusal: BaseException | None = None

    # ------------------------------------------------------------------ adding: nobody waits

    def accept(self, turn: NewTurn) -> None:
        """Let the turn be accepted with its first unit."""
        unit = self._open_for("accept")
        if unit.accept is not None or unit.is_fenced:
            unit = self._next_unit("accept")
        unit.accept = turn

    def start(self, start: Start) -> None:
        """Let the turn begin with its first unit: the lease claim rides along."""
        unit = self._open_for("start")
        if unit.is_fenced:
            unit = self._next_unit("start")
        unit.start = start

    def add(self, *entries: Entry, blobs: Iterable[str] = ()) -> None:
        """Add entries to the journal."""
        unit = self._open_for("add")
        unit.entries += entries
        unit.blobs += blobs
        for entry in entries:
            if type(entry) is Recorded and type(entry.outcome) is ModelAnswered:
                self._replies = [*self._replies[-1:], None]

    def open_wait(self, wait: Wait) -> None:
        """Open a wait."""
        self._open_for("open_wait").waits.append(wait)

    def mark(self) -> int:
        """Return how many units have to be durable for all that was added so far to be so."""
        return self._handed_in + bool(self._passes_left)

    # ------------------------------------------------------------------ barriers: somebody waits

    async def durable(self) -> UnitReceipt | None:
        """Wait until all that was added is on disk; return the last receipt.

        Raises:
            StoreError: the lane was refused.
        """
        self._hand_in()
        if self._last is None:
            return None
        return await self._await(self._last)

    async def may_call_model(self) -> None:
        """Wait until every reply but the last is on disk."""
        self._raise_refusal()
        if len(self._replies) < 2:
            return
        if self._replies[0] is None:
            self._hand_in()
        ticket = self._replies[0]
        if ticket is not None:
            await self._await(ticket)

    async def accepted(self) -> TurnReceipt | None:
        """Wait until the turn is accepted; return its receipt if it was accepted in this unit."""
        receipt = await self.durable()
        return None if receipt is None else receipt.accepted

    async def park(self) -> None:
        """Park the turn behind all that was added."""
        self._open_for("park").parks = True
        await self.durable()

    async def commit(self, commit: TurnCommit, *, blobs: Iterable[str] = ()) -> CommitReceipt:
        """End the turn behind all that was added."""
        unit = self._open_for("commit")
        unit.commit = commit
        unit.blobs += blobs
        receipt = await self.durable()
        assert receipt is not None  # noqa: S101 - a unit that commits was handed in
        assert receipt.committed is not None  # noqa: S101 - and is answered with its receipt
        return receipt.committed

    # ------------------------------------------------------------------ inside

    def _open_for(self, what: str) -> _OpenUnit:
        """Return the open unit, which has its patience from the first thing on that is added to it."""
        if self.refusal is not None:
            raise self.refusal
        unit = self._open
        if unit.parks or unit.commit is not None:
            raise InvalidInput(f"Lane.{what}: the turn parks or ends in this unit", field=what)
        if not self._passes_left:
            self._passes_left = _PATIENCE
            asyncio.get_running_loop().call_soon(self._pass, unit)
        return unit

    def _next_unit(self, what: str) -> _OpenUnit:
        """Return a new unit: what one holds has its fixed order, and what comes out of it begins the next one."""
        self._hand_in()
        return self._open_for(what)

    def _raise_refusal(self) -> None:
        if self.refusal is not None:
            raise self.refusal

    def _pass(self, unit: _OpenUnit) -> None:
        if unit is not self._open:
            return  # it was handed in at a barrier; what is open now has a patience of its own
        if self._passes_left > 1:
            self._passes_left -= 1
            asyncio.get_running_loop().call_soon(self._pass, unit)
        else:
            with suppress(WindlassError):  # the lane is refused by it, and says so from here on
                self._hand_in()

    def _hand_in(self) -> None:
        self._raise_refusal()
        if not self._passes_left:
            return
        unit = self._open.seal(self._session_id, self._turn_id, self._generation, self._position)
        self._open = _OpenUnit()
        self._passes_left = 0
        try:
            ticket = self._store.submit(unit, after=self._last)
        except Exception as error:
            # What the store would not even take is as refused as what it took and could not write.
            self._refuse(error)
            raise
        self._position += bool(unit.entries)
        self._handed_in += 1
        ticket.when_settled(partial(self._settled, ticket, self._handed_in))
        self._replies = [ticket if reply is None else reply for reply in self._replies]
        self._last = ticket

    async def _await(self, ticket: Ticket[UnitReceipt]) -> UnitReceipt:
        try:
            return await ticket.durable()
        finally:
            if ticket.refusal is not None:
                self._refuse(ticket.refusal)

    def _settled(self, ticket: Ticket[UnitReceipt], number: int) -> None:
        if ticket.refusal is not None:
            self._refuse(ticket.refusal)
        elif self._on_durable is not None:
            self._on_durable(number)

    def _refuse(self, refusal: BaseException) -> None:
        if self.refusal is not None:
            return
        self.refusal = refusal
        self._open = _OpenUnit()
        self._passes_left = 0
        if self._on_refused is not None:
            self._on_refused(refusal)


class _OpenUnit:
    """What was added since the last unit was handed in."""

    __slots__ = ("accept", "blobs", "commit", "entries", "parks", "start", "waits")

    def __init__(self) -> None:
        self.accept: NewTurn | None = None
        self.start: Start | None = None
        self.entries: list[Entry] = []
        self.waits: list[Wait] = []
        self.blobs: list[str] = []
        self.parks = False
        self.commit: TurnCommit | None = None

    @property
    def is_fenced(self) -> bool:
        return bool(self.start or self.entries or self.waits or self.parks or self.commit)

    def seal(self, session_id: str, turn_id: str, generation: int, position: int) -> Unit:
        return Unit(
            session_id=session_id,
            turn_id=turn_id,
            generation=generation,
            position=position,
            accept=self.accept,
            start=self.start,
            entries=tuple(self.entries),
            waits=tuple(self.waits),
            parks=self.parks,
            commit=self.commit,
            blobs=tuple(self.blobs),
        )

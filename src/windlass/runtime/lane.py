"""The lane: a turn's writes, in order, handed to the store as late as allowed and as early as useful.

Law 1. What was added becomes durable in the order in which it was added.
Law 2. When the store refuses a unit, the lane is refused: nothing that was added later lands, every barrier raises,
    and `on_refused` is told once, so that the turn's task can be cancelled.
Law 3. Adding waits for nothing. What was added joins the open unit, which is handed in at the next barrier, or a few
    passes of the loop later if none comes: a reply that was paid for is on disk within milliseconds.
Law 4. `durable` returns when all that was added before it is on disk. A turn waits for it before the body of a tool
    that is not pure, before a fact is shown or a receipt handed out, and before it parks.
Law 5. `may_call_model` returns when every reply but the last is on disk. So a turn whose disk has stopped runs
    ahead by one reply and no more. A tool's own call waits for the last one, too (`keep_replies`): of its replies a
    kill costs the one that was about to be recorded.
Law 6. Of a unit the entries come first, then the waits. So what is added behind a wait begins another unit: readers of
    the store find entries and waits in the order in which they were added.
Law 7. A barrier of a turn that is driven alone commits in the call, if the store can do so at once. Then nothing
    is awaited, and the loop is not asked for a pass.

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
from windlass.journal import DirectAnswered, Entry, ModelAnswered, Recorded, TurnStarted
from windlass.ports import Errand, ErrandReceipt, NewTurn, Start, Ticket, Unit, UnitReceipt, Wait
from windlass.ports.unit import CommitReceipt, TurnCommit

# How many passes an open unit waits for more. A scripted model answers within these passes; one that takes real
# time leaves the loop idle long before it answers.
_PATIENCE = 2
# What was paid for: replies to the turn, and to what its tools and plugins asked.
_REPLIES = frozenset({ModelAnswered, DirectAnswered})


class Submits(Protocol):
    """What a lane needs of a store."""

    def submit(
        self, unit: Unit, *, after: Ticket[UnitReceipt] | None = None
    ) -> Ticket[UnitReceipt]: ...


class Lane:
    """The one way to write for one turn under one generation.

    `on_durable` is told how many units are on disk, `on_errands` what became of errands. `is_alone` says whether this is
    the only turn being driven.
    """

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
        is_alone: Callable[[], bool] | None = None,
        on_errands: Callable[[tuple[ErrandReceipt, ...]], None] | None = None,
    ) -> None:
        self._store = store
        self._session_id = session_id
        self._turn_id = turn_id
        self._generation = generation
        self._position = position
        self._on_refused = on_refused
        self._on_durable = on_durable
        self._is_alone = is_alone
        self._on_errands = on_errands
        self.refusal: BaseException | None = None
        # Units are counted from 1, in the order in which they are handed in.
        self._handed_in = 0
        self.n_durable = 0
        self._last: Ticket[UnitReceipt] | None = None
        # The unit with the last reply and the one with the reply before, each with its ticket once it has one.
        self._last_reply = self._reply_before = 0
        self._last_reply_ticket: Ticket[UnitReceipt] | None = None
        self._reply_before_ticket: Ticket[UnitReceipt] | None = None
        # The open unit: what was added since the last one was handed in. It takes entries while it has no waits.
        self._is_open = self._takes_entries = False
        self._accept: NewTurn | None = None
        self._start: Start | None = None
        self._entries: list[Entry] = []
        # An entry that is not worth a unit of its own: it goes before the next ones.
        self._riding: Entry | None = None
        self._waits: list[Wait] = []
        self._errands: list[Errand] = []
        self._blobs: list[str] = []
        self._parks = False
        self._commit: TurnCommit | None = None
        # How many passes of the loop the open unit still waits, and whether a pass is asked for.
        self._passes_left = 0
        self._has_pass = False
        # Whether it waits until the turn parks, ends or asks for it: what the turn does before takes no time.
        self.is_patient = False

    # ------------------------------------------------------------------ adding: waits for nothing

    def accept(self, turn: NewTurn) -> None:
        """Accept the turn with its first unit."""
        self._open("accept")
        if self._accept is not None or self._is_fenced:
            self._open_next("accept")
        self._accept = turn

    def start(self, start: Start) -> None:
        """Start the turn with its first unit: the lease claim rides along."""
        self._open("start")
        if self._is_fenced:
            self._open_next("start")
        self._start = start

    def add(self, entry: Entry, blobs: Iterable[str] = ()) -> None:
        """Add an entry to the journal."""
        if not self._takes_entries:
            self._open("add")
        self._entries.append(entry)
        if blobs:
            self._blobs += blobs
        if type(entry) is Recorded and type(entry.outcome) in _REPLIES:
            self._reply_before = self._last_reply
            self._reply_before_ticket = self._last_reply_ticket
            self._last_reply, self._last_reply_ticket = self._handed_in + 1, None

    def ride(self, entry: Entry) -> None:
        """Add an entry before whatever is added next; alone it is not written."""
        self._riding = entry

    @property
    def has_rider(self) -> bool:
        """Whether nothing was written since an entry was told to ride along."""
        return self._riding is not None and not self._is_open

    def open_wait(self, wait: Wait) -> None:
        """Open a wait."""
        self._open("open_wait")
        self._takes_entries = False
        self._waits.append(wait)

    def run_errand(self, errand: Errand) -> None:
        """Do something to another session, in the transaction of what was added last."""
        self._open("run_errand")
        self._errands.append(errand)

    def mark(self) -> int:
        """Return how many units have to be durable for all that was added so far to be so."""
        return self._handed_in + self._is_open

    # ------------------------------------------------------------------ barriers: the turn waits

    def commit_now(self) -> bool:
        """Hand in what was added; True if all of it is on disk without waiting.

        Raises:
            StoreError: the lane was refused.
        """
        self._hand_in(at_barrier=True)
        last = self._last
        if last is None or (last.is_settled and last.refusal is None):
            return True
        if last.refusal is not None:
            self._refuse(last.refusal)
            raise last.refusal
        return False

    def is_durable(self, mark: int) -> bool:
        """Whether the first `mark` units are on disk."""
        return mark <= self.n_durable and self.refusal is None

    async def durable(self) -> UnitReceipt | None:
        """Wait until all that was added is on disk; return the last receipt.

        Raises:
            StoreError: the lane was refused.
        """
        self._hand_in(at_barrier=True)
        if self._last is None:
            return None
        return await self._await(self._last)

    @property
    def owes_reply(self) -> bool:
        """Whether a reply before the last one may not be on disk yet, or the lane was refused."""
        if self.refusal is not None:
            return True
        if not self._reply_before:
            return False
        if self._reply_before > self._handed_in:
            return True
        ticket = self._reply_before_ticket
        return ticket is not None and not ticket.is_settled

    async def keep_replies(self) -> None:
        """Wait until every reply is on disk."""
        if self.refusal is not None:
            raise self.refusal
        if self._last_reply > self._handed_in:
            self._hand_in(at_barrier=True)
        if self._last_reply_ticket is not None:
            await self._await(self._last_reply_ticket)

    async def may_call_model(self) -> None:
        """Wait until every reply but the last is on disk."""
        if self.refusal is not None:
            raise self.refusal
        if not self._reply_before:
            return
        if self._reply_before > self._handed_in:
            self._hand_in(at_barrier=True)
        if self._reply_before_ticket is not None:
            await self._await(self._reply_before_ticket)

    async def park(self, last: Entry | None = None) -> None:
        """Park the turn behind all that was added; `last` goes along, an entry of which nothing is shown."""
        self._open("park")
        if last is not None:
            self._entries.append(last)
        self._parks = True
        await self.durable()

    async def commit(self, commit: TurnCommit, *, blobs: Iterable[str] = ()) -> CommitReceipt:
        """End the turn behind all that was added."""
        self._open("commit")
        self._commit = commit
        self._blobs += blobs
        receipt = await self.durable()
        assert receipt is not None  # noqa: S101 - a unit that commits was handed in
        assert receipt.committed is not None  # noqa: S101 - and is answered with its receipt
        return receipt.committed

    # ------------------------------------------------------------------ the open unit

    @property
    def _is_fenced(self) -> bool:
        return bool(
            self._start
            or self._entries
            or self._waits
            or self._parks
            or self._commit
            or self._errands
        )

    def _open(self, what: str) -> None:
        """Make sure that a unit is open. It is handed in after a few passes of the loop, if not before."""
        if self.refusal is not None:
            raise self.refusal
        if self._parks or self._commit is not None:
            raise InvalidInput(f"Lane.{what}: the turn parks or ends in this unit", field=what)
        if self._is_open:
            if what == "add":  # it asks only where waits stand in the way
                self._open_next(what)
            return
        self._is_open = self._takes_entries = True
        self._passes_left = _PATIENCE
        if not self._has_pass:
            self._has_pass = True
            asyncio.get_running_loop().call_soon(self._pass)

    def _open_next(self, what: str) -> None:
        """Begin another unit: the parts of one take effect in a fixed order, and this one comes out of it."""
        self._hand_in()
        self._open(what)

    def _pass(self) -> None:
        """Count a pass of the loop; hand in a unit that was open for a few of them."""
        self._has_pass = False
        if not self._is_open or self.refusal is not None or self.is_patient:
            return
        self._passes_left -= 1
        if self._passes_left > 0:
            self._has_pass = True
            asyncio.get_running_loop().call_soon(self._pass)
        else:
            with suppress(WindlassError):  # the lane is refused by it, and says so from here on
                self._hand_in()

    def _hand_in(self, *, at_barrier: bool = False) -> None:
        if self.refusal is not None:
            raise self.refusal
        if not self._is_open:
            return
        unit = self._sealed()
        try:
            ticket = self._store.submit(unit, after=self._last)
            self._position += bool(unit.entries)
            self._handed_in = number = self._handed_in + 1
            self._last = ticket
            if number == self._last_reply:
                self._last_reply_ticket = ticket
            if number == self._reply_before:
                self._reply_before_ticket = ticket
            if at_barrier and self._is_alone is not None and self._is_alone():
                ticket.settle_now()
        except Exception as error:
            # What the store would not even take is as refused as what it took and could not write.
            self._refuse(error)
            raise
        if ticket.is_settled:
            self._settled(ticket, number)
        else:
            ticket.when_settled(partial(self._settled, ticket, number))
        if unit.errands:
            ticket.when_settled(partial(self._errands_ran, ticket))

    def _sealed(self) -> Unit:
        if self._riding is not None and self._entries:
            self._entries.insert(type(self._entries[0]) is TurnStarted, self._riding)
            self._riding = None
        unit = Unit(
            session_id=self._session_id,
            turn_id=self._turn_id,
            generation=self._generation,
            position=self._position,
            accept=self._accept,
            start=self._start,
            entries=tuple(self._entries),
            waits=tuple(self._waits),
            parks=self._parks,
            commit=self._commit,
            blobs=tuple(self._blobs),
            errands=tuple(self._errands) if self._errands else (),
        )
        self._forget_open()
        return unit

    def _forget_open(self) -> None:
        self._is_open = self._takes_entries = self._parks = False
        self._accept = self._start = self._commit = None
        if self._entries:
            self._entries = []
        if self._waits:
            self._waits = []
        if self._errands:
            self._errands = []
        if self._blobs:
            self._blobs = []

    # ------------------------------------------------------------------ answers of the store

    async def _await(self, ticket: Ticket[UnitReceipt]) -> UnitReceipt:
        try:
            return await ticket.durable()
        finally:
            if ticket.refusal is not None:
                self._refuse(ticket.refusal)

    def _settled(self, ticket: Ticket[UnitReceipt], number: int) -> None:
        if ticket.refusal is not None:
            self._refuse(ticket.refusal)
            return
        self.n_durable = number
        if self._on_durable is not None:
            self._on_durable(number)

    def _errands_ran(self, ticket: Ticket[UnitReceipt]) -> None:
        receipt = ticket.receipt
        if receipt is not None and self._on_errands is not None:
            self._on_errands(receipt.errands)

    def _refuse(self, refusal: BaseException) -> None:
        if self.refusal is not None:
            return
        self.refusal = refusal
        self._forget_open()
        if self._on_refused is not None:
            self._on_refused(refusal)

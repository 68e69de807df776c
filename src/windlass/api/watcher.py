"""Watching: the events of a session or of one turn, in one order, wherever the turn is driven.

Where a turn is driven in this process, its events come from the live feed, previews included. What happened elsewhere
comes from the store, as facts, folded. A watcher goes from one to the other without a hole and without a double:

Law 1. The place is the last fact that was handed out; what the store is asked for are the facts behind it.
Law 2. A drive whose facts are not known to follow the place is listened to only after the store was asked for those
    between: of earlier turns, of earlier drives, and those that it had shown before the watcher came.
Law 3. A cursor has two halves: one of the live feed, one of the store. The first goes on without losing a preview, in
    this process and for a while; the second without losing a fact, in any process, for as long as journals are kept.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from windlass.errors import InvalidInput, SessionDeleted, UnknownSession
from windlass.folds import (
    BEGINNING,
    Cursor,
    Place,
    facts_behind,
    place_of,
    write_cursor,
)
from windlass.kernel import Event, TurnEnded
from windlass.kernel.events import ChildEvent
from windlass.kernel.value import set_field
from windlass.ports import SessionView
from windlass.runtime.folded import FoldedTurn
from windlass.runtime.reader import Drive, FeedReader

if TYPE_CHECKING:
    from windlass.engines.admission import Admission

AT_END = "end"
# Of a turn whose first drive it is.
_NOTHING = (0, 0)


class _Ready(NamedTuple):
    """An event that comes next; of a fact, the place behind it and how many turns have ended there."""

    event: Event
    place: Place | None = None
    head: int = 0


class Watcher:
    """The events of a session from one place on; `only` those of one turn.

    place: behind the last fact that was handed out.
    has_gap: the journals behind the cursor are gone: it goes on from now.
    """

    def __init__(self, admission: Admission, session_id: str, *, only: str | None = None) -> None:
        self._worker = admission.worker
        self._store = admission.services.store
        self._session_id = session_id
        self._only = only
        self._reader: FeedReader | None = None
        self._leave: Callable[[], None] | None = None
        self.place = BEGINNING
        # How many turns of the session have ended at the place, and the drive that goes on from there.
        self._head = 0
        self._drive: Drive | None = None
        self._ready: deque[_Ready] = deque()
        # Facts that the feed is going to bring although they are told, and the calls that they are about.
        self._told: set[str] = set()
        self._told_calls: set[str] = set()
        # Whether the drive is of a turn before the one that this begins with.
        self._is_too_early = False
        self._is_touched = False
        self._needs_store = False
        self.has_gap = False

    # ------------------------------------------------------------------ beginning and leaving

    def begin_with(self, reader: FeedReader, place: Place) -> None:
        """Go on with a reader of the live feed that was opened before anything behind the place was shown."""
        self._reader, self.place = reader, place
        # Where the place is of another turn, the store says what is between.
        if reader.drive is not None and reader.drive.turn_id == place.turn_id:
            self._drive = reader.drive

    async def begin(self, cursor: Cursor | None) -> None:
        """Begin behind a cursor; without one, behind all that there is now.

        Raises:
            InvalidInput: the cursor names a place that is not in this session.
        """
        feed = self._worker.services.feeds.of(self._session_id)
        reader = feed.read(None if cursor is None else cursor.live, only=self._only)
        self.begin_with(reader, BEGINNING if cursor is None else cursor.place)
        self._leave = await self._worker.watch.follow(self._session_id, self._touched)
        if cursor is None:
            await self._begin_now()
            return
        await self._find_place()
        drive = next(iter(reader.before), None)
        if self.has_gap:
            await self._begin_now()
        elif reader.has_gap and drive is not None:
            await self._catch_up_with(drive)
            self._drive = drive
        elif reader.has_gap:
            self._needs_store = True
        else:
            # Since then another process may have driven the turn.
            self._is_touched = True

    def _touched(self) -> None:
        self._is_touched = True
        self.poke()

    def poke(self) -> None:
        """Make `next` look again."""
        if self._reader is not None:
            self._reader.poke()

    def close(self) -> None:
        """Watch no more."""
        if self._reader is not None:
            self._reader.close()
        if self._leave is not None:
            self._leave()

    @property
    def cursor(self) -> str:
        """Where this stands."""
        return write_cursor(self._session_id, self.live, self.place)

    @property
    def live(self) -> str:
        """Where this stands in the live feed. In the middle of facts from the store the place says it all."""
        return "" if self._reader is None or self._ready else self._reader.cursor

    # ------------------------------------------------------------------ reading

    async def next(self, resting: asyncio.Future[Any] | None = None) -> Event | None:
        """Return the next event; None: the feed was closed, or the turn rests and there is nothing more to tell."""
        reader, is_last = self._reader, False
        assert reader is not None  # noqa: S101 - it has begun
        while True:
            if self._ready:
                return self._hand_out(self._ready.popleft())
            if self._needs_store:
                await self._unless_deleted(self._catch_up(reader, is_last=is_last))
            elif (event := reader.take()) is not None:
                await self._unless_deleted(self._take(event, reader))
            elif reader.is_over or is_last:
                return None
            elif resting is not None and resting.done():
                # A drive shows its last event before its turn rests. What was driven elsewhere is in the store.
                is_last = True
                if resting.cancelled() or resting.exception() is not None:
                    return None
                self._needs_store = self.place.fact != AT_END
            elif self._is_touched and not self._is_driven:
                self._needs_store = True
            elif self._leave is None and not self._is_driven:
                self._leave = await self._worker.watch.follow(self._session_id, self._touched)
                self._needs_store = True
            else:
                await reader.news()

    async def _unless_deleted(self, step: Awaitable[None]) -> None:
        """Go on; of a session that was deleted nothing more is told."""
        try:
            await step
        except SessionDeleted:
            assert self._reader is not None  # noqa: S101 - it has begun
            self._reader.close()

    @property
    def _is_driven(self) -> bool:
        return self._session_id in self._worker.driving

    def _hand_out(self, ready: _Ready) -> Event:
        event = ready.event
        if ready.place is not None:
            self.place, self._head = ready.place, ready.head
        set_field(event, "cursor", write_cursor(self._session_id, event.cursor, self.place))
        return event

    async def _take(self, event: Event, reader: FeedReader) -> None:
        """Take an event of the feed, behind all that comes before it."""
        if (
            type(event) is ChildEvent
        ):  # a preview of another session's, which moves no place in this one
            self._ready.append(_Ready(event))
            return
        drive = reader.drive
        assert drive is not None  # noqa: S101 - it showed the event
        if drive is not self._drive:
            self._is_too_early = False
            if not self._follows(drive, reader):
                await self._catch_up_with(drive)
            self._drive = drive
        if self._is_too_early:
            return
        if event.preview:
            if event.correlation_id not in self._told_calls:
                self._ready.append(_Ready(event))
        elif event.id in self._told:
            self._told.discard(event.id)
        else:
            self._told_calls.clear()
            place = place_of(event, self._session_id, drive.turn_id)
            self._ready.append(_Ready(event, place, drive.head + (type(event) is TurnEnded)))

    def _follows(self, drive: Drive, reader: FeedReader) -> bool:
        """Whether all that this drive shows comes right behind the place."""
        if drive in reader.before or drive.base != _NOTHING:
            return False
        if drive.turn_id == self.place.turn_id:
            return not self.place.fact
        is_between = self.place == BEGINNING or self.place.fact == AT_END
        return is_between and drive.head == self._head

    # ------------------------------------------------------------------ from the store

    async def _catch_up(self, reader: FeedReader, *, is_last: bool) -> None:
        """Read all facts behind the place; `is_last`: the feed brings none of them any more."""
        self._needs_store = self._is_touched = False
        found = await self._behind(None)
        if is_last or not reader.is_behind:
            self._ready.extend(found)
        else:
            # What was driven here while this read has its previews in the feed. The store is asked again for the rest.
            self._is_touched = True

    async def _catch_up_with(self, drive: Drive) -> None:
        """Read the facts between the place and what a drive is going to show."""
        assert self._reader is not None  # noqa: S101 - it has begun
        self._is_touched = False
        if self.place.turn_id not in ("", drive.turn_id):
            at = await self._folded_place()
            is_done = at.view.state == "done"
            self._is_too_early = at.view.state == "queued" or drive.head < at.head - is_done
            if self._is_too_early:
                return
        self._ready.extend(await self._behind(drive))
        folded = await self._worker.folded.of(self._session_id, drive.turn_id)
        if folded is None:
            return
        facts = folded.fold.facts
        last = self._reader.before.get(drive, "")
        if last:
            places = {fact.id: at for at, fact in enumerate(facts, 1)}
            n_shown = places.get(last, len(facts))
        else:
            n_shown = await self._worker.folded.count_facts(
                self._session_id, drive.turn_id, *drive.base
            )
        n_told = 0
        if self.place.turn_id == drive.turn_id:
            n_told = len(facts) - len(facts_behind(facts, self.place))
        self._ready.extend(self._as_ready(drive.turn_id, folded.head, facts[n_told:n_shown]))
        self._told = {fact.id for fact in facts[n_shown:n_told]}
        self._told_calls = {fact.correlation_id for fact in facts[n_shown:n_told]}

    def _as_ready(self, turn_id: str, head: int, facts: Sequence[Event]) -> list[_Ready]:
        """Return facts of the store. Their cursors have no live half, for the feed may be behind them."""
        copies: list[Event] = [fact.__copy__() for fact in facts]  # type: ignore[union-attr]  # msgspec does not declare it
        places = (place_of(fact, self._session_id, turn_id) for fact in facts)
        return [_Ready(*one, head) for one in zip(copies, places, strict=True)]

    async def _behind(self, until: Drive | None) -> list[_Ready]:
        """Return the facts behind the place: all, or those of the turns before the one that is driven."""
        found: list[_Ready] = []
        head, turn_id = self._head, self.place.turn_id
        if turn_id and (until is None or until.turn_id != turn_id):
            folded = await self._folded_place()
            head = folded.head
            found += self._as_ready(turn_id, head, facts_behind(folded.fold.facts, self.place))
            if folded.view.state != "done":
                return found
        if self._only is not None:
            return found
        return found + await self._turns_behind(head, until)

    async def _turns_behind(self, head: int, until: Drive | None) -> list[_Ready]:
        session = await self._session()
        if session is None:
            return []
        head = max(head, session.parent_head or 0)  # what a fork shares happened elsewhere
        last = session.head if until is None else until.head
        turns: list[str] = []
        if last > head:
            pages = await self._store.load_history(
                self._session_id, before=last + 1, limit=last - head
            )
            turns += [page.turn_id for page in pages if page.forked is None]
        if until is None and session.active is not None:
            turns.append(session.active)
        found: list[_Ready] = []
        for turn_id in turns:
            folded = await self._worker.folded.of(self._session_id, turn_id)
            if folded is not None:
                found += self._as_ready(turn_id, folded.head, folded.fold.facts)
        return found

    # ------------------------------------------------------------------ places

    async def _find_place(self) -> None:
        """Find the place in the store.

        Raises:
            InvalidInput: it is not there.
        """
        if not self.place.turn_id:
            return
        folded = await self._folded_place()
        if folded.view.is_reclaimed:
            self.has_gap = self.place.fact != AT_END
        else:
            facts_behind(folded.fold.facts, self.place)
        self._head = folded.head - (folded.view.state == "done" and self.place.fact != AT_END)

    async def _folded_place(self) -> FoldedTurn:
        folded = await self._worker.folded.of(self._session_id, self.place.turn_id)
        if folded is None:
            raise InvalidInput.at("cursor", "a turn that this session does not have", "its own")
        return folded

    async def _begin_now(self) -> None:
        """Be behind all that there is now."""
        session = await self._session()
        turn_id = None if session is None else session.active
        self._head = 0 if session is None else session.head
        if session is None or (turn_id is None and session.head == (session.parent_head or 0)):
            self.place = BEGINNING
        elif turn_id is None:
            (last,) = await self._store.load_history(self._session_id, limit=1)
            # A fork that begins inside a turn has a page of that turn, but not the turn.
            self.place = BEGINNING if last.forked is not None else Place(last.turn_id, AT_END)
        else:
            folded = await self._worker.folded.of(self._session_id, turn_id)
            facts = [] if folded is None else folded.fold.facts
            self.place = Place(turn_id, "")
            if facts:
                self.place = place_of(facts[-1], self._session_id, turn_id)

    async def _session(self) -> SessionView | None:
        try:
            return await self._store.load_session(self._session_id, history=False)
        except UnknownSession:
            return None

"""Watching: the events of a session or of one turn, in one order, wherever the turn is driven.

Where a turn is driven in this process, its events come from the live feed, previews included. What happened elsewhere
comes from the store, as facts, folded. A watcher goes from one to the other without a hole and without a double:

Law 1. The place is the last fact that was handed out; what the store is asked for are the facts behind it.
Law 2. A drive whose facts are not known to follow the place is listened to only after the store was asked. Of what the
    store told, nothing is told again when the feed brings it, nor previews of calls that have ended by then.
Law 3. A cursor has two halves: one of the live feed, one of the store. The first goes on without losing a preview, in
    this process and for a while; the second without losing a fact, in any process, for as long as journals are kept.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Self

from windlass.api.nodes import messages_of
from windlass.errors import ConfigError, InvalidInput, SessionDeleted, UnknownSession
from windlass.folds import (
    BEGINNING,
    Cursor,
    Place,
    facts_behind,
    place_of,
    read_cursor,
    write_cursor,
)
from windlass.kernel import Event, Message, TurnEnded
from windlass.kernel.value import set_field
from windlass.ports import SessionView, TurnView
from windlass.runtime.reader import Drive, FeedReader

if TYPE_CHECKING:
    from windlass.engines.admission import Admission

_END = "end"


async def turn_view(admission: Admission, session_id: str, turn_id: str) -> TurnView:
    """Return a turn as it stands.

    Raises:
        UnknownSession: there is no such turn.
    """
    worker = admission.worker
    await worker.flush(session_id)
    view = await worker.services.store.load_turn(session_id, turn_id)
    if view is None:
        raise UnknownSession(f"turn {turn_id}: is not known", field="turn_id")
    return view


async def messages_so_far(
    admission: Admission, session_id: str, turn_id: str
) -> tuple[Message, ...]:
    """Return a turn's messages: committed ones, or those that its journal tells of."""
    await admission.worker.flush(session_id)
    folded = await admission.worker.folded.of(session_id, turn_id)
    if folded is None:
        raise UnknownSession(f"turn {turn_id}: is not known", field="turn_id")
    return folded.fold.messages


class Watcher:
    """The events of a session from one place on; `only` those of one turn.

    has_gap: the journals behind the cursor are gone: it goes on from now.
    """

    def __init__(self, admission: Admission, session_id: str, *, only: str | None = None) -> None:
        self._worker = admission.worker
        self._services = admission.services
        self._session_id = session_id
        self._only = only
        self._reader: FeedReader
        self._leave: Any = None
        self.place = BEGINNING
        # How many turns of the session have ended at the place; and the drive that goes on from there.
        self._head = 0
        self._drive: Drive | None = None
        # Facts of the store that were not handed out yet, each with its turn and the head behind it.
        self._caught: deque[tuple[str, int, Event]] = deque()
        # What came from the feed before it was known to follow; what the feed will bring again; which calls have ended.
        self._early: Event | None = None
        self._told: set[str] = set()
        self._over: set[str] = set()
        self._is_touched = False
        self._needs_store = False
        self.has_gap = False

    # ------------------------------------------------------------------ beginning and leaving

    def begin_with(self, reader: FeedReader, place: Place) -> None:
        """Go on with a reader of the live feed that was opened before anything behind the place was shown."""
        self._reader, self.place = reader, place
        self._drive = reader.drive

    async def begin(self, cursor: Cursor | None) -> None:
        """Begin behind a cursor; without one, behind all that there is now.

        Raises:
            InvalidInput: the cursor names a place that is not in this session.
        """
        feed = self._services.feeds.of(self._session_id)
        live = None if cursor is None else cursor.live
        self.begin_with(
            feed.read(live, only=self._only), BEGINNING if cursor is None else cursor.place
        )
        await self._follow()
        if cursor is None:
            await self._begin_now()
        elif self._reader.has_gap:
            await self._catch_up()
        else:
            self._head = await self._head_at(cursor.place)

    async def _follow(self) -> None:
        if self._leave is None:
            self._leave = await self._worker.watch.follow(self._session_id, self._touched)

    def _touched(self) -> None:
        self._is_touched = True
        self._reader.poke()

    def poke(self) -> None:
        """Make `next` look again."""
        self._reader.poke()

    def close(self) -> None:
        """Watch no more."""
        self._reader.close()
        if self._leave is not None:
            self._leave()

    @property
    def cursor(self) -> str:
        """Where this stands."""
        return write_cursor(self._session_id, self._reader.cursor, self.place)

    # ------------------------------------------------------------------ reading

    async def next(self, resting: asyncio.Future[Any] | None = None) -> Event | None:
        """Return the next event; None: the feed was closed, or the turn rests and there is nothing more to tell."""
        reader, is_last = self._reader, False
        while True:
            if self._caught:
                return self._from_store(*self._caught.popleft())
            if self._needs_store:
                await self._catch_up()
                continue
            event = self._from_feed()
            if event is not None:
                return event
            if self._needs_store or reader.is_behind:
                continue
            if reader.is_over or is_last:
                return None
            if resting is not None and resting.done():
                # A drive shows its last event before its turn rests. What was driven elsewhere is in the store.
                is_last = True
                if resting.cancelled() or resting.exception() is not None:
                    return None
                self._needs_store = self.place.fact != _END
            elif self._is_touched and not self._is_driven:
                self._needs_store = True
            else:
                await self._wait(resting)

    async def _wait(self, resting: asyncio.Future[Any] | None) -> None:
        if self._leave is None and not self._is_driven and (resting is None or not resting.done()):
            await self._follow()
            self._needs_store = True
            return
        await self._reader.news()

    @property
    def _is_driven(self) -> bool:
        return self._session_id in self._worker.driving

    def _from_store(self, turn_id: str, head: int, fact: Event) -> Event:
        """Return a fact of the store; its cursor has no live half, for the feed may bring it again."""
        event: Event = fact.__copy__()  # type: ignore[union-attr]  # msgspec does not declare it
        self.place, self._head = place_of(event, self._session_id, turn_id), head
        set_field(event, "cursor", write_cursor(self._session_id, "", self.place))
        return event

    def _from_feed(self) -> Event | None:
        """Return the next event of the feed that was not told yet; None: there is none, or the store comes first."""
        reader, early = self._reader, self._early
        if early is not None and self._drive is not None:
            self._early = None
            return self._told_by(self._drive, early)
        while (event := reader.take()) is not None:
            drive = reader.drive
            assert drive is not None  # noqa: S101 - it showed the event
            if drive is not self._drive:
                follows = self._follows(drive)
                self._drive = drive
                if not follows:
                    self._early = event if self._is_news(event) else None
                    self._needs_store = True
                    return None
            if self._is_news(event):
                return self._told_by(drive, event)
        return None

    def _follows(self, drive: Drive) -> bool:
        """Whether all that this drive shows comes right behind the place."""
        if not drive.is_fresh or self._reader.began > drive.began:
            return False
        if drive.turn_id == self.place.turn_id:
            return not self.place.fact
        is_between = self.place == BEGINNING or self.place.fact == _END
        return is_between and drive.head == self._head

    def _told_by(self, drive: Drive, event: Event) -> Event:
        if not event.preview:
            self.place = place_of(event, self._session_id, drive.turn_id)
            self._head = drive.head + (type(event) is TurnEnded)
        set_field(event, "cursor", write_cursor(self._session_id, event.cursor, self.place))
        return event

    def _is_news(self, event: Event) -> bool:
        """Whether the store has not told this already."""
        if event.preview:
            return not event.correlation_id or event.correlation_id not in self._over
        if event.id in self._told:
            return False
        self._told.clear()
        self._over.clear()
        return True

    # ------------------------------------------------------------------ from the store

    async def _catch_up(self) -> None:
        """Read the facts behind the place, to be handed out next."""
        self._needs_store = self._is_touched = False
        try:
            found = await self._behind()
        except SessionDeleted:
            self._reader.finish()
            return
        if self._early is not None or self._reader.is_behind or self._is_driven:
            self._told = {fact.id for _, _, fact in found}
            self._over = {fact.correlation_id for _, _, fact in found}
            early = self._early
            if early is not None and not self._is_news(early):
                self._early = None
        self._caught.extend(found)

    async def _behind(self) -> list[tuple[str, int, Event]]:
        """Return the facts behind the place, with their turns."""
        found: list[tuple[str, int, Event]] = []
        head = 0
        if self.place.turn_id:
            folded = await self._worker.folded.of(self._session_id, self.place.turn_id)
            if folded is None:
                raise InvalidInput.at("cursor", "a turn that this session does not have", "its own")
            if folded.view.is_reclaimed and self.place.fact != _END:
                await self._begin_now()
                self.has_gap = True
                return []
            head = folded.head
            rest = facts_behind(folded.fold.facts, self.place)
            found += [(self.place.turn_id, head, fact) for fact in rest]
            if folded.view.state != "done":
                return found
        return found if self._only is not None else found + await self._turns_behind(head)

    async def _turns_behind(self, head: int) -> list[tuple[str, int, Event]]:
        """Return the facts of the turns behind so many that have ended."""
        session = await self._session()
        if session is None:
            return []
        turns: list[str] = []
        head = max(head, session.parent_head or 0)  # what a fork shares happened elsewhere
        if session.head > head:
            limit = session.head - head
            pages = await self._services.store.load_history(self._session_id, limit=limit)
            turns += [page.turn_id for page in pages]
        if session.active is not None:
            turns.append(session.active)
        found: list[tuple[str, int, Event]] = []
        for turn_id in turns:
            folded = await self._worker.folded.of(self._session_id, turn_id)
            if folded is not None:
                found += [(turn_id, folded.head, fact) for fact in folded.fold.facts]
        return found

    async def _begin_now(self) -> None:
        """Be behind all that there is now."""
        session = await self._session()
        turn_id = None if session is None else session.active
        self._head = 0 if session is None else session.head
        if session is None or (turn_id is None and session.head == (session.parent_head or 0)):
            self.place = BEGINNING
            return
        if turn_id is None:
            last = await self._services.store.load_history(self._session_id, limit=1)
            self.place = Place(last[-1].turn_id, _END)
            return
        folded = await self._worker.folded.of(self._session_id, turn_id)
        facts = [] if folded is None else folded.fold.facts
        self.place = place_of(facts[-1], self._session_id, turn_id) if facts else Place(turn_id, "")
        if self._is_driven or self._reader.is_behind:
            self._told = {fact.id for fact in facts}
            self._over = {fact.correlation_id for fact in facts}

    async def _head_at(self, place: Place) -> int:
        """Return how many turns had ended at a place.

        Raises:
            InvalidInput: there is no such turn.
        """
        if not place.turn_id:
            return 0
        folded = await self._worker.folded.of(self._session_id, place.turn_id)
        if folded is None:
            raise InvalidInput.at("cursor", "a turn that this session does not have", "its own")
        facts_behind(folded.fold.facts, place)
        return folded.head - (folded.view.state == "done" and place.fact != _END)

    async def _session(self) -> SessionView | None:
        try:
            return await self._services.store.load_session(self._session_id, history=False)
        except UnknownSession:
            return None


class Observation:
    """A session as it goes on: `async with session.observe(cursor) as seen: async for event in seen`.

    Of a turn that runs in another process you see the facts; previews are shown by the process that drives the turn.

    committed: the messages of ended turns.
    provisional: the messages of the turn in flight so far.
    has_gap: what follows the cursor is not kept any more: start from `committed` and `provisional`.
    """

    def __init__(self, admission: Admission, session_id: str, cursor: str | None) -> None:
        self._admission = admission
        self._session_id = session_id
        self._cursor = None if cursor is None else read_cursor(cursor, session_id)
        self._watcher: Watcher | None = None
        self.committed: tuple[Message, ...] = ()
        self.provisional: tuple[Message, ...] = ()

    async def __aenter__(self) -> Self:
        watcher = Watcher(self._admission, self._session_id)
        try:
            await watcher.begin(self._cursor)
            await self._read()
        except BaseException:
            watcher.close()
            raise
        self._watcher = watcher
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._watcher is not None:
            self._watcher.close()

    @property
    def cursor(self) -> str:
        """Where this observation stands: pass it to `session.observe` to go on from here."""
        return "" if self._watcher is None else self._watcher.cursor

    @property
    def has_gap(self) -> bool:
        """Whether what follows the cursor is not kept any more."""
        return self._watcher is not None and self._watcher.has_gap

    async def __aiter__(self) -> AsyncIterator[Event]:
        watcher = self._watcher
        if watcher is None:
            raise ConfigError(
                "Observation: enter it first, `async with session.observe() as seen`",
                field="observe",
            )
        while (event := await watcher.next()) is not None:
            yield event

    async def _read(self) -> None:
        """Read what was said in the session up to now."""
        services = self._admission.services
        try:
            session = await services.store.load_session(self._session_id)
        except UnknownSession:
            return
        self.committed = messages_of(session.pages)
        if session.active is not None:
            folded = await self._admission.worker.folded.of(self._session_id, session.active)
            if folded is not None and folded.view.state != "done":
                self.provisional = folded.fold.messages

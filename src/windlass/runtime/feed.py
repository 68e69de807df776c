"""The live feed: what happens in one session, shown as it happens to observers in this process.

Law 1. One order. Every reader sees events in the order in which they were handed in. Nothing overtakes
    a fact that is held, not even an event of another turn: nothing of the next model call is shown
    before the tool result before it is durable.
Law 2. A fact is shown only after it is durable.
Law 3. No reader misses a fact, however slow it is. Previews may be lost: waiting deltas of one call are
    joined, of its progress the last stays, what is retracted is no longer shown (see `reader`).
Law 4. The past is bounded, by count and by age. A cursor inside it goes on without a hole or a double;
    any other has a gap, says so, and begins at the live end: with what was shown of calls in flight, joined.
Law 5. Leaving a reader changes nothing for anybody.
Law 6. Showing costs the same however much was shown before, once per reader. Without readers nothing is
    copied.
Law 7. What a child shows is shown to those who read above it, as previews, and kept in its own feed alone: no past of
    theirs holds it, and a cursor there names the last thing that was their own.

All of it belongs to one event loop; only `TurnFeed.show_threadsafe` may be called from elsewhere.

Length: a session's line and what its turns write to it know each other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import chain

from windlass.guards.ids import check_id
from windlass.kernel import Error, Event, Recovered, Retracted, TurnEnded, TurnIds
from windlass.kernel.events import (
    CodeFinished,
    CodeStarted,
    ModelFinished,
    ModelStarted,
    ToolFinished,
    ToolStarted,
    UsageReported,
)
from windlass.ports.clock import Clock
from windlass.runtime.reader import Drive, FeedReader, Waiting, read_cursor, write_cursor

# After one of these the call it is about is recorded: its previews are not taken back any more.
_ENDS_A_CALL = frozenset({ModelFinished, UsageReported, ToolFinished, CodeFinished, Error})
# What is shown first of a call.
_BEGINS_A_CALL = frozenset({ModelStarted, ToolStarted, CodeStarted})
# How many ended turns a feed remembers, for readers that come late and want to stop with one.
_MAX_ENDED = 256
# How many times a turn may show something before it looks for previews among it.
_MAX_SHOWN = 64


class SessionFeed:
    """The feed of one session that is live in this process.

    `incarnation` tells the cursors of this feed from those of another one of the same session. There is one line for all
    turns of the session. So a turn that holds a fact owes it an answer, `durable` or `drop_held`: until then nothing of
    the session is shown.
    """

    def __init__(
        self,
        session_id: str,
        *,
        incarnation: str,
        clock: Clock,
        max_events: int = 2_048,
        max_age_s: float = 120.0,
    ) -> None:
        self._session_id = session_id
        self._incarnation = check_id(incarnation, field="incarnation")
        self.loop = asyncio.get_running_loop()
        # How many events were shown so far; and the last of them, those of one moment together: when, by which drive,
        # what. They begin behind the start.
        self.position = self._start = 0
        self._ring: deque[tuple[int, TurnFeed, tuple[Event, ...]]] = deque()
        self._max_events = max_events
        self._clock = clock
        self._read_ms = clock.now_ms()
        self._age_ms = self._used_ms = 0
        self._max_age_ms = int(max_age_s * 1_000)
        # The line: turns with their events, and how many units have to be durable. None for events: the turn ends here.
        self._held: deque[tuple[TurnFeed, list[Event] | None, int]] = deque()
        self._readers: list[Waiting] = []
        self._is_closed = False
        # The turns that are driven, and behind which position others ended.
        self._live: dict[str, TurnFeed] = {}
        self._ended: dict[str, int] = {}

    @property
    def cursor(self) -> str:
        """The live end: reading from here on misses nothing that is shown later."""
        return write_cursor(self._incarnation, self.position)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is driven and nobody reads."""
        return not (self.has_live_turns or self.has_readers)

    @property
    def is_forgotten(self) -> bool:
        """Whether it is idle, nothing is kept and its cursors are old: another feed would do as well."""
        return self.is_idle and not self._ring and self._used_ms < self._age_ms - self._max_age_ms

    @property
    def has_live_turns(self) -> bool:
        """Whether a turn is being driven: what it shows has to find its readers."""
        return any(not turn.is_over for turn in self._live.values())

    @property
    def has_readers(self) -> bool:
        """Whether anybody reads. What hands a child's events on does so only where others read."""
        return any(not (reader.is_left or reader.is_relay) for reader in self._readers)

    def use(self) -> None:
        """Keep it for a while, although nothing may be shown: its cursors are handed out."""
        self._used_ms = self._age_ms

    def turn(self, turn_id: str) -> TurnFeed:
        """Return what a turn's runner writes to.

        It is the same for as long as the turn is driven: a new one after `end` or `drop_held`, because
        the next drive has a new lane, which counts its units anew.
        """
        turn = self._live.get(turn_id)
        if turn is None or turn.is_over:
            turn = self._live[turn_id] = TurnFeed(turn_id, self)
            self._ended.pop(turn_id, None)
        return turn

    def is_live(self, turn: TurnFeed) -> bool:
        """Whether this is the drive of its turn that is shown, and it has not ended."""
        return self._live.get(turn.turn_id) is turn

    def retraction_id(self, turn_id: str) -> str:
        """Return the id of an event that takes back what was shown of a turn."""
        ids = TurnIds(self._session_id, turn_id)
        return ids.event(f"retracted.{self._incarnation}.{self.position}")

    # ------------------------------------------------------------------ reading

    def read(
        self, cursor: str | None = None, *, until: str | None = None, only: str | None = None
    ) -> FeedReader:
        """Return a reader that begins behind `cursor`, or at the live end without one.

        Args:
            cursor: What an event carried. Whether it still could be gone on from: `has_gap`.
            until: The turn with which the reader ends: behind its `TurnEnded`, or behind what was
                handed in when its feed was ended. A turn that ended long ago, or elsewhere, is not
                known here: open the reader first, then ask the store.
            only: The turn whose events alone are wanted.

        Raises:
            InvalidInput: the cursor is not text.
        """
        self.forget_old()
        begin = self.position
        place = begin if cursor is None else read_cursor(cursor, self._incarnation)
        has_gap = place is None or not self._reaches(place)
        if place is not None and not has_gap:
            begin = place
        waiting = Waiting(only=only, until=until)
        drive, before = None, dict[Drive, str]()
        if cursor is None or has_gap:
            self._put_unfinished(waiting)
            before = {turn: turn.last_fact() for turn in self._live.values() if not turn.is_over}
        else:
            drive = self._shown_by(begin)
        stands = None if waiting else begin
        self._join(waiting, begin)
        return FeedReader(
            waiting, self._incarnation, stands, has_gap=has_gap, drive=drive, before=before
        )

    def _shown_by(self, position: int) -> TurnFeed | None:
        """Return the drive that showed the event at a position, if that is still known."""
        end = self._start
        for _, turn, events in self._ring:
            end += len(events)
            if self._start < position <= end:
                return turn
        return None

    def _put_unfinished(self, waiting: Waiting) -> None:
        """Give a latecomer what was shown of the calls in flight, of each that the past holds from its beginning."""
        unfinished: set[str] = set()
        for turn in self._live.values():
            unfinished.update(turn.unfinished())
        begun: set[str] = set()
        for at, turn, event in self._behind(self._start) if unfinished else ():
            about = event.correlation_id
            if not event.preview or about not in unfinished:
                continue
            if type(event) in _BEGINS_A_CALL:
                begun.add(about)
            if about in begun:
                waiting.put(at, turn, event)
        waiting.begin_at(self.position)

    def _reaches(self, position: int) -> bool:
        """Whether all that was shown behind this position is here."""
        return self._start <= position <= self.position

    def _behind(self, position: int) -> Iterator[tuple[int, TurnFeed, Event]]:
        """Return position, drive and event of all that was shown behind a position that is reached."""
        at = self._start
        for _, turn, events in self._ring:
            for event in events:
                at += 1
                if at > position:
                    yield at, turn, event

    def _join(self, waiting: Waiting, position: int) -> None:
        """Let a reader begin behind a position."""
        self._readers = [reader for reader in self._readers if not reader.is_left]
        ended_at = None if waiting.until is None else self._ended.get(waiting.until)
        for at, turn, event in self._behind(position):
            if ended_at is None or at <= ended_at:
                waiting.put(at, turn, event)
        if self._is_closed or ended_at is not None:
            waiting.end()
        if not waiting.is_ended:
            self._readers.append(waiting)

    def hand_on(self, relay: Waiting) -> None:
        """Hand what a turn shows on to a relay until its drive ends; one of an earlier drive of the turn is over."""
        others = (one for one in self._readers if not one.is_relay or one.until != relay.until)
        self._readers = [*others, relay]

    def forget_old(self) -> None:
        """Let go of what is too old. Showing and reading do it, too; an idle session needs a reminder."""
        now_ms = self._clock.now_ms()
        step_ms = now_ms - self._read_ms
        self._read_ms = now_ms
        if step_ms <= 0:
            return  # a clock that was put back must not keep the past for longer
        self._age_ms += step_ms
        ring, oldest_ms = self._ring, self._age_ms - self._max_age_ms
        while ring and ring[0][0] < oldest_ms:
            self._forget_first()

    def _forget_first(self) -> None:
        self._start += len(self._ring.popleft()[2])

    def close(self) -> None:
        """End all readers, behind what waits for them."""
        self._is_closed = True
        for reader in self._readers:
            reader.end()
        self._readers = []

    # ------------------------------------------------------------------ what turns hand in

    def hand_in(self, turn: TurnFeed, events: list[Event] | None, until: int) -> None:
        """Show events, or put them in line."""
        held = self._held
        if not held:
            if until <= turn.n_durable:
                self.forget_old()
                self._pass(turn, events)
                return
        elif events is not None:
            last, waiting, waits_until = held[-1]
            if last is turn and until <= waits_until and waiting is not None:
                waiting += events  # they pass together
                return
        held.append((turn, events, until))

    def relay(self, turn_id: str, event: Event) -> None:
        """Show readers what is shown below a turn of this session, behind what is held."""
        relayed = Relayed(turn_id, event, self)
        if self._held:
            self._held.append((relayed, None, 0))
        else:
            self._tell_relayed(relayed)

    def _tell_relayed(self, relayed: Relayed) -> None:
        position, event = self.position, relayed.event
        self._readers = [
            reader for reader in self._readers if reader.put_relayed(position, relayed, event)
        ]

    def let_through(self) -> None:
        """Show what need not wait any more: all of it in the same moment."""
        self.forget_old()
        held = self._held
        while held:
            turn, events, until = held[0]
            if until > turn.n_durable:
                return
            held.popleft()
            self._pass(turn, events)

    def drop(self, turn: TurnFeed, retracted: Retracted | None) -> None:
        """Take a turn out of the line, but for its end; the retraction takes its first place."""
        line, self._held = self._held, deque()
        news: list[tuple[TurnFeed, list[Event] | None, int]] = []
        if retracted is not None:
            news.append((turn, [retracted], 0))
        for entry in line:
            if entry[0] is not turn:
                self._held.append(entry)
                continue
            self._held.extend(news)
            news.clear()
            if entry[1] is None:
                self._held.append(entry)
        self._held.extend(news)
        self.let_through()

    def _pass(self, turn: TurnFeed, events: list[Event] | None) -> None:
        if events is None:
            self._end(turn)
            return
        # A tuple of events needs no garbage collection, and a ring may keep thousands.
        kept = tuple(events)
        self._ring.append((self._age_ms, turn, kept))
        self.position += len(kept)
        while self.position - self._start > self._max_events:
            self._forget_first()
        turn.shown.append(kept)
        if len(turn.shown) > _MAX_SHOWN:
            turn.find_unfinished()
        if self._readers:
            self._tell(turn, kept)
        if type(kept[-1]) is TurnEnded:  # nothing comes behind it
            self._end(turn)

    def _tell(self, turn: TurnFeed, events: tuple[Event, ...]) -> None:
        for position, event in enumerate(events, self.position - len(events) + 1):
            self._readers = [
                reader for reader in self._readers if reader.put(position, turn, event)
            ]

    def _end(self, turn: TurnFeed) -> None:
        if isinstance(turn, Relayed):  # it has come through the line
            self._tell_relayed(turn)
            return
        turn_id = turn.turn_id
        if self._live.get(turn_id) is not turn:
            return  # it ended before, or another drive of it goes on
        del self._live[turn_id]
        self._ended[turn_id] = self.position
        if len(self._ended) > _MAX_ENDED:
            del self._ended[next(iter(self._ended))]
        for reader in self._readers:
            if reader.until == turn_id:
                reader.end()
        self._readers = [reader for reader in self._readers if not reader.is_ended]


class TurnFeed:
    """What the runner of one turn writes to, during one drive of it; see `reader.Drive`."""

    head = 0
    base = (0, 0)

    def __init__(self, turn_id: str, session: SessionFeed) -> None:
        self.turn_id = turn_id
        self.n_durable = 0
        # What was shown and not yet looked through for previews; and, in a dict for its order, the calls of which a
        # preview was shown and no end.
        self.shown: list[tuple[Event, ...]] = []
        self._unfinished: dict[str, None] = {}
        self._last_fact = ""
        self._session = session
        self._is_refused = False
        self._is_ended = False

    @property
    def is_over(self) -> bool:
        """Whether the next drive of the turn needs a feed of its own."""
        return self._is_refused or self._is_ended

    def show(self, event: Event) -> None:
        """Show an event at once, or behind what is held.

        An event after `drop_held` never happened, and a preview after `end` comes too late; neither is shown.
        """
        if self._is_refused or (self._is_ended and event.preview):
            return
        self._session.hand_in(self, [event], 0)

    def show_threadsafe(self, event: Event) -> None:
        """Show an event from any thread: a tool that runs in one reports how far it is."""
        loop = self._session.loop
        if asyncio._get_running_loop() is loop:  # noqa: SLF001 - it asks without raising
            self.show(event)
            return
        with suppress(RuntimeError):  # the loop is closed, and with it everyone who watched
            loop.call_soon_threadsafe(self.show, event)

    def hold(self, event: Event, *, until: int) -> None:
        """Show a fact once `until` units of the turn's lane are durable, and all behind it after it."""
        if not self._is_refused:
            self._session.hand_in(self, [event], until)

    def tell(self, events: list[Event], *, until: int) -> None:
        """Show what a machine said, in order: the facts once `until` units are durable, previews before them at once.

        The list is kept.
        """
        if self._is_refused:
            return
        if events[0].preview and self.n_durable < until:
            n_previews = 1
            while n_previews < len(events) and events[n_previews].preview:
                n_previews += 1
            self._session.hand_in(self, events[:n_previews], 0)
            events = events[n_previews:]
            if not events:
                return
        self._session.hand_in(self, events, until)

    def durable(self, n: int) -> None:
        """Tell that the first `n` units of the turn's lane are durable."""
        if n > self.n_durable:
            self.n_durable = n
            self._session.let_through()

    def drop_held(self) -> None:
        """Tell that the lane was refused: what is held never happened, nor what stands behind it.

        Previews of calls that have not ended are taken back. This feed is over; another drive of the
        turn asks the session's feed for its own.
        """
        if self._is_refused:
            return
        self._is_refused = True
        retracted = None
        self.find_unfinished()
        if self._unfinished:
            event_id = self._session.retraction_id(self.turn_id)
            retracted = Retracted(id=event_id, correlation_ids=tuple(self._unfinished))
        self._session.drop(self, retracted)

    def end(self) -> None:
        """Tell that the turn goes no further here: it ended, was parked or was given up.

        Readers that end with the turn stop behind what was handed in. What is held then still waits for
        `durable` or `drop_held`.
        """
        if not self._is_ended:
            self._is_ended = True
            if self._session.is_live(self):  # else its last event has ended it
                self._session.hand_in(self, None, 0)

    def last_fact(self) -> str:
        """Return the id of the last fact that was shown; empty if there was none."""
        self.find_unfinished()
        return self._last_fact

    def unfinished(self) -> Collection[str]:
        """Return the correlation ids of calls of which a preview was shown and no end."""
        self.find_unfinished()
        return self._unfinished

    def find_unfinished(self) -> None:
        """Look through what was shown for the calls whose previews might have to be taken back."""
        unfinished = self._unfinished
        for event in chain.from_iterable(self.shown):
            if not event.preview:
                self._last_fact = event.id
                if type(event) in _ENDS_A_CALL:
                    unfinished.pop(event.correlation_id, None)
                elif type(event) is TurnEnded:
                    unfinished.clear()
            elif type(event) is Retracted:
                for correlation_id in event.correlation_ids:
                    unfinished.pop(correlation_id, None)
            elif type(event) is Recovered:
                unfinished.clear()  # it stands for all that was shown before
            elif event.correlation_id:
                unfinished[event.correlation_id] = None
        self.shown.clear()


class Relayed(TurnFeed):
    """One event of a child, on its way through the line of the feed above."""

    def __init__(self, turn_id: str, event: Event, session: SessionFeed) -> None:
        super().__init__(turn_id, session)
        self.event = event

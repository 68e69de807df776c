"""A reader of a live feed, and what waits for it.

What waits for a reader is its own, so a slow one does not slow the others. Facts wait as they are.
Previews are joined, replaced, taken back and, if there are still too many, forgotten, the oldest first.
`Retracted` and `Recovered` are not forgotten: without them a reader would keep what never happened.

A cursor is the text in which a reader carries its place from one connection to the next. It comes back from outside, so
it is read as hostile: whatever this feed did not write names no place.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from io import StringIO
from typing import Protocol, TypeAlias

from windlass.errors import InvalidInput
from windlass.kernel import Event, Recovered, Retracted, TurnEnded
from windlass.kernel.events import ReasoningDelta, TextDelta, ToolInputDelta, ToolProgress
from windlass.kernel.value import set_field

_DELTAS = (TextDelta, ReasoningDelta, ToolInputDelta)
_Delta: TypeAlias = TextDelta | ReasoningDelta | ToolInputDelta

# No feed counts that far; longer digits are not worth converting.
_MAX_DIGITS = 18

MAX_PREVIEWS = 4_096
"""How many previews wait for one reader, after joining."""


def write_cursor(incarnation: str, position: int | None) -> str:
    """Name the place behind the event at `position` of one incarnation of a feed; None is no place."""
    return "" if position is None else f"{incarnation}.{position}"


def read_cursor(text: str, incarnation: str) -> int | None:
    """Return the position that a cursor of this incarnation names, None for any other text.

    Raises:
        InvalidInput: it is not even text.
    """
    if not isinstance(text, str):
        raise InvalidInput.at("cursor", type(text).__name__, "text")
    place = text.rpartition(".")[2]
    if not place.isascii() or not place.isdigit() or len(place) > _MAX_DIGITS:
        return None
    position = int(place)
    return position if text == write_cursor(incarnation, position) else None


class Drive(Protocol):
    """What shows events: one drive of a turn in this process.

    `head` is how many turns of the session had ended before, `base` how many pages and waits of the turn were there. What
    those tell, earlier drives have shown.
    """

    turn_id: str
    head: int
    base: tuple[int, int]


class _Slot:
    """One event that waits, or several deltas that became one. `position` is None if it cannot be gone on from."""

    __slots__ = ("drive", "event", "position", "text")

    def __init__(self, position: int, drive: Drive, event: Event) -> None:
        self.position: int | None = position
        self.drive = drive
        self.event = event
        self.text: StringIO | None = None

    def takes(self, drive: Drive, event: _Delta) -> bool:
        """Whether a delta goes on where this one ends."""
        return (
            type(self.event) is type(event)
            and self.event.correlation_id == event.correlation_id
            and self.drive is drive
            and _strand(self.event) == _strand(event)
        )

    def join(self, position: int, event: _Delta) -> None:
        """Add a delta's text; the place is the last one's, so that a cursor skips and repeats nothing."""
        if self.text is None:
            self.text = StringIO()
            self.text.write(self.event.text)  # type: ignore[union-attr]  # only deltas take deltas
        self.text.write(event.text)
        self.position = position

    def told(self, incarnation: str) -> Event:
        """Return a copy that carries its cursor: the original is everybody's."""
        copy: Event = self.event.__copy__()  # type: ignore[union-attr]  # msgspec does not declare it
        set_field(copy, "cursor", write_cursor(incarnation, self.position))
        if self.text is not None:
            set_field(copy, "text", self.text.getvalue())
        return copy


def _strand(event: Event) -> str | None:
    """Return what deltas of one kind have to share to be one: their phase, or the call they are of."""
    if isinstance(event, TextDelta):
        return event.phase
    return event.call_id if isinstance(event, ToolInputDelta) else None


class Waiting:
    """What one reader has not read yet, oldest first. The feed puts, the reader takes.

    `only` leaves out the events of other turns; `until` names the turn with which it ends.
    """

    __slots__ = (
        "_about",
        "_last",
        "_n_relayed",
        "_only",
        "_previews",
        "_progress",
        "_retractions",
        "_slots",
        "is_ended",
        "is_left",
        "news",
        "until",
    )

    # Whether it reads only to hand on what a child shows.
    is_relay = False

    def __init__(self, *, only: str | None = None, until: str | None = None) -> None:
        self._only = only
        self.until = until
        # Linked, not plain dicts: what goes from the front or the middle leaves no hole to step over.
        self._slots: OrderedDict[int, _Slot] = OrderedDict()
        self._previews: OrderedDict[int, _Slot] = OrderedDict()
        # Where to find the previews of a call, and the last report of how far it is.
        self._about: dict[str, dict[int, None]] = {}
        self._progress: dict[tuple[str, str, str], int] = {}
        self._retractions: dict[int, frozenset[str]] = {}
        self._last: _Slot | None = None
        self._n_relayed = 0
        self.is_ended = False
        self.is_left = False
        self.news = asyncio.Event()

    def __len__(self) -> int:
        return len(self._slots)

    def put(self, position: int, drive: Drive, event: Event) -> bool:
        """Let an event wait; False once nothing more is wanted."""
        if self.is_left or self.is_ended:
            return False
        if self._only is not None and drive.turn_id != self._only:
            return True
        if not event.preview:
            self._append(position, _Slot(position, drive, event))
            if type(event) is TurnEnded and drive.turn_id == self.until:
                self.is_ended = True
        elif isinstance(event, _DELTAS):
            self._put_delta(position, drive, event)
        elif isinstance(event, Retracted):
            self._put_retracted(position, drive, event)
        elif isinstance(event, Recovered):
            self._append(position, _Slot(position, drive, event))
        else:
            if isinstance(event, ToolProgress):
                self._replace_progress(position, drive, event)
            self._append_preview(position, _Slot(position, drive, event))
        if not self.news.is_set():
            self.news.set()
        return not self.is_ended

    def put_relayed(self, position: int, drive: Drive, event: Event) -> bool:
        """Let an event of a child wait, behind the feed's own at `position`; False once nothing more is wanted."""
        if self.is_left or self.is_ended:
            return False
        if self._only is None or drive.turn_id == self._only:
            self._n_relayed += 1
            # The feed's own are found by their positions, which count from 1.
            self._append_preview(-self._n_relayed, _Slot(position, drive, event))
            if not self.news.is_set():
                self.news.set()
        return True

    def begin_at(self, position: int) -> None:
        """Let what waits already be given before a position: it was shown earlier.

        Behind the last of it a reader goes on at the position. Before that there is no place to go on from, and all of
        it is given anew.
        """
        for slot in self._slots.values():
            slot.position = None
        if self._last is not None:
            self._last.position = position

    def take(self) -> _Slot:
        """Take out the oldest."""
        key, slot = self._slots.popitem(last=False)
        self._forget(key, slot)
        return slot

    def end(self) -> None:
        """Say that nothing comes after what waits."""
        self.is_ended = True
        self.news.set()

    def leave(self) -> None:
        """Drop what waits: it will not be read."""
        self.is_left = True
        self._slots.clear()
        self._previews.clear()
        self._about.clear()
        self._progress.clear()
        self._retractions.clear()
        self._last = None
        self.news.set()

    # ------------------------------------------------------------------ inside

    def _append(self, key: int, slot: _Slot) -> None:
        self._slots[key] = slot
        self._last = slot

    def _append_preview(self, key: int, slot: _Slot) -> None:
        self._append(key, slot)
        self._previews[key] = slot
        correlation_id = slot.event.correlation_id
        if correlation_id:
            self._about.setdefault(correlation_id, {})[key] = None
        if len(self._previews) > MAX_PREVIEWS:
            self._remove(next(iter(self._previews)))

    def _put_delta(self, position: int, drive: Drive, event: _Delta) -> None:
        last = self._last
        if last is not None and last.takes(drive, event):
            last.join(position, event)
        else:
            self._append_preview(position, _Slot(position, drive, event))

    def _replace_progress(self, position: int, drive: Drive, event: ToolProgress) -> None:
        about = (drive.turn_id, event.correlation_id, event.call_id)
        older = self._progress.get(about)
        if older is not None:
            self._remove(older)
        self._progress[about] = position

    def _put_retracted(self, position: int, drive: Drive, event: Retracted) -> None:
        gone = frozenset(event.correlation_ids)
        for correlation_id in gone:
            for key in list(self._about.get(correlation_id, ())):
                self._remove(key)
        # One that takes back no more than this one has nothing left to say.
        for key, ids in list(self._retractions.items()):
            if ids <= gone:
                self._remove(key)
        self._append(position, _Slot(position, drive, event))
        self._retractions[position] = gone

    def _remove(self, key: int) -> None:
        self._forget(key, self._slots.pop(key))

    def _forget(self, key: int, slot: _Slot) -> None:
        """Drop what points to a slot that no longer waits."""
        if slot is self._last:
            self._last = None
        event = slot.event
        if not event.preview or isinstance(event, Recovered):
            return
        if isinstance(event, Retracted):
            del self._retractions[key]
            return
        del self._previews[key]
        if event.correlation_id:
            siblings = self._about[event.correlation_id]
            del siblings[key]
            if not siblings:
                del self._about[event.correlation_id]
        if isinstance(event, ToolProgress):
            del self._progress[slot.drive.turn_id, event.correlation_id, event.call_id]


class FeedReader:
    """The events of a feed from one place on, each with the cursor behind it.

    In the middle of what a latecomer is given of the calls in flight, the cursor is empty: there is no place to go on from.
    `has_gap`: it could not go on where the caller was, and begins at the live end; the caller needs a
    fresh view. `drive` is what showed the last event that was read, or the one at the cursor. `before` has, of each drive
    that was under way when this began, the id of the last fact that it had shown, if any. A caller that stops
    reading may `close` it or just drop it.
    """

    def __init__(
        self,
        waiting: Waiting,
        incarnation: str,
        position: int | None,
        *,
        has_gap: bool,
        drive: Drive | None = None,
        before: Mapping[Drive, str] | None = None,
    ) -> None:
        self._waiting = waiting
        self._incarnation = incarnation
        self.has_gap = has_gap
        self.cursor = write_cursor(incarnation, position)
        self.drive = drive
        self.before: Mapping[Drive, str] = before or {}

    @property
    def is_behind(self) -> bool:
        """Whether something waits to be read."""
        return bool(self._waiting)

    @property
    def is_over(self) -> bool:
        """Whether nothing comes after what waits."""
        return self._waiting.is_ended or self._waiting.is_left

    def __aiter__(self) -> FeedReader:
        return self

    async def __anext__(self) -> Event:
        while (event := self.take()) is None:
            if self.is_over:
                raise StopAsyncIteration
            await self.news()
        return event

    def take(self) -> Event | None:
        """Return the next event that waits; None if none does."""
        if not self._waiting:
            return None
        slot = self._waiting.take()
        event = slot.told(self._incarnation)
        self.cursor, self.drive = event.cursor, slot.drive
        return event

    async def news(self) -> None:
        """Wait until something can be read, nothing comes any more, or `poke` was called."""
        waiting = self._waiting
        if not waiting and not self.is_over:
            await waiting.news.wait()
        waiting.news.clear()

    def poke(self) -> None:
        """Wake the caller that waits for news."""
        self._waiting.news.set()

    def finish(self) -> None:
        """Want no more than what waits: reading ends behind it."""
        self._waiting.end()

    def close(self) -> None:
        """Stop: a caller that waits for the next event gets the end instead."""
        self._waiting.leave()

    def __del__(self) -> None:
        # Dropped in the middle of a loop: nothing may pile up for it. Only the mark, because the
        # collector may run this on any thread; the feed lets go of the rest.
        self._waiting.is_left = True

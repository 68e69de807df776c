"""The feed under any interleaving: facts arrive whole and in order, and so does the text shown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from tests.runtime.feeds import fact, feed_of, progress, text, thought, told, waiting_for
from windlass.kernel import Event, ReasoningDelta, Retracted, TextDelta, ToolProgress
from windlass.runtime.feed import SessionFeed
from windlass.runtime.reader import FeedReader

TURNS = ("t0", "t1")
small = st.integers(0, 2)
turns = st.sampled_from(TURNS)

STEPS = st.one_of(
    st.tuples(st.just("text"), turns, small),
    st.tuples(st.just("thought"), turns, small),
    st.tuples(st.just("progress"), turns, small),
    st.tuples(st.just("fact"), turns, small),
    st.tuples(st.just("durable"), turns, small),
    st.tuples(st.just("take"), turns, small),
    st.tuples(st.just("again"), turns, small),
    st.tuples(st.just("open"), turns, small),
    st.tuples(st.just("close"), turns, small),
)
PREVIEWS: dict[str, Callable[[str, str], Event]] = {
    "text": text,
    "thought": thought,
    "progress": progress,
}
DROPS = st.tuples(st.just("drop"), turns, small)


class Watcher:
    """A reader, what it read so far, and how much was shown before it began."""

    def __init__(self, feed: SessionFeed, begun: int) -> None:
        self.begun = begun
        self.reader: FeedReader = feed.read()
        self.read: list[Event] = []

    async def take(self, n: int) -> None:
        for _ in range(min(n, len(self.reader._waiting))):
            self.read.append(await anext(self.reader))

    def come_again(self, feed: SessionFeed) -> None:
        """Lose the connection with all that waits, and go on from the cursor."""
        self.reader.close()
        self.reader = feed.read(self.reader.cursor)
        assert not self.reader.has_gap


class World:
    """A feed, its watchers, and the plainest account of what must have been shown."""

    def __init__(self) -> None:
        self.feed = feed_of()
        self.watchers = [Watcher(self.feed, 0)]
        self.n_handed = 0
        self.durable = dict.fromkeys(TURNS, 0)
        self.line: list[tuple[str, Event, int]] = []
        self.shown: list[Event] = []

    async def step(self, what: str, turn_id: str, n: int) -> None:
        turn = self.feed.turn(turn_id)
        watcher = self.watchers[n % len(self.watchers)]
        match what:
            case "fact":
                until = self.durable[turn_id] + n
                event: Event = fact(self.n_handed)
                turn.hold(event, until=until)
                self._hand_in(turn_id, event, until)
            case "text" | "thought" | "progress":
                event = PREVIEWS[what](f"<{self.n_handed}>", f"{turn_id}.{n}")
                turn.show(event)
                self._hand_in(turn_id, event, 0)
            case "durable":
                self.durable[turn_id] += n
                turn.durable(self.durable[turn_id])
            case "drop":
                turn.drop_held()
                self.durable[turn_id] = 0
                self.line = [entry for entry in self.line if entry[0] != turn_id]
            case "take":
                await watcher.take(n + 1)
            case "again":
                watcher.come_again(self.feed)
            case "open":
                self.watchers.append(Watcher(self.feed, len(self.shown)))
            case _:
                self.feed.read().close()
        while self.line and self.line[0][2] <= self.durable[self.line[0][0]]:
            self.shown.append(self.line.pop(0)[1])

    def _hand_in(self, turn_id: str, event: Event, until: int) -> None:
        self.n_handed += 1
        self.line.append((turn_id, event, until))


def joined(events: Iterable[Event]) -> list[str]:
    """Return facts and deltas in short, neighbouring deltas of one call as one; no progress."""
    kept = [event for event in events if not isinstance(event, ToolProgress)]

    def about(event: Event) -> tuple[object, ...]:
        if isinstance(event, TextDelta | ReasoningDelta):
            return type(event), event.correlation_id
        return (id(event),)

    lines = []
    for _, group in groupby(kept, key=about):
        first, *rest = told(group)
        lines.append(first + "".join(more.partition(":")[2] for more in rest))
    return lines


def last_progress(events: Iterable[Event]) -> dict[str, str]:
    return {
        event.correlation_id: str(event.data) for event in events if isinstance(event, ToolProgress)
    }


def facts(events: Iterable[Event]) -> list[str]:
    return told(event for event in events if not event.preview)


def check_cursors(events: list[Event]) -> None:
    places = [int(event.cursor.rpartition(".")[2]) for event in events]
    assert places == sorted(set(places))


@given(st.lists(STEPS, max_size=60))
def test_readers_see_all_that_was_shown_in_order_however_slow_and_often_they_come_back(
    steps: list[tuple[str, str, int]],
) -> None:
    async def run() -> None:
        world = World()
        for step in steps:
            await world.step(*step)
        assert world.feed.position == len(world.shown)
        for watcher in world.watchers:
            watcher.read += await waiting_for(watcher.reader)
            mine = world.shown[watcher.begun :]
            assert facts(watcher.read) == facts(mine)
            assert joined(watcher.read) == joined(mine)
            assert last_progress(watcher.read) == last_progress(mine)
            check_cursors(watcher.read)

    asyncio.run(run())


@given(st.lists(st.one_of(STEPS, DROPS), max_size=60))
def test_when_lanes_are_refused_readers_see_every_durable_fact_and_are_told_what_to_forget(
    steps: list[tuple[str, str, int]],
) -> None:
    async def run() -> None:
        world = World()
        for step in steps:
            await world.step(*step)
        for watcher in world.watchers:
            watcher.read += await waiting_for(watcher.reader)
            mine = world.shown[watcher.begun :]
            assert facts(watcher.read) == facts(mine)
            check_cursors(watcher.read)
            taken_back = {
                correlation_id
                for event in watcher.read
                if isinstance(event, Retracted)
                for correlation_id in event.correlation_ids
            }
            if watcher.begun == 0:
                dropped = {f"{turn_id}." for what, turn_id, _ in steps if what == "drop"}
                assert {about[:3] for about in taken_back} <= dropped
            assert untouched(watcher.read, taken_back) == untouched(mine, taken_back)

    asyncio.run(run())


def untouched(events: Iterable[Event], taken_back: set[str]) -> list[str]:
    """Return what was shown of calls that were never taken back."""
    return joined(
        event
        for event in events
        if not isinstance(event, Retracted) and event.correlation_id not in taken_back
    )

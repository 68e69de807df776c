"""The feed's six laws, and for each a feed that breaks it and is caught."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest

from tests.runtime.feeds import (
    SetByHand,
    dug,
    ended,
    fact,
    feed_of,
    progress,
    replied,
    rest_of,
    text,
    told,
    waiting_for,
)
from windlass.kernel import Event, ModelStarted
from windlass.runtime import feed as feed_module
from windlass.runtime.feed import SessionFeed, TurnFeed
from windlass.runtime.reader import MAX_PREVIEWS, Drive, FeedReader, Waiting

# --- law 1: one order -------------------------------------------------------------------------


async def check_order(make: type[SessionFeed]) -> None:
    feed = feed_of(make)
    reader = feed.read()
    turn = feed.turn("t1")
    turn.show(text("let me dig"))
    turn.hold(dug("c2"), until=1)
    turn.show(ModelStarted(correlation_id="c3", iteration=1, message_count=3))
    turn.show(text("I found", "c3"))
    assert told(await waiting_for(reader)) == ["c1:let me dig"]
    turn.durable(1)
    assert told(await waiting_for(reader)) == ["#c2", "ModelStarted", "c3:I found"]


async def test_nothing_of_the_next_model_call_is_shown_before_the_tool_result_before_it() -> None:
    await check_order(SessionFeed)


class Overtakes(SessionFeed):
    """Breaks law 1: a preview waits for nothing."""

    def hand_in(self, turn: TurnFeed, events: list[Event] | None, until: int) -> None:
        if events and events[0].preview:
            self._pass(turn, events)
        else:
            super().hand_in(turn, events, until)


async def test_a_feed_in_which_previews_overtake_is_caught() -> None:
    with pytest.raises(AssertionError):
        await check_order(Overtakes)


async def test_the_next_turn_does_not_overtake_the_last_fact_of_the_turn_before() -> None:
    feed = feed_of()
    reader = feed.read()
    first, second = feed.turn("t1"), feed.turn("t2")
    first.hold(ended(), until=3)
    second.show(fact(2))
    second.hold(fact(3), until=1)
    second.durable(1)
    assert told(await waiting_for(reader)) == []
    first.durable(3)
    assert told(await waiting_for(reader)) == ["TurnEnded", "#2", "#3"]


async def test_a_preview_with_nothing_held_before_it_is_shown_at_once() -> None:
    feed = feed_of()
    reader = feed.read()
    turn = feed.turn("t1")
    turn.durable(1)
    turn.hold(fact(1), until=1)
    turn.show(text("now"))
    assert told(await waiting_for(reader)) == ["#1", "c1:now"]
    assert feed.position == 2


# --- law 2: durable, then shown ---------------------------------------------------------------


async def check_durable_first(make: type[SessionFeed]) -> None:
    feed = feed_of(make)
    reader = feed.read()
    turn = feed.turn("t1")
    turn.hold(fact(1), until=1)
    turn.hold(fact(2), until=2)
    turn.hold(fact(3), until=2)
    assert told(await waiting_for(reader)) == []
    turn.durable(1)
    assert told(await waiting_for(reader)) == ["#1"]
    turn.durable(3)
    turn.durable(2)  # told late; nothing becomes less durable
    turn.hold(fact(4), until=3)
    assert told(await waiting_for(reader)) == ["#2", "#3", "#4"]
    turn.hold(fact(5), until=4)
    turn.hold(fact(6), until=3)
    assert told(await waiting_for(reader)) == []
    turn.durable(4)
    assert told(await waiting_for(reader)) == ["#5", "#6"]


async def test_a_fact_is_shown_only_after_it_is_durable() -> None:
    await check_durable_first(SessionFeed)


class Hasty(SessionFeed):
    """Breaks law 2: what is next in line passes."""

    def let_through(self) -> None:
        while self._held:
            turn, event, _ = self._held.popleft()
            self._pass(turn, event)


async def test_a_feed_that_shows_what_is_not_durable_is_caught() -> None:
    with pytest.raises(AssertionError):
        await check_durable_first(Hasty)


async def test_units_of_one_turn_do_not_make_another_turn_durable() -> None:
    feed = feed_of()
    reader = feed.read()
    feed.turn("t2").hold(fact(1), until=1)
    feed.turn("t1").durable(9)
    assert told(await waiting_for(reader)) == []


# --- law 3: no fact is lost -------------------------------------------------------------------


async def check_facts_stay() -> None:
    """Let a reader sleep over more than the ring, the previews and a day can hold."""
    clock = SetByHand()
    feed = feed_of(clock=clock, max_events=10)
    reader = feed.read()
    turn = feed.turn("t1")
    n_facts = MAX_PREVIEWS + 100
    for n in range(n_facts):
        clock.at_ms += 20_000
        turn.show(progress(n, f"c{n}"))
        turn.show(fact(n))
    seen = [line for line in told(await waiting_for(reader)) if line.startswith("#")]
    assert seen == [f"#{n}" for n in range(n_facts)]


async def test_a_reader_that_sleeps_for_long_misses_no_fact() -> None:
    await check_facts_stay()


class Forgets(Waiting):
    """Breaks law 3: what waits is bounded, whatever it is."""

    def put(self, position: int, drive: Drive, event: Event) -> bool:
        if len(self) > MAX_PREVIEWS:
            self.take()
        return super().put(position, drive, event)


async def test_a_feed_that_drops_facts_for_a_slow_reader_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(feed_module, "Waiting", Forgets)
    with pytest.raises(AssertionError):
        await check_facts_stay()


# --- law 4: a cursor goes on, or says that there is a gap -------------------------------------


async def check_every_cursor(make: type[SessionFeed]) -> None:
    feed = feed_of(make, max_events=5)
    watcher = feed.read()
    start = feed.cursor
    turn = feed.turn("t1")
    for n in range(1, 9):
        turn.show(fact(n))
    cursors = [start, *[event.cursor for event in await waiting_for(watcher)]]
    found = []
    for cursor in cursors:
        reader = feed.read(cursor)
        found.append((reader.has_gap, told(await waiting_for(reader))))
    last = [f"#{n}" for n in range(4, 9)]
    gap: tuple[bool, list[str]] = (True, [])
    assert found == [gap, gap, gap, *[(False, last[n:]) for n in range(6)]]


async def test_a_cursor_in_the_ring_goes_on_without_hole_or_double_and_an_older_one_has_a_gap() -> (
    None
):
    await check_every_cursor(SessionFeed)


class Repeats(SessionFeed):
    """Breaks law 4: the event of the cursor comes again."""

    def _behind(self, position: int) -> Iterator[tuple[int, TurnFeed, Event]]:
        return super()._behind(max(position - 1, self.position - len(self._ring)))


class Skips(SessionFeed):
    """Breaks law 4: what is gone is not missed."""

    def _reaches(self, position: int) -> bool:
        return True

    def _behind(self, position: int) -> Iterator[tuple[int, TurnFeed, Event]]:
        return super()._behind(max(position, self.position - len(self._ring)))


@pytest.mark.parametrize("broken", [Repeats, Skips])
async def test_a_feed_with_a_double_or_a_silent_hole_is_caught(broken: type[SessionFeed]) -> None:
    with pytest.raises(AssertionError):
        await check_every_cursor(broken)


# --- law 5: leaving ---------------------------------------------------------------------------


async def check_leaving() -> None:
    feed = feed_of()
    turn = feed.turn("t1")
    readers = [feed.read() for _ in range(5)]
    cursor = feed.cursor
    turn.show(text("a"))
    turn.hold(fact(1), until=1)
    readers[0].close()
    await anext(readers[1])
    readers[1].close()
    del readers[2]
    turn.durable(1)
    readers[2].close()
    turn.show(text("b"))
    assert told(await waiting_for(readers[3])) == ["c1:a", "#1", "c1:b"]
    assert told(await waiting_for(feed.read(cursor))) == ["c1:a", "#1", "c1:b"]
    assert feed.position == 3
    feed.close()
    assert await rest_of(readers[0]) == []


async def test_leaving_a_reader_changes_nothing_for_anybody() -> None:
    await check_leaving()


async def test_a_feed_in_which_one_leaves_and_takes_another_along_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    everybody: list[Waiting] = []
    join, close = SessionFeed._join, FeedReader.close

    def remembered(self: SessionFeed, waiting: Waiting, position: int) -> None:
        everybody.append(waiting)
        join(self, waiting, position)

    def close_another(self: FeedReader) -> None:
        close(self)
        everybody[-1].leave()

    monkeypatch.setattr(SessionFeed, "_join", remembered)
    monkeypatch.setattr(FeedReader, "close", close_another)
    with pytest.raises(AssertionError):
        await check_leaving()


# --- law 6: what showing costs ----------------------------------------------------------------


def n_calls(turn: TurnFeed, event: Event) -> int:
    """Return how many functions run for one event, Python's and C's; not those of the collector."""
    gc.disable()
    try:
        return min(_n_calls(turn, event) for _ in range(3))
    finally:
        gc.enable()


def _n_calls(turn: TurnFeed, event: Event) -> int:
    calls = 0

    def count(frame: object, what: str, arg: object) -> None:
        nonlocal calls
        calls += what in ("call", "c_call")

    sys.setprofile(count)
    try:
        turn.show(event)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("n_readers", [0, 1, 3])
@pytest.mark.parametrize("event", [text("a"), progress(1), fact(1), replied("a")])
async def test_showing_costs_the_same_however_much_was_shown_before(
    event: Event, n_readers: int
) -> None:
    feed = feed_of(max_events=100)
    readers = [feed.read() for _ in range(n_readers)]
    turn = feed.turn("t1")
    for _ in range(150):
        turn.show(event)
    early = n_calls(turn, event)
    for _ in range(5_000):
        turn.show(event)
    assert n_calls(turn, event) == early
    assert [reader.has_gap for reader in readers] == [False] * n_readers


async def test_without_readers_nothing_is_copied() -> None:
    feed = feed_of()
    event = text("a")
    feed.turn("t1").show(event)
    assert [shown for _, _, events in feed._ring for shown in events] == [event]
    assert feed._ring[0][2][0] is event


async def test_a_reader_gets_a_copy_and_what_was_handed_in_keeps_no_cursor() -> None:
    feed = feed_of()
    first, second = feed.read(), feed.read()
    event = fact(1)
    feed.turn("t1").show(event)
    got, other = await anext(first), await anext(second)
    assert (got.cursor, other.cursor, event.cursor) == ("f1.1", "f1.1", "")
    assert got == other != event

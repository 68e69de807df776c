"""Cursors and the ring: age, other incarnations, and text that no feed has written."""

from __future__ import annotations

import pytest

from tests.runtime.feeds import SetByHand, fact, feed_of, text, told, waiting_for
from windlass.errors import InvalidInput
from windlass.runtime.feed import SessionFeed
from windlass.runtime.reader import read_cursor, write_cursor


async def shown(feed: SessionFeed, n: int = 3) -> list[str]:
    """Show some facts and return the cursor behind each."""
    reader = feed.read()
    for one in range(1, n + 1):
        feed.turn("t1").show(fact(one))
    return [event.cursor for event in await waiting_for(reader)]


# --- by the clock -----------------------------------------------------------------------------


async def test_an_event_goes_when_it_is_older_than_the_limit_and_not_before() -> None:
    clock = SetByHand()
    feed = feed_of(clock=clock, max_age_s=120.0)
    start = feed.cursor
    await shown(feed, 1)
    clock.at_ms += 120_000
    assert told(await waiting_for(feed.read(start))) == ["#1"]
    clock.at_ms += 1
    assert feed.read(start).has_gap


async def test_a_reader_that_has_seen_everything_has_no_gap_however_old_all_of_it_is() -> None:
    clock = SetByHand()
    feed = feed_of(clock=clock)
    last = (await shown(feed))[-1]
    clock.at_ms += 10**9
    reader = feed.read(last)
    assert not reader.has_gap
    feed.turn("t1").show(fact(4))
    assert told(await waiting_for(reader)) == ["#4"]


async def test_an_idle_feed_lets_go_of_the_past_when_reminded() -> None:
    clock = SetByHand()
    feed = feed_of(clock=clock)
    await shown(feed, 100)
    clock.at_ms += 120_001
    feed.forget_old()
    assert len(feed._ring) == 0
    assert feed.position == 100


async def test_showing_lets_go_of_what_is_too_old() -> None:
    clock = SetByHand()
    feed = feed_of(clock=clock)
    await shown(feed, 100)
    clock.at_ms += 120_001
    feed.turn("t1").show(fact(101))
    assert len(feed._ring) == 1


async def test_a_cursor_between_facts_that_passed_together_goes_on_with_the_next_of_them() -> None:
    feed = feed_of(max_events=4)
    reader, turn = feed.read(), feed.turn("t1")
    turn.tell([fact(1)], until=1)
    turn.tell([fact(2), fact(3)], until=1)
    turn.show(fact(4))
    turn.durable(1)
    cursors = [event.cursor for event in await waiting_for(reader)]
    assert len(feed._ring) == 1
    assert told(await waiting_for(feed.read(cursors[1]))) == ["#3", "#4"]


async def test_facts_that_passed_together_leave_the_past_together() -> None:
    feed = feed_of(max_events=3)
    reader, turn = feed.read(), feed.turn("t1")
    turn.tell([fact(1), fact(2), fact(3)], until=0)
    cursors = [event.cursor for event in await waiting_for(reader)]
    turn.show(fact(4))
    assert (feed.position - feed._start, feed.position) == (1, 4)
    assert feed.read(cursors[1]).has_gap
    assert told(await waiting_for(feed.read(cursors[2]))) == ["#4"]


async def test_a_clock_that_is_put_back_an_hour_neither_loses_the_past_nor_keeps_it_for_longer() -> (
    None
):
    clock = SetByHand()
    feed = feed_of(clock=clock)
    start = feed.cursor
    await shown(feed, 2)
    clock.at_ms -= 3_600_000
    assert told(await waiting_for(feed.read(start))) == ["#1", "#2"]
    clock.at_ms += 120_000
    assert not feed.read(start).has_gap
    clock.at_ms += 1
    assert feed.read(start).has_gap


async def test_the_ring_holds_2048_events_unless_told_otherwise() -> None:
    feed = feed_of()
    cursors = await shown(feed, 2_050)
    assert feed.read(cursors[0]).has_gap
    reader = feed.read(cursors[1])
    assert not reader.has_gap
    assert told(await waiting_for(reader)) == [f"#{n}" for n in range(3, 2_051)]


# --- where a reader stands --------------------------------------------------------------------


async def test_without_a_cursor_reading_begins_at_the_live_end_and_that_is_no_gap() -> None:
    feed = feed_of()
    await shown(feed)
    reader = feed.read()
    assert (reader.has_gap, reader.cursor, feed.cursor) == (False, "f1.3", "f1.3")
    feed.turn("t1").show(fact(4))
    assert told(await waiting_for(reader)) == ["#4"]
    assert reader.cursor == "f1.4"


async def test_with_a_gap_reading_goes_on_at_the_live_end() -> None:
    feed = feed_of()
    await shown(feed)
    reader = feed.read("elsewhere.1")
    assert (reader.has_gap, reader.cursor) == (True, "f1.3")
    feed.turn("t1").show(fact(4))
    assert told(await waiting_for(reader)) == ["#4"]


async def test_the_cursor_of_joined_deltas_is_the_last_ones() -> None:
    feed = feed_of()
    reader = feed.read()
    turn = feed.turn("t1")
    for word in ("a", "b", "c"):
        turn.show(text(word))
    event = await anext(reader)
    assert (told([event]), event.cursor) == (["c1:abc"], "f1.3")
    turn.show(text("d"))
    assert told(await waiting_for(feed.read(event.cursor))) == ["c1:d"]


async def test_a_held_fact_has_no_place_yet_and_comes_after_every_cursor_handed_out_before() -> (
    None
):
    feed = feed_of()
    turn = feed.turn("t1")
    turn.hold(fact(1), until=1)
    cursor = feed.cursor
    turn.durable(1)
    assert told(await waiting_for(feed.read(cursor))) == ["#1"]


# --- hostile text -----------------------------------------------------------------------------

HOSTILE = [
    "",
    ".",
    "f1",
    "f1.",
    ".1",
    "1",
    "f1.4",  # not shown yet
    "f1.999999999999999999",
    "f1." + "9" * 5_000,
    "f1.-1",
    "f1.+1",
    "f1.01",
    "f1.1 ",
    " f1.1",
    "f1.1\n",
    "f1.1\x00",
    "f1.1.1",
    "f1.1_0",
    "f1.0x1",
    "f1.1e0",
    "f1.\u0661",  # a digit in Arabic
    "f1.\u00b2",  # a digit that no number has
    "F1.1",
    "f2.1",
    "f1\ud800.1",
    "\ud800",
    "a" * 10**6,
    "." * 10**5,
]


@pytest.mark.parametrize("cursor", HOSTILE, ids=lambda cursor: ascii(cursor)[:30])
async def test_text_that_this_feed_did_not_write_is_a_gap_and_no_error(cursor: str) -> None:
    feed = feed_of()
    await shown(feed)
    reader = feed.read(cursor)
    assert reader.has_gap
    assert await waiting_for(reader) == []


@pytest.mark.parametrize("cursor", [1, b"f1.1", True, ["f1.1"], 1.5])
async def test_a_cursor_that_is_not_text_is_refused_by_name(cursor: object) -> None:
    with pytest.raises(InvalidInput, match=r"^cursor: found \w+, wanted text$"):
        feed_of().read(cursor)  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize("incarnation", ["", "a/b", "a b", "x" * 129])
async def test_an_incarnation_is_an_id(incarnation: str) -> None:
    with pytest.raises(InvalidInput, match="incarnation"):
        feed_of(incarnation=incarnation)


@pytest.mark.parametrize("incarnation", ["f1", "a.b.7", "7", "~|=+"])
@pytest.mark.parametrize("position", [0, 1, 10**17])
def test_what_was_written_is_read_back(incarnation: str, position: int) -> None:
    assert read_cursor(write_cursor(incarnation, position), incarnation) == position

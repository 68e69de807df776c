"""What waits for one reader: joined, replaced, taken back, bounded; and how reading ends."""

from __future__ import annotations

import asyncio
import gc

import pytest

from tests.runtime.feeds import (
    dug,
    fact,
    feed_of,
    progress,
    replied,
    rest_of,
    text,
    thought,
    told,
    waiting_for,
)
from tests.runtime.lanes import passes
from windlass.kernel import (
    Event,
    ModelStarted,
    PluginEvent,
    Recovered,
    Retracted,
    Retrying,
    TextDelta,
)
from windlass.runtime.reader import MAX_PREVIEWS


def retracted(*ids: str) -> Retracted:
    return Retracted(correlation_ids=ids)


async def read_slowly(*events: Event) -> list[str]:
    """Return what a reader gets that reads only after all of it was shown."""
    feed = feed_of()
    reader = feed.read()
    for event in events:
        feed.turn("t1").show(event)
    return told(await waiting_for(reader))


# --- coalescing -------------------------------------------------------------------------------


async def test_waiting_deltas_of_one_call_are_joined() -> None:
    assert await read_slowly(text("a"), text("b"), text("\r\n"), text("c")) == ["c1:ab\r\nc"]


async def test_words_and_thoughts_are_not_joined() -> None:
    assert await read_slowly(text("a"), thought("b"), thought("c"), text("d")) == [
        "c1:a",
        "c1:bc",
        "c1:d",
    ]


async def test_deltas_of_two_calls_are_not_joined() -> None:
    got = await read_slowly(text("a", "c1"), text("b", "c2"), text("c", "c1"))
    assert got == ["c1:a", "c2:b", "c1:c"]


async def test_deltas_are_not_joined_over_anything_in_between() -> None:
    got = await read_slowly(text("a"), fact(1), text("b"), progress(1, "c2"), text("c"))
    assert got == ["c1:a", "#1", "c1:b", "c2=1", "c1:c"]


async def test_deltas_of_two_turns_are_not_joined() -> None:
    feed = feed_of()
    reader = feed.read()
    feed.turn("t1").show(TextDelta(text="a"))
    feed.turn("t2").show(TextDelta(text="b"))
    assert told(await waiting_for(reader)) == [":a", ":b"]


async def test_a_delta_that_was_read_is_not_changed_by_the_next() -> None:
    feed = feed_of()
    reader = feed.read()
    turn = feed.turn("t1")
    turn.show(text("a"))
    first = await anext(reader)
    turn.show(text("b"))
    assert told([first, await anext(reader)]) == ["c1:a", "c1:b"]


async def test_joining_for_a_slow_reader_changes_nothing_for_a_fast_one_or_the_ring() -> None:
    feed = feed_of()
    slow, fast = feed.read(), feed.read()
    start = feed.cursor
    turn = feed.turn("t1")
    seen = []
    for word in ("a", "b"):
        turn.show(text(word))
        seen += told(await waiting_for(fast))
    assert seen == ["c1:a", "c1:b"]
    assert told(await waiting_for(slow)) == ["c1:ab"]
    turn.show(text("c"))
    assert told(await waiting_for(feed.read(start))) == ["c1:abc"]


async def test_of_waiting_progress_of_one_call_the_last_stays_and_at_its_own_place() -> None:
    got = await read_slowly(progress(1), progress(1, "c2"), fact(1), progress(2), progress(3))
    assert got == ["c2=1", "#1", "c1=3"]


async def test_progress_that_was_read_is_not_missed_by_what_comes_after_it() -> None:
    feed = feed_of()
    reader = feed.read()
    turn = feed.turn("t1")
    turn.show(progress(1))
    assert told(await waiting_for(reader)) == ["c1=1"]
    turn.show(progress(2))
    turn.show(progress(3))
    assert told(await waiting_for(reader)) == ["c1=3"]


async def test_a_retraction_takes_back_what_waits_and_is_told_itself() -> None:
    got = await read_slowly(
        ModelStarted(correlation_id="c1", iteration=0, message_count=1),
        text("wro"),
        text("x", "c2"),
        text("ng"),
        progress(1),
        retracted("c1"),
        Retrying(correlation_id="c1", attempt=2, reason="busy"),
        text("right"),
    )
    assert got == ["c2:x", "-c1", "Retrying", "c1:right"]


async def test_a_retraction_never_takes_back_a_fact() -> None:
    assert await read_slowly(replied("a"), dug(), retracted("c1")) == ["#c1:a", "#c1", "-c1"]


async def test_words_after_a_retraction_are_not_joined_to_those_before_it() -> None:
    feed = feed_of()
    reader = feed.read()
    turn = feed.turn("t1")
    turn.show(text("wrong"))
    assert told(await waiting_for(reader)) == ["c1:wrong"]
    turn.show(text(" words"))
    turn.show(retracted("c1"))
    turn.show(text("right"))
    assert told(await waiting_for(reader)) == ["-c1", "c1:right"]


async def test_a_waiting_retraction_that_a_later_one_covers_is_not_told_twice() -> None:
    got = await read_slowly(retracted("c1"), text("a"), fact(1), retracted("c1", "c2"))
    assert got == ["#1", "-c1,c2"]
    assert await read_slowly(retracted("c1", "c2"), text("a"), retracted("c1")) == ["-c1,c2", "-c1"]


# --- bounds -----------------------------------------------------------------------------------


def tick(n: int) -> PluginEvent:
    return PluginEvent(plugin="p", name="tick", data=n)


async def test_of_too_many_previews_the_oldest_are_forgotten_and_facts_are_not() -> None:
    feed = feed_of()
    reader = feed.read()
    turn = feed.turn("t1")
    turn.show(fact(1))
    for n in range(MAX_PREVIEWS + 3):
        turn.show(tick(n))
    turn.show(fact(2))
    first, *ticks, last = await waiting_for(reader)
    assert told([first, last]) == ["#1", "#2"]
    assert [event.data for event in ticks if isinstance(event, PluginEvent)] == [
        *range(3, MAX_PREVIEWS + 3)
    ]


async def test_a_retraction_is_not_forgotten() -> None:
    feed = feed_of()
    reader = feed.read()
    turn = feed.turn("t1")
    turn.show(text("wrong"))
    await waiting_for(reader)
    turn.show(retracted("c1"))
    for n in range(MAX_PREVIEWS + 3):
        turn.show(tick(n))
    assert told([await anext(reader)]) == ["-c1"]


async def test_a_fresh_view_is_not_forgotten_nor_taken_back() -> None:
    feed = feed_of()
    reader = feed.read()
    turn = feed.turn("t1")
    turn.show(Recovered(correlation_id="c1"))
    turn.show(retracted("c1"))
    for n in range(MAX_PREVIEWS + 3):
        turn.show(tick(n))
    assert told([await anext(reader), await anext(reader)]) == ["Recovered", "-c1"]


async def test_what_waits_for_a_reader_that_never_reads_stays_bounded() -> None:
    feed = feed_of()
    reader = feed.read()
    turn = feed.turn("t1")
    for n in range(3 * MAX_PREVIEWS):
        turn.show(text("a", f"c{n % 2}"))
        turn.show(progress(n, f"d{n}"))
        turn.show(retracted("c0"))
    waiting = reader._waiting
    assert len(waiting) <= MAX_PREVIEWS + 1
    assert len(waiting._previews) == MAX_PREVIEWS
    assert len(waiting._about) <= MAX_PREVIEWS
    assert len(waiting._progress) <= MAX_PREVIEWS
    assert len(waiting._retractions) == 1


async def test_a_drained_reader_keeps_nothing() -> None:
    feed = feed_of()
    reader = feed.read()
    turn = feed.turn("t1")
    seen = (text("a"), progress(1), tick(1), retracted("c9"), Recovered(), fact(1), text("b"))
    for event in seen:
        turn.show(event)
    await waiting_for(reader)
    waiting = reader._waiting
    kept = (waiting._slots, waiting._previews, waiting._about)
    assert [len(each) for each in (*kept, waiting._progress, waiting._retractions)] == [0] * 5
    assert waiting._last is None


# --- waiting and leaving ----------------------------------------------------------------------


async def test_a_reader_that_waits_is_woken_by_the_next_event() -> None:
    feed = feed_of()
    reader = feed.read()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(anext(reader))
        await passes()
        assert not task.done()
        feed.turn("t1").show(fact(1))
        await passes()
        assert task.done()
    assert told([task.result()]) == ["#1"]


async def test_a_read_that_is_cancelled_loses_nothing() -> None:
    feed = feed_of()
    reader = feed.read()
    turn = feed.turn("t1")
    async with asyncio.TaskGroup() as group:
        for n in range(2):
            task = group.create_task(anext(reader))
            await passes()
            if n:
                turn.show(fact(n))  # it is woken, and cancelled before it runs
            task.cancel()
            await passes()
            assert task.cancelled()
    turn.show(fact(2))
    assert told(await waiting_for(reader)) == ["#1", "#2"]


@pytest.mark.parametrize("n_waiting", [0, 2])
async def test_a_closed_reader_ends_at_once_even_one_that_waits(n_waiting: int) -> None:
    feed = feed_of()
    reader = feed.read()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(rest_of(reader))
        await passes()
        for n in range(n_waiting):
            feed.turn("t1").show(fact(n))
        reader.close()
        await passes()
        assert task.done()
    assert task.result() == []
    reader.close()
    assert await rest_of(reader) == []


async def test_a_reader_that_was_left_or_dropped_is_let_go() -> None:
    feed = feed_of()
    turn = feed.turn("t1")
    closed, dropped = feed.read(), feed.read()
    closed.close()
    del dropped
    gc.collect()
    turn.show(fact(1))
    assert feed._readers == []
    for _ in range(100):  # also in a session in which nothing happens
        feed.read().close()
    assert len(feed._readers) == 1


async def test_closing_the_feed_ends_all_readers_behind_what_waits_for_them() -> None:
    feed = feed_of()
    start = feed.cursor
    reader, idle = feed.read(), feed.read()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(rest_of(idle))
        await passes()
        feed.turn("t1").show(fact(1))
        feed.turn("t1").hold(fact(2), until=1)
        feed.close()
    assert told(task.result()) == ["#1"]
    assert told(await rest_of(reader)) == ["#1"]
    assert await rest_of(feed.read()) == []
    assert told(await rest_of(feed.read(start))) == ["#1"]

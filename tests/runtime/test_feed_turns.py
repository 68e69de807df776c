"""A turn on the feed: refused lanes, ends, readers that stop with it, and progress from threads."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.runtime.feeds import (
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
from tests.runtime.lanes import passes
from windlass.kernel import Error, Event, Recovered, Retracted, Usage, UsageReported, WaitOpened
from windlass.runtime.feed import SessionFeed

# --- a refused lane ---------------------------------------------------------------------------


async def test_what_was_held_by_a_refused_lane_is_never_shown_nor_what_stands_behind_it() -> None:
    feed = feed_of()
    reader = feed.read()
    turn = feed.turn("t1")
    turn.show(text("I will dig"))
    turn.hold(replied("I will dig"), until=1)
    turn.show(progress(1, "c2"))
    turn.drop_held()
    turn.durable(1)
    assert told(await waiting_for(reader)) == ["-c1"]
    assert told(await waiting_for(feed.read("f1.0"))) == ["-c1"]


async def test_a_reader_that_saw_the_previews_is_told_to_forget_them() -> None:
    feed = feed_of()
    reader = feed.read()
    turn = feed.turn("t1")
    turn.show(text("a", "c1"))
    turn.show(progress(1, "c2"))
    assert len(await waiting_for(reader)) == 2
    turn.drop_held()
    (event,) = await waiting_for(reader)
    assert isinstance(event, Retracted)
    assert (event.correlation_ids, event.cursor) == (("c1", "c2"), "f1.3")
    # The digits are what `printf s/t1 | sha256sum` begins with.
    assert event.id == "e_bf3747024a671a70.retracted.f1.2"


@pytest.mark.parametrize(
    "end",
    [
        replied("a"),
        dug("c1"),
        Error(correlation_id="c1", message="no"),
        UsageReported(correlation_id="c1", iteration=0, usage=Usage(), cumulative=Usage()),
        Retracted(correlation_ids=("c1",)),
        Recovered(),
        ended(),
    ],
    ids=lambda event: type(event).__name__,
)
async def test_previews_of_a_call_that_has_ended_are_not_taken_back(end: Event) -> None:
    feed = feed_of()
    turn = feed.turn("t1")
    turn.show(text("a", "c1"))
    turn.show(end)
    reader = feed.read()
    turn.drop_held()
    assert told(await waiting_for(reader)) == []


async def test_a_fact_about_a_call_that_goes_on_does_not_end_it() -> None:
    feed = feed_of()
    turn = feed.turn("t1")
    turn.show(progress(1))
    turn.show(WaitOpened(correlation_id="c1", key="w_1", kind="deferred"))
    turn.show(dug("c2"))
    reader = feed.read()
    turn.drop_held()
    assert told(await waiting_for(reader)) == ["-c1"]


async def test_a_held_end_of_a_call_that_was_dropped_has_not_ended_it() -> None:
    feed = feed_of()
    reader = feed.read()
    turn = feed.turn("t1")
    turn.show(progress(1))
    await waiting_for(reader)
    turn.hold(dug(), until=1)
    turn.drop_held()
    assert told(await waiting_for(reader)) == ["-c1"]


async def test_a_refused_turn_without_previews_retracts_nothing() -> None:
    feed = feed_of()
    turn = feed.turn("t1")
    turn.show(fact(1))
    turn.hold(fact(2), until=1)
    turn.drop_held()
    turn.drop_held()
    assert feed.position == 1


async def test_a_refused_turn_leaves_the_other_turns_what_they_hold() -> None:
    feed = feed_of()
    reader = feed.read()
    first, second, third = feed.turn("t1"), feed.turn("t2"), feed.turn("t3")
    second.show(text("x", "c2"))
    await waiting_for(reader)
    first.hold(fact(1), until=1)
    second.hold(fact(2), until=1)
    third.show(fact(3))
    second.hold(fact(4), until=2)
    third.show(fact(5))
    second.drop_held()
    assert told(await waiting_for(reader)) == []
    first.durable(1)
    assert told(await waiting_for(reader)) == ["#1", "-c2", "#3", "#5"]


async def test_what_stood_behind_a_dropped_fact_passes_at_once() -> None:
    feed = feed_of()
    reader = feed.read()
    feed.turn("t1").hold(fact(1), until=1)
    feed.turn("t2").show(fact(2))
    feed.turn("t1").drop_held()
    assert told(await waiting_for(reader)) == ["#2"]


async def test_stragglers_of_a_refused_drive_are_not_shown_and_the_next_drive_counts_anew() -> None:
    feed = feed_of()
    reader = feed.read()
    old = feed.turn("t1")
    old.durable(7)
    old.drop_held()
    old.show(text("late"))
    old.show(fact(1))
    old.hold(fact(2), until=0)
    new = feed.turn("t1")
    assert new is not old
    new.hold(fact(3), until=1)
    old.durable(9)
    assert told(await waiting_for(reader)) == []
    new.durable(1)
    assert told(await waiting_for(reader)) == ["#3"]


# --- readers that end with a turn -------------------------------------------------------------


async def test_a_reader_of_a_turn_ends_behind_its_last_event() -> None:
    feed = feed_of()
    reader, other = feed.read(until="t1"), feed.read(until="t2")
    turn = feed.turn("t1")
    turn.hold(fact(1), until=1)
    turn.hold(ended(), until=2)
    feed.turn("t2").show(fact(2))
    turn.durable(2)
    turn.show(fact(3))
    assert told(await rest_of(reader)) == ["#1", "TurnEnded"]
    assert told(await waiting_for(other)) == ["#1", "TurnEnded", "#2", "#3"]
    assert feed._readers == [other._waiting]


async def test_a_reader_of_a_turn_that_parks_ends_behind_what_was_handed_in() -> None:
    feed = feed_of()
    reader = feed.read(until="t1")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(rest_of(reader))
        turn = feed.turn("t1")
        turn.show(fact(1))
        turn.hold(fact(2), until=1)
        turn.end()
        turn.show(text("late"))
        await passes()
        assert not task.done()
        turn.durable(1)
        await passes()
        assert task.done()
    assert told(task.result()) == ["#1", "#2"]


async def test_a_preview_of_a_turn_that_has_gone_is_not_shown_and_a_fact_of_it_is() -> None:
    feed = feed_of()
    reader = feed.read()
    turn = feed.turn("t1")
    turn.end()
    turn.show(progress(1))
    turn.hold(fact(1), until=1)
    turn.durable(1)
    assert told(await waiting_for(reader)) == ["#1"]


async def test_a_reader_that_waits_ends_when_its_turn_is_given_up() -> None:
    feed = feed_of()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(rest_of(feed.read(until="t1")))
        await passes()
        feed.turn("t1").end()
    assert task.result() == []


@pytest.mark.parametrize("ends_first", [True, False])
async def test_the_retraction_of_a_turn_that_is_given_up_reaches_its_readers(
    ends_first: bool,
) -> None:
    feed = feed_of()
    reader = feed.read(until="t1")
    turn = feed.turn("t1")
    turn.show(text("a"))
    await waiting_for(reader)
    turn.hold(fact(1), until=1)
    for step in [turn.end, turn.drop_held][:: 1 if ends_first else -1]:
        step()
    assert told(await rest_of(reader)) == ["-c1"]


async def test_a_reader_may_come_after_the_turn_has_ended() -> None:
    feed = feed_of()
    turn = feed.turn("t1")
    turn.show(fact(1))
    turn.show(ended())
    feed.turn("t2").show(fact(2))
    assert await rest_of(feed.read(until="t1")) == []
    assert told(await rest_of(feed.read("f1.0", until="t1"))) == ["#1", "TurnEnded"]
    assert await rest_of(feed.read("f1.2", until="t1")) == []


async def test_a_turn_that_parked_and_goes_on_is_read_on() -> None:
    feed = feed_of()
    feed.turn("t1").show(fact(1))
    feed.turn("t1").end()
    feed.turn("t0").show(fact(0))
    assert told(await rest_of(feed.read("f1.0", until="t1"))) == ["#1"]
    again = feed.turn("t1")
    reader = feed.read("f1.0", until="t1")
    again.show(fact(2))
    again.show(ended())
    assert told(await rest_of(reader)) == ["#1", "#0", "#2", "TurnEnded"]


async def test_the_end_of_an_earlier_drive_does_not_end_readers_of_the_next_one() -> None:
    feed = feed_of()
    reader = feed.read(until="t1")
    old = feed.turn("t1")
    old.drop_held()
    new = feed.turn("t1")
    old.end()
    new.show(fact(1))
    new.show(ended())
    assert told(await rest_of(reader)) == ["#1", "TurnEnded"]


async def test_a_reader_may_want_the_events_of_one_turn_only() -> None:
    feed = feed_of()
    feed.turn("t1").show(text("a"))
    feed.turn("t2").show(fact(1))
    reader = feed.read("f1.0", only="t2", until="t2")
    feed.turn("t1").show(ended())
    feed.turn("t2").show(ended())
    assert told(await rest_of(reader)) == ["#1", "TurnEnded"]


async def test_a_turn_has_one_feed_for_as_long_as_it_is_driven() -> None:
    feed = feed_of()
    turn = feed.turn("t1")
    assert feed.turn("t1") is turn
    turn.show(ended())
    assert feed.turn("t1") is not turn


async def test_a_feed_forgets_turns_that_ended_long_ago() -> None:
    feed = feed_of()
    for n in range(1_000):
        turn = feed.turn(f"t{n}")
        turn.show(ended())
        turn.end()
    assert feed._live == {}
    assert len(feed._ended) == 256
    assert await rest_of(feed.read(until="t999")) == []


# --- threads ----------------------------------------------------------------------------------


async def test_progress_from_a_thread_is_shown_on_the_loop_in_order() -> None:
    feed = feed_of()
    reader = feed.read()
    turn = feed.turn("t1")
    shown_on: list[int] = []
    show = turn.show

    def watched(event: Event) -> None:
        shown_on.append(threading.get_ident())
        show(event)

    turn.show = watched  # type: ignore[method-assign]  # to see who calls it

    def dig() -> None:
        for n in range(100):
            turn.show_threadsafe(progress(n, f"c{n}"))

    await asyncio.to_thread(dig)
    await passes()
    assert told(await waiting_for(reader)) == [f"c{n}={n}" for n in range(100)]
    assert set(shown_on) == {threading.get_ident()}


def test_progress_from_a_thread_that_outlives_the_loop_is_not_an_error() -> None:
    async def live() -> SessionFeed:
        feed = feed_of()
        feed.turn("t1").show(progress(1))
        return feed

    feed = asyncio.run(live())
    feed.turn("t1").show_threadsafe(progress(2))
    assert feed.position == 1

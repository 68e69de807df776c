"""Cursors: every event is a place to go on from, here and in other processes, without a hole or a double."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.payers import payer, script
from tests.scenarios.stage import DAY_S, Desk, Stage
from tests.scenarios.workers import echo, worker
from windlass import Agent, Runtime
from windlass.errors import InvalidInput, UnknownSession
from windlass.kernel import ModelReply, ModelRequest, events
from windlass.kernel.events import Event
from windlass.ports import EmitModelEvent, TextChunk
from windlass.testing import ScriptedModel, call, calls, say


def facts(seen: Sequence[Event]) -> list[tuple[str, str]]:
    return [(type(one).__name__, one.id) for one in seen if not one.preview]


async def observed(
    rt: Runtime[Any], session_id: str, n_ends: int, cursor: str | None
) -> list[Event]:
    """Return what is seen from a cursor on until so many turns have ended."""
    seen: list[Event] = []
    async with asyncio.timeout(HANGS_S), rt.session(session_id).observe(cursor) as watched:
        while n_ends:
            event = await anext(aiter(watched))
            seen.append(event)
            n_ends -= isinstance(event, events.TurnEnded)
    return seen


def talker() -> Agent[None, str]:
    """Return an agent of several iterations: parallel calls, text between them, and an end."""
    model = ScriptedModel(
        [
            say("First."),
            calls(("work", {"n": 1}), ("work", {"n": 2})),
            call("work", n=3),
            say("Second."),
            say("Third."),
        ],
        chunks=2,
    )
    return worker(Desk(), model)


async def three_turns(rt: Runtime[Any]) -> list[Event]:
    """Run three turns of a session and return all that an observer in the driving process sees."""
    session, seen = rt.session("s"), list[Event]()
    async with asyncio.timeout(HANGS_S), session.observe() as watched:
        for n in range(3):
            await session.run(f"Turn {n}.", turn_id=f"t{n}")
        async for event in watched:
            seen.append(event)
            if sum(isinstance(one, events.TurnEnded) for one in seen) == 3:
                break
    return seen


async def test_every_cursor_gives_exactly_the_rest_in_the_process_that_drove(stage: Stage) -> None:
    async with stage.runtime(talker()) as rt:
        whole = await three_turns(rt)
        for at, event in enumerate(whole[:-1]):
            rest = whole[at + 1 :]
            n_ends = sum(isinstance(one, events.TurnEnded) for one in rest)
            again = await observed(rt, "s", n_ends, event.cursor)
            assert [one.id for one in again if not one.preview] == [
                one.id for one in rest if not one.preview
            ]
            assert "".join(
                one.text for one in again if isinstance(one, events.TextDelta)
            ) == "".join(one.text for one in rest if isinstance(one, events.TextDelta))


async def test_every_cursor_gives_exactly_the_rest_of_the_facts_in_another_process(
    stage: Stage,
) -> None:
    async with stage.runtime(talker()) as rt:
        whole = await three_turns(rt)
    async with stage.runtime(worker=False) as other:
        for at, event in enumerate(whole[:-1]):
            rest = whole[at + 1 :]
            n_ends = sum(isinstance(one, events.TurnEnded) for one in rest)
            again = await observed(other, "s", n_ends, event.cursor)
            assert facts(again) == facts(rest)
            assert not any(one.preview for one in again)


async def test_a_cursor_from_the_store_goes_on_in_the_process_that_drives(stage: Stage) -> None:
    desk = Desk(is_open=False)
    model = ScriptedModel([call("work", n=1), call("work", n=2), say("Done.")])
    agent = worker(desk, model)
    async with stage.runtime(agent) as rt, stage.runtime(worker=False) as other:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        await asyncio.wait_for(desk.entered.wait(), HANGS_S)
        async with asyncio.timeout(HANGS_S), other.session("s").observe(handle.cursor) as elsewhere:
            first = await anext(aiter(elsewhere))
        desk.gate.set()
        again = await observed(rt, "s", 1, first.cursor)
        whole = await observed(other, "s", 1, handle.cursor)

    assert facts([first, *again]) == facts(whole)
    assert len({one.id for one in again if not one.preview}) == len(facts(again))


async def test_the_cursor_of_submit_is_from_before_its_turn(stage: Stage) -> None:
    async with stage.runtime(Agent("a", model=echo())) as rt:
        await rt.session("s").run("Zero.", turn_id="t0")
        handle = await rt.session("s").submit("One.", turn_id="t1")
        await handle.result(timeout=HANGS_S)
        seen = [event async for event in handle.events()]
        again = [event async for event in handle.events(handle.cursor)]
        session = await observed(rt, "s", 1, handle.cursor)
    async with stage.runtime(worker=False) as other:
        elsewhere = [event async for event in other.turn("s", "t1").events(handle.cursor)]
        whole = [event async for event in other.turn("s", "t1").events()]

    assert [type(one).__name__ for one in seen if not one.preview] == [
        "UsageReported", "ModelFinished", "TurnEnded",
    ]  # fmt: skip
    assert facts(seen) == facts(again) == facts(session) == facts(elsewhere) == facts(whole)


async def test_a_turn_that_is_not_known_raises_before_its_first_event(stage: Stage) -> None:
    async with stage.runtime(Agent("a", model=echo())) as rt:
        await rt.session("s").run("Hi.", turn_id="t")
        with pytest.raises(UnknownSession):
            await anext(rt.turn("s", "no-such-turn").events())
        with pytest.raises(UnknownSession):
            await anext(rt.turn("no-such-session", "t").events())


@pytest.mark.parametrize("cursor", [
    "", "x", "/", "//", "///", "a/b/c", "00000000.7", "00000000.7/t", "00000000.7//x/y/z", "\x00", "ü/t/1",
    "00000000.99999999999999999999/t/1", "00000000.7/" + "t" * 129 + "/1", "00000000.7/t t/1", "9" * 10_000,
])  # fmt: skip
async def test_damaged_cursors_are_refused(memory_stage: Stage, cursor: str) -> None:
    async with memory_stage.runtime(Agent("a", model=echo())) as rt:
        await rt.session("s").run("Hi.", turn_id="t")
        with pytest.raises(InvalidInput) as refused:
            rt.session("s").observe(cursor)
        assert refused.value.field == "cursor"
        with pytest.raises(InvalidInput):
            rt.turn("s", "t").events(cursor)


@pytest.mark.parametrize("cursor", [7, b"x", ["x"]])
async def test_what_is_not_text_is_no_cursor(memory_stage: Stage, cursor: object) -> None:
    async with memory_stage.runtime(Agent("a", model=echo())) as rt:
        await rt.session("s").run("Hi.", turn_id="t")
        with pytest.raises(InvalidInput):
            rt.session("s").observe(cursor)  # type: ignore[arg-type]  # that is the point


async def test_cursors_of_other_sessions_and_turns_are_refused(stage: Stage) -> None:
    async with stage.runtime(Agent("a", model=echo())) as rt:
        for name in ("s1", "s2"):
            for turn_id in ("t1", "t2"):
                await rt.session(name).run("Hi.", turn_id=turn_id)
        foreign = [event async for event in rt.turn("s1", "t1").events()]
        for event in foreign:
            with pytest.raises(InvalidInput):
                rt.session("s2").observe(event.cursor)
            with pytest.raises(InvalidInput):
                rt.turn("s1", "t2").events(event.cursor)
            # The same words with the name of this session's own turn are still of another session.
            with pytest.raises(InvalidInput):
                rt.turn("s2", "t1").events(event.cursor)


async def test_a_fact_that_never_was_is_refused_before_the_first_event(stage: Stage) -> None:
    async with stage.runtime(Agent("a", model=echo())) as rt:
        await rt.session("s").run("Hi.", turn_id="t")
        seen = [event async for event in rt.turn("s", "t").events()]
        real = seen[0].cursor
        head, _, _ = real.rpartition("/")
        for suffix in ("99", "wait7", "end.over", "1.1.1.1"):
            with pytest.raises(InvalidInput):
                async with rt.session("s").observe(f"{head}/{suffix}"):
                    pass


async def test_once_a_journal_is_gone_its_cursors_have_a_gap_and_its_end_has_none(
    stage: Stage,
) -> None:
    async with stage.runtime(Agent("a", model=echo()), retention=DAY_S) as rt:
        await rt.session("s").run("Hi.", turn_id="t")
        seen = [event async for event in rt.turn("s", "t").events()]
        stage.later(3 * DAY_S)
        await rt.vacuum()
        async with rt.session("s").observe(seen[0].cursor) as watched:
            assert watched.has_gap
            assert len(watched.committed) == 2
        async with rt.session("s").observe(seen[-1].cursor) as watched:
            assert not watched.has_gap
        left = [event async for event in rt.turn("s", "t").events()]

        rest = [event async for event in rt.turn("s", "t").events(left[-1].cursor)]

    assert [type(one).__name__ for one in left] == ["Recovered", "TurnEnded"]
    # A browser keeps the last cursor that it was sent; it is never sent an empty one.
    assert left[0].cursor == rt.turn("s", "t").cursor
    assert left[1].cursor == seen[-1].cursor.replace(seen[-1].cursor.split("/")[1], "")
    assert rest == []


async def test_a_parked_turn_of_another_process_is_seen_whole_when_this_one_takes_it_over(
    stage: Stage,
) -> None:
    async with stage.runtime(payer(Desk(), script())) as rt:
        parked = await rt.session("s").run("Pay.", turn_id="t")
    async with stage.runtime(payer(Desk(), ScriptedModel([say("Done.")]))) as other:
        cursor = other.turn("s", "t").cursor
        async with asyncio.timeout(HANGS_S), other.session("s").observe(cursor) as watched:
            await other.approve(parked.waits[0].key)
            seen: list[Event] = []
            async for event in watched:
                seen.append(event)
                if isinstance(event, events.TurnEnded):
                    break
        whole = [event async for event in other.turn("s", "t").events()]

    assert facts(seen) == facts(whole)
    names = [name for name, _ in facts(seen)]
    assert names[:3] == ["UsageReported", "ModelFinished", "WaitOpened"]
    assert names.count("WaitResolved") == 1


async def test_an_observer_that_comes_late_gets_the_words_of_the_call_in_flight(
    stage: Stage,
) -> None:
    said, go_on = asyncio.Event(), asyncio.Event()

    class Halting:
        name = "halting"

        async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
            for word in ("I ", "found ", "it"):
                emit(TextChunk(text=word))
            said.set()
            await go_on.wait()
            emit(TextChunk(text=", booking."))
            return ModelReply(text="I found it, booking.")

    async with stage.runtime(Agent("a", model=Halting())) as rt:
        handle = await rt.session("s").submit("Find it.", turn_id="t")
        await asyncio.wait_for(said.wait(), HANGS_S)
        async with asyncio.timeout(HANGS_S), rt.session("s").observe() as watched:
            go_on.set()
            seen: list[Event] = []
            async for event in watched:
                seen.append(event)
                if isinstance(event, events.TurnEnded):
                    break
        await handle.result(timeout=HANGS_S)

    assert isinstance(seen[0], events.ModelStarted)
    words = "".join(one.text for one in seen if isinstance(one, events.TextDelta))
    assert words == "I found it, booking."


async def test_the_cursor_of_a_queued_turn_shows_nothing_of_the_turn_before_it(
    stage: Stage,
) -> None:
    desk = Desk(is_open=False)
    model = ScriptedModel([call("work"), say("First."), say("Second.")])
    async with stage.runtime(worker(desk, model)) as rt:
        first = await rt.session("s").submit("One.", turn_id="t1")
        await asyncio.wait_for(desk.entered.wait(), HANGS_S)
        second = await rt.session("s").submit("Two.", turn_id="t2")
        async with asyncio.timeout(HANGS_S), rt.session("s").observe(second.cursor) as watched:
            desk.gate.set()
            seen = [await anext(aiter(watched))]
            while not isinstance(seen[-1], events.TurnEnded):
                seen.append(await anext(aiter(watched)))
        await first.result(timeout=HANGS_S)
        whole = [event async for event in second.events()]

    assert facts(seen) == facts(whole)


async def test_an_observer_of_a_session_that_is_deleted_comes_to_its_end(stage: Stage) -> None:
    async with stage.runtime(Agent("a", model=echo())) as rt:
        await rt.session("s").run("Hi.", turn_id="t")
        async with stage.runtime(worker=False) as other, other.session("s").observe() as watched:
            await rt.session("s").delete()
            async with asyncio.timeout(HANGS_S):
                assert [event async for event in watched] == []


async def test_an_observer_misses_nothing_of_a_turn_that_its_own_process_takes_over(
    stage: Stage,
) -> None:
    seen: list[Event] = []
    model = ScriptedModel([call("pay", cents=5), say("Done.")])
    async with (
        asyncio.timeout(HANGS_S),
        stage.runtime(payer(Desk(), model)) as here,
        here.session("s").observe() as watched,
    ):
        async with stage.runtime(payer(Desk(), script())) as elsewhere:
            parked = await elsewhere.session("s").run("Pay.", turn_id="t")
        # It goes on here before anything of it was noticed here.
        await here.approve(parked.waits[0].key)
        async for event in watched:
            seen.append(event)
            if isinstance(event, events.TurnEnded):
                break

    facts = [type(event).__name__ for event in seen if not event.preview]
    assert facts == [
        "UsageReported", "ModelFinished", "WaitOpened", "WaitResolved", "ToolFinished",
        "UsageReported", "ModelFinished", "TurnEnded",
    ]  # fmt: skip

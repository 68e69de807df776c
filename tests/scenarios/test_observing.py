"""Observing a session: what is committed, what is in flight, then events; and the phases of a turn."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.payers import payer, script
from tests.scenarios.stage import Desk, Stage, until
from tests.scenarios.workers import echo, worker
from windlass import Runtime, Session
from windlass.errors import InvalidInput
from windlass.kernel import Message, events
from windlass.kernel.events import Event
from windlass.kernel.outcomes import Finished
from windlass.ports.probe import Phase
from windlass.testing import ScriptedModel, call, say


def roles(messages: tuple[Message, ...]) -> list[str]:
    return [message.role for message in messages]


async def until_ended(
    session: Session[str], n_turns: int, cursor: str | None = None
) -> list[Event]:
    """Return what is seen until so many turns have ended."""
    seen: list[Event] = []
    async with session.observe(cursor) as watched:
        async for event in watched:
            seen.append(event)
            n_turns -= isinstance(event, events.TurnEnded)
            if n_turns == 0:
                break
    return seen


async def test_an_observer_gets_the_committed_view_then_what_is_in_flight(stage: Stage) -> None:
    desk = Desk(is_open=False)
    model = ScriptedModel([say("Hi."), call("work"), say("Done.")])
    async with stage.runtime(worker(desk, model)) as rt:
        session = rt.session("s")
        await session.run("Hello.", turn_id="t1")
        await session.submit("Go.", turn_id="t2")
        await desk.entered.wait()
        async with session.observe() as seen:
            assert roles(seen.committed) == ["user", "assistant"]
            assert roles(seen.provisional) == ["user", "assistant"]
            assert not seen.has_gap
            desk.gate.set()
            async for event in seen:
                if isinstance(event, events.TurnEnded):
                    assert event.outcome == Finished(text="Done.")
                    break
        async with session.observe() as seen:
            assert len(seen.committed) == 6
            assert seen.provisional == ()


async def test_an_observer_sees_turn_after_turn(stage: Stage) -> None:
    async with stage.runtime(worker(Desk(), echo())) as rt:
        session = rt.session("s")
        await session.run("Zero.", turn_id="t0")
        async with session.observe() as watched:
            cursor = watched.cursor  # the observer is there before the turns are
            watching = asyncio.get_running_loop().create_task(until_ended(session, 2, cursor))
            await session.run("One.", turn_id="t1")
            await session.run("Two.", turn_id="t2")
            seen = await asyncio.wait_for(watching, HANGS_S)

    ended = [event.outcome for event in seen if isinstance(event, events.TurnEnded)]
    assert ended == [Finished(text="You said: One."), Finished(text="You said: Two.")]


async def test_an_observers_cursor_goes_on_over_turns(stage: Stage) -> None:
    async with stage.runtime(worker(Desk(), echo())) as rt:
        session = rt.session("s")
        async with session.observe() as seen:
            cursor = seen.cursor
        await session.run("One.", turn_id="t1")
        await session.run("Two.", turn_id="t2")
        whole = await until_ended(session, 2, cursor)
        async with session.observe(whole[3].cursor) as seen:
            assert not seen.has_gap
        rest = await until_ended(session, 2 if len(whole) > 8 else 1, whole[3].cursor)

    assert [event.id for event in rest] == [event.id for event in whole[4:]]


async def test_an_observer_with_a_strange_cursor_is_refused(stage: Stage) -> None:
    async with stage.runtime(worker(Desk(), echo())) as rt:
        session = rt.session("s")
        await session.run("One.", turn_id="t1")
        with pytest.raises(InvalidInput):
            session.observe("00000000.7")


async def test_after_two_minutes_the_live_past_is_gone_and_a_cursor_goes_on_by_its_place(
    stage: Stage,
) -> None:
    async with stage.runtime(worker(Desk(), echo())) as rt:
        session = rt.session("s")
        async with session.observe() as seen:
            cursor = seen.cursor
        await session.run("One.", turn_id="t1")
        stage.later(121)
        async with session.observe(cursor) as seen:
            assert not seen.has_gap
            assert len(seen.committed) == 2
        again = await until_ended(session, 1, cursor)

    assert [type(event).__name__ for event in again] == [
        "UsageReported", "ModelFinished", "TurnEnded",
    ]  # fmt: skip


async def test_a_turn_in_another_process_is_observed_by_its_facts(stage: Stage) -> None:
    desk = Desk(is_open=False)
    model = ScriptedModel([say("Hi."), call("work"), say("Done.")])
    agent = worker(desk, model)
    async with stage.runtime(agent) as rt, stage.runtime(agent, worker=False) as other:
        await rt.session("s").run("Hello.", turn_id="t1")
        watching = asyncio.get_running_loop().create_task(until_ended(other.session("s"), 1))
        await rt.session("s").submit("Go.", turn_id="t2")
        await desk.entered.wait()
        desk.gate.set()
        seen = await asyncio.wait_for(watching, HANGS_S)

    last = seen[-1]
    assert isinstance(last, events.TurnEnded)
    assert last.outcome == Finished(text="Done.")
    assert not any(event.preview for event in seen if not isinstance(event, events.Recovered))


async def test_a_handle_shows_the_messages_of_a_turn_in_flight(stage: Stage) -> None:
    desk, model = Desk(is_open=False), ScriptedModel([call("work"), say("Done.")])
    async with stage.runtime(worker(desk, model)) as rt:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        before = await handle.messages()
        desk.gate.set()
        await handle.result(timeout=HANGS_S)
        after = await handle.messages()
        history = await rt.session("s").history()

    assert roles(before) == ["user", "assistant"]
    assert after == history
    assert before == after[:2]


class Probe:
    """Keeps what it is told; may break."""

    def __init__(self, *, breaks: bool = False) -> None:
        self.seen: list[tuple[str, Phase]] = []
        self._breaks = breaks

    def begin(self, phase: Phase, session_id: str, turn_id: str) -> None:
        assert (session_id, turn_id) == ("s", "t")
        self.seen.append(("begin", phase))
        if self._breaks:
            raise RuntimeError("the probe broke")

    def end(self, phase: Phase, session_id: str, turn_id: str) -> None:
        self.seen.append(("end", phase))
        if self._breaks:
            raise RuntimeError("the probe broke")


async def test_a_probe_sees_every_phase_begin_and_end(stage: Stage) -> None:
    probe = Probe()
    async with stage.runtime(worker(Desk(), echo()), probe=probe) as rt:
        await rt.session("s").run("work", turn_id="t")

    begun = [phase for moment, phase in probe.seen if moment == "begin"]
    ended = [phase for moment, phase in probe.seen if moment == "end"]
    assert sorted(begun) == sorted(ended)
    assert list(dict.fromkeys(begun)) == [
        "context", "hooks", "prompt", "effects", "finalize", "commit",
    ]  # fmt: skip


async def test_phases_end_also_when_the_turn_parks(stage: Stage) -> None:
    probe = Probe()
    async with stage.runtime(payer(Desk(), script()), probe=probe) as rt:
        await rt.session("s").run("Pay.", turn_id="t")

    begun = [phase for moment, phase in probe.seen if moment == "begin"]
    ended = [phase for moment, phase in probe.seen if moment == "end"]
    assert sorted(begun) == sorted(ended)
    assert "effects" in begun
    assert "commit" not in begun


async def test_a_probe_that_breaks_breaks_no_turn(stage: Stage) -> None:
    probe = Probe(breaks=True)
    async with stage.runtime(worker(Desk(), echo()), probe=probe) as rt:
        result = await rt.session("s").run("work", turn_id="t")

    assert result.text == "worked"
    assert probe.seen != []


@pytest.mark.parametrize("n_readers", [50])
async def test_many_observers_that_leave_cost_nothing(memory_stage: Stage, n_readers: int) -> None:
    async with memory_stage.runtime(worker(Desk(), echo())) as rt:
        session = rt.session("s")
        await session.run("Zero.", turn_id="t0")
        for _ in range(n_readers):
            async with session.observe():
                pass
        result = await session.run("One.", turn_id="t1")

    assert result.text == "You said: One."


def looks_of(rt: Runtime[str]) -> list[bool]:
    """Return what grows with each look at a session: whether its history was wanted."""
    store: Any = rt._services.store
    load, looks = store.load_session, list[bool]()

    async def counted(session_id: str, *, history: bool = True) -> Any:  # noqa: ANN401 - as the store says
        looks.append(history)
        return await load(session_id, history=history)

    store.load_session = counted
    return looks


async def test_a_turn_that_runs_here_is_seen_to_end_once(stage: Stage) -> None:
    shown: list[Event] = []

    async def watch(session: Session[str]) -> None:
        async with session.observe() as seen:
            async for event in seen:
                shown.append(event)  # noqa: PERF401 - it is stopped in the middle

    def n_ends() -> int:
        return sum(isinstance(event, events.TurnEnded) for event in shown)

    async with stage.runtime(worker(Desk(), echo())) as rt:
        session = rt.session("s")
        await session.run("Hello.")
        watching = asyncio.ensure_future(watch(session))
        await until(lambda: rt._services.feeds.of("s").has_readers)
        for number, words in enumerate(("And?", "More."), 1):
            await session.run(words)
            await until(lambda: n_ends() == number)  # noqa: B023 - it is asked at once
        await until(lambda: rt._worker.watch.looks > 0)  # the store has told of it, too
        watching.cancel()

    ends = [event for event in shown if isinstance(event, events.TurnEnded)]
    assert [end.outcome for end in ends] == [
        Finished(text="You said: And?"), Finished(text="You said: More."),
    ]  # fmt: skip
    assert all(event.id and event.cursor for event in shown)


async def test_watching_a_session_in_which_nothing_happens_reads_its_history_once(
    stage: Stage,
) -> None:
    async with stage.runtime(worker(Desk(), echo())) as rt:
        await rt.session("s").run("Hello.")
        looks = looks_of(rt)
        async with rt.session("s").observe() as seen:
            following = asyncio.ensure_future(anext(aiter(seen)))
            before = [*looks]
            await asyncio.sleep(0.5)
            following.cancel()

    assert looks == before
    assert looks.count(True) == 1
    assert len(seen.committed) == 2

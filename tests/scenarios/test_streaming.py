"""Streaming: events in one order, facts only when they are durable, previews taken back when they were wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable

import pytest

from tests.limits import HANGS_S
from tests.scenarios.payers import payer, script
from tests.scenarios.readings import turn_view
from tests.scenarios.slow_store import SlowStore
from tests.scenarios.stage import Desk, Stage, until
from tests.scenarios.watching import names, shown_text
from tests.scenarios.workers import worker
from windlass import Agent, Runtime, ToolContext, tool
from windlass.errors import InvalidInput
from windlass.kernel import ModelReply, ModelRequest, events
from windlass.kernel.events import Event
from windlass.kernel.outcomes import Finished
from windlass.ports.model import (
    EmitModelEvent,
    TextChunk,
)
from windlass.testing import ScriptedModel, call, say

ORDER = [
    "ModelStarted", "UsageReported", "ModelFinished", "ToolStarted", "ToolFinished",
    "ModelStarted", "TextDelta", "UsageReported", "ModelFinished", "TurnEnded",
]  # fmt: skip


async def test_events_come_in_order_and_the_turns_end_comes_last(stage: Stage) -> None:
    model = ScriptedModel([call("work", n=3), say("All done.")], chunks=1)
    async with (
        stage.runtime(worker(Desk(), model)) as rt,
        rt.session("s").stream("Go.", turn_id="t") as turn,
    ):
        seen = [event async for event in turn]
        result = await turn.result(timeout=HANGS_S)

    assert names(seen) == ORDER
    started, finished = seen[3], seen[4]
    assert isinstance(started, events.ToolStarted)
    assert isinstance(finished, events.ToolFinished)
    assert (started.call_id, started.name, started.args) == ("call_0_0", "work", {"n": 3})
    assert finished.outcome.value == "worked 3"
    assert seen[-1] == events.TurnEnded(
        id=seen[-1].id,
        correlation_id=seen[-1].correlation_id,
        cursor=seen[-1].cursor,
        outcome=Finished(text="All done."),
    )
    assert len({event.id for event in seen}) == len(seen)
    assert all(event.cursor for event in seen)
    assert result.text == "All done."
    # A model call and what it showed belong together, as do a tool's beginning and its end.
    assert seen[5].correlation_id == seen[6].correlation_id == seen[7].correlation_id
    assert seen[5].correlation_id != seen[0].correlation_id


async def test_a_stream_has_all_words_and_the_history_has_them_once(stage: Stage) -> None:
    text = "It was a dark and stormy night."
    model = ScriptedModel([say(text)], chunks=7)
    async with (
        stage.runtime(worker(Desk(), model)) as rt,
        rt.session("s").stream("Go.", turn_id="t") as turn,
    ):
        seen = [event async for event in turn]
        history = await rt.session("s").history()

    assert shown_text(seen) == text
    assert history[-1].parts[0].text == text  # type: ignore[union-attr]


async def test_a_fact_is_durable_when_it_is_shown(stage: Stage) -> None:
    model = ScriptedModel([call("work", n=1), call("work", n=2), say("Done.")])
    async with (
        stage.runtime(worker(Desk(), model)) as rt,
        stage.runtime() as other,
        rt.session("s").stream("Go.", turn_id="t") as turn,
    ):
        replies = results = 0
        async for event in turn:
            if event.preview:
                continue
            view = await turn_view(other, "s", "t")  # as another process sees it
            rows = [row.key for row in view.journal().rows() if row.outcome is not None]
            replies += isinstance(event, events.ModelFinished)
            results += isinstance(event, events.ToolFinished)
            assert sum("/model_call/" in key for key in rows) >= replies
            assert sum("/tool_call/" in key for key in rows) >= results
            if isinstance(event, events.TurnEnded):
                assert view.state == "done"
    assert (replies, results) == (3, 2)


async def test_while_the_disk_is_held_up_previews_are_shown_and_no_fact_is() -> None:
    store, model = SlowStore(), ScriptedModel([say("Hi.")], chunks=1)
    seen: list[Event] = []

    async def look(stream: AsyncIterable[Event]) -> None:
        async for event in stream:
            seen.append(event)  # noqa: PERF401 - looked at while it grows

    async with (
        Runtime(Agent("a", model=model), store=store) as rt,
        rt.session("s").stream("Go.", turn_id="t") as turn,
    ):
        watching = asyncio.get_running_loop().create_task(look(turn))
        await until(lambda: len(model.requests) == 1 and "TextDelta" in names(seen))
        for _ in range(100):
            await asyncio.sleep(0)
        assert names(seen) == ["ModelStarted", "TextDelta"]
        store.disk.set()
        await watching

    assert names(seen)[2:] == ["UsageReported", "ModelFinished", "TurnEnded"]


@pytest.mark.parametrize("at", range(len(ORDER) - 1))
async def test_a_cursor_goes_on_without_a_hole_or_a_double(memory_stage: Stage, at: int) -> None:
    model = ScriptedModel([call("work", n=3), say("All done.")], chunks=1)
    async with memory_stage.runtime(worker(Desk(), model)) as rt:
        async with rt.session("s").stream("Go.", turn_id="t") as turn:
            seen = [event async for event in turn]
        rest = [event async for event in rt.turn("s", "t").events(seen[at].cursor)]

    assert names(rest) == ORDER[at + 1 :]
    assert [event.id for event in rest] == [event.id for event in seen[at + 1 :]]


@pytest.mark.parametrize("cursor", ["", "nonsense", "00000000.3", "x.y.z", "é"])
async def test_what_is_no_cursor_is_refused_and_the_turn_goes_on(
    memory_stage: Stage, cursor: str
) -> None:
    desk = Desk(is_open=False)
    model = ScriptedModel([call("work", n=3), say("All done.")])
    async with memory_stage.runtime(worker(desk, model)) as rt:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        with pytest.raises(InvalidInput):
            handle.events(cursor)
        desk.gate.set()
        seen = [event async for event in handle.events()]

    assert names(seen)[-1] == "TurnEnded"


async def test_a_cursor_of_another_process_goes_on_with_the_facts(stage: Stage) -> None:
    model = ScriptedModel([say("Hi.")])
    async with (
        stage.runtime(worker(Desk(), model)) as rt,
        rt.session("s").stream("Go.", turn_id="t") as turn,
    ):
        seen = [event async for event in turn]
    async with stage.runtime(worker(Desk(), model)) as rt:
        again = [event async for event in rt.turn("s", "t").events(seen[0].cursor)]

    assert [event.id for event in again] == [event.id for event in seen if not event.preview]


async def test_leaving_a_stream_does_not_cancel_the_turn(stage: Stage) -> None:
    desk, model = Desk(is_open=False), ScriptedModel([call("work"), say("Done.")])
    async with stage.runtime(worker(desk, model)) as rt:
        async with rt.session("s").stream("Go.", turn_id="t") as turn:
            async for _ in turn:
                break
        desk.gate.set()
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.text == "Done."


async def test_a_parked_turn_ends_its_stream_with_the_open_wait(stage: Stage) -> None:
    async with stage.runtime(payer(Desk(), script())) as rt:
        async with rt.session("s").stream("Pay.", turn_id="t") as turn:
            seen = [event async for event in turn]
            parked = await turn.result(timeout=HANGS_S)
        await rt.approve(parked.waits[0].key, by="eva")
        after = [event async for event in rt.turn("s", "t").events(seen[-1].cursor)]

    assert names(seen) == ["ModelStarted", "UsageReported", "ModelFinished", "WaitOpened"]
    opened = seen[-1]
    assert isinstance(opened, events.WaitOpened)
    assert (opened.key, opened.kind) == (parked.waits[0].key, "approval")
    assert names(after) == [
        "WaitResolved", "ToolStarted", "ToolFinished", "ModelStarted", "UsageReported",
        "TextDelta", "ModelFinished", "TurnEnded",
    ]  # fmt: skip
    resolved = after[0]
    assert isinstance(resolved, events.WaitResolved)
    assert (resolved.status, resolved.by) == ("answered", "eva")


@pytest.mark.parametrize("where", ["loop", "thread"])
async def test_a_tool_shows_how_far_it_is(stage: Stage, where: str) -> None:
    @tool(effect="pure")
    async def work(ctx: ToolContext[None]) -> str:
        """Work."""
        for n in range(3):
            ctx.progress({"step": n})
            await asyncio.sleep(0.01)
        return "ok"

    @tool(effect="pure", name="work")
    def work_in_thread(ctx: ToolContext[None]) -> str:
        """Work."""
        ctx.progress({"step": 2})
        return "ok"

    model = ScriptedModel([call("work"), say("Done.")])
    agent = Agent("w", model=model, tools=[work if where == "loop" else work_in_thread])
    async with stage.runtime(agent) as rt, rt.session("s").stream("Go.") as turn:
        seen = [event async for event in turn]

    steps = [event.data for event in seen if isinstance(event, events.ToolProgress)]
    assert steps[-1] == {"step": 2}
    kinds = names(seen)
    assert kinds.index("ToolStarted") < kinds.index("ToolProgress") < kinds.index("ToolFinished")


async def test_a_slow_reader_gets_joined_words_and_every_fact(stage: Stage) -> None:
    words = [f"word{n} " for n in range(5_000)]

    class Talker:
        name = "talker"

        async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
            for word in words:
                emit(TextChunk(text=word))
            return say("".join(words))

    async with (
        stage.runtime(Agent("t", model=Talker())) as rt,
        rt.session("s").stream("Go.", turn_id="t") as turn,
    ):
        await turn.result(timeout=HANGS_S)  # nobody has read anything until now
        seen = [event async for event in turn]

    assert shown_text(seen) == "".join(words)
    assert [event for event in names(seen) if event != "TextDelta"] == [
        "ModelStarted",
        "UsageReported",
        "ModelFinished",
        "TurnEnded",
    ]
    assert names(seen).count("TextDelta") < 100


async def test_two_readers_see_the_same(stage: Stage) -> None:
    desk, model = Desk(is_open=False), ScriptedModel([call("work"), say("Done.")], chunks=2)
    async with stage.runtime(worker(desk, model)) as rt:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        loop = asyncio.get_running_loop()
        both = [loop.create_task(_all(handle.events())) for _ in range(2)]
        await asyncio.sleep(0)
        desk.gate.set()
        one, two = await asyncio.gather(*both)

    assert shown_text(one) == shown_text(two) == "Done."
    facts = [[event.id for event in seen if not event.preview] for seen in (one, two)]
    assert facts[0] == facts[1]
    assert names(one)[-1] == "TurnEnded"


async def _all(stream: AsyncIterable[Event]) -> list[Event]:
    return [event async for event in stream]


async def test_who_watches_a_turn_that_is_taken_over_gets_it_as_it_stands(stage: Stage) -> None:
    desk, model = Desk(is_open=False), ScriptedModel([call("work"), say("Done.")])
    async with stage.runtime(worker(desk, model)) as lost:
        loop = asyncio.get_running_loop()
        running = loop.create_task(lost.session("s").run("Go.", turn_id="t"))
        await desk.entered.wait()
        async with stage.runtime(worker(Desk(), model)) as rt:
            watching = loop.create_task(_all(rt.turn("s", "t").events()))
            await asyncio.sleep(0)
            stage.kill(lost)
            seen = await asyncio.wait_for(watching, HANGS_S)
        desk.gate.set()
        await running

    recovered = [event for event in seen if isinstance(event, events.Recovered)]
    assert len(recovered) >= 1
    assert [message.role for message in recovered[-1].view] == ["user", "assistant"]
    assert names(seen).index("Recovered") < names(seen).index("ToolStarted")
    assert names(seen)[-1] == "TurnEnded"


async def test_a_turn_that_runs_elsewhere_is_seen_through_the_store(stage: Stage) -> None:
    desk, model = Desk(is_open=False), ScriptedModel([call("work"), say("Done.")])
    async with stage.runtime(worker(desk, model)) as rt, stage.runtime() as other:
        await rt.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        loop = asyncio.get_running_loop()
        watching = loop.create_task(_all(other.turn("s", "t").events()))
        desk.gate.set()
        seen = await watching

    last = seen[-1]
    assert isinstance(last, events.TurnEnded)
    assert last.outcome == Finished(text="Done.")

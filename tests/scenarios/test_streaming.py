"""Streaming: events in one order, facts only when they are durable, previews taken back when they were wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Sequence

import pytest

from tests.scenarios.readings import turn_view
from tests.scenarios.stage import Desk, Stage
from tests.scenarios.workers import worker
from windlass import Agent, ToolContext, tool
from windlass.errors import Unavailable
from windlass.kernel import ModelReply, ModelRequest, events
from windlass.kernel.events import Event
from windlass.kernel.outcomes import Finished
from windlass.ports.model import (
    AttemptFailed,
    EmitModelEvent,
    ModelEvent,
    ReasoningChunk,
    TextChunk,
)
from windlass.testing import ScriptedModel, call, say


def names(seen: Sequence[Event]) -> list[str]:
    return [type(event).__name__ for event in seen]


def shown_text(seen: Sequence[Event]) -> str:
    """Return what a screen shows at the end: deltas, without those that were taken back."""
    shown: list[tuple[str, str]] = []
    for event in seen:
        if isinstance(event, events.TextDelta):
            shown.append((event.correlation_id, event.text))
        elif isinstance(event, events.Retracted):
            shown = [one for one in shown if one[0] not in event.correlation_ids]
    return "".join(text for _, text in shown)


class LiveModel:
    """Shows what it is told to show, each when the one before was looked at; then answers or raises."""

    name = "live"

    def __init__(self, shows: Sequence[ModelEvent], answer: ModelReply | Exception) -> None:
        self._shows = shows
        self._answer = answer
        self._looked_at = asyncio.Semaphore(0)

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        for event in self._shows:
            emit(event)
            await self._looked_at.acquire()
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    async def watched(self, stream: AsyncIterable[Event]) -> list[Event]:
        """Look at a stream to its end, and let the model go on after each thing that it showed."""
        seen: list[Event] = []
        async for event in stream:
            seen.append(event)
            if isinstance(event, events.TextDelta | events.ReasoningDelta | events.Retrying):
                self._looked_at.release()
        return seen


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
        result = await turn.result(timeout=5)

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
async def test_a_cursor_that_cannot_be_gone_on_from_gets_a_fresh_view(
    memory_stage: Stage, cursor: str
) -> None:
    desk = Desk(is_open=False)
    model = ScriptedModel([call("work", n=3), say("All done.")])
    async with memory_stage.runtime(worker(desk, model)) as rt:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        stream = handle.events(cursor)
        first = await anext(stream)
        desk.gate.set()
        rest = [event async for event in stream]

    assert isinstance(first, events.Recovered)
    assert [message.role for message in first.view] == ["user", "assistant"]  # as far as it is
    assert names(rest)[-1] == "TurnEnded"


async def test_a_cursor_of_another_process_gets_a_fresh_view(stage: Stage) -> None:
    model = ScriptedModel([say("Hi.")])
    async with (
        stage.runtime(worker(Desk(), model)) as rt,
        rt.session("s").stream("Go.", turn_id="t") as turn,
    ):
        seen = [event async for event in turn]
    async with stage.runtime(worker(Desk(), model)) as rt:
        again = [event async for event in rt.turn("s", "t").events(seen[0].cursor)]

    assert names(again) == ["Recovered", "TurnEnded"]
    view = again[0]
    assert isinstance(view, events.Recovered)
    assert [message.role for message in view.view] == ["user", "assistant"]


async def test_leaving_a_stream_does_not_cancel_the_turn(stage: Stage) -> None:
    desk, model = Desk(is_open=False), ScriptedModel([call("work"), say("Done.")])
    async with stage.runtime(worker(desk, model)) as rt:
        async with rt.session("s").stream("Go.", turn_id="t") as turn:
            async for _ in turn:
                break
        desk.gate.set()
        result = await rt.turn("s", "t").result(timeout=5)

    assert result.text == "Done."


async def test_an_attempt_that_failed_is_taken_back(stage: Stage) -> None:
    model = LiveModel(
        [
            ReasoningChunk(text="Hmm."),
            TextChunk(text="Wrong"),
            AttemptFailed(reason="cut off", wait_ms=5),
            TextChunk(text="Right."),
        ],
        say("Right."),
    )
    agent = Agent("live", model=model)
    async with (
        stage.runtime(agent) as rt,
        rt.session("s").stream("Go.", turn_id="t") as turn,
    ):
        seen = await model.watched(turn)
        result = await turn.result(timeout=5)

    assert names(seen) == [
        "ModelStarted", "ReasoningDelta", "TextDelta", "Retracted", "Retrying", "TextDelta",
        "UsageReported", "ModelFinished", "TurnEnded",
    ]  # fmt: skip
    retrying = seen[4]
    assert isinstance(retrying, events.Retrying)
    assert (retrying.attempt, retrying.reason, retrying.wait_ms) == (2, "cut off", 5)
    assert shown_text(seen) == result.text == "Right."


async def test_what_was_shown_of_a_call_that_came_to_nothing_is_taken_back(stage: Stage) -> None:
    model = LiveModel([TextChunk(text="Half an ans")], Unavailable("cut"))
    async with (
        stage.runtime(Agent("live", model=model)) as rt,
        rt.session("s").stream("Go.", turn_id="t") as turn,
    ):
        seen = await model.watched(turn)
        result = await turn.result(timeout=5)

    assert result.parked
    assert shown_text(seen) == ""
    assert names(seen) == ["ModelStarted", "TextDelta", "Retracted", "WaitOpened"]


async def test_what_was_shown_of_a_cancelled_call_is_taken_back(stage: Stage) -> None:
    shows, hangs = asyncio.Event(), asyncio.Event()

    class Hanging(LiveModel):
        async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
            emit(TextChunk(text="Half an ans"))
            shows.set()
            await hangs.wait()
            return say("never")

    agent = Agent("live", model=Hanging([], say("")))
    async with stage.runtime(agent) as rt:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        stream = handle.events()
        seen = [await anext(stream)]
        await shows.wait()
        await handle.cancel("enough")
        seen += [event async for event in stream]

    assert shown_text(seen) == ""
    assert names(seen)[-1] == "TurnEnded"


async def test_a_parked_turn_ends_its_stream_with_the_open_wait(stage: Stage) -> None:
    from tests.scenarios.test_approvals import payer, script  # noqa: PLC0415 - one tool that asks

    async with stage.runtime(payer(Desk(), script())) as rt:
        async with rt.session("s").stream("Pay.", turn_id="t") as turn:
            seen = [event async for event in turn]
            parked = await turn.result(timeout=5)
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
        await turn.result(timeout=5)  # nobody has read anything until now
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
            seen = await asyncio.wait_for(watching, 5)
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

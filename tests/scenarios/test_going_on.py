"""Going on by a cursor in the middle of catching up, and in a process that was not the only one to drive."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.limits import HANGS_S
from tests.scenarios.payers import payer, script
from tests.scenarios.stage import Desk, Stage
from tests.scenarios.workers import worker
from windlass import Agent, Runtime
from windlass.api.watching import Observation
from windlass.kernel import ModelReply, ModelRequest, events
from windlass.kernel.events import Event
from windlass.ports import EmitModelEvent, TextChunk
from windlass.testing import ScriptedModel, call, say


class Halting:
    """A model that stops in the middle of its words until it is let go on."""

    name = "halting"

    def __init__(self) -> None:
        self.has_said = asyncio.Event()
        self.go_on = asyncio.Event()

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        emit(TextChunk(text="I found "))
        self.has_said.set()
        await self.go_on.wait()
        emit(TextChunk(text="it."))
        return ModelReply(text="I found it.")


async def next_of(watched: Observation) -> Event:
    async with asyncio.timeout(HANGS_S):
        return await anext(aiter(watched))


async def until_the_end(
    rt: Runtime[Any], cursor: str, has_begun: asyncio.Event | None = None
) -> list[Event]:
    """Return what is seen behind a cursor until a turn has ended."""
    seen: list[Event] = []
    async with asyncio.timeout(HANGS_S), rt.session("s").observe(cursor) as watched:
        if has_begun is not None:
            has_begun.set()
        async for event in watched:
            seen.append(event)
            if isinstance(event, events.TurnEnded):
                break
    return seen


def facts(seen: list[Event]) -> list[str]:
    return [type(one).__name__ for one in seen if not one.preview]


async def test_what_another_process_did_meanwhile_is_told_behind_a_cursor_of_this_one(
    stage: Stage,
) -> None:
    desk = Desk(is_open=False)
    agents = (payer(Desk(), script()), worker(desk, ScriptedModel([call("work"), say("Done.")])))
    async with stage.runtime(*agents, max_turns=1) as rt:
        async with rt.session("s", "payer").observe() as watched:
            parked = await rt.session("s", "payer").run("Pay.", turn_id="t")
            while not isinstance(last := await next_of(watched), events.WaitOpened):
                pass
        # From here on it is busy with something else.
        await rt.session("busy", "worker").submit("Work.", turn_id="t")
        await asyncio.wait_for(desk.entered.wait(), HANGS_S)
        async with stage.runtime(payer(Desk(), script())) as other:
            await other.approve(parked.waits[0].key)
            await other.turn("s", "t").result(timeout=HANGS_S)
        seen = await until_the_end(rt, last.cursor)
        desk.gate.set()

    assert facts(seen) == [
        "WaitResolved", "ToolFinished", "UsageReported", "ModelFinished", "TurnEnded",
    ]  # fmt: skip


async def test_an_observation_has_a_cursor_in_the_middle_of_catching_up(stage: Stage) -> None:
    desk = Desk(is_open=False)
    model = ScriptedModel([call("work", n=1), say("Done.")])
    async with stage.runtime(worker(desk, model)) as rt:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        await asyncio.wait_for(desk.entered.wait(), HANGS_S)
        begin = rt.turn("s", "t").cursor  # made from ids: it has no live half
        async with rt.session("s").observe(begin) as watched:
            at_first = watched.cursor
            first = await next_of(watched)
            in_the_middle = watched.cursor
        desk.gate.set()
        await handle.result(timeout=HANGS_S)
        whole = await until_the_end(rt, at_first)
        rest = await until_the_end(rt, in_the_middle)

    assert facts([first]) == ["UsageReported"]
    assert facts(rest) == [
        "ModelFinished", "ToolFinished", "UsageReported", "ModelFinished", "TurnEnded",
    ]  # fmt: skip
    assert facts(whole) == facts([first, *rest])


async def test_a_latecomer_that_goes_on_behind_the_first_words_of_a_call_loses_none(
    stage: Stage,
) -> None:
    model = Halting()
    async with stage.runtime(Agent("a", model=model)) as rt:
        await rt.session("s").submit("Find it.", turn_id="t")
        await asyncio.wait_for(model.has_said.wait(), HANGS_S)
        async with rt.session("s").observe() as watched:
            cursors = [watched.cursor, (await next_of(watched)).cursor]
            cursors.append((await next_of(watched)).cursor)
        going_on = [
            asyncio.ensure_future(until_the_end(rt, cursor, begun := asyncio.Event()))
            for cursor in cursors
        ]
        await asyncio.wait_for(begun.wait(), HANGS_S)
        model.go_on.set()
        seen = await asyncio.gather(*going_on)

    said = ["".join(one.text for one in each if isinstance(one, events.TextDelta)) for each in seen]
    assert said == ["I found it.", "I found it.", "it."]


async def test_the_cursor_of_a_turn_that_begins_later_shows_its_words(stage: Stage) -> None:
    desk = Desk(is_open=False)
    agents = (
        worker(desk, ScriptedModel([call("work"), say("Done.")])),
        Agent("speaker", model=ScriptedModel([say("One. Two.")], chunks=2)),
    )
    async with stage.runtime(*agents, max_turns=1) as rt:
        await rt.session("busy", "worker").submit("Work.", turn_id="t")
        await asyncio.wait_for(desk.entered.wait(), HANGS_S)
        handle = await rt.session("s", "speaker").submit("Speak.", turn_id="t")
        await rt._worker.look()  # what is not used goes
        desk.gate.set()
        await handle.result(timeout=HANGS_S)
        async with asyncio.timeout(HANGS_S):
            seen = [event async for event in handle.events()]

    words = "".join(one.text for one in seen if isinstance(one, events.TextDelta))
    assert words == "One. Two."


async def test_the_cursor_of_a_queued_turn_shows_nothing_of_the_turn_before_it(
    stage: Stage,
) -> None:
    desk = Desk(is_open=False)
    model = ScriptedModel([call("work", n=1), say("One."), say("Two.")])
    async with stage.runtime(worker(desk, model)) as rt:
        await rt.session("s").submit("Go.", turn_id="t1")
        await asyncio.wait_for(desk.entered.wait(), HANGS_S)
        second = await rt.session("s").submit("And again.", turn_id="t2")
        async with rt.session("s").observe(second.cursor) as watched:
            desk.gate.set()
            seen: list[Event] = []
            while not isinstance(event := await next_of(watched), events.TurnEnded):
                seen.append(event)
            seen.append(event)
        await second.result(timeout=HANGS_S)
        again = await until_the_end(rt, second.cursor)

    assert facts(seen) == facts(again) == ["UsageReported", "ModelFinished", "TurnEnded"]
    assert {one.text for one in seen if isinstance(one, events.ModelFinished)} == {"Two."}

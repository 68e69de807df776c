"""What observers of a turn see of its children: their events as they happen, and facts about them afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.family import USED, agent, asks
from tests.scenarios.stage import Stage
from windlass import Agent, Plugin, events, tool
from windlass.api.watching import Observation
from windlass.kernel import CompletedToolCall, Event
from windlass.kernel.tool_call import ToolOutcome
from windlass.ports.plugin_turn import PluginTurn
from windlass.runtime.feed import SessionFeed
from windlass.runtime.reader import Drive
from windlass.runtime.services import Relaying
from windlass.testing import ScriptedModel, call, say, virtual_clock


def chain(**of_middle: Any) -> Agent[Any, Any]:
    leaf: Agent[Any, Any] = Agent("leaf", model=ScriptedModel([say("Deep words")], chunks=2))
    middle = agent("middle", asks("leaf"), say("Middle."), tools=[leaf.as_tool()], **of_middle)
    return agent("lead", asks("middle"), say("Done."), tools=[middle.as_tool()])


def spoken(seen: list[Event] | tuple[Event, ...]) -> list[tuple[tuple[str, ...], str]]:
    """Return who spoke below and what kind of event it was."""
    return [
        (one.path, type(one.event).__name__) for one in seen if isinstance(one, events.ChildEvent)
    ]


async def test_observers_see_what_children_do_while_they_do_it(stage: Stage) -> None:
    async with stage.runtime(chain()) as rt:
        session = rt.session("s")
        seen, result = await session.collect("Go", turn_id="t")
        middle, leaf = await session.children(deep=True)
    assert result.text == "Done."
    told = spoken(seen)
    below = ("middle", "leaf")
    assert [kind for path, kind in told if path == below] == [
        "ModelStarted",
        "TextDelta",
        "TextDelta",
        "UsageReported",
        "ModelFinished",
        "TurnEnded",
    ]
    assert [kind for path, kind in told if path == ("middle",)][:3] == [
        "ModelStarted",
        "UsageReported",
        "ModelFinished",
    ]
    # Those below happen between the call and its result, in the order in which they did.
    first = told.index((below, "ModelStarted"))
    assert (("middle",), "ToolStarted") in told[:first]
    assert (("middle",), "ToolFinished") in told[first:]
    (asked,) = [one.call_id for one in result.tool_calls]
    for one in seen:
        if isinstance(one, events.ChildEvent):
            assert one.call_id == asked
            assert one.session_id == (leaf if one.path == below else middle).session_id
            assert (one.turn_id, one.preview) == ("t", True)


async def test_a_stream_goes_on_while_its_turn_is_parked_for_children(stage: Stage) -> None:
    async with stage.runtime(chain()) as rt:
        seen: list[Event] = []
        async with rt.session("s").stream("Go", turn_id="t") as turn:
            seen += [event async for event in turn]
        result = await turn.result()
    assert result.text == "Done."
    assert type(seen[-1]) is events.TurnEnded
    assert ("middle", "leaf") in {path for path, _ in spoken(seen)}


async def test_an_observer_of_the_session_and_of_a_child_see_them_too(stage: Stage) -> None:
    gate = asyncio.Event()

    @tool(effect="pure")
    async def hold() -> str:
        """Hold."""
        await gate.wait()
        return "Held."

    worker = agent("worker", call("hold"), say("Worked."), tools=[hold])
    lead = agent("lead", asks("worker"), say("Done."), tools=[worker.as_tool()])
    async with stage.runtime(lead) as rt, asyncio.timeout(HANGS_S):
        session = rt.session("s")
        async with session.observe() as watching:
            handle = await session.submit("Go", turn_id="t")
            while not (below := await session.children()):  # noqa: ASYNC110 - the store tells no one
                await asyncio.sleep(0)
            async with rt.session(below[0].session_id).observe() as inside:
                gate.set()
                await handle.result()
                child_seen = [one async for one in _until_end(inside)]
            seen = [one async for one in _until_end(watching)]
    assert (("worker",), "TurnEnded") in spoken(seen)
    assert type(child_seen[-1]) is events.TurnEnded
    assert spoken(child_seen) == []


async def _until_end(observation: Observation) -> AsyncIterator[Event]:
    async for event in observation:
        yield event
        if type(event) is events.TurnEnded:
            return


async def test_what_children_used_is_a_fact_in_every_process(stage: Stage) -> None:
    async with stage.runtime(chain()) as rt:
        seen, _ = await rt.session("s").collect("Go", turn_id="t")
        middle, _leaf = await rt.session("s").children(deep=True)
    live = [one for one in seen if isinstance(one, events.ChildUsage)]
    assert [(one.session_id, one.source, one.model) for one in live] == [
        (middle.session_id, "child:middle", "scripted"),
        (middle.session_id, "child:middle/leaf", "scripted"),
    ]
    assert live[0].usage == USED + USED
    # The script of the leaf says nothing of usage.
    assert live[0].cumulative == live[1].cumulative == USED + USED
    async with stage.runtime(chain()) as again:
        facts = [one async for one in again.turn("s", "t").events()]
    told = [one for one in facts if isinstance(one, events.ChildUsage)]
    assert [(one.id, one.usage) for one in told] == [(one.id, one.usage) for one in live]
    # The previews are gone with the process that showed them.
    assert spoken(facts) == []


class Censor(Plugin):
    """Looks at results before anyone sees them."""

    name = "censor"

    async def after_tool(self, turn: PluginTurn, call: CompletedToolCall) -> ToolOutcome | None:
        return ToolOutcome(value="***")


async def test_what_a_plugin_above_was_to_look_at_first_is_not_forwarded(stage: Stage) -> None:
    async with stage.runtime(chain(plugins=[Censor()])) as rt:
        seen, result = await rt.session("s").collect("Go", turn_id="t")
        middle, _ = await rt.session("s").children(deep=True)
        inner = [one async for one in rt.turn(middle.session_id, "t").events()]
    assert result.text == "Done."
    # The plugin is the middle one's: what the leaf says stops there, what the middle one says does not.
    assert {path for path, _ in spoken(seen)} == {("middle",)}
    assert "Deep words" not in repr(seen)
    assert "***" in repr(inner)


async def test_where_no_one_reads_nothing_is_forwarded(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    put: list[Event] = []
    relay = Relaying.put

    def counted(self: Relaying, position: int, drive: Drive, event: Event) -> bool:
        put.append(event)
        return relay(self, position, drive, event)

    monkeypatch.setattr(Relaying, "put", counted)
    monkeypatch.setattr("windlass.runtime.services.ChildEvent", lambda **_: made.append("one"))
    async with stage.runtime(chain()) as rt:
        result = await rt.session("s").run("Go", turn_id="t")
    assert (result.text, made) == ("Done.", [])
    assert put  # it could have been


async def test_a_cursor_from_between_the_events_of_children_misses_nothing_of_the_turn(
    stage: Stage,
) -> None:
    async with stage.runtime(chain()) as rt:
        seen, _ = await rt.session("s").collect("Go", turn_id="t")
        own = [one for one in seen if not one.preview]
        for at, event in enumerate(seen):
            if isinstance(event, events.ChildEvent):
                rest = [one async for one in rt.turn("s", "t").events(event.cursor)]
                before = [one.id for one in seen[: at + 1] if not one.preview]
                facts = [one.id for one in rest if not one.preview]
                assert before + facts == [one.id for one in own]


async def test_what_a_child_shows_waits_behind_a_fact_of_the_turn_above_that_is_not_durable() -> (
    None
):
    feed = SessionFeed("s", incarnation="i", clock=virtual_clock())
    reader, turn = feed.read(), feed.turn("t")
    turn.hold(events.WaitOpened(id="e1", key="k", kind="child"), until=1)
    told = events.ChildEvent(
        id="e2", session_id="c", turn_id="t", event=events.TextDelta(text="x"), path=("child",)
    )
    feed.relay("t", told)
    assert reader.take() is None
    turn.durable(1)
    seen = [reader.take(), reader.take(), reader.take()]
    assert [None if one is None else one.id for one in seen] == ["e1", "e2", None]
    # The past holds what was the feed's own: a cursor behind the child's event names the place of that.
    assert [None if one is None else one.cursor for one in seen[:2]] == ["i.1", "i.1"]
    assert feed.position == 1

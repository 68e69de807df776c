"""Signals: a turn hears one that comes later or came before, and one that no turn asks for holds nothing up."""

from __future__ import annotations

import asyncio

import pytest

from tests.inside_calls import InsideCall
from tests.limits import HANGS_S
from tests.scenarios.engines import Engines, KickedEngine, ToldEngine
from tests.scenarios.stage import Desk, Stage
from windlass import Agent, Runtime, ToolContext, tool
from windlass.ports import NewItem, PostItem
from windlass.ports.tool import Pending
from windlass.testing import ScriptedModel, call, say


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> Engines:
    return Engines(monkeypatch)


def signal(item_id: str, value: str, to: str = "s") -> PostItem:
    """Return the errand that sends the signal `go`."""
    content = {"name": "go", "value": value, "by": "eva"}
    item = NewItem(item_id=item_id, kind="signal", when="asked", content=content)
    return PostItem(session_id=to, item=item)


def hearer(desk: Desk) -> Agent[None, str]:
    """Return an agent that works, and then waits for a signal."""

    @tool(effect="keyed")
    async def work() -> str:
        """Work."""
        await desk.work()
        return "worked"

    @tool(effect="keyed")
    async def hear(ctx: ToolContext[None]) -> Pending:
        """Wait for a signal."""
        return await InsideCall(ctx).wait_for_signal("go")

    script = [call("work"), call("hear"), say("Heard.")]
    return Agent("hearer", model=ScriptedModel(script), tools=[work, hear])


def caller() -> Agent[None, str]:
    """Return an agent that sends a signal with the result of its call."""

    @tool(effect="keyed")
    async def send(ctx: ToolContext[None]) -> str:
        """Send."""
        InsideCall(ctx).send(signal("k1", "now"))
        return "sent"

    return Agent("caller", model=ScriptedModel([call("send"), say("Sent.")]), tools=[send])


async def post(rt: Runtime[None], *signals: PostItem) -> list[str]:
    return [one.status for one in await rt._services.store.run_errands(signals, now_ms=1)]


async def test_a_signal_of_another_turn_lets_a_parked_one_go_on_without_a_timer(
    stage: Stage, engines: Engines
) -> None:
    engines.use(KickedEngine)
    hears, calls = hearer(Desk()), caller()
    async with stage.runtime(hears, calls) as rt:
        waiting = await rt.session("s", hears).run("Go.", turn_id="t1")
        assert [wait.kind for wait in waiting.waits] == ["signal"]

        await rt.session("other", calls).run("Send it.")
        result = await rt.turn("s", "t1").result(timeout=HANGS_S)

    assert result.text == "Heard."
    assert [one.outcome.value for one in result.tool_calls] == ["worked", "now"]


async def test_a_signal_that_came_first_is_heard_when_it_is_asked_for(stage: Stage) -> None:
    desk = Desk(is_open=False)
    hears = hearer(desk)
    async with stage.runtime(hears) as rt:
        handle = await rt.session("s", hears).submit("Go.")
        await desk.entered.wait()
        assert await post(rt, signal("k1", "early"), signal("k2", "later")) == ["done"] * 2
        desk.gate.set()
        result = await handle.result(timeout=HANGS_S)
        left = (await rt.session("s", hears).inbox()).items

    assert result.text == "Heard."
    assert [one.outcome.value for one in result.tool_calls] == ["worked", "early"]
    assert [item.item_id for item in left] == ["k2"]


async def test_a_turn_that_is_killed_before_its_signal_hears_it_in_another_process(
    stage: Stage, engines: Engines
) -> None:
    desk = Desk()
    engines.use(ToldEngine)  # what was killed looks for nothing more
    first = stage.runtime(hearer(desk))
    async with first:
        assert (await first.session("s", "hearer").run("Go.", turn_id="t1")).parked
        stage.kill(first)
        engines.use(KickedEngine)
        async with stage.runtime(hearer(desk)) as rt:
            assert await post(rt, signal("k1", "after")) == ["done"]
            rt._worker.kick()
            result = await rt.turn("s", "t1").result(timeout=HANGS_S)

    assert result.text == "Heard."
    assert len(desk.runs) == 1


async def test_a_signal_that_no_turn_asked_for_holds_nothing_up(stage: Stage) -> None:
    desk = Desk()
    agent = Agent("plain", model=ScriptedModel([say("One."), say("Two."), say("Three.")]))
    async with stage.runtime(agent, hearer(desk)) as rt:
        session = rt.session("s", agent)
        await session.run("First.")
        assert await post(rt, signal("k1", "late"), signal("k2", "late")) == ["done"] * 2

        await session.wait(timeout=HANGS_S)
        results = [await session.run("Second."), await session.run("Third.")]
        rt._worker.kick("s")
        async with asyncio.timeout(HANGS_S):
            await session.wait()
        turns = await rt.turns(session_id="s")
        left = (await session.inbox()).items

    assert [result.text for result in results] == ["Two.", "Three."]
    assert len(turns) == 3
    assert [item.item_id for item in left] == ["k1", "k2"]


async def test_an_item_begins_a_turn_also_behind_a_signal(stage: Stage, engines: Engines) -> None:
    engines.use(ToldEngine)
    agent = Agent("plain", model=ScriptedModel([say("One."), say("Two.")]))
    async with stage.runtime(agent) as rt:
        session = rt.session("s", agent)
        await session.run("First.")
        await post(rt, signal("k1", "late"))
        item = NewItem(item_id="i1", content={"parts": [{"type": "text", "text": "Second."}]})
        await rt._services.store.enqueue("s", item)

        await asyncio.wait_for(rt._worker.drive("s"), HANGS_S)
        view = await rt._services.store.load_session("s")

    assert [getattr(page.outcome, "text", None) for page in view.pages] == ["One.", "Two."]

"""Turns in flight and plugins that come and go: a turn is driven with those that it began with, or not at all."""

from __future__ import annotations

from typing import Any

from tests.limits import HANGS_S
from tests.plugins.hooks.hooked import hooked
from tests.plugins.hooks.ledger import Ledger
from tests.scenarios.stage import Desk, Stage
from windlass import Agent, tool
from windlass.kernel import ModelRequest
from windlass.ports.plugin import Plugin
from windlass.ports.plugin_turn import PluginTurn
from windlass.testing import call, say


def agent(ledger: Ledger, desk: Desk, *plugins: Plugin) -> Agent[Any, Any]:
    @tool(effect="keyed")
    async def work() -> str:
        """Work."""
        await desk.work()
        return "worked"

    model = ledger.model([call("work"), say("Done.")])
    return Agent("a", model=model, tools=[work], plugins=plugins)


def noting(name: str, notes: list[str]) -> Plugin:
    """Return a plugin that notes each time the model is asked."""

    def before_model(_turn: PluginTurn, _request: ModelRequest) -> None:
        notes.append(name)

    return hooked(name, before_model=before_model)


async def test_without_its_plugin_a_turn_parks_and_with_it_goes_on(stage: Stage) -> None:
    ledger, desk, notes = Ledger(), Desk(is_open=False), list[str]()
    async with stage.runtime(agent(ledger, desk, noting("old", notes))) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        stage.kill(lost)
        idle = Desk()
        async with stage.runtime(agent(ledger, idle)) as rt:
            parked = await rt.turn("s", "t").result(timeout=HANGS_S)
            (wait,) = parked.waits
            assert (wait.kind, wait.detail) == ("mismatch", {"plugins": ["old"]})
            assert (
                wait.title == "The turn began with the plugin old, which this worker does not have"
            )
            assert idle.runs == []
        async with stage.runtime(agent(ledger, idle, noting("old", notes))) as rt:
            assert await rt.retry("s", "t") is True
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
        desk.gate.set()

    assert result.text == "Done."
    assert notes == ["old", "old"]
    assert len(idle.runs) == 1


async def test_a_plugin_that_came_later_does_not_touch_a_turn_in_flight(stage: Stage) -> None:
    ledger, desk, notes = Ledger(), Desk(is_open=False), list[str]()
    async with stage.runtime(agent(ledger, desk, noting("old", notes))) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        stage.kill(lost)
        late = agent(ledger, Desk(), noting("new", notes), noting("old", notes))
        async with stage.runtime(late, plugins=[noting("newest", notes)]) as rt:
            await rt.turn("s", "t").result(timeout=HANGS_S)
            assert notes == ["old", "old"]
            # The next turn has them all, the runtime's first.
            ledger.requests.clear()
            await rt.session("other").run("Go.", turn_id="t")
        desk.gate.set()

    assert notes[2:] == ["newest", "new", "old"] * 2


async def test_the_runtimes_come_before_the_agents_each_in_the_order_given(
    memory_stage: Stage,
) -> None:
    notes: list[str] = []
    made = agent(Ledger(), Desk(), noting("c", notes), noting("d", notes))
    async with memory_stage.runtime(made, plugins=[noting("b", notes), noting("a", notes)]) as rt:
        await rt.session("s").run("Go.", turn_id="t")

    assert notes == ["b", "a", "c", "d"] * 2


async def test_a_cancelled_turn_needs_no_plugin_to_end(stage: Stage) -> None:
    ledger, desk = Ledger(), Desk(is_open=False)
    async with stage.runtime(agent(ledger, desk, noting("old", []))) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        stage.kill(lost)
        async with stage.runtime(agent(ledger, Desk())) as rt:
            parked = await rt.turn("s", "t").result(timeout=HANGS_S)
            assert parked.parked
            await rt.cancel("s", "t", "Never mind.")
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
        desk.gate.set()

    assert result.status == "done"
    assert "Never mind." in str(result.outcome)

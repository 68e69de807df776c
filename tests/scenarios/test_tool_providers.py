"""Tool providers: tools that are looked up anew for each iteration, and what happens when that fails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.readings import last_told
from tests.scenarios.stage import Desk, Stage
from windlass import Agent, tool
from windlass.kernel.outcomes import Stopped
from windlass.ports.tool import Tool
from windlass.testing import ScriptedModel, call, say


class Shelf:
    """Gives the n-th list of tools at the n-th look; from the last on, always that."""

    def __init__(self, *lists: list[Tool] | Exception) -> None:
        self._lists = lists
        self.contexts: list[Mapping[str, Any]] = []

    def tools(self, context: Mapping[str, Any]) -> list[Tool]:
        at = min(len(self.contexts), len(self._lists) - 1)
        self.contexts.append(context)
        found = self._lists[at]
        if isinstance(found, Exception):
            raise found
        return found


@tool(effect="pure")
async def look() -> str:
    """Look."""
    return "seen"


@tool(effect="pure")
async def hear() -> str:
    """Listen."""
    return "heard"


def offered(model: ScriptedModel) -> list[list[str]]:
    return [[spec.name for spec in request.tools] for request in model.requests]


async def test_each_iteration_has_the_tools_that_are_there_then(stage: Stage) -> None:
    shelf = Shelf([look], [look, hear], [hear])
    model = ScriptedModel([call("look"), call("hear"), say("Done.")])
    agent = Agent("a", model=model, tools=[shelf])
    async with stage.runtime(agent) as rt:
        result = await rt.session("s").run("Go.", turn_id="t", context={"who": "eva"})

    assert offered(model) == [["look"], ["look", "hear"], ["hear"]]
    assert [one.text for one in last_told(model)] == ["seen", "heard"]
    assert shelf.contexts == [{"who": "eva"}] * 3
    assert result.text == "Done."


async def test_own_tools_stand_beside_those_of_a_provider(stage: Stage) -> None:
    model = ScriptedModel([call("look"), call("hear"), say("Done.")])
    async with stage.runtime(Agent("a", model=model, tools=[look, Shelf([hear])])) as rt:
        await rt.session("s").run("Go.", turn_id="t")

    assert offered(model)[0] == ["look", "hear"]
    assert [one.text for one in last_told(model)] == ["seen", "heard"]


async def test_a_provider_that_fails_ends_the_turn_and_says_so(stage: Stage) -> None:
    model = ScriptedModel([call("look"), say("Next.")])
    shelf = Shelf([look], RuntimeError("secret 4711"), [look])
    async with stage.runtime(Agent("a", model=model, tools=[shelf])) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")
        after = await rt.session("s").run("And?", turn_id="t2")

    assert isinstance(result.outcome, Stopped)
    assert result.outcome.reason == "runtime_error"
    assert "4711" not in result.outcome.detail
    assert after.text == "Next."


async def test_a_name_that_is_given_twice_ends_the_turn_and_not_the_runtime(
    stage: Stage,
) -> None:
    model = ScriptedModel([say("Never.")])
    async with stage.runtime(Agent("a", model=model, tools=[look, Shelf([look])])) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")

    assert isinstance(result.outcome, Stopped)
    assert result.outcome.reason == "runtime_error"
    assert model.requests == []


@pytest.mark.parametrize("then", ["same", "other", "gone"])
async def test_what_an_iteration_was_offered_is_what_it_has_after_a_crash(
    stage: Stage, then: str
) -> None:
    desk = Desk(is_open=False)

    def worker(desk: Desk) -> Tool:
        @tool(effect="keyed")
        async def work() -> str:
            """Work."""
            await desk.work()
            return "worked"

        return work

    model = ScriptedModel([call("work"), say("Done.")])
    fresh = Desk()
    before = Shelf([worker(desk)])
    after = {
        "same": Shelf([worker(fresh)]), "other": Shelf([worker(fresh), hear]),
        "gone": Shelf([hear]),
    }[then]  # fmt: skip
    async with stage.runtime(Agent("a", model=model, tools=[before])) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        stage.kill(lost)
        async with stage.runtime(Agent("a", model=model, tools=[after])) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
        desk.gate.set()

    assert result.text == "Done."
    assert len(model.requests) == 2
    assert offered(model)[0] == ["work"]
    if then == "gone":  # begun, lost, and nobody is left who could run it again
        assert [one.status for one in last_told(model)] == ["unknown"]
    else:
        assert [one.text for one in last_told(model)] == ["worked"]
        assert len(fresh.runs) == 1

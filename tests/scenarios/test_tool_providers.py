"""Tool providers: tools that are looked up anew for each iteration, and what happens when that fails."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.readings import last_told
from tests.scenarios.stage import Desk, Stage, until
from windlass import Agent, tool
from windlass.kernel.outcomes import Stopped
from windlass.ports.tool import Tool
from windlass.testing import ScriptedModel, call, calls, say


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


def worker(work_at: Callable[[int], Awaitable[None]]) -> Tool:
    """Return a tool that works somewhere."""

    @tool(effect="keyed")
    async def work(n: int = 0) -> str:
        """Work."""
        await work_at(n)
        return f"worked {n}"

    return work


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

    model = ScriptedModel([call("work"), say("Done.")])
    fresh = Desk()
    before = Shelf([worker(desk.work)])
    after = {
        "same": Shelf([worker(fresh.work)]), "other": Shelf([worker(fresh.work), hear]),
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
    assert len(after.contexts) == 2  # for the call that runs again, and for the next iteration
    if then == "gone":  # begun, lost, and nobody is left who could run it again
        assert [one.status for one in last_told(model)] == ["unknown"]
    else:
        assert [one.text for one in last_told(model)] == ["worked 0"]
        assert len(fresh.runs) == 1


async def test_what_the_journal_answers_is_not_looked_up_again(stage: Stage) -> None:
    """Three iterations, each with other tools, are replayed; the calls of the fourth need the tools once for all."""
    desk, looks_before = Desk(is_open=False), list[int]()

    async def noted(_n: int) -> None:
        looks_before.append(len(after.contexts))

    both = calls(("work", {"n": 1}), ("work", {"n": 2}), ("look", {}))
    model = ScriptedModel([call("look"), call("hear"), call("look"), both, say("Done.")])
    before = Shelf([look], [look, hear], [look], [look, worker(desk.work)])
    after = Shelf([look, worker(noted)])
    async with stage.runtime(Agent("a", model=model, tools=[before])) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await until(lambda: len(desk.runs) == 2)
        stage.kill(lost)
        async with stage.runtime(Agent("a", model=model, tools=[after])) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
        desk.gate.set()

    assert result.text == "Done."
    assert looks_before == [1, 1]
    assert len(after.contexts) == 2  # the second is for the next iteration
    assert [one.text for one in last_told(model)[-3:]] == ["worked 1", "worked 2", "seen"]


async def test_a_provider_that_is_away_when_a_call_is_to_run_again_brings_no_tools(
    stage: Stage,
) -> None:
    desk = Desk(is_open=False)
    model = ScriptedModel([call("work"), say("Done.")])
    after = Shelf(RuntimeError("away"), [hear])
    async with stage.runtime(Agent("a", model=model, tools=[Shelf([worker(desk.work)])])) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        stage.kill(lost)
        async with stage.runtime(Agent("a", model=model, tools=[after])) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
        desk.gate.set()

    assert result.text == "Done."
    assert [one.status for one in last_told(model)] == ["unknown"]
    assert len(after.contexts) == 2


async def test_a_cancelled_turn_looks_nothing_up(stage: Stage) -> None:
    desk = Desk(is_open=False)
    model = ScriptedModel([call("work"), say("Done.")])
    after = Shelf([worker(desk.work)])
    async with stage.runtime(Agent("a", model=model, tools=[Shelf([worker(desk.work)])])) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        stage.kill(lost)
        async with stage.runtime() as office:
            await office.cancel("s", "t", "enough")
        async with stage.runtime(Agent("a", model=model, tools=[after])) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
        desk.gate.set()

    assert result.outcome == Stopped(reason="cancelled", detail="enough")
    assert after.contexts == []

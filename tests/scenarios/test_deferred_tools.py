"""Tools that are not offered from the start: found when they are looked for, or never."""

from __future__ import annotations

import asyncio

import pytest

from tests.limits import HANGS_S
from tests.scenarios.stage import Stage
from windlass import Agent, tool
from windlass.errors import ConfigError
from windlass.testing import ScriptedModel, call, say
from windlass.tools import Toolbox


@tool(effect="pure")
def weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"rain in {city}"


@tool(effect="pure", expose="deferred")
def convert(amount: int, currency: str) -> str:
    """Convert money into another currency."""
    return f"{amount} in {currency}"


@tool(effect="pure", expose="deferred")
def route(start: str, goal: str) -> str:
    """Find the way between two places."""
    return f"{start} to {goal}"


@tool(effect="pure", expose="hidden")
def backdoor() -> str:
    """Open what nobody should."""
    raise AssertionError("a hidden tool ran")


def offered(model: ScriptedModel) -> list[list[str]]:
    return [[spec.name for spec in request.tools] for request in model.requests]


async def test_a_deferred_tool_is_offered_from_the_iteration_in_which_it_was_found(
    stage: Stage,
) -> None:
    model = ScriptedModel(
        [
            call("find_tools", query="convert some money"),
            call("convert", amount=3, currency="EUR"),
            say("done"),
            say("next"),
        ]
    )
    agent = Agent("a", model=model, tools=[weather, convert, route, backdoor])
    async with stage.runtime(agent) as rt:
        first = await rt.session("s").run("change it", turn_id="t1")
        await rt.session("s").run("and now?", turn_id="t2")

    assert [one.outcome.value for one in first.tool_calls] == [
        [{"description": "Convert money into another currency.", "name": "convert"}],
        "3 in EUR",
    ]
    assert offered(model) == [
        ["weather", "find_tools"],
        ["weather", "find_tools", "convert"],
        ["weather", "find_tools", "convert"],
        ["weather", "find_tools"],
    ]


async def test_what_was_found_is_still_offered_after_a_crash(stage: Stage) -> None:
    entered, was_here = asyncio.Event(), False

    @tool(effect="pure", expose="deferred")
    async def walk(goal: str) -> str:
        """Find the way on foot."""
        nonlocal was_here
        is_first, was_here = not was_here, True
        entered.set()
        if is_first:
            await asyncio.Event().wait()
        return f"to {goal}"

    model = ScriptedModel([call("find_tools", query="way"), call("walk", goal="B"), say("done")])
    agent = Agent("a", model=model, tools=[weather, walk])
    async with stage.runtime(agent) as lost:
        await lost.session("s").submit("go", turn_id="t")
        await entered.wait()
        stage.kill(lost)
        async with stage.runtime(agent) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.text == "done"
    assert offered(model)[-1] == ["weather", "find_tools", "walk"]


async def test_a_hidden_tool_is_not_there_for_the_model(stage: Stage) -> None:
    model = ScriptedModel([call("backdoor"), say("well")])
    async with stage.runtime(Agent("a", model=model, tools=[weather, backdoor])) as rt:
        result = await rt.session("s").run("open it", turn_id="t")

    assert offered(model)[0] == ["weather"]
    assert [(one.outcome.status, one.outcome.value) for one in result.tool_calls] == [
        ("error", "There is no tool called backdoor.")
    ]


def test_a_finder_of_ones_own_takes_the_place_of_ours() -> None:
    @tool(effect="pure")
    def find_tools(query: str) -> str:
        """Look elsewhere."""
        return query

    box = Toolbox([find_tools, route])

    assert box.get("find_tools") is find_tools
    with pytest.raises(ConfigError):
        Toolbox([find_tools, find_tools])

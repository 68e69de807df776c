"""How a turn has to finish: by an answer, by a value, or by a tool; else it fails, after one nudge."""

from __future__ import annotations

from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.readings import said_by_user
from tests.scenarios.stage import Desk, Stage
from windlass import Agent, EndTurn, HandOff, Limits, TurnResult, tool
from windlass.errors import ConfigError, InvalidInput, NoOutput
from windlass.kernel import ModelReply, ModelRequest
from windlass.kernel.messages import PluginOrigin
from windlass.kernel.outcomes import Finished, FinishedByTool, FinishedValue, Stopped
from windlass.plugins import Plugin
from windlass.testing import FunctionModel, Scenario, ScriptedModel, call, kill_everywhere, say

NUDGE = "This turn is not finished: it has to end with a call of submit. Do that now."
UNFINISHED = Stopped(
    reason="unfinished",
    detail="The turn had to end with a call of submit; it ended with words alone.",
)


@tool(effect="pure")
def submit(answer: int) -> EndTurn:
    """Submit the answer."""
    return EndTurn(value={"answer": answer})


@tool(effect="pure")
def look() -> str:
    """Look."""
    return "seen"


def agent(*replies: Any, finish: object = "submit", **settings: Any) -> Agent[None, Any]:
    model = ScriptedModel(list(replies))
    return Agent("a", model=model, tools=[submit, look], **{"finish": finish, **settings})


async def test_a_plain_answer_is_nudged_once_and_the_tool_finishes_the_turn(stage: Stage) -> None:
    model = ScriptedModel([say("42."), call("submit", answer=42)])
    made = Agent("a", model=model, tools=[submit], finish="submit")
    async with stage.runtime(made) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")

    assert result.outcome == FinishedByTool(tool="submit", value={"answer": 42})
    assert result.text == '{"answer":42}'
    assert said_by_user(model.requests[1]) == ["Go.", NUDGE]
    assert result.issues == ()


async def test_after_the_nudge_a_plain_answer_is_a_failure_with_its_name(stage: Stage) -> None:
    async with stage.runtime(agent(say("42."), say("42!"), say("never"))) as rt:
        live = await rt.session("s").run("Go.", turn_id="t")
        stored = await rt.turn("s", "t").result(timeout=HANGS_S)

    for result in (live, stored):
        assert result.outcome == UNFINISHED
        assert (result.text, result.output_state, result.iterations) == ("42!", "error_only", 2)
        with pytest.raises(NoOutput, match="stopped: unfinished"):
            result.raise_for_outcome()
        assert [issue.code for issue in result.issues] == ["unfinished"]


@pytest.mark.parametrize(
    ("finish", "settings"),
    [("value", {}), ("answer", {"finish": "value"}), ("answer", {"finish": ["submit"]})],
    ids=["agent", "turn", "turn, by tool"],
)
async def test_the_agent_says_it_or_the_turn_does(
    memory_stage: Stage, finish: str, settings: dict[str, Any]
) -> None:
    async with memory_stage.runtime(agent(say("42."), say("42!"), finish=finish)) as rt:
        result = await rt.session("s").run("Go.", **settings)

    assert isinstance(result.outcome, Stopped)
    assert result.outcome.reason == "unfinished"


async def test_a_turn_may_be_let_off(memory_stage: Stage) -> None:
    async with memory_stage.runtime(agent(say("42."))) as rt:
        result = await rt.session("s").run("Go.", finish="answer")

    assert result.outcome == Finished(text="42.")


async def test_with_an_output_type_an_answer_of_its_shape_is_a_value(memory_stage: Stage) -> None:
    made = agent(say("words"), say("[1, 2]"), finish="value", output_type=list[int])
    async with memory_stage.runtime(made) as rt:
        result = await rt.session("s").run("Go.")

    assert result.outcome == FinishedValue(value=[1, 2])
    assert result.iterations == 2


async def test_with_an_output_type_words_do_not_finish_a_turn_that_a_tool_has_to(
    stage: Stage,
) -> None:
    model = ScriptedModel([say("[1]"), say("words"), say("never")])
    made = Agent("a", model=model, tools=[submit], finish="submit", output_type=list[int])
    async with stage.runtime(made) as rt:
        result = await rt.session("s").run("Go.")

    assert result.outcome == UNFINISHED
    assert len(model.requests) == 2


async def test_what_a_turn_began_with_holds_when_the_code_changed(stage: Stage) -> None:
    desk = Desk(is_open=False)

    @tool(effect="pure")
    async def wait() -> str:
        """Wait."""
        await desk.work()
        return "done"

    def made(*replies: Any, finish: str) -> Agent[None, str]:
        return Agent("a", model=ScriptedModel(list(replies)), tools=[submit, wait], finish=finish)

    before = made(say("One."), call("wait"), say("Two."), finish="submit")
    async with stage.runtime(before) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        stage.kill(lost)
        desk.gate.set()
        async with stage.runtime(made(call("wait"), say("Two."), finish="answer")) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.outcome == UNFINISHED  # it was nudged before, and is not nudged again


async def test_however_a_turn_is_killed_it_is_nudged_once() -> None:
    replies = [say("One."), call("look"), say("Two.")]

    def reply(request: ModelRequest) -> ModelReply:
        return replies[sum(message.role == "assistant" for message in request.messages)]

    def scenario() -> Scenario:
        def check(result: TurnResult[str]) -> None:
            assert result.outcome == UNFINISHED
            nudges = [m for m in result.messages if m.origin == PluginOrigin(plugin="finish")]
            assert len(nudges) == 1

        return Scenario(
            agents=lambda: Agent(
                "a", model=FunctionModel(reply), tools=[submit, look], finish="submit"
            ),
            run=lambda rt: rt.session("s").run("Go.", turn_id="t"),
            check=check,
        )

    await kill_everywhere(scenario)


@pytest.mark.parametrize(
    ("finish", "found"),
    [
        ("submitt", "submitt"),
        (["submit", "nope"], "nope"),
        ([], r"\[\]"),
        ("", "''"),
        (7, "int"),
        (["a b"], "a b"),
    ],
    ids=["name", "one of two", "none", "empty", "number", "no name"],
)
def test_a_tool_that_is_not_there_is_refused_when_the_agent_is_made(
    finish: object, found: str
) -> None:
    with pytest.raises(ConfigError, match=f"Agent.finish: found .*{found}.*, wanted "):
        agent(finish=finish)


async def test_a_turn_that_names_a_tool_that_is_not_there_is_refused(memory_stage: Stage) -> None:
    async with memory_stage.runtime(agent(say("42."))) as rt:
        with pytest.raises(InvalidInput, match="finish: found 'nope', which is not a tool here"):
            await rt.session("s").run("Go.", finish="nope")


async def test_a_tool_of_a_plugin_may_finish_the_turn(memory_stage: Stage) -> None:
    class Brings(Plugin):
        def tools(self) -> list[Any]:
            return [submit]

    model = ScriptedModel([call("submit", answer=1)])
    made = Agent("a", model=model, plugins=[Brings()], finish="submit")
    async with memory_stage.runtime(made) as rt:
        result = await rt.session("s").run("Go.")

    assert result.outcome == FinishedByTool(tool="submit", value={"answer": 1})


async def test_a_tool_of_a_provider_may_finish_the_turn(memory_stage: Stage) -> None:
    class Brings:
        version = "1"

        async def tools(self, _turn: object) -> list[Any]:
            return [submit]

    model = ScriptedModel([call("submit", answer=1)])
    made = Agent("a", model=model, tools=[Brings()], finish="submit")
    async with memory_stage.runtime(made) as rt:
        result = await rt.session("s").run("Go.", finish="submit")

    assert result.outcome == FinishedByTool(tool="submit", value={"answer": 1})


async def test_a_tool_that_is_called_like_a_way_is_named_in_a_list(memory_stage: Stage) -> None:
    @tool(effect="pure")
    def value() -> HandOff:
        """Hand it on."""
        return HandOff(target="eva")

    def made(*replies: Any, **settings: Any) -> Agent[None, str]:
        return Agent("a", model=ScriptedModel(list(replies)), tools=[value, submit], **settings)

    replies = (call("submit", answer=1),)
    async with memory_stage.runtime(made(*replies, finish=["value"])) as rt:
        by_tool = await rt.session("s").run("Go.")

    assert isinstance(by_tool.outcome, Stopped)
    assert by_tool.outcome.detail == (
        "The turn had to end with a call of value; it ended with a call of submit."
    )


async def test_without_an_iteration_left_it_fails_without_a_nudge(memory_stage: Stage) -> None:
    made = agent(say("42."), limits=Limits(max_iterations=1))
    async with memory_stage.runtime(made) as rt:
        result = await rt.session("s").run("Go.")

    assert result.outcome == UNFINISHED


def test_an_agent_that_runs_by_itself_has_it_too() -> None:
    result = agent(say("42."), say("42!")).run_sync("Go.")

    assert result.outcome == UNFINISHED

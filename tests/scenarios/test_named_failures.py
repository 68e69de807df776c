"""A turn that failed names its failure among the issues: with a code, an id, and what it is about."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.stage import Stage
from windlass import Agent, FailTurn, Limits, ToolUncertain, tool
from windlass.api.turn_result import TurnResult
from windlass.errors import Rejected, Unavailable
from windlass.kernel import ModelReply, events
from windlass.plugins import Plugin, PluginTurn
from windlass.ports import EmitModelEvent, Model, TextChunk
from windlass.testing import FunctionModel, Scenario, ScriptedModel, call, kill_everywhere, say

PREFIX = sha256(b"s/t").hexdigest()[:16]


@tool(effect="pure")
def give_up() -> FailTurn:
    """Give up."""
    return FailTurn(value="out of stock")


@tool(effect="pure")
def look() -> str:
    """Look."""
    return "seen"


def refusing(_request: object) -> ModelReply:
    raise Rejected("bad key")


def down(_request: object) -> ModelReply:
    raise Unavailable("no answer")


def agent(model: Model, **settings: Any) -> Agent[None, Any]:
    return Agent("a", model=model, tools=[give_up, look], **settings)


# By what fails: the agent, and code, message and what it is about.
FAILURES: dict[str, tuple[Any, str, str, str]] = {
    "rejected": (lambda: agent(FunctionModel(refusing)), "rejected", "bad key", "1"),
    "retries are exhausted": (
        lambda: agent(FunctionModel(down), limits=Limits(provider_patience=0)),
        "unavailable", "no answer", "1",
    ),
    "empty reply": (
        lambda: agent(ScriptedModel([ModelReply()])),
        "empty_reply", "The model returned an empty reply.", "1",
    ),
    "a tool fails the turn": (
        lambda: agent(ScriptedModel([call("give_up")])),
        "tool_failure", "give_up: out of stock", "2",
    ),
    "limit": (
        lambda: agent(ScriptedModel([call("look")]), limits=Limits(max_tool_calls=0)),
        "limit", "The turn used 1 tool calls, the limit is 0.", "2",
    ),
    "iterations": (
        lambda: agent(ScriptedModel([call("look")]), limits=Limits(max_iterations=1)),
        "max_iterations", "The turn stopped at its limit of 1 iterations.", "2",
    ),
    "cut off": (
        lambda: agent(ScriptedModel([say("Half", terminal="output_limit")])),
        "incomplete", "The reply was cut off at its output limit.", "2",
    ),
    "never fitted": (
        lambda: agent(ScriptedModel([say("x")]), output_type=int, limits=Limits(output_retries=0)),
        "invalid_output", "The answer is not JSON.", "2",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", FAILURES)
async def test_a_failed_turn_names_its_failure_with_code_and_ids(stage: Stage, what: str) -> None:
    made, code, message, about = FAILURES[what]
    async with stage.runtime(made()) as rt:
        live = await rt.session("s").run("Go.", turn_id="t")
        stored = await rt.turn("s", "t").result(timeout=HANGS_S)

    (issue,) = live.issues
    assert (issue.code, issue.message) == (code, message)
    assert issue.correlation_id == f"c_{PREFIX}.{about}"
    assert issue.id.startswith(f"e_{PREFIX}.")
    assert stored.issues == live.issues


@pytest.mark.parametrize("what", FAILURES)
async def test_wherever_the_process_dies_the_issue_is_the_same(what: str) -> None:
    made, code, *_ = FAILURES[what]
    seen: set[tuple[str, str]] = set()

    def check(result: TurnResult[Any]) -> None:
        (issue,) = result.issues
        assert issue.code == code
        seen.add((issue.id, issue.correlation_id))
        assert len(seen) == 1

    def scenario() -> Scenario:
        run = lambda rt: rt.session("s").run("Go.", turn_id="t")  # noqa: E731 - as scenarios are written
        return Scenario(agents=made, run=run, check=check)

    await kill_everywhere(scenario)


async def test_the_issue_of_a_provider_is_the_error_that_was_shown(stage: Stage) -> None:
    async with stage.runtime(agent(FunctionModel(refusing))) as rt:
        shown, result = await rt.session("s").collect("Go.", turn_id="t")

    (error,) = [event for event in shown if isinstance(event, events.Error)]
    assert [(issue.id, issue.correlation_id) for issue in result.issues] == [
        (error.id, error.correlation_id)
    ]
    assert result.issues[0].cursor == ""


async def test_a_cancelled_turn_has_not_failed(memory_stage: Stage) -> None:
    async with memory_stage.runtime(agent(ScriptedModel([say("x")]))) as rt:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        await handle.cancel("enough")
        result = await handle.result(timeout=HANGS_S)

    assert result.issues == ()


async def test_every_issue_has_ids_also_those_about_how_a_turn_was_run(stage: Stage) -> None:
    @tool
    async def pay() -> str:
        """Pay."""
        raise ToolUncertain("line lost")

    made = Agent("a", model=ScriptedModel([call("pay"), say("Hm.")]), tools=[pay])
    async with stage.runtime(made) as rt:
        uncertain = await rt.session("s").run("Go.", turn_id="t")
    made = Agent("a", model=ScriptedModel([say("Hm.")]))
    alone = await made.run("Go.")

    (unknown,) = uncertain.issues
    assert (unknown.code, unknown.correlation_id) == ("unknown_outcome", f"c_{PREFIX}.2.0")
    (not_durable,) = alone.issues
    assert not_durable.code == "not_durable"
    for issue in (unknown, not_durable):
        assert issue.id.startswith("e_")
        assert issue.correlation_id.startswith("c_")


async def test_an_event_of_a_plugin_names_the_effect_that_it_arose_in(stage: Stage) -> None:
    class Tells(Plugin):
        async def before_turn(self, turn: PluginTurn) -> None:
            turn.emit("start")

        async def before_model(self, turn: PluginTurn, request: object) -> None:
            turn.emit("model")

        async def before_tool(self, turn: PluginTurn, call: object) -> None:
            turn.emit("tool")

        async def after_turn(self, turn: PluginTurn, outcome: object) -> None:
            turn.emit("end")

    made = agent(ScriptedModel([call("look"), say("Done.")]), plugins=[Tells()])
    async with stage.runtime(made) as rt:
        shown, _ = await rt.session("s").collect("Go.", turn_id="t")

    told = [(one.name, one.correlation_id) for one in shown if isinstance(one, events.PluginEvent)]
    assert told == [
        ("start", f"c_{PREFIX}.0"),
        ("model", f"c_{PREFIX}.1"),
        ("tool", f"c_{PREFIX}.2.0"),
        ("model", f"c_{PREFIX}.4"),
        ("end", f"c_{PREFIX}.0"),
    ]


async def test_an_event_of_a_plugin_while_a_reply_streams_names_the_call(stage: Stage) -> None:
    class Tells(Plugin):
        def on_stream(self, turn: PluginTurn, chunk: object) -> None:
            turn.emit("piece")

    class Streams:
        name = "streams"

        async def complete(self, request: object, emit: EmitModelEvent) -> ModelReply:
            emit(TextChunk(text="Hi."))
            return say("Hi.")

    async with stage.runtime(Agent("a", model=Streams(), plugins=[Tells()])) as rt:
        shown, _ = await rt.session("s").collect("Go.", turn_id="t")

    told = [one.correlation_id for one in shown if isinstance(one, events.PluginEvent)]
    assert told == [f"c_{PREFIX}.1"]

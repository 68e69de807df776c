"""`after_model` may withhold a reply: nothing of it is kept or run, the model is told why, and the turn goes on."""

from __future__ import annotations

import pytest

from tests.plugins.hooks.hooked import hooked
from tests.scenarios.readings import said_by_user
from tests.scenarios.stage import Stage
from tests.scenarios.watching import names, shown_text
from windlass import Agent, Limits, TurnResult, tool
from windlass.kernel import ModelReply, ModelRequest, Usage
from windlass.kernel.outcomes import Finished, Stopped
from windlass.plugins import Plugin, PluginTurn, Stop, Withhold
from windlass.ports import TextChunk
from windlass.ports.model import EmitModelEvent
from windlass.testing import FunctionModel, Scenario, ScriptedModel, call, kill_everywhere, say

USED = Usage(input_tokens=5, output_tokens=2)
TOLD = "[note from the system]\nYour last reply was withheld by censor: No swearing."


def censor(
    said: ModelReply | Withhold | Stop, *, when: str = "damn", name: str = "censor"
) -> Plugin:
    """Return a plugin that answers so to a reply with this word, or with a call."""

    def after_model(_turn: PluginTurn, reply: ModelReply) -> ModelReply | Withhold | Stop | None:
        return said if when in reply.text or any(hasattr(p, "args") for p in reply.parts) else None

    return hooked(name, after_model=after_model)


class Streams:
    """Shows each reply whole before it gives it."""

    name = "streams"

    def __init__(self, *replies: ModelReply) -> None:
        self.replies = list(replies)
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        self.requests.append(request)
        reply = self.replies.pop(0)
        emit(TextChunk(text=reply.text))
        return reply


async def test_the_model_is_told_why_and_nothing_of_the_reply_is_kept(stage: Stage) -> None:
    model = Streams(say("damn", usage=USED), say("Sorry.", usage=USED))
    made = Agent("a", model=model, plugins=[censor(Withhold("No swearing."))])
    async with stage.runtime(made) as rt:
        shown, result = await rt.session("s").collect("Go.", turn_id="t")
        stored = await rt.turn("s", "t").result()
        history = await rt.session("s").history()

    assert result.outcome == Finished(text="Sorry.")
    assert said_by_user(model.requests[1]) == ["Go.", TOLD]
    assert [message.role for message in history] == ["user", "user", "assistant"]
    assert "damn" not in str(history)
    assert shown_text(shown) == "Sorry."
    assert names(shown).count("Retracted") == 1
    assert names(shown).count("ModelFinished") == 2
    for found in (result, stored):
        assert (found.usage.calls, found.usage.input_tokens) == (2, 10)
        assert found.issues == ()


async def test_a_call_that_is_withheld_does_not_run(stage: Stage) -> None:
    ran: list[int] = []

    @tool
    def act() -> str:
        """Act."""
        ran.append(1)
        return "done"

    model = ScriptedModel([call("act"), say("Then not.")])
    made = Agent("a", model=model, tools=[act], plugins=[censor(Withhold())])
    async with stage.runtime(made) as rt:
        result = await rt.session("s").run("Go.")

    assert (result.text, ran, result.tool_calls) == ("Then not.", [], ())
    assert said_by_user(model.requests[1])[-1] == (
        "[note from the system]\nYour last reply was withheld by censor. Answer in another way."
    )


async def test_it_is_bounded_by_the_turns_iterations(memory_stage: Stage) -> None:
    model = ScriptedModel([say("damn")] * 9)
    plugins = [censor(Withhold("No swearing."))]
    made = Agent("a", model=model, plugins=plugins, limits=Limits(max_iterations=3))
    async with memory_stage.runtime(made) as rt:
        result = await rt.session("s").run("Go.")

    assert isinstance(result.outcome, Stopped)
    assert result.outcome.reason == "max_iterations"
    assert len(model.requests) == 3


async def test_plugins_behind_see_a_withheld_reply_and_may_end_the_turn(stage: Stage) -> None:
    seen: list[str] = []

    def watch(_turn: PluginTurn, reply: ModelReply) -> ModelReply:
        seen.append(reply.text)
        return say("never kept")

    model = ScriptedModel([say("damn"), say("damn")])
    plugins = [
        censor(Withhold("No swearing.")),
        hooked("watch", after_model=watch),
        censor(Stop("Enough.", reason="refused"), name="bouncer"),
    ]
    async with stage.runtime(Agent("a", model=model, plugins=plugins)) as rt:
        result = await rt.session("s").run("Go.")

    assert seen == ["damn"]
    assert result.outcome == Stopped(reason="refused", detail="Enough.")
    assert result.messages[1:] == ()


async def test_wherever_the_process_dies_a_withheld_reply_stays_withheld() -> None:
    def reply(request: ModelRequest) -> ModelReply:
        return say("Sorry.") if len(request.messages) > 1 else say("damn")

    def check(result: TurnResult[str]) -> None:
        assert result.outcome == Finished(text="Sorry.")
        assert [len(message.parts) for message in result.messages] == [1, 1, 1]
        assert "damn" not in str(result.messages)

    def scenario() -> Scenario:
        return Scenario(
            agents=lambda: Agent(
                "a", model=FunctionModel(reply), plugins=[censor(Withhold("No swearing."))]
            ),
            run=lambda rt: rt.session("s").run("Go.", turn_id="t"),
            check=check,
        )

    await kill_everywhere(scenario)


@pytest.mark.parametrize(
    "empty", [ModelReply(text=""), ModelReply(text=" \n")], ids=["none", "blank"]
)
async def test_an_empty_reply_by_a_plugin_is_named_as_the_plugins(
    stage: Stage, empty: ModelReply
) -> None:
    made = Agent("a", model=Streams(say("damn")), plugins=[censor(empty)])
    async with stage.runtime(made) as rt:
        shown, result = await rt.session("s").collect("Go.", turn_id="t")

    why = (
        "the plugin censor gave something that cannot be used: "
        "an empty reply; return Withhold(feedback) to withhold one"
    )
    assert result.outcome == Stopped(reason="runtime_error", detail=why)
    assert [(issue.code, issue.message) for issue in result.issues] == [("plugin_failed", why)]
    assert shown_text(shown) == ""
    assert "Retracted" in names(shown)


async def test_an_empty_reply_of_the_model_is_the_models(stage: Stage) -> None:
    same = hooked("same", after_model=lambda _turn, reply: ModelReply(usage=reply.usage))
    async with stage.runtime(Agent("a", model=ScriptedModel([ModelReply()]), plugins=[same])) as rt:
        result = await rt.session("s").run("Go.")

    detail = "The model returned an empty reply."
    assert result.outcome == Stopped(reason="provider_error", detail=detail)


async def test_what_was_shown_of_a_reply_that_a_plugin_ends_the_turn_over_is_taken_back(
    stage: Stage,
) -> None:
    made = Agent("a", model=Streams(say("damn")), plugins=[censor(Stop("Enough."))])
    async with stage.runtime(made) as rt:
        shown, result = await rt.session("s").collect("Go.", turn_id="t")

    assert shown_text(shown) == ""
    assert names(shown)[-1] == "TurnEnded"
    assert result.text == ""


async def test_a_summary_that_is_withheld_leaves_the_history_as_it_was(stage: Stage) -> None:
    model = ScriptedModel([say("Hello."), say("<summary>damn</summary>")])
    made = Agent("a", model=model, plugins=[censor(Withhold("No swearing."))])
    async with stage.runtime(made) as rt:
        session = rt.session("s")
        await session.run("Go.")
        result = await session.compact()
        history = await session.history()

    assert result.outcome == Stopped(reason="refused", detail=TOLD)
    assert len(history) == 2

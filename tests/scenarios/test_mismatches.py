"""Mismatches: when code and journal disagree, the turn stops and shows where; a person decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from tests.limits import HANGS_S
from tests.scenarios.stage import Desk, Stage
from windlass import Agent, Pending, ToolContext, tool
from windlass.kernel import ModelMessage, ModelRequest, Text
from windlass.kernel.projector import ChatProjector, ProjectorView
from windlass.ports.tool import Tool
from windlass.runtime import turn_start
from windlass.runtime.recovery import Recovery
from windlass.testing import ScriptedModel, call, say


class LouderProjector(ChatProjector):
    """What another release of windlass might do: it sends one more message."""

    def project(self, view: ProjectorView) -> ModelRequest:
        request = super().project(view)
        more = ModelMessage(role="user", parts=(Text(text="LOUDER!"),))
        return msgspec.structs.replace(request, messages=(*request.messages, more))


def waiter(desk: Desk, model: ScriptedModel, **options: Any) -> Agent[None, str]:
    @tool(effect="once")
    async def order(ctx: ToolContext[None]) -> Pending:
        """Order."""
        await desk.work()
        return await ctx.defer()

    options.setdefault("tools", [order])
    return Agent("waiter", model=model, **options)


def script(name: str = "scripted") -> ScriptedModel:
    return ScriptedModel([call("order"), say("Done.")], name=name)


@pytest.fixture
def other_release(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Return what puts the other release in place."""
    return monkeypatch


async def parked_turn(stage: Stage, desk: Desk, model: ScriptedModel) -> None:
    """Leave a turn that waits for a deferred result, and deliver it while nobody drives."""
    async with stage.runtime(waiter(desk, model)) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")
    async with stage.runtime() as office:
        await office.resolve(parked.waits[0].key, "a book")


async def test_a_request_that_is_not_the_recorded_one_parks_the_turn_and_shows_where(
    stage: Stage, other_release: pytest.MonkeyPatch
) -> None:
    desk, model = Desk(), script()
    await parked_turn(stage, desk, model)
    other_release.setattr(turn_start, "_CHAT", LouderProjector())
    async with stage.runtime(waiter(desk, model)) as rt:
        result = await rt.turn("s", "t").result(timeout=HANGS_S)
        (wait,) = result.waits

        assert wait.kind == "mismatch"
        assert "/model_call/" in wait.detail["key"]
        assert wait.detail["diff"] != []
        assert (len(model.requests), len(desk.runs)) == (1, 1)  # nothing ran
        other_release.undo()
        assert await rt.retry("s", "t") is True
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.text == "Done."
    assert len(desk.runs) == 1


async def test_retry_with_the_same_code_parks_again(
    stage: Stage, other_release: pytest.MonkeyPatch
) -> None:
    desk, model = Desk(), script()
    await parked_turn(stage, desk, model)
    other_release.setattr(turn_start, "_CHAT", LouderProjector())
    async with stage.runtime(waiter(desk, model)) as rt:
        first = await rt.turn("s", "t").result(timeout=HANGS_S)
        await rt.retry("s", "t")
        second = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert second.parked
    assert [wait.kind for wait in second.waits] == ["mismatch"]
    assert second.waits[0].key != first.waits[0].key
    assert len(model.requests) == 1


async def test_a_person_may_accept_what_the_journal_holds(
    stage: Stage, other_release: pytest.MonkeyPatch
) -> None:
    desk, model = Desk(), script()
    await parked_turn(stage, desk, model)
    other_release.setattr(turn_start, "_CHAT", LouderProjector())
    async with stage.runtime(waiter(desk, model)) as rt:
        parked = await rt.turn("s", "t").result(timeout=HANGS_S)
        await rt.resolve(parked.waits[0].key, "accept")
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.text == "Done."
    assert (len(model.requests), len(desk.runs)) == (
        2,
        1,
    )  # the recorded reply was not bought again


async def test_a_runtime_may_accept_from_the_start(
    stage: Stage, other_release: pytest.MonkeyPatch
) -> None:
    desk, model = Desk(), script()
    await parked_turn(stage, desk, model)
    other_release.setattr(turn_start, "_CHAT", LouderProjector())
    async with stage.runtime(waiter(desk, model), on_mismatch="accept") as rt:
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.text == "Done."
    assert (len(model.requests), len(desk.runs)) == (2, 1)


async def test_a_model_that_is_not_here_any_more_parks_the_turn(stage: Stage) -> None:
    desk, gone = Desk(), script("gone")
    await parked_turn(stage, desk, gone)
    other = script("other")
    async with stage.runtime(waiter(desk, other)) as rt:
        result = await rt.turn("s", "t").result(timeout=HANGS_S)
        (wait,) = result.waits
        assert (wait.kind, wait.detail) == ("mismatch", {"model": "gone"})
        assert other.requests == []
    async with stage.runtime(waiter(desk, other), models=[gone]) as rt:
        assert await rt.retry("s", "t") is True
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.text == "Done."
    assert len(gone.requests) == 2


class Shelf:
    """A provider with one more tool."""

    def tools(self, context: Mapping[str, Any]) -> list[Tool]:
        @tool(effect="pure")
        async def look() -> str:
            """Look."""
            return "seen"

        return [look]


@pytest.mark.parametrize("came", [True, False], ids=["came", "went"])
async def test_new_code_with_or_without_a_tool_provider_does_not_break_a_turn_in_flight(
    stage: Stage, came: bool
) -> None:
    desk, model = Desk(), script()

    @tool(effect="once")
    async def order(ctx: ToolContext[None]) -> Pending:
        """Order."""
        await desk.work()
        return await ctx.defer()

    before, after = ([order], [order, Shelf()]) if came else ([order, Shelf()], [order])
    async with stage.runtime(waiter(desk, model, tools=before)) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")
    async with stage.runtime(waiter(desk, model, tools=after)) as rt:
        await rt.resolve(parked.waits[0].key, "a book")
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert len(desk.runs) == 1  # the recorded call was not run again
    assert len(model.requests) == 2  # nor was its reply bought again
    assert [one.outcome.value for one in result.tool_calls] == ["a book"]
    assert result.text == "Done."


async def test_new_prompts_tools_and_limits_do_not_change_a_turn_in_flight(stage: Stage) -> None:
    desk, model = Desk(), script()
    async with stage.runtime(waiter(desk, model, instructions="Be kind.")) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")

    @tool(effect="pure")
    async def dance() -> str:
        """Dance."""
        return "danced"

    async with stage.runtime(waiter(desk, model, instructions="Be rude.", tools=[dance])) as rt:
        await rt.resolve(parked.waits[0].key, "a book")
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.text == "Done."
    first, second = model.requests
    assert first.messages[0] == second.messages[0]  # the prompt
    assert [spec.name for spec in second.tools] == ["order"]
    assert result.tool_calls[0].outcome.value == "a book"


async def test_a_tool_that_is_gone_answers_an_error(stage: Stage) -> None:
    desk = Desk()
    model = ScriptedModel([call("order"), call("order"), say("Done.")])
    async with stage.runtime(waiter(desk, model)) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")
    async with stage.runtime(waiter(desk, model, tools=[])) as rt:
        await rt.resolve(parked.waits[0].key, "a book")
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert [one.outcome.status for one in result.tool_calls] == ["ok", "error"]
    assert result.tool_calls[1].outcome.value == "There is no tool called order."
    assert len(desk.runs) == 1


async def test_a_turn_that_would_lead_another_way_parks_and_nothing_runs(
    stage: Stage, other_release: pytest.MonkeyPatch
) -> None:
    """A release that asks for an environment first would find no recorded reply where it looks for one."""
    desk, model = Desk(), script()
    await parked_turn(stage, desk, model)
    other_release.setattr(Recovery, "syncs", True)
    async with stage.runtime(waiter(desk, model)) as rt:
        result = await rt.turn("s", "t").result(timeout=HANGS_S)
        (wait,) = result.waits
        assert (wait.kind, wait.detail["key"]) == ("mismatch", "s/t/1/0/sync_environment/1")
        assert (len(model.requests), len(desk.runs)) == (1, 1)
        other_release.undo()
        assert await rt.retry("s", "t") is True
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.text == "Done."
    assert [one.outcome.value for one in result.tool_calls] == ["a book"]

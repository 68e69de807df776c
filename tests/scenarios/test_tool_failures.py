"""Failing tools: a timeout of something that acts is as unknown as a crash; retries only where they are safe."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.readings import Told, last_told
from tests.scenarios.stage import Stage
from windlass import (
    Agent,
    EndTurn,
    FailTurn,
    Limits,
    ToolContext,
    ToolDenied,
    ToolError,
    ToolUncertain,
    TurnResult,
    Unknown,
    tool,
)
from windlass.errors import ConfigError
from windlass.journal import Contract
from windlass.kernel.outcomes import Finished, FinishedByTool, Stopped
from windlass.ports.tool import Tool
from windlass.testing import ScriptedModel, call, calls, say


class Odd(BaseException):
    """What some libraries raise past `except Exception`."""


def script() -> ScriptedModel:
    return ScriptedModel([call("act"), say("Done.")])


async def ended(
    stage: Stage, act: Tool, model: ScriptedModel, **options: Any
) -> tuple[list[Told], TurnResult[str]]:
    """Run a turn that calls `act`; return what the model was told, and the result."""
    async with stage.runtime(Agent("actor", model=model, tools=[act], **options)) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")
    return last_told(model), result


@pytest.mark.parametrize(
    ("effect", "status"),
    [("pure", "timeout"), ("idempotent", "timeout"), ("keyed", "timeout"), ("once", "unknown")],
)
async def test_a_timeout_is_unknown_only_where_it_matters(
    stage: Stage, effect: Contract, status: str
) -> None:
    @tool(effect=effect, timeout=0.01)
    async def act() -> str:
        """Act."""
        await asyncio.Event().wait()
        return "never"

    ((_, found, text),), result = await ended(stage, act, script())
    assert found == status
    assert "it did not return in 0.01 s" in text
    assert [issue.code for issue in result.issues] == (
        ["unknown_outcome"] if status == "unknown" else []
    )


async def test_the_turns_limit_is_the_timeout_of_tools_without_one(stage: Stage) -> None:
    @tool(effect="pure")
    async def act() -> str:
        """Act."""
        await asyncio.Event().wait()
        return "never"

    ((_, status, text),), _ = await ended(stage, act, script(), limits=Limits(tool_timeout=0.01))
    assert (status, text) == ("timeout", "it did not return in 0.01 s")


async def test_a_lost_thread_of_something_that_acts_is_unknown(stage: Stage) -> None:
    release = threading.Event()

    @tool(timeout=0.05)
    def act() -> str:
        """Act."""
        release.wait(HANGS_S)
        return "late"

    try:
        ((_, status, _),), result = await ended(stage, act, script())
    finally:
        release.set()
    assert status == "unknown"
    assert result.issues[0].code == "unknown_outcome"


async def test_a_tool_may_say_itself_that_it_does_not_know(stage: Stage) -> None:
    @tool
    async def act() -> str:
        """Act."""
        raise ToolUncertain("The line went dead.")

    ((_, status, text),), result = await ended(stage, act, script())
    assert status == "unknown"
    assert "The line went dead." in text
    assert [issue.code for issue in result.issues] == ["unknown_outcome"]


async def test_a_reconciler_is_asked_about_a_timeout_as_well(stage: Stage) -> None:
    @tool(timeout=0.01, reconcile=lambda args: Unknown())
    async def act() -> str:
        """Act."""
        await asyncio.Event().wait()
        return "never"

    model = script()
    async with stage.runtime(Agent("actor", model=model, tools=[act])) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")
        assert [wait.kind for wait in parked.waits] == ["unknown_outcome"]
        await rt.resolve(parked.waits[0].key, "it did")
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert last_told(model) == [Told("call_0_0", "ok", "it did")]
    assert result.text == "Done."


@pytest.mark.parametrize(
    ("raised", "status", "text"),
    [
        (ToolError("No such order."), "error", "No such order."),
        (ToolDenied("Not you."), "denied", "Not you."),
        (ValueError("bad luck"), "error", "ValueError: bad luck"),
        (TimeoutError(), "error", "TimeoutError"),
        (StopAsyncIteration(), "error", None),
        (Odd("odd"), "error", None),
    ],
    ids=["tool-error", "denied", "foreign", "own-timeout", "stop", "base"],
)
async def test_what_a_body_raises_is_told_to_the_model(
    memory_stage: Stage, raised: BaseException, status: str, text: str | None
) -> None:
    @tool(effect="pure")
    async def act() -> str:
        """Act."""
        raise raised

    ((_, found, said),), result = await ended(memory_stage, act, script())
    assert found == status
    if text is not None:
        assert said == text
    assert result.outcome == Finished(text="Done.")


@pytest.mark.parametrize("effect", ["pure", "idempotent", "keyed"])
async def test_a_tool_that_may_run_again_is_retried(memory_stage: Stage, effect: Contract) -> None:
    attempts: list[tuple[int, str]] = []

    @tool(effect=effect, retries=2)
    async def act(ctx: ToolContext[None]) -> str:
        """Act."""
        attempts.append((ctx.attempt, ctx.idempotency_key))
        if len(attempts) < 3:
            raise ToolError("Not yet.")
        return "at last"

    told, _ = await ended(memory_stage, act, script())
    assert [attempt for attempt, _ in attempts] == [1, 2, 3]
    assert len({key for _, key in attempts}) == 1
    assert told == [Told("call_0_0", "ok", "at last")]


async def test_retries_end(memory_stage: Stage) -> None:
    attempts: list[int] = []

    @tool(effect="pure", retries=1)
    async def act() -> str:
        """Act."""
        attempts.append(1)
        raise ToolError("Never.")

    told, _ = await ended(memory_stage, act, script())
    assert len(attempts) == 2
    assert told == [Told("call_0_0", "error", "Never.")]


def test_retries_on_once_are_refused_when_the_tool_is_made() -> None:
    with pytest.raises(ConfigError, match="retries"):

        @tool(effect="once", retries=1)
        async def act() -> str:
            """Act."""
            return ""


async def test_a_tool_that_acts_once_is_retried_only_if_it_promises_that_it_had_not_begun(
    stage: Stage,
) -> None:
    attempts: list[int] = []

    @tool(effect="once", retries=5, not_started_retries=True)
    async def act(ctx: ToolContext[None]) -> str:
        """Act."""
        attempts.append(ctx.attempt)
        if len(attempts) < 3:
            raise ToolError("No connection.", not_started=True)
        raise ToolError("Refused by the bank.")

    told, _ = await ended(stage, act, script())
    assert attempts == [1, 2, 3]
    assert told == [Told("call_0_0", "error", "Refused by the bank.")]


async def test_a_value_that_cannot_be_encoded_is_a_success_that_says_so(stage: Stage) -> None:
    runs: list[int] = []

    @tool(effect="once")
    async def act() -> object:
        """Act."""
        runs.append(1)
        return object()

    ((_, status, text),), result = await ended(stage, act, script())
    assert status == "ok"
    assert text != ""
    assert len(runs) == 1
    assert result.tool_calls[0].outcome.status == "ok"


async def test_a_tool_may_end_the_turn_with_a_value(stage: Stage) -> None:
    @tool(effect="pure")
    async def act() -> EndTurn:
        """Act."""
        return EndTurn(value={"answer": 42})

    model = ScriptedModel([call("act")])
    _, result = await ended(stage, act, model)
    assert result.outcome == FinishedByTool(tool="act", value={"answer": 42})
    value: object = result.output
    assert value == {"answer": 42}


async def test_a_tool_may_let_the_turn_fail(stage: Stage) -> None:
    @tool(effect="pure")
    async def act() -> FailTurn:
        """Act."""
        return FailTurn(value="no way on")

    model = ScriptedModel([call("act")])
    _, result = await ended(stage, act, model)
    assert isinstance(result.outcome, Stopped)
    assert result.outcome.reason == "tool_failure"


async def test_wrong_arguments_and_unknown_tools_are_told_and_nothing_runs(stage: Stage) -> None:
    runs: list[int] = []

    @tool(effect="once")
    async def act(n: int) -> str:
        """Act."""
        runs.append(n)
        return "ok"

    model = ScriptedModel(
        [calls(("act", {"n": "x"}), ("fly", {}), ("act", {"n": 7})), say("Done.")]
    )
    told, result = await ended(stage, act, model)
    assert [one.status for one in told] == ["error", "error", "ok"]
    assert "n" in told[0].text
    assert told[1].text == "There is no tool called fly."
    assert runs == [7]
    assert result.text == "Done."


async def test_a_sequential_tool_runs_alone_and_others_together(stage: Stage) -> None:
    inside: list[str] = []
    company: list[tuple[str, ...]] = []

    async def body(kind: str) -> str:
        company.append((kind, *inside))
        inside.append(kind)
        for _ in range(5):
            await asyncio.sleep(0)
        inside.remove(kind)
        return kind

    @tool(effect="pure", sequential=True)
    async def alone() -> str:
        """Work alone."""
        return await body("alone")

    @tool(effect="pure")
    async def beside() -> str:
        """Work beside others."""
        return await body("beside")

    wanted = ("alone", "beside", "beside", "alone", "beside")
    model = ScriptedModel([calls(*((name, {}) for name in wanted)), say("Done.")])
    async with stage.runtime(Agent("actor", model=model, tools=[alone, beside])) as rt:
        await rt.session("s").run("Go.", turn_id="t")

    assert len(company) == 5
    assert [met for met in company if "alone" in met and len(met) > 1] == []
    assert ("beside", "beside") in company
    assert tuple(one.text for one in last_told(model)) == wanted

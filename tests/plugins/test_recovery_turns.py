"""Recovery in whole turns: over crashes, over turns, over calls that run side by side."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.limits import HANGS_S
from tests.plugins.scene import play
from tests.scenarios.readings import words
from tests.scenarios.stage import STORES, Stage
from windlass import Agent, ToolError, tool
from windlass.kernel.messages import Message, ToolResult
from windlass.kernel.outcomes import Finished, Stopped
from windlass.plugins.recovery import Recovery, ToolRecovery
from windlass.ports.directives import Retry, Stop
from windlass.ports.tool import Tool
from windlass.testing import ScriptedModel, call, calls, say


def failing(runs: list[int]) -> Tool:
    @tool(effect="keyed")
    async def pay(n: int, fine: bool = False) -> str:
        """Pay."""
        runs.append(n)
        if fine:
            return "paid"
        raise ToolError(f"E{n}")

    return pay


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("kill_at", [None, 1, 2, 3])
async def test_a_breaker_at_two_failures_before_a_crash_is_at_two_after_it(
    kind: str, kill_at: int | None, tmp_path: Path
) -> None:
    runs: list[int] = []
    script = [*(call("pay", n=n) for n in range(4)), say("never said")]

    played = await play(
        Stage(kind, tmp_path),
        lambda: Recovery(breaker=3, prompt="again", grace="last: {errors}"),
        script,
        kill_at=kill_at,
        tools=[failing(runs)],
    )

    assert played.result.outcome == Stopped(
        reason="tool_failure", detail="pay failed 4 times in a row; the last error: E3"
    )
    assert runs == [0, 1, 2, 3]
    assert played.told_by("on_error") == [
        Retry("again"),
        Retry("again"),
        Retry("last: - E0\n- E1\n- E2"),
        Stop("pay failed 4 times in a row; the last error: E3"),
    ]
    assert played.said == [
        "user: Go.",
        "assistant: pay(n=0)",
        "user: error: E0\nagain",
        "assistant: pay(n=1)",
        "user: error: E1\nagain",
        "assistant: pay(n=2)",
        "user: error: E2\nlast: - E0\n- E1\n- E2",
        "assistant: pay(n=3)",
        "user: error: E3",
    ]


@pytest.mark.parametrize("kind", STORES)
async def test_a_worker_that_dies_inside_the_third_call_leaves_the_breaker_at_two(
    kind: str, tmp_path: Path
) -> None:
    stage, entered, gate = Stage(kind, tmp_path), asyncio.Event(), asyncio.Event()
    model = ScriptedModel([*(call("pay", n=n) for n in range(4)), say("never said")])

    def agent(is_first: bool) -> Agent[None, str]:
        @tool(effect="idempotent")
        async def pay(n: int) -> str:
            """Pay."""
            if n == 2 and is_first:
                entered.set()
                await gate.wait()
            raise ToolError(f"E{n}")

        plugin = Recovery(breaker=3, prompt="again", grace="last")
        return Agent("a", model=model, tools=[pay], plugins=[plugin])

    async with stage.runtime(agent(is_first=True)) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await entered.wait()
        stage.kill(lost)
        async with stage.runtime(agent(is_first=False)) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
        gate.set()

    shown = [words for message in result.messages if (words := result_words(message))]
    assert shown == ["E0\nagain", "E1\nagain", "E2\nlast", "E3"]
    assert result.outcome == Stopped(
        reason="tool_failure", detail="pay failed 4 times in a row; the last error: E3"
    )


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("kill_at", [None, 1, 2, 3])
async def test_a_success_counts_anew_and_calls_of_one_reply_are_judged_alike(
    kind: str, kill_at: int | None, tmp_path: Path
) -> None:
    bad, good = {"n": 1}, {"n": 2, "fine": True}
    script = [
        calls(("pay", bad), ("pay", good)),  # a row of none
        calls(("pay", bad), ("pay", bad)),  # a row of two, of which the model is not told
        calls(("pay", bad), ("pay", bad)),  # grace, to both
        say("I give up."),
    ]

    played = await play(
        Stage(kind, tmp_path),
        lambda: Recovery(breaker=2, prompt="r", grace="g"),
        script,
        kill_at=kill_at,
        tools=[failing([])],
    )

    assert played.result.outcome == Finished(text="I give up.")
    assert [line for line in played.said if line.startswith("user: ")][1:] == [
        "user: error: E1\nr | ok: paid",
        "user: error: E1\nr | error: E1\nr",
        "user: error: E1\ng | error: E1\ng",
    ]


async def test_stop_ends_the_turn_with_the_results_in_the_history(tmp_path: Path) -> None:
    played = await play(
        Stage("memory", tmp_path),
        lambda: Recovery(per_tool={"pay": ToolRecovery(on_error="stop")}),
        [calls(("pay", {"n": 1}), ("pay", {"n": 2, "fine": True})), say("never said")],
        tools=[failing([])],
    )

    assert played.result.outcome == Stopped(reason="tool_failure", detail="pay failed: E1")
    assert played.said[-1] == "user: error: E1 | ok: paid"
    assert len(played.requests) == 1


@pytest.mark.parametrize("kind", STORES)
async def test_a_row_of_the_session_goes_on_in_the_next_turn_and_in_another_process(
    kind: str, tmp_path: Path
) -> None:
    stage = Stage(kind, tmp_path)
    outcomes = []
    for turn_id in ("t1", "t2", "t3"):
        model = ScriptedModel([call("pay", n=1), say("I give up.")])
        plugin = Recovery(breaker=2, prompt="r", grace="g", scope="session")
        agent = Agent("a", model=model, tools=[failing([])], plugins=[plugin])
        async with stage.runtime(agent) as rt:
            result = await rt.session("s").run("Go.", turn_id=turn_id)
            outcomes.append((result.outcome, result_words(result.messages[-2])))

    assert outcomes == [
        (Finished(text="I give up."), "E1\nr"),
        (Finished(text="I give up."), "E1\ng"),
        (
            Stopped(
                reason="tool_failure", detail="pay failed 3 times in a row; the last error: E1"
            ),
            "",
        ),
    ]


def result_words(message: Message) -> str:
    """Return what the model was told of results."""
    return "\n".join(words(part.content) for part in message.parts if isinstance(part, ToolResult))

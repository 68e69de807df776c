"""All guards in one turn, whose process dies at every moment at which it can."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.plugins.scene import Script, shown
from windlass import Agent, Limits, ToolError, tool
from windlass.kernel import ModelReply
from windlass.plugins.call_limit import CallLimit
from windlass.plugins.loop_guard import LoopGuard
from windlass.plugins.nudges import AutoContinue, ToolEnforcement, WrapUp
from windlass.plugins.recovery import Recovery
from windlass.plugins.turn_facts import TurnFacts
from windlass.ports.plugin import Plugin
from windlass.testing import Scenario, call, calls, kill_everywhere, say


def guards() -> list[Plugin]:
    return [
        Recovery(breaker=2, prompt="r", grace="g", scope="session"),
        ToolEnforcement(nudges=1),
        CallLimit(per_tool={"find": 4}),
        AutoContinue(times=1),
        LoopGuard(repeats=2, empty=1),
        WrapUp(remaining=2, text="{remaining} left"),
        TurnFacts(),
    ]


SCRIPT: Sequence[ModelReply] = [
    ModelReply(),
    say("42"),
    calls(("find", {"q": 1}), ("fail", {}), ("find", {"q": 1})),
    call("find", q=1),
    call("fail"),
    calls(*(("find", {"q": q}) for q in (2, 3))),
    say("It is", terminal="output_limit"),
    say(" 43."),
]

OVER = (
    "Not run: the turn's limit of 4 calls of find is used up. "
    "Do not call it again. Sum up what you have and answer."
)
SEEN = [
    "user: Go.",
    "! user: Your last reply was empty. Call a tool, or answer in words.",
    "assistant: 42",
    (
        "! user: You answered without calling a tool. Call one of your tools first, "
        "then answer from what it returns."
    ),
    "assistant: find(q=1) | fail() | find(q=1)",
    "user: ok: found 1 | error: boom\nr | ok: found 1",
    "assistant: find(q=1)",
    "user: ok: found 1",
    (
        "! user: You called find 2 times in a row with the same arguments and got the same result each time. "
        "Calling it again changes nothing, and ends the turn. Do something else, or answer with what you have."
    ),
    "assistant: fail()",
    "user: error: boom\ng",
    "assistant: find(q=2) | find(q=3)",
    f"user: ok: found 2 | denied: {OVER}",
    "! user: 2 left",
    "assistant: It is",
    "! user: Please continue exactly where you stopped.",
]
STORED = [line for line in SEEN if not line.startswith("! ")] + ["assistant:  43."]


def scenario() -> Scenario:
    acted: list[int] = []

    @tool(effect="pure")
    def find(q: int) -> str:
        """Find."""
        acted.append(q)
        return f"found {q}"

    @tool(effect="pure")
    def fail() -> str:
        """Fail."""
        raise ToolError("boom")

    def check(result: Any) -> None:  # noqa: ANN401 - what the program returned
        assert [shown(message) for message in result.messages] == STORED
        assert 3 not in acted  # the fifth call of a tool that may be called four times

    return Scenario(
        agents=lambda: Agent(
            "a",
            model=Script(SCRIPT).model,
            tools=[find, fail],
            plugins=guards(),
            limits=Limits(max_iterations=8),
        ),
        run=lambda rt: rt.session("s").run("Go.", turn_id="t"),
        check=check,
    )


async def test_each_guard_says_its_word_and_the_history_has_none_of_them() -> None:
    (agent,) = scenario().made_agents()

    result = await agent.run("Go.")

    assert [shown(message) for message in result.messages] == STORED
    last = agent.model.requests[-1]
    assert [shown(message) for message in last.messages] == [
        line.removeprefix("! ") for line in SEEN
    ]


@pytest.mark.parametrize(("store", "max_points"), [("memory", None), ("sqlite", 12)])
async def test_guards_say_the_same_wherever_the_process_dies(
    store: Any,  # noqa: ANN401 - a store's kind
    max_points: int | None,
) -> None:
    report = await kill_everywhere(scenario, store=store, max_points=max_points)

    assert len(report.points) >= 12
    assert report.unknown == ()

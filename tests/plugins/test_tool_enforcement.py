"""Tool enforcement: an answer out of the blue is sent back, a few times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.plugins.fake_turn import FakeTurn
from tests.plugins.scene import play as play_turn
from tests.plugins.spoken import INPUT, asked, offers, said, worked
from tests.scenarios.stage import STORES, Stage
from windlass import Agent, tool
from windlass.errors import ConfigError
from windlass.kernel.messages import Message
from windlass.kernel.outcomes import Finished, FinishedByTool, FinishedValue, Outcome, Stopped
from windlass.plugins.nudges import ToolEnforcement
from windlass.ports.directives import Delivery
from windlass.ports.plugin import AtCheckpoint
from windlass.testing import ScriptedModel, broken_rules, call, say


def at_end(outcome: Outcome | None = None) -> AtCheckpoint:
    return AtCheckpoint(kind="before_completion", outcome=outcome or Finished(text="42"))


def turn_of(*messages: Message) -> FakeTurn:
    turn = FakeTurn("tool_enforcement")
    turn.host.tools = offers("find", "pay")
    turn.host.turn_messages = [INPUT, *messages]
    return turn


async def test_words_without_a_call_are_sent_back_three_times_and_then_stand() -> None:
    plugin, turn = ToolEnforcement(text="Use {tools}."), turn_of(said("42"))

    found = []
    for _ in range(5):
        found.append(await plugin.at_checkpoint(turn, at_end()))
        turn.settle()

    assert found == [Delivery(transient=["Use one of your tools."])] * 3 + [None, None]


@pytest.mark.parametrize(
    ("tools", "messages", "is_nudged"),
    [
        (None, [], True),
        (None, worked("c", "find", {}, "it"), False),
        (None, [asked(("c", "pay", {}))], False),  # it was asked for: what came of it is no matter
        (["pay"], worked("c", "find", {}, "it"), True),
        (["pay"], worked("c", "pay", {}, "it"), False),
        (["pay", "find"], worked("c", "find", {}, "it"), False),
        (["elsewhere"], [], False),  # what is not on offer cannot be called
        (["elsewhere", "pay"], [], True),
    ],
)
async def test_only_the_tools_that_were_named_count(
    tools: list[str] | None, messages: list[Message], is_nudged: bool
) -> None:
    turn = turn_of(*messages, said("42"))

    found = await ToolEnforcement(tools=tools).at_checkpoint(turn, at_end())

    assert (found is not None) is is_nudged


async def test_the_nudge_names_the_tools_that_are_on_offer() -> None:
    plugin = ToolEnforcement(tools=["pay", "find", "gone"], text="Use {tools}.")

    found = await plugin.at_checkpoint(turn_of(), at_end())

    assert found == Delivery(transient=["Use find or pay."])


async def test_a_call_of_an_earlier_turn_does_not_count() -> None:
    turn = turn_of(said("42"))
    turn.host.messages = [INPUT, *worked("c", "find", {}, "it"), INPUT, said("42")]

    assert await ToolEnforcement().at_checkpoint(turn, at_end()) is not None


@pytest.mark.parametrize(
    ("at", "is_nudged"),
    [
        (at_end(FinishedValue(value=1)), True),
        (at_end(FinishedByTool(tool="find", value=1)), False),
        (at_end(Stopped(reason="incomplete")), False),
        (AtCheckpoint(kind="after_work"), False),
    ],
)
async def test_only_an_answer_is_sent_back(at: AtCheckpoint, is_nudged: bool) -> None:
    found = await ToolEnforcement().at_checkpoint(turn_of(), at)

    assert (found is not None) is is_nudged


async def test_without_tools_there_is_nothing_to_enforce() -> None:
    turn = turn_of()
    turn.host.tools = ()

    assert await ToolEnforcement().at_checkpoint(turn, at_end()) is None


@pytest.mark.parametrize(("iteration", "is_nudged"), [(0, True), (4, True), (5, False)])
async def test_in_the_iteration_of_grace_the_answer_stands(iteration: int, is_nudged: bool) -> None:
    turn = turn_of()
    turn.host.iteration, turn.host.max_iterations = iteration, 5

    assert (await ToolEnforcement().at_checkpoint(turn, at_end()) is not None) is is_nudged


async def test_no_nudges_is_no_enforcement() -> None:
    assert await ToolEnforcement(nudges=0).at_checkpoint(turn_of(), at_end()) is None


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"tools": "find"}, "ToolEnforcement.tools"),
        ({"nudges": -1}, "ToolEnforcement.nudges"),
        ({"text": ""}, "ToolEnforcement.text"),
    ],
)
def test_a_bad_option_is_refused_by_name(given: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as refused:
        ToolEnforcement(**given)

    assert refused.value.field == field


# --- whole turns -------------------------------------------------------------------------------


@tool(effect="pure")
def find(q: int = 0) -> str:
    """Find."""
    return f"found {q}"


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("kill_at", [None, 1, 2, 3])
async def test_a_turn_goes_on_until_a_tool_is_called_also_over_a_crash(
    kind: str, kill_at: int | None, tmp_path: Path
) -> None:
    played = await play_turn(
        Stage(kind, tmp_path),
        lambda: ToolEnforcement(tools=["find"], nudges=2, text="Use {tools}."),
        [say("42"), say("43"), call("find", q=1), say("44")],
        kill_at=kill_at,
        tools=[find],
    )

    assert played.result.outcome == Finished(text="44")
    assert played.said == [
        "user: Go.",
        "assistant: 42",
        "assistant: 43",
        "assistant: find(q=1)",
        "user: ok: found 1",
        "assistant: 44",
    ]
    assert played.asked(-1)[:-2] == [
        "user: Go.",
        "assistant: 42",
        "user: Use find.",
        "assistant: 43",
        "user: Use find.",
    ]
    assert played.told_by("at_checkpoint") == [Delivery(transient=["Use find."])] * 2
    assert [broken for request in played.requests for broken in broken_rules(request)] == []


@pytest.mark.parametrize("kill_at", [None, 1])
async def test_after_the_last_nudge_the_answer_stands_and_the_next_turn_is_valid(
    kill_at: int | None, tmp_path: Path
) -> None:
    stage = Stage("memory", tmp_path)
    played = await play_turn(
        stage,
        lambda: ToolEnforcement(nudges=1),
        [say("42"), say("43"), say("never said")],
        kill_at=kill_at,
        tools=[find],
    )
    again = ScriptedModel([say("44")], name="script")
    async with stage.runtime(Agent("a", model=again)) as rt:
        await rt.session("s").run("And?")

    assert played.result.outcome == Finished(text="43")
    assert played.said == ["user: Go.", "assistant: 42", "assistant: 43"]
    assert broken_rules(again.requests[0]) == []

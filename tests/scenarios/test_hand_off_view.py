"""Hand-off: how targets are declared, and what the agent that takes over sees of the history from before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.scenarios.desks import TRANSFER, asked, billing, triage
from tests.scenarios.stage import Stage
from windlass import Agent, HandOff, Message, tool
from windlass.errors import ConfigError
from windlass.kernel import HistoryView, ModelReply, ModelRequest, Text, ToolCall, ToolResult
from windlass.kernel.messages import InputOrigin
from windlass.kernel.outcomes import Stopped
from windlass.plugins import Plugin, PluginTurn
from windlass.testing import ScriptedModel, broken_rules, call, say


@tool(effect="pure")
def look_up(order: int) -> str:
    """Look an order up."""
    return f"order {order}: 5 EUR"


# ------------------------------------------------------------------------- what the target sees


def rendered(request: ModelRequest) -> list[tuple[str, str]]:
    return [
        (message.role, "\n".join(part.text for part in message.parts if isinstance(part, Text)))
        for message in request.messages
    ]


TOLD = "[note from the system]\nAnother agent called {}. It returned:\n{}"
LOOKED = ("user", TOLD.format('look_up({"order":17})', "order 17: 5 EUR"))
HANDED = (
    "user",
    TOLD.format('transfer_to_billing({"task":"Refund order 17."})', "Handed off to billing."),
)


def looked_up(**more: Any) -> Agent[Any, Any]:
    words = ModelReply(
        parts=(Text(text="I look."), ToolCall(call_id="c", name="look_up", args={"order": 17}))
    )
    return triage(words, TRANSFER, tools=[look_up], **more)


async def test_calls_of_the_other_agent_are_told_in_words(stage: Stage) -> None:
    target = billing()
    async with stage.runtime(looked_up(), target) as rt:
        session = rt.session("s", "triage")
        await session.run("My money, please.")
        await session.run("More.")
        history = await session.history()

    first = [
        ("user", "My money, please."),
        ("assistant", "I look."),
        LOOKED,
        HANDED,
        ("user", "Refund order 17."),
    ]
    one, two = asked(target)
    assert rendered(one) == first
    assert rendered(two) == [*first, ("assistant", "Refunded."), ("user", "More.")]
    assert [broken_rules(request) for request in (one, two)] == [[], []]
    # The history is as it was said.
    kinds = {type(part) for message in history for part in message.parts}
    assert kinds == {Text, ToolCall, ToolResult}


async def test_an_input_that_is_a_task_says_who_gave_it(stage: Stage) -> None:
    async with stage.runtime(triage(), billing()) as rt:
        result = await rt.session("s", "triage").run("My money, please.")

    origin = result.messages[0].origin
    assert isinstance(origin, InputOrigin)
    assert origin.agent == "triage"


async def test_the_last_view_shows_the_last_input_of_the_caller(stage: Stage) -> None:
    one = triage(say("Hello."), TRANSFER)
    two = billing(call("transfer_to_legal", task="Read it."), handoffs=["legal"])
    three = Agent(
        "legal", model=ScriptedModel([say("Fine."), say("Sure.")], name="l"), handoff_view="last"
    )
    async with stage.runtime(one, two, three) as rt:
        session = rt.session("s", one)
        await session.run("Hi.")
        await session.run("Is it legal?")
        await session.run("Are you sure?")

    first, second = asked(three)
    assert rendered(first) == [("user", "Is it legal?"), ("user", "Read it.")]
    assert rendered(second) == [
        *rendered(first),
        ("assistant", "Fine."),
        ("user", "Are you sure?"),
    ]


async def test_a_function_chooses_what_the_target_sees(stage: Stage) -> None:
    given: list[int] = []

    def answers(messages: Sequence[Message]) -> list[Message]:
        given.append(len(messages))
        return [one for one in messages if one.role == "assistant"]

    target = billing(handoff_view=answers)
    async with stage.runtime(looked_up(), target) as rt:
        await rt.session("s", "triage").run("My money, please.")

    assert given == [5]
    (request,) = asked(target)
    opening = ("user", "(the conversation goes on from here)")
    assert rendered(request) == [opening, ("assistant", "I look."), ("user", "Refund order 17.")]
    assert broken_rules(request) == []


@pytest.mark.parametrize(
    ("view", "said"),
    [
        (lambda _: 1 / 0, "handoff_view raised ZeroDivisionError"),
        (lambda _: [1], "handoff_view raised AttributeError"),
        (
            lambda _: [Message(id="x", role="user", parts=(Text(text="Hi."),))],
            "handoff_view returned messages that are not in the history",
        ),
    ],
)
async def test_a_function_that_cannot_choose_ends_the_turn(
    stage: Stage, view: Callable[..., Any], said: str
) -> None:
    target = billing(handoff_view=view)
    async with stage.runtime(triage(), target) as rt:
        result = await rt.session("s", "triage").run("My money, please.")

    assert result.outcome == Stopped(reason="runtime_error", detail=said)
    assert asked(target) == []


async def test_a_session_that_comes_back_has_its_own_calls_in_words_too(stage: Stage) -> None:
    back = call("transfer_to_triage", task="It is yours.")
    source = triage(TRANSFER, say("Mine."))
    async with stage.runtime(source, billing(back, handoffs=["triage"])) as rt:
        result = await rt.session("s", "triage").run("Whose?")

    assert result.text == "Mine."
    parts = [part for message in asked(source)[-1].messages for part in message.parts]
    assert {type(part) for part in parts} == {Text}


# ------------------------------------------------------------------------- declaring


def test_targets_are_declared_when_the_agent_is_made() -> None:
    (made,) = triage(handoffs=["legal.team:eu"]).handoff_tools
    assert made.name == "transfer_to_legal_team_eu"
    with pytest.raises(ConfigError, match="itself"):
        triage(handoffs=["triage"])
    with pytest.raises(ConfigError, match="itself"):
        triage(handoffs=["old"], aliases=["old"])
    with pytest.raises(ConfigError, match="transfer_to_a_b"):
        triage(handoffs=["a.b", "a:b"])
    with pytest.raises(ConfigError, match=r"Agent.handoffs\[0\]"):
        triage(handoffs=[7])
    with pytest.raises(ConfigError, match=r"Agent\.handoff_view"):
        triage(handoff_view="some")

    @tool
    def transfer_to_billing() -> str:
        """Mine."""
        return ""

    with pytest.raises(ConfigError, match="transfer_to_billing"):
        triage(tools=[transfer_to_billing])


def test_an_agent_that_runs_by_itself_takes_its_targets_along() -> None:
    target = billing(call("transfer_to_triage", task="Yours."), handoffs=["triage"])
    result = triage(TRANSFER, say("Mine."), handoffs=[target]).run_sync("Whose?")

    assert (result.text, len(result.followed)) == ("Mine.", 2)
    with pytest.raises(ConfigError, match="only named"):
        triage(handoffs=["nobody"]).run_sync("Whose?")


@pytest.mark.parametrize(
    ("target", "detail"),
    [
        ("no name", "The turn was handed off to something that is no name of an agent."),
        ("triage", "The turn was handed off by triage to itself."),
    ],
)
async def test_a_tool_that_hands_off_to_no_other_agent_ends_the_turn(
    stage: Stage, target: str, detail: str
) -> None:
    @tool(effect="pure")
    def away() -> HandOff:
        """Away."""
        return HandOff(target=target)

    async with stage.runtime(triage(call("away"), tools=[away])) as rt:
        result = await rt.session("s").run("Go.")

    assert result.outcome == Stopped(reason="tool_failure", detail=detail)
    assert result.followed == ()


async def test_a_turn_that_has_to_finish_by_a_tool_may_hand_off(stage: Stage) -> None:
    @tool(effect="pure")
    def submit() -> str:
        """Submit."""
        return "ok"

    async with stage.runtime(triage(tools=[submit], finish="submit"), billing()) as rt:
        result = await rt.session("s", "triage").run("Go.")

    assert result.text == "Refunded."


async def test_what_plugins_hide_is_hidden_beside_what_the_hand_off_hides(stage: Stage) -> None:
    class Hides(Plugin):
        name = "hides"
        version = "1"

        def __init__(self, number: int) -> None:
            self.number = number

        async def view(self, turn: PluginTurn) -> HistoryView:
            # Its edge is the message of this number.
            return HistoryView(drop_before=turn.messages[self.number].id)

    later = billing(plugins=[Hides(2)], handoff_view="last")
    earlier = billing(plugins=[Hides(0)], handoff_view="last")
    for target, shown in ((later, ["Refund order 17."]), (earlier, ["Money!", "Refund order 17."])):
        async with stage.runtime(triage(), target) as rt:
            await rt.session(f"s{len(shown)}", "triage").run("Money!")
        (request,) = asked(target)
        assert [text for _, text in rendered(request)] == shown

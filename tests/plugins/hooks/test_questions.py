"""A plugin's question: about the arguments that would run, asked once, answered by anyone, remembered by its key."""

from __future__ import annotations

from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.plugins.hooks.hooked import hooked
from tests.plugins.hooks.ledger import Ledger
from tests.scenarios.stage import Stage
from windlass import Agent, Allow, tool
from windlass.ports.directives import ReplaceArgs
from windlass.ports.plugin import AskedCall, Plugin
from windlass.ports.plugin_turn import PluginTurn
from windlass.ports.policy import Ask, Deny, PolicyCall, PolicySession, Ruling
from windlass.testing import call, say

DOUBLES = hooked("doubles", before_tool=ReplaceArgs({"x": 2}))


class Recording:
    """A policy that notes what it is asked about."""

    def __init__(self, ruling: Ruling) -> None:
        self.version = "1"
        self.saw: list[Any] = []
        self._ruling = ruling

    def decide(self, call: PolicyCall, session: PolicySession) -> Ruling:
        self.saw.append(call.args)
        return self._ruling


def agent(ledger: Ledger, *plugins: Plugin, xs: tuple[int, ...] = (1,), **options: Any) -> Any:  # noqa: ANN401 - an agent
    options.setdefault("tools", [ledger.tool()])
    model = ledger.model([*(call("act", x=x) for x in xs), say("Done.")])
    return Agent("a", model=model, plugins=plugins, **options)


async def test_a_policy_decides_on_the_arguments_that_would_run(memory_stage: Stage) -> None:
    ledger = Ledger()
    strict, mild = Recording(Deny(reason="No.")), Recording(Allow())
    async with memory_stage.runtime(agent(ledger, DOUBLES, policy=strict)) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")
    assert strict.saw == [{"x": 2}]
    assert result.tool_calls[0].outcome.status == "denied"

    async with memory_stage.runtime(agent(ledger, DOUBLES, policy=mild)) as rt:
        await rt.session("other").run("Go.", turn_id="t")
    assert mild.saw == [{"x": 2}]
    assert ledger.bodies == [2]


async def test_a_person_approves_the_arguments_that_would_run_and_no_others(stage: Stage) -> None:
    ledger, saw = Ledger(), []

    @tool(effect="keyed", approval="ask")
    async def act(x: int) -> str:
        """Act."""
        ledger.bodies.append(x)
        return f"did {x}"

    def replaces(_turn: PluginTurn, call: AskedCall) -> ReplaceArgs:
        saw.append(call.args["x"])
        return ReplaceArgs({"x": call.args["x"] * 2})

    plugin = hooked("doubles", before_tool=replaces)
    async with stage.runtime(agent(ledger, plugin, tools=[act], xs=(1, 2))) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")
        (first,) = result.waits
        assert first.detail["args"] == {"x": 2}
        await rt.approve(first.key)
        result = await rt.turn("s", "t").result(timeout=HANGS_S)
        # The model asks for 2 now, as it was approved; but 4 would run, and that was not.
        (second,) = result.waits
        assert second.detail["args"] == {"x": 4}
        assert second.key != first.key
        assert (await rt.approve(first.key)).status == "already"
        await rt.deny(second.key, reason="Too much.")
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert ledger.bodies == [2]
    assert [one.outcome.status for one in result.tool_calls] == ["ok", "denied"]
    assert saw == [1, 2]


def asks(counts: list[str], over: int = 0, key: str | None = None) -> Plugin:
    """Return a plugin that asks, and counts how often it does."""

    def before_tool(_turn: PluginTurn, call: AskedCall) -> Ask | None:
        counts.append(call.call_id)
        return Ask(title="Really?", risk="high", action_key=key) if call.args["x"] > over else None

    return hooked("asks", before_tool=before_tool)


async def test_a_question_is_answered_elsewhere_and_the_plugin_is_not_asked_again(
    stage: Stage,
) -> None:
    ledger, counts = Ledger(), list[str]()
    async with stage.runtime(agent(ledger, asks(counts))) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")
        (wait,) = parked.waits
        assert (wait.title, wait.detail["risk"], wait.call_id) == ("Really?", "high", "call_0_0")
    async with stage.runtime() as office:
        await office.approve(wait.key, by="eva")
    async with stage.runtime(agent(ledger, asks(counts))) as rt:
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.text == "Done."
    assert counts == ["call_0_0"]
    assert ledger.bodies == [1]


async def test_a_question_that_is_denied_is_a_no_and_asked_once(stage: Stage) -> None:
    ledger, counts = Ledger(), list[str]()
    async with stage.runtime(agent(ledger, asks(counts))) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")
        await rt.deny(parked.waits[0].key, reason="Not today.", by="eva")
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.tool_calls[0].outcome.value == "Denied by eva: Not today."
    assert (counts, ledger.bodies) == (["call_0_0"], [])


async def test_what_is_remembered_for_the_session_is_not_asked_again_and_only_there(
    stage: Stage,
) -> None:
    ledger, counts = Ledger(), list[str]()
    made = agent(ledger, asks(counts, key="acting"), xs=(1, 2))
    async with stage.runtime(made) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")
        assert parked.waits[0].detail["action_key"] == "acting"
        await rt.approve(parked.waits[0].key, remember="session")
        result = await rt.turn("s", "t").result(timeout=HANGS_S)
        assert result.text == "Done."
    ledger.bodies.clear()
    # In a later turn and another process, too; in another session it is asked anew.
    late = Ledger()
    async with stage.runtime(
        Agent(
            "a",
            model=late.model([*[say("")] * 3, call("act", x=3), say("Well.")]),
            tools=[late.tool()],
            plugins=[asks(counts, key="acting")],
        )
    ) as rt:
        result = await rt.session("s").run("Go on.", turn_id="t2")
        assert result.text == "Well."
    assert late.bodies == [3]
    async with stage.runtime(agent(ledger, asks(counts, key="acting"))) as rt:
        assert (await rt.session("other").run("Go.", turn_id="t")).parked
    assert ledger.bodies == []


@pytest.mark.parametrize("by", ["tool", "policy"])
async def test_what_was_remembered_of_another_question_does_not_answer_a_plugins(
    by: str, memory_stage: Stage
) -> None:
    ledger, counts = Ledger(), list[str]()

    @tool(effect="keyed", approval="ask" if by == "tool" else "never")
    async def act(x: int) -> str:
        """Act."""
        ledger.bodies.append(x)
        return f"did {x}"

    policy = Recording(Ask(title="May it?")) if by == "policy" else None
    plugin = asks(counts, over=100, key="much")
    made = agent(ledger, plugin, tools=[act], xs=(1, 1000, 2000), policy=policy)
    async with memory_stage.runtime(made) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")
        await rt.approve(parked.waits[0].key, remember="session")
        parked = await rt.turn("s", "t").result(timeout=HANGS_S)
        (wait,) = parked.waits
        assert (wait.title, wait.detail["action_key"]) == ("Really?", "much")
        assert ledger.bodies == [1]
        await rt.approve(wait.key, remember="session")
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.text == "Done."
    assert ledger.bodies == [1, 1000, 2000]

"""A plugin that holds a model call: the turn parks until a person says something."""

from __future__ import annotations

from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.plugins.hooks.hooked import hooked
from tests.plugins.hooks.ledger import Ledger
from tests.plugins.scene import shown
from tests.scenarios.stage import Stage
from windlass import Agent
from windlass.kernel import ModelMessage, ModelRequest, Text
from windlass.kernel.outcomes import Stopped
from windlass.ports.directives import Hold
from windlass.ports.plugin import Plugin
from windlass.ports.plugin_turn import PluginTurn
from windlass.testing import call, say


def holding(notes: list[Any], *, keys: tuple[str, ...] = ("more",)) -> Plugin:
    """Return a plugin that holds the second call of the model, for each key until it has an answer."""

    def before_model(turn: PluginTurn, _request: ModelRequest) -> Hold | None:
        notes.append((turn.iteration, dict(turn.answers)))
        if turn.iteration == 0:
            return None
        missing = [key for key in keys if key not in turn.answers]
        return (
            Hold(key=missing[0], title=f"{missing[0]}?", detail={"spent": 3}) if missing else None
        )

    return hooked("holding", before_model=before_model)


def agent(ledger: Ledger, *plugins: Plugin) -> Agent[Any, Any]:
    model = ledger.model([call("act", x=1), say("Done."), say("Next.")])
    return Agent("a", model=model, tools=[ledger.tool()], plugins=plugins)


async def test_a_held_call_parks_the_turn_and_goes_on_with_the_answer_elsewhere(
    stage: Stage,
) -> None:
    ledger, notes = Ledger(), list[Any]()
    async with stage.runtime(agent(ledger, holding(notes))) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")
        (wait,) = parked.waits
        assert (wait.kind, wait.title) == ("budget", "more?")
        assert wait.detail == {"plugin": "holding", "key": "more", "about": {"spent": 3}}
        assert len(ledger.requests) == 1
    async with stage.runtime() as office:
        await office.resolve(wait.key, {"extra": 5})
    async with stage.runtime(agent(ledger, holding(notes))) as rt:
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.text == "Done."
    assert notes == [(0, {}), (1, {}), (1, {}), (1, {"more": {"extra": 5}})]
    assert (len(ledger.requests), ledger.bodies) == (2, [1])


async def test_a_hold_that_is_rejected_ends_the_turn_as_a_spent_limit(stage: Stage) -> None:
    ledger = Ledger()
    async with stage.runtime(agent(ledger, holding([]))) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")
        await rt.reject(parked.waits[0].key, "No more.")
        result = await rt.turn("s", "t").result(timeout=HANGS_S)
        assert await rt.waits() == ()

    assert result.outcome == Stopped(reason="limit", detail="more?: rejected")
    assert len(ledger.requests) == 1
    assert [shown(message) for message in result.messages][-1] == "user: ok: did 1"


async def test_one_call_may_be_held_for_several_answers(stage: Stage) -> None:
    ledger, notes = Ledger(), list[Any]()
    async with stage.runtime(agent(ledger, holding(notes, keys=("money", "time")))) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")
        await rt.resolve(parked.waits[0].key, 1)
        parked = await rt.turn("s", "t").result(timeout=HANGS_S)
        assert [wait.title for wait in parked.waits] == ["time?"]
        await rt.resolve(parked.waits[0].key, 2)
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.text == "Done."
    assert notes[-1] == (1, {"money": 1, "time": 2})


async def test_who_holds_again_for_what_was_answered_ends_the_turn(memory_stage: Stage) -> None:
    stubborn = hooked("stubborn", before_model=Hold(key="k", title="More?"))
    ledger = Ledger()
    async with memory_stage.runtime(agent(ledger, stubborn)) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")
        await rt.resolve(parked.waits[0].key, "yes")
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert getattr(result.outcome, "reason", None) == "limit"
    assert "stubborn" in str(result.outcome)
    assert ledger.requests == []


@pytest.mark.parametrize("said", ["resolve", "reject"])
async def test_two_who_hold_are_answered_one_after_the_other(
    said: str, memory_stage: Stage
) -> None:
    def once(key: str) -> Plugin:
        def before_model(turn: PluginTurn, _request: ModelRequest) -> Hold | None:
            return None if key in turn.answers else Hold(key=key, title=f"{key}?")

        return hooked(key, before_model=before_model)

    ledger = Ledger()
    async with memory_stage.runtime(agent(ledger, once("a"), once("b"))) as rt:
        parked = await rt.session("s").run("Go.", turn_id="t")
        assert [wait.title for wait in parked.waits] == ["a?"]
        await rt.resolve(parked.waits[0].key, 1)
        parked = await rt.turn("s", "t").result(timeout=HANGS_S)
        assert [wait.title for wait in parked.waits] == ["b?"]
        if said == "reject":
            await rt.reject(parked.waits[0].key, "no")
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
            assert result.outcome == Stopped(reason="limit", detail="b?: rejected")
            assert ledger.requests == []
            return
        await rt.resolve(parked.waits[0].key, 1)
        await rt.turn("s", "t").result(timeout=HANGS_S)
    assert len(ledger.requests) == 1


async def test_what_is_added_to_a_request_is_in_that_request_and_nowhere_else(
    stage: Stage,
) -> None:
    def before_model(turn: PluginTurn, request: ModelRequest) -> ModelRequest:
        whisper = ModelMessage(role="user", parts=(Text(text=f"psst {turn.iteration}"),))
        return ModelRequest(
            model=request.model, messages=(*request.messages, whisper), tools=request.tools
        )

    ledger = Ledger()
    made = agent(ledger, hooked("whispers", before_model=before_model))
    async with stage.runtime(made) as rt:
        await rt.session("s").run("Go.", turn_id="t")
        await rt.session("s").run("On.", turn_id="t2")
        history = await rt.session("s").history()

    found = [[line for line in ledger.asked(at) if "psst" in line] for at in range(3)]
    assert found == [["user: psst 0"], ["user: psst 1"], ["user: psst 0"]]
    assert not any("psst" in shown(message) for message in history)

"""Hooks that fail: guards fail closed, builders end the turn, the rest is noted; nobody learns what they said."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.hooks.faults import FAULTS, SECRET
from tests.plugins.hooks.hooked import hooked
from tests.plugins.hooks.ledger import Ledger
from tests.plugins.hooks.playing import Act, Played, disks, play
from tests.plugins.hooks.test_every_hook import ended
from tests.plugins.scene import shown
from tests.scenarios.stage import STORES, Stage
from windlass import Agent, TurnResult
from windlass.kernel.outcomes import Stopped
from windlass.ports.directives import Stop
from windlass.ports.plugin import Plugin
from windlass.testing import call, say

IDS = [act.name for act in FAULTS]


@pytest.mark.parametrize("act", FAULTS, ids=IDS)
@pytest.mark.parametrize("kind", STORES)
async def test_a_hook_that_raises_changes_nothing_and_is_named(
    kind: str, act: Act, tmp_path: Path
) -> None:
    async with disks(kind, tmp_path) as disk:
        trial = await play(act, disk())

    found = ended(trial)
    assert found.said == [*act.said]
    assert found.outcome == act.outcome
    assert found.issues == [*act.issues]
    assert trial.ledger.acts == ["acts"]
    assert trial.ledger.bodies == [*act.bodies]
    # Neither what it said, nor what it wanted to be remembered.
    for page in found.pages:
        assert SECRET.encode() not in page
        assert b'"acts"' not in page


@pytest.mark.parametrize("act", FAULTS, ids=IDS)
async def test_wherever_the_process_dies_a_failed_hook_has_failed_the_same_way(
    act: Act, tmp_path: Path
) -> None:
    async with disks("memory", tmp_path) as disk:
        whole: Played = ended(await play(act, disk()))
        for point in (await play(act, disk())).seen:
            trial = await play(act, disk(), point)

            assert ended(trial) == whole, str(point)
            wanted = 2 if trial.is_in_the_middle(act) else 1
            assert len(trial.ledger.acts) == wanted, str(point)


def fails(*_given: object) -> None:
    raise ValueError(SECRET)


async def run(stage: Stage, *plugins: Plugin, x: int = 1) -> TurnResult[Any]:
    ledger = Ledger()
    model = ledger.model([call("act", x=x), say("Done.")])
    agent = Agent("a", model=model, tools=[ledger.tool()], plugins=plugins)
    async with stage.runtime(agent) as rt:
        return await rt.session("s").run("My card is 4242.", turn_id="t")


async def test_the_log_says_where_a_hook_failed_and_not_what_with(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    await run(stage, hooked("p", before_model=fails))

    (entry,) = [one.getMessage() for one in caplog.records if one.name == "windlass"]
    assert entry.startswith("the plugin p raised ValueError in before_model:\n")
    assert "test_faults.py" in entry
    assert ", in fails\n" in entry
    assert "4242" not in entry


@pytest.mark.parametrize("hook", ["before_turn", "prompt"])
async def test_what_one_took_out_of_the_input_stays_out_when_another_fails(
    hook: str, stage: Stage
) -> None:
    cleans = hooked("cleans", on_input=["My card is ****."])
    result = await run(stage, cleans, hooked("fails", **{hook: fails}))

    assert [shown(message) for message in result.messages] == ["user: My card is ****."]


@pytest.mark.parametrize("is_first", [False, True])
async def test_of_an_input_at_which_a_plugin_failed_nothing_is_kept(
    is_first: bool, stage: Stage
) -> None:
    plugins = [hooked("cleans", on_input=["My card is ****."]), hooked("fails", on_input=fails)]
    result = await run(stage, *(plugins[::-1] if is_first else plugins))

    assert result.messages == ()
    assert getattr(result.outcome, "reason", None) == "runtime_error"


async def test_a_stop_holds_though_the_result_that_it_was_about_cannot_be_shown(
    stage: Stage,
) -> None:
    plugin = hooked("p", on_error=Stop("Enough."), present_result=fails)
    result = await run(stage, plugin, x=13)

    assert result.outcome == Stopped(reason="tool_failure", detail="Enough.")
    assert [shown(message) for message in result.messages][-1] == (
        "user: error: (Its result is withheld: the plugin p raised ValueError in present_result.)"
    )


def cancels(*_given: object) -> None:
    raise asyncio.CancelledError


class Odd(BaseException):
    """Not even an Exception."""


def oddly(*_given: object) -> None:
    raise Odd


@pytest.mark.parametrize(("raises", "name"), [(cancels, "CancelledError"), (oddly, "Odd")])
async def test_whatever_a_hook_raises_concerns_the_turn_and_not_the_worker(
    raises: Callable[..., None],
    name: str,
    stage: Stage,
) -> None:
    builder = await run(stage, hooked("p", before_model=raises))
    guard = await run(Stage("memory", stage.path), hooked("p", before_tool=raises))

    detail = f"the plugin p raised {name} in before_model"
    assert builder.outcome == Stopped(reason="runtime_error", detail=detail)
    assert (
        guard.tool_calls[0].outcome.value == f"Not run: the plugin p raised {name} in before_tool."
    )
    assert guard.text == "Done."

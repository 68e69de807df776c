"""Turns with plugins replay by what their hooks had answered; not one of the hooks is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.limits import HANGS_S
from tests.plugins.hooks import everything
from tests.plugins.hooks.acts import ACTS
from tests.plugins.hooks.hooked import hooked
from tests.plugins.hooks.ledger import QUESTION, Ledger
from tests.plugins.hooks.playing import Act, scenario
from tests.runtime import played
from tests.runtime.replays import Kept, check_prefixes, check_same, kept, prefixes, replayed
from tests.scenarios.stage import Desk, Stage
from tests.scenarios.workers import worker
from windlass.kernel.outcomes import Finished, Stopped
from windlass.ports import Plugin
from windlass.ports.directives import ReplaceArgs, Stop
from windlass.ports.plugin_turn import PluginTurn
from windlass.ports.policy import Deny
from windlass.runtime.plugin_set import PluginSet
from windlass.runtime.replaying import Replayed
from windlass.testing import Scenario, ScriptedModel, call, calls, say

SAY: Callable[[Act], str] = lambda act: act.name  # noqa: E731 - an id


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage("memory", tmp_path)


async def turns_of(stage: Stage, program: Scenario) -> list[Kept]:
    """Play a program to its end and return its turns."""
    agent: Any = program.agents()
    async with stage.runtime(agent, **(program.settings or {})) as rt:
        while await program.run(rt) is None:
            (wait,) = await rt.approvals()
            await rt.approve(wait.key, by="eva")
            await rt.turn("s", "t").result(timeout=HANGS_S)
        session = await rt._services.store.load_session("s")
        return [await kept(rt, page.turn_id) for page in session.pages]


@pytest.mark.parametrize("act", ACTS, ids=SAY)
async def test_whatever_a_hook_did_to_a_turn_its_replay_comes_to_the_same(
    stage: Stage, act: Act
) -> None:
    ledger = Ledger()
    turns = await turns_of(stage, scenario(act, ledger))
    n_acts = len(ledger.acts)

    for turn in turns:
        await check_same(turn)
        await check_prefixes(turn)
    assert len(ledger.acts) == n_acts
    assert turns[0].view.outcome == act.outcome


async def test_a_turn_with_every_hook_and_the_one_that_it_left_behind_replay(stage: Stage) -> None:
    ledger = Ledger()
    turns = await turns_of(
        stage, everything.scenario(ledger, lambda: everything.Everything(ledger))
    )

    assert len(turns) == 2
    for turn in turns:
        await check_same(turn)
        await check_prefixes(turn)


async def test_what_a_plugin_asked_a_model_and_noted_is_taken_from_the_journal(
    stage: Stage,
) -> None:
    async def asks(turn: PluginTurn, *_: object) -> None:
        turn.patch(said=(await turn.complete(QUESTION)).text)

    plugin = hooked("asking", after_model=asks, before_tool=asks, at_checkpoint=asks)
    both = calls(("look", {}), ("send", {}))
    agent = played.agent(both, call("look"), say("Done."), plugins=[plugin])
    turn = await played.one(stage, agent)

    found = await check_same(turn)
    await check_prefixes(turn)
    # Three replies, two batches of calls, and the three checkpoints behind them.
    assert found.effects == 8


async def test_a_call_with_other_arguments_that_was_denied_all_the_same_replays(
    stage: Stage,
) -> None:
    doubles = hooked("doubles", before_tool=ReplaceArgs({"at": "that"}))
    denies = hooked("denies", before_tool=Deny(reason="No."))
    agent = played.agent(call("look"), say("Done."), plugins=[doubles, denies])
    turn = await played.one(stage, agent)

    await check_same(turn)
    await check_prefixes(turn)


async def test_a_call_that_was_cancelled_while_it_ran_replays_though_a_plugin_was_to_look_at_it(
    stage: Stage,
) -> None:
    desk, model = Desk(is_open=False), ScriptedModel([call("work")])
    looks = hooked("looks", after_tool=None)
    async with stage.runtime(worker(desk, model, effect="once", plugins=[looks])) as rt:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        await handle.cancel("enough")
        await handle.result(timeout=HANGS_S)
        desk.gate.set()
        turn = await kept(rt)

    await check_same(turn)
    # Whoever drives on between the result and the commit says the same of it.
    *_, last = prefixes(turn.view)
    found = await replayed(turn._replace(view=msgspec.structs.replace(last, cancel="enough")))
    assert (found.state, found.messages) == ("ends", turn.committed)


async def test_a_result_that_a_plugin_had_not_looked_at_stays_withheld(stage: Stage) -> None:
    has_begun = asyncio.Event()

    async def hangs(*_: object) -> None:
        has_begun.set()
        await asyncio.Event().wait()

    agent = played.agent(call("send"), plugins=[hooked("looks", after_tool=hangs)])
    async with stage.runtime(agent) as rt:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        await has_begun.wait()
        await handle.cancel("enough")
        await handle.result(timeout=HANGS_S)
        turn = await kept(rt)

    found = await check_same(turn)
    assert "withheld" in str(found.messages[-1])
    assert "sent" not in str(found.messages)


async def test_what_plugins_still_look_at_is_where_a_replay_stops(stage: Stage) -> None:
    agent = played.agent(
        call("look"), say("Done."), plugins=[hooked("looks", after_model=None, after_tool=None)]
    )
    found = await check_prefixes(await played.one(stage, agent))

    assert list(dict.fromkeys(one.at for one in found)) == [
        "s/t/1/0/model_call/1",
        "s/t/1/0/model_hooks/1",
        "s/t/1/0/tool_call/2/0",
        "s/t/1/0/tool_hooks/2/0/presented",
        "s/t/1/1/model_call/4",
        "s/t/1/1/model_hooks/4",
        "",
    ]


# ---------------------------------------------------------------------- turns that plugins ended


def stops_at(hook: str) -> Plugin:
    """Return a plugin that ends a turn in a hook of its last iteration."""

    def says(turn: PluginTurn, *_: object) -> Stop | None:
        return Stop("That will do.", "limit") if turn.iteration == 1 else None

    return hooked("stops", **{hook: says})


@pytest.mark.parametrize("hook", ["before_model", "after_model", "at_checkpoint"])
async def test_a_turn_that_a_plugin_ended_ends_as_it_was_committed(stage: Stage, hook: str) -> None:
    """Its commit alone says so: a plugin's last word is in no entry."""
    agent = played.agent(call("look"), say("Done."), plugins=[stops_at(hook)])
    turn = await played.one(stage, agent)
    assert turn.view.outcome == Stopped(reason="limit", detail="That will do.")

    await check_same(turn)
    await check_prefixes(turn)


@pytest.mark.parametrize("hook", ["before_model", "after_model", "at_checkpoint", "view"])
async def test_a_turn_that_a_plugin_broke_ends_as_it_was_committed(stage: Stage, hook: str) -> None:
    def breaks(turn: PluginTurn, *_: object) -> None:
        if turn.iteration == 1:
            raise RuntimeError("broken")

    agent = played.agent(call("look"), say("Done."), plugins=[hooked("breaks", **{hook: breaks})])
    turn = await played.one(stage, agent)
    assert isinstance(turn.view.outcome, Stopped)
    assert turn.view.outcome.reason == "runtime_error"

    await check_same(turn)
    await check_prefixes(turn)


# ---------------------------------------------------------------------- plugins that are not here


def without_plugins(turn: Kept) -> Kept:
    """Return a turn with an agent that has no plugins any more."""
    return turn._replace(program=msgspec.structs.replace(turn.program, plugins=PluginSet()))


async def test_without_a_plugin_that_it_began_with_a_turn_is_blocked(stage: Stage) -> None:
    agent = played.agent(say("Done."), plugins=[hooked("guard", before_tool=None)])
    turn = without_plugins(await played.one(stage, agent))

    found = await replayed(turn)

    assert found == Replayed(
        state="blocked", why="The turn began with the plugin guard, which this worker does not have"
    )


async def test_a_cancelled_turn_needs_no_plugin_to_end(stage: Stage) -> None:
    agent = played.agent(say("Done."), plugins=[hooked("guard", before_tool=None)])
    turn = without_plugins(await played.one(stage, agent))

    found = await replayed(
        turn.with_view(state="running", page=None, outcome=None, cancel="enough")
    )

    assert (found.state, found.outcome) == ("ends", Stopped(reason="cancelled", detail="enough"))


async def test_a_plugin_that_came_later_is_not_a_part_of_the_turn(stage: Stage) -> None:
    turn = await played.one(stage, played.agent(call("look"), say("Done.")))
    more = PluginSet([hooked("late", prompt=None, after_tool=None, at_checkpoint=None)])

    found = await check_same(
        turn._replace(program=msgspec.structs.replace(turn.program, plugins=more))
    )

    assert found.outcome == Finished(text="Done.")


async def test_without_its_driver_a_turn_is_blocked(stage: Stage) -> None:
    turn = await played.one(stage, played.agent(say("Done.")))
    first, *rest = turn.view.pages
    started = msgspec.structs.replace(first.entries[0], driver="code")
    changed = msgspec.structs.replace(first, entries=(started, *first.entries[1:]))

    found = await replayed(turn.with_view(pages=(changed, *rest)))

    assert found == Replayed(
        state="blocked", why="The turn began with the driver code, which this worker does not have"
    )

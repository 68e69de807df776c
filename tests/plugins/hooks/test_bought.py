"""What a plugin asks a model on its own is bought once: a hook that runs again gets the same answer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.plugins.hooks.acts import PLAIN, UNLUCKY
from tests.plugins.hooks.hooked import hooked
from tests.plugins.hooks.ledger import QUESTION, Acting, Ledger, Make
from tests.plugins.hooks.playing import Act, disks, play
from tests.plugins.hooks.test_every_hook import ended
from tests.scenarios.readings import turn_view
from tests.scenarios.stage import Desk, Stage, until
from windlass import Agent, ToolContext, tool
from windlass.errors import ProviderError, Unavailable
from windlass.journal.patch import add
from windlass.kernel import ModelRequest
from windlass.kernel.outcomes import Outcome
from windlass.ports.plugin import Plugin
from windlass.ports.plugin_turn import PluginTurn
from windlass.testing import FunctionModel, call, say

BOUGHT = "a reply to a tool"
HOOKS = [
    "on_input", "before_turn", "prompt", "view", "before_model", "after_model", "before_tool",
    "after_tool", "on_error", "present_result", "at_checkpoint", "after_turn",
]  # fmt: skip


def asking(hook: str) -> Make:
    """Return what makes a plugin whose hook asks a model, once in the turn, and then waits a while."""

    async def run(self: Acting, turn: PluginTurn, *_given: Any) -> None:
        if "answer" in turn.state or (hook == "on_error" and turn.iteration > 0):
            return
        reply = await turn.complete(QUESTION)
        turn.patch(answer=reply.text)
        turn.remember(answer=reply.text, asked=add(1))
        await asyncio.sleep(0.002)  # idle: what was bought is written
        await self.act(turn)

    return type("Asking", (Acting,), {"name": "asking", hook: run})


@pytest.mark.parametrize("hook", HOOKS)
async def test_a_crash_after_the_answer_does_not_buy_it_again(hook: str, tmp_path: Path) -> None:
    act = Act(name=hook, plugin=asking(hook), records="", said=PLAIN)
    if hook == "on_error":
        act = Act(name=hook, plugin=asking(hook), records="", said=(), replies=UNLUCKY)
    async with disks("memory", tmp_path) as disk:
        whole = await play(act, disk())
        assert [one.model for one in whole.ledger.questions] == ["oracle"]
        assert b'"answer":"42"' in ended(whole).pages[0]
        again = 0
        bought = next(at for at, point in enumerate(whole.seen) if BOUGHT in point.what)
        for point in whole.seen[max(0, bought - 4) : bought + 9]:
            trial = await play(act, disk(), point)
            is_recorded = any(
                one.where.startswith("after write") and BOUGHT in one.what for one in trial.seen
            )
            assert ended(trial) == ended(whole), str(point)
            assert len(trial.ledger.questions) <= (1 if is_recorded else 2), str(point)
            again += len(trial.ledger.acts) > 1 and len(trial.ledger.questions) == 1
    # There were crashes in the middle of the hook, after the answer.
    assert again > 0


async def test_what_a_plugin_buys_is_counted_under_its_name(stage: Stage) -> None:
    ledger = Ledger()
    agent = Agent("a", model=ledger.model([say("Done.")]), plugins=[asking("before_turn")(ledger)])
    async with stage.runtime(agent, models=[ledger.oracle()]) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")
        page = (await rt._services.store.load_session("s")).pages[0]

    assert result.text == "Done."
    assert sorted((line.source, line.model, line.calls) for line in page.usage) == [
        ("plugin:asking", "oracle", 1),
        ("turn", "main", 1),
    ]


async def test_a_model_that_does_not_answer_a_plugin_is_the_plugins_to_handle(
    stage: Stage,
) -> None:
    asked: list[str] = []

    def refuses(_request: ModelRequest) -> str:
        asked.append("asked")
        raise Unavailable("sk-live-4242")

    async def before_turn(turn: PluginTurn) -> list[str]:
        try:
            await turn.complete(QUESTION)
        except ProviderError:
            return ["The oracle is silent."]
        return []

    oracle = FunctionModel(refuses, name="oracle")
    ledger = Ledger()
    agent = Agent(
        "a", model=ledger.model([say("Done.")]), plugins=[hooked("asks", before_turn=before_turn)]
    )
    async with stage.runtime(agent, models=[oracle]) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")

    assert result.text == "Done."
    assert ledger.asked(0)[0] == "user: The oracle is silent."
    assert asked == ["asked"]


class Covers(Plugin):
    """Counts every request, also those that tools make, and notes which was the last."""

    name = "covers"
    covers_direct_calls = True

    def __init__(self, found: list[Any]) -> None:
        self._found = found

    async def before_model(self, turn: PluginTurn, request: ModelRequest) -> None:
        turn.patch(n=add(1), last=f"{request.model} {turn.iteration}")

    async def before_turn(self, turn: PluginTurn) -> None:
        self._found.clear()

    async def prompt(self, turn: PluginTurn) -> None:
        self._found.append(dict(turn.state))

    async def after_turn(self, turn: PluginTurn, outcome: Outcome) -> None:
        self._found.append(dict(turn.state))


def thinker(ledger: Ledger, found: list[Any], desk: Desk) -> Agent[Any, Any]:
    @tool(effect="keyed")
    async def think(ctx: ToolContext[None]) -> str:
        """Think."""
        return (await ctx.complete(QUESTION)).text

    @tool(effect="keyed")
    async def work() -> str:
        """Work."""
        await desk.work()
        return "worked"

    model = ledger.model([call("think"), call("work"), say("Done.")])
    return Agent("a", model=model, tools=[think, work], plugins=[Covers(found)])


@pytest.mark.parametrize("is_killed", [False, True], ids=["undisturbed", "killed"])
async def test_what_changes_around_a_tools_own_question_holds_from_its_place_in_the_turn(
    is_killed: bool, stage: Stage
) -> None:
    ledger, found, seen = Ledger(), list[Any](), list[Any]()
    desk = Desk(is_open=not is_killed)
    async with stage.runtime(thinker(ledger, found, desk), models=[ledger.oracle()]) as rt:
        await rt.session("s").submit("Go.", turn_id="t")
        if is_killed:
            await desk.entered.wait()
            await until(lambda: _has_reply(rt))
            stage.kill(rt)
            late = thinker(ledger, seen, Desk())
            async with stage.runtime(late, models=[ledger.oracle()]) as other:
                await other.turn("s", "t").result(timeout=HANGS_S)
            desk.gate.set()
            found = [*found[:2], *seen]
        else:
            await rt.turn("s", "t").result(timeout=HANGS_S)

    assert len(ledger.questions) == 1
    assert found == [
        {},
        {"n": 2, "last": "oracle 0"},
        {"n": 3, "last": "main 1"},
        {"n": 4, "last": "main 2"},
    ]


async def _has_reply(runtime: Any) -> bool:  # noqa: ANN401 - a runtime
    journal = (await turn_view(runtime, "s", "t")).journal()
    return any("/direct_call/" in row.key and row.outcome is not None for row in journal.rows())

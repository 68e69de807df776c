"""Input that comes while a turn runs passes the same hook as the one that began it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.plugins.hooks.hooked import hooked
from tests.plugins.hooks.ledger import Ledger
from tests.plugins.scene import shown
from tests.scenarios.readings import words
from tests.scenarios.stage import Desk, Stage
from windlass import Agent, tool
from windlass.kernel.messages import Part
from windlass.ports.directives import Refuse
from windlass.ports.plugin import Plugin
from windlass.ports.plugin_turn import PluginTurn
from windlass.testing import call, say


def doorkeeper(asked: list[str]) -> Plugin:
    """Return a plugin that lets in what is polite, and makes it louder."""

    def on_input(turn: PluginTurn, parts: tuple[Part, ...]) -> list[str] | Refuse:
        said = words(parts)
        asked.append(said)
        turn.patch(n=len(asked))
        return Refuse("not polite") if "now" in said else [said.upper()]

    return hooked("door", on_input=on_input)


def agent(ledger: Ledger, first: Desk, second: Desk, plugin: Plugin) -> Agent[Any, Any]:
    @tool(effect="keyed")
    async def work(n: int) -> str:
        """Work."""
        await (first, second)[n].work(n)
        return f"worked {n}"

    model = ledger.model([call("work", n=0), call("work", n=1), say("Done."), say("Well.")])
    return Agent("a", model=model, tools=[work], plugins=[plugin])


@pytest.mark.parametrize("is_killed", [False, True], ids=["undisturbed", "killed"])
async def test_what_comes_meanwhile_is_seen_once_and_changed_or_refused(
    is_killed: bool, stage: Stage
) -> None:
    asked: list[str] = []
    first, second = Desk(is_open=False), Desk(is_open=not is_killed)
    plugin = doorkeeper(asked)
    async with stage.runtime(agent(Ledger(), first, second, plugin)) as rt:
        session = rt.session("s")
        await session.submit("Go.", turn_id="t")
        await first.entered.wait()
        await session.enqueue("please", key="k1")
        await session.enqueue("now!", key="k2")
        first.gate.set()
        if is_killed:
            await second.entered.wait()
            stage.kill(rt)
            late = agent(Ledger(), Desk(), Desk(), plugin)
            async with stage.runtime(late) as other:
                result = await other.turn("s", "t").result(timeout=HANGS_S)
                history = await other.session("s").history()
                assert (await other.session("s").inbox()).items == ()
            second.gate.set()
        else:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
            history = await session.history()
            assert (await session.inbox()).items == ()

    assert asked == ["Go.", "please", "now!"]
    assert [shown(message) for message in history] == [
        "user: GO.",
        "assistant: work(n=0)",
        "user: ok: worked 0",
        "user: PLEASE",
        "assistant: work(n=1)",
        "user: ok: worked 1",
        "assistant: Done.",
    ]
    (issue,) = result.issues
    assert issue.code == "input_refused"
    assert issue.message.endswith("did not enter: not polite")

"""What the commands show of a turn in flight is what plugins left of it: nothing that they still look at."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.limits import HANGS_S
from tests.plugins.hooks.hooked import hooked
from windlass import Agent, Runtime, tool
from windlass.cli.main import main
from windlass.cli.opening import Found
from windlass.cli.talk.screen import Screen, show_leftover
from windlass.kernel import ModelReply, Text
from windlass.kernel.tool_call import CompletedToolCall, ToolOutcome
from windlass.ports.plugin_turn import PluginTurn
from windlass.testing import ScriptedModel, calls, say

SAID, REPLIED, RETURNED = "said-4711", "replied-4712", "returned-4713"
ALL = (SAID, REPLIED, RETURNED)


@tool(effect="idempotent")
async def fetch() -> str:
    """Fetch."""
    return f"{RETURNED} is here"


@tool(effect="once", approval="ask")
async def pay() -> str:
    """Pay."""
    return "paid"


class Gate:
    """Holds a hook in its middle."""

    def __init__(self, hook: str) -> None:
        self.hook = hook
        self.is_held = asyncio.Event()

    async def passed(self, hook: str) -> None:
        """Stay for ever in the hook that is held."""
        if hook == self.hook:
            self.is_held.set()
            await asyncio.Event().wait()


def guarded(gate: Gate) -> Agent[None, str]:
    """Return an agent with a plugin that takes out what is said, replied and returned."""

    async def on_input(_turn: PluginTurn, parts: tuple[Any, ...]) -> list[Any]:
        await gate.passed("on_input")
        return [Text(text="(said)") for _ in parts]

    async def after_model(_turn: PluginTurn, reply: ModelReply) -> ModelReply:
        await gate.passed("after_model")
        parts = (Text(text="(replied)"), *[part for part in reply.parts if type(part) is not Text])
        return ModelReply(parts=parts, terminal=reply.terminal)

    async def after_tool(_turn: PluginTurn, call: CompletedToolCall) -> ToolOutcome:
        await gate.passed("after_tool")
        return ToolOutcome(value="(returned)")

    plugin = hooked("guard", on_input=on_input, after_model=after_model, after_tool=after_tool)
    asked = calls(("fetch", {}), ("pay", {}))
    first = ModelReply(parts=(Text(text=REPLIED), *asked.parts), terminal="tool_use")
    model = ScriptedModel([first, say("Done.")])
    return Agent("a", model=model, tools=[fetch, pay], plugins=[plugin])


async def leftover(rt: Runtime[Any]) -> str:
    """Return what a chat shows first of a session."""
    store, stream = rt._services.store, io.StringIO()
    turn = await store.load_turn("s", "t")
    assert turn is not None
    found = Found(session=await store.load_session("s"), turns=(turn,))
    show_leftover(found, Screen(Console(file=stream, width=200, highlight=False)))
    return stream.getvalue()


@pytest.mark.parametrize(
    ("hook", "shown"),
    [
        ("on_input", set()),
        ("after_model", {"(said)"}),
        ("after_tool", {"(said)", "(replied)"}),
        ("", {"(said)", "(replied)", "(returned)"}),
    ],
)
async def test_a_command_shows_what_plugins_have_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], hook: str, shown: set[str]
) -> None:
    gate, address = Gate(hook), f"sqlite:///{tmp_path / 'windlass.db'}"
    async with Runtime(guarded(gate), store=address) as rt, asyncio.timeout(HANGS_S):
        handle = await rt.session("s").submit(f"{SAID}, do it.", turn_id="t")
        if hook:
            await gate.is_held.wait()
            await rt._worker._drives.by_session["s"].drive.flush()
        else:
            assert (await handle.result()).parked
        told = [await leftover(rt)]
        for words in (["show", "s", "--turn", "t"], ["show", "s", "--turn", "t", "--json"]):
            assert await asyncio.to_thread(main, [*words, "--store", address]) == 0
            told.append(capsys.readouterr().out)
        await rt.cancel("s", "t")
        await handle.result()

    for text in told:
        assert [secret for secret in ALL if secret in text] == []
        # A result waits for the others of its reply; a chat tells it at once.
        wanted = shown if text is told[0] else shown - {"(returned)"}
        assert {word for word in ("(said)", "(replied)", "(returned)") if word in text} == wanted
    (asked,) = json.loads(told[2])["input"] or [None]
    assert (asked and asked["text"]) == ("(said)" if shown else None)

"""The context window in real turns: every request has room, and a worker that takes over sends the very same."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.readings import turn_view
from tests.scenarios.stage import STORES, Stage
from windlass import Agent, Runtime, tool
from windlass.kernel import (
    Finished,
    ModelReply,
    ModelRequest,
    PluginEvent,
    Text,
    ToolResult,
    canonical,
)
from windlass.kernel.tokens import tokens_of_request
from windlass.plugins.context_window import ContextWindow
from windlass.plugins.output_budget import OutputBudget
from windlass.testing import FunctionModel, broken_rules, call, say

USABLE = 2_000


def plugin() -> ContextWindow:
    return ContextWindow(window=USABLE + 200, reserve=200)


@tool(effect="pure")
def look(n_tokens: int) -> str:
    """Return so many tokens."""
    return "word" * n_tokens


class Clerk:
    """Looks once in every turn, and answers; a worker may be held when it asks the model for the last time."""

    def __init__(self, n_tokens: int, *, hold_at: int | None = None) -> None:
        self.n_tokens = n_tokens
        self.hold_at = hold_at
        self.reached = asyncio.Event()
        self.model = FunctionModel(self.answer, name="clerk")

    async def answer(self, request: ModelRequest) -> ModelReply:
        if self.hold_at is not None and len(self.model.requests) >= self.hold_at:
            self.reached.set()
            await asyncio.Event().wait()
        last = request.messages[-1]
        if any(isinstance(part, ToolResult) for part in last.parts):
            return say("Done.")
        return call("look", n_tokens=self.n_tokens)

    def agent(self, *plugins: Any, **more: Any) -> Agent[Any, Any]:
        return Agent(
            "a",
            model=self.model,
            instructions="Be brief.",
            tools=[look],
            plugins=plugins or [plugin()],
            **more,
        )


def n_cleared(request: ModelRequest) -> int:
    return sent(request).count(b"cleared to save space")


def sent(request: ModelRequest) -> bytes:
    return canonical.encode(request)


async def written(runtime: Runtime[Any], session_id: str, turn_id: str) -> None:
    """Wait until all that the turn has to write is in the store."""
    n_pages = -1
    while (found := len((await turn_view(runtime, session_id, turn_id)).pages)) != n_pages:
        n_pages = found
        for _ in range(100):
            await asyncio.sleep(0)


@pytest.mark.parametrize("kind", STORES)
async def test_a_long_session_has_room_in_every_request_and_keeps_its_history(
    kind: str, tmp_path: Path
) -> None:
    clerk = Clerk(150)
    async with Stage(kind, tmp_path).runtime(clerk.agent()) as rt:
        session = rt.session("s")
        for turn in range(30):
            result = await session.run(f"Look, {turn}.", turn_id=f"t{turn}")
            assert isinstance(result.outcome, Finished)
        history = await session.history()

    requests = clerk.model.requests
    assert len(requests) == 60
    assert len(history) == 30 * 4
    for request in requests:
        assert tokens_of_request(request) <= USABLE
        assert broken_rules(request) == []
    # What is in front of the edges stays what it was: the last request begins like the one before.
    begins = [canonical.encode(request.messages[1]) for request in requests]
    assert len(set(begins)) <= 4
    assert len(requests[-1].messages) < 60


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize(
    ("hold_at", "n_turns"), [(1, 3), (2, 4)], ids=["first-request", "after-tools"]
)
async def test_a_worker_that_takes_over_sends_the_very_same_request(
    kind: str, hold_at: int, n_turns: int, tmp_path: Path
) -> None:
    stage = Stage(kind, tmp_path)
    before = Clerk(300)
    async with stage.runtime(before.agent()) as rt:
        for turn in range(n_turns):
            await rt.session("s").run(f"Look, {turn}.", turn_id=f"t{turn}")
    first, second = Clerk(700, hold_at=hold_at), Clerk(700)
    async with stage.runtime(first.agent()) as rt:
        await rt.session("s").submit("Look again.", turn_id="t")
        await first.reached.wait()
        await written(rt, "s", "t")
        stage.kill(rt)
        # Whatever this one would think of: what was written down holds.
        roomy = ContextWindow(window=100_000, reader="other")
        async with stage.runtime(second.agent(roomy)) as other:
            result = await other.turn("s", "t").result(timeout=HANGS_S)

    assert isinstance(result.outcome, Finished)
    assert len(second.model.requests) == 3 - hold_at
    assert sent(second.model.requests[0]) == sent(first.model.requests[-1])
    # An edge had just moved there, and for nobody but the first worker.
    moved = [*before.model.requests, *first.model.requests][-2:]
    assert n_cleared(moved[0]) < n_cleared(moved[1])


@pytest.mark.parametrize("kind", STORES)
async def test_a_view_that_was_not_written_down_comes_out_the_same_again(
    kind: str, tmp_path: Path
) -> None:
    """Nothing is on the plugin: another worker finds the same edges from what the session remembers."""
    stage = Stage(kind, tmp_path)
    clerks = [Clerk(150) for _ in range(12)]
    for turn, clerk in enumerate(clerks):
        async with stage.runtime(clerk.agent()) as rt:
            await rt.session("s").run(f"Look, {turn}.", turn_id=f"t{turn}")
    alone = Clerk(150)
    async with Stage("memory", tmp_path).runtime(alone.agent()) as rt:
        for turn in range(12):
            await rt.session("s").run(f"Look, {turn}.", turn_id=f"t{turn}")

    many = [sent(request) for clerk in clerks for request in clerk.model.requests]
    assert many == [sent(request) for request in alone.model.requests]


async def test_what_was_cleared_can_be_read_with_the_tool_that_the_placeholder_names(
    tmp_path: Path,
) -> None:
    placeholders: list[str] = []

    def answer(request: ModelRequest) -> ModelReply:
        results = [
            part for m in request.messages for part in m.parts if isinstance(part, ToolResult)
        ]
        texts = ["".join(p.text for p in r.content if isinstance(p, Text)) for r in results]
        if isinstance(request.messages[-1].parts[0], ToolResult):
            return say(texts[-1][:200])
        cleared = [text for text in texts if "cleared" in text]
        if cleared:
            placeholders.append(cleared[0])
            return call("read_output", call_id=results[texts.index(cleared[0])].call_id)
        return call("look", n_tokens=300)

    agent = Agent(
        "a",
        model=FunctionModel(answer, name="reader"),
        tools=[look],
        plugins=[OutputBudget(), ContextWindow(window=2_600, reserve=200)],
    )
    async with Stage("memory", tmp_path).runtime(agent) as rt:
        for turn in range(10):
            result = await rt.session("s").run(f"Look, {turn}.", turn_id=f"t{turn}")
            if placeholders:
                break

    assert placeholders[0].startswith("(output of look cleared to save space; read_output(call_id=")
    assert "wordword" in result.text


async def test_what_was_trimmed_is_shown_to_those_who_watch(tmp_path: Path) -> None:
    clerk = Clerk(600)
    async with Stage("memory", tmp_path).runtime(clerk.agent()) as rt:
        seen = []
        for turn in range(5):
            async with rt.session("s").stream(f"Look, {turn}.", turn_id=f"t{turn}") as running:
                seen += [event async for event in running if isinstance(event, PluginEvent)]

    assert {(event.plugin, event.name) for event in seen} == {("context_window", "trimmed")}

"""A runtime that was made for one session takes up nothing of others: they began elsewhere, and with other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.stage import STORES, Stage
from windlass import Agent, Runtime, ToolContext, tool
from windlass.errors import ConfigError
from windlass.testing import FunctionModel, call, say


@pytest.fixture(params=STORES)
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    return Stage(request.param, tmp_path)


def answerer(ran: list[str]) -> Agent[Any, Any]:
    """An agent that acts once in a turn, after a yes."""

    @tool(approval="ask")
    async def act(ctx: ToolContext[None]) -> str:
        ran.append(ctx.session_id)
        return "done"

    def reply(request: Any) -> Any:  # noqa: ANN401 - a request and a reply
        has_acted = any(type(part).__name__ == "ToolResult" for part in request.messages[-1].parts)
        return say("Done.") if has_acted else call("act")

    return Agent("a", model=FunctionModel(reply), tools=[act])


async def looked(rt: Runtime[Any]) -> None:
    """Let a worker look, and end what it began."""
    for _ in range(3):
        await rt._worker.look()
        for driving in list(rt._worker._drives.by_session.values()):
            await driving.end()


async def test_it_leaves_allowed_calls_and_new_messages_of_other_sessions_to_other_processes(
    stage: Stage,
) -> None:
    ran: list[str] = []
    agent = answerer(ran)
    async with stage.runtime(agent) as rt:
        for name in ("mine", "theirs"):
            parked = await rt.session(name).run("Act.", turn_id="t")
            assert parked.parked
    async with stage.runtime(agent, worker=False) as person:
        for wait in await person.approvals():
            await person.approve(wait.key)
        await person.session("idle").submit("Act.", turn_id="t")

    async with stage.runtime(agent, only_session="mine") as rt:
        result = await rt.turn("mine", "t").result(timeout=HANGS_S)
        await looked(rt)
        assert (result.text, ran) == ("Done.", ["mine"])
        left = [await rt.turn(name, "t").status() for name in ("theirs", "idle")]
        assert left == ["ready", "queued"]
    async with stage.runtime(agent) as rt:
        await rt.turn("theirs", "t").result(timeout=HANGS_S)
        assert (await rt.turn("idle", "t").result(timeout=HANGS_S)).parked

    assert ran == ["mine", "theirs"]


async def test_what_it_runs_itself_it_drives(stage: Stage) -> None:
    agent = Agent("a", model=FunctionModel(lambda _: say("Hello.")))
    async with stage.runtime(agent, only_session="mine") as rt:
        mine, other = await rt.session("mine").run("Hi."), await rt.session("other").run("Hi.")

    assert (mine.text, other.text) == ("Hello.", "Hello.")


@tool(background=True)
async def later() -> str:
    """Do it later."""
    return "done"


def plain(name: str, **more: Any) -> Agent[Any, Any]:
    return Agent(name, model="demo", **more)


@pytest.mark.parametrize(
    ("agents", "session", "wanted"),
    [
        ([plain("a")], "no/id", "a session's id"),
        ([plain("a")], "", "a session's id"),
        ([], "s", "one agent, without subagents"),
        ([plain("a"), plain("b")], "s", "one agent, without subagents"),
        ([plain("a", tools=[plain("b").as_tool()])], "s", "one agent, without subagents"),
        ([plain("a", tools=[later])], "s", "one agent, without subagents"),
    ],
)
def test_it_is_for_one_agent_that_starts_nothing_elsewhere(
    agents: list[Any], session: str, wanted: str
) -> None:
    with pytest.raises(ConfigError, match=f"Runtime.only_session: wanted {wanted}"):
        Runtime(*agents, store="memory:", only_session=session)

"""A process is replayed: its function runs, and has nothing but the journal."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.runtime import replays
from tests.scenarios.stage import Stage, until
from windlass import Agent, Process, ProcessContext, ProcessHandle, Runtime, process
from windlass.kernel import FinishedValue
from windlass.runtime.replaying import Replayed
from windlass.testing import ScriptedModel, call, say

HOUR_S = 3_600


class Log:
    """What steps did."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.unwound = 0

    def act(self, what: str) -> str:
        self.done.append(what)
        return what


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage("memory", tmp_path)


def process_of(log: Log, *, last: str = "second", pause_s: float = HOUR_S) -> Process[Any]:
    @process(name="work")
    async def work(ctx: ProcessContext[Any]) -> list[str]:
        try:
            first = await ctx.step(log.act, "first")
            told = await ctx.turn("writer", "Write.")
            await asyncio.gather(ctx.sleep(pause_s), ctx.step(log.act, "beside"))
            await ctx.emit("half", 1)
            return [first, told, await ctx.step(log.act, last)]
        finally:
            log.unwound += 1

    return work


def writer() -> Agent[None, str]:
    return Agent("writer", model=ScriptedModel([say("Dear Ann")]))


async def replayed(rt: Runtime[Any], other: Process[Any] | None = None) -> Replayed:
    """Replay the process `p` of a runtime, with the code of another one if it is given."""
    handle = rt.processes.get("p")
    turn = await replays.kept(rt, "run", handle.session_id)
    if other is not None:
        program = other.compiled(turn.program.find_model, turn.program.model, turn.program.deps)
        turn = turn._replace(program=program)
    return await replays.replayed(turn)


async def parked(stage: Stage, log: Log, rt: Runtime[Any], work: Process[Any]) -> None:
    handle = await rt.processes.start(work, id="p")
    await until(lambda: log.done == ["first", "beside"])
    await until(lambda: _is_parked(rt, handle))


async def _is_parked(rt: Runtime[Any], handle: ProcessHandle[Any]) -> bool:
    view = await rt._services.store.load_turn(handle.session_id, "run")
    assert view is not None
    return view.state == "parked" and [
        one.wait.kind for one in view.waits if one.state == "open"
    ] == ["timer"]


async def test_it_goes_on_where_the_journal_ends_and_does_nothing_there(stage: Stage) -> None:
    log = Log()
    work = process_of(log)
    async with stage.runtime(writer(), processes=[work]) as rt:
        await parked(stage, log, rt, work)
        unwound = log.unwound
        found = await replayed(rt)

    assert (found.state, found.outcome, found.diff) == ("goes_on", None, ())
    assert found.at.endswith("/sleep/1.b1.1")
    assert log.done == ["first", "beside"]
    assert log.unwound == unwound + 1


async def test_one_that_has_ended_ends_the_same_way(stage: Stage) -> None:
    log = Log()
    work = process_of(log)
    async with stage.runtime(writer(), processes=[work]) as rt:
        await parked(stage, log, rt, work)
        stage.later(HOUR_S, rt)
        await rt.processes.get("p").result(timeout=HANGS_S)
        found = await replayed(rt)

    assert found.state == "ends"
    assert found.outcome == FinishedValue(value=["first", "Dear Ann", "second"])
    assert found.is_same is True
    assert log.done == ["first", "beside", "second"]


async def test_other_code_differs_by_name_and_place(stage: Stage) -> None:
    log = Log()
    work = process_of(log)

    @process(name="work")
    async def changed(ctx: ProcessContext[Any]) -> None:
        await ctx.sleep(1)
        await ctx.step(log.act, "never")

    async with stage.runtime(writer(), processes=[work]) as rt:
        await parked(stage, log, rt, work)
        found = await replayed(rt, changed)

    assert found.state == "differs"
    assert found.at.endswith("/sleep/1.1")
    assert [(one.path, one.recorded, one.found) for one in found.diff] == [
        ("$.operation", "tool_call", "sleep")
    ]
    assert "never" not in log.done


async def test_code_that_ends_earlier_differs(stage: Stage) -> None:
    log = Log()
    work = process_of(log)

    @process(name="work")
    async def shorter(ctx: ProcessContext[Any]) -> str:
        return str(await ctx.step(log.act, "first"))

    async with stage.runtime(writer(), processes=[work]) as rt:
        await parked(stage, log, rt, work)
        found = await replayed(rt, shorter)

    assert found.state == "differs"
    assert [one.change for one in found.diff] == ["removed"]


async def test_deps_block_it(stage: Stage) -> None:
    log = Log()

    @process(name="work")
    async def needy(ctx: ProcessContext[Any]) -> None:
        await ctx.sleep(HOUR_S)
        log.act(ctx.deps)

    @process(name="work")
    async def needy_at_once(ctx: ProcessContext[Any]) -> None:
        log.act(ctx.deps)
        await ctx.sleep(HOUR_S)

    async with stage.runtime(processes=[needy], deps=lambda _: "deps") as rt:
        handle = await rt.processes.start(needy, id="p")
        await until(lambda: _is_parked(rt, handle))
        at_rest, found = await replayed(rt), await replayed(rt, needy_at_once)

    assert at_rest.state == "goes_on"
    assert (found.state, found.why) == ("blocked", "Its function uses deps, which a replay has not")
    assert log.done == []


async def test_a_turn_with_children_is_replayed_too(stage: Stage) -> None:
    child = writer()
    lead = Agent(
        "lead",
        model=ScriptedModel([call("writer", task="Write."), say("Done.")]),
        tools=[child.as_tool(description="Writes.")],
    )
    async with stage.runtime(lead, child) as rt:
        result = await rt.session("s", lead).run("Go", turn_id="t")
        assert result.text == "Done."
        found = await replays.check_same(await replays.kept(rt))

    assert found.effects == 3

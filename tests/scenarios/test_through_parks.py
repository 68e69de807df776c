"""Waiting through parks: a caller waits until its turn, or its session, is done, whoever answers meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, cast

import pytest

from tests.limits import HANGS_S
from tests.scenarios.payers import payer, script
from tests.scenarios.stage import Desk, Stage, until
from tests.scenarios.workers import echo, worker
from windlass import Agent, Limits, Runtime, Session, ToolContext, TurnHandle, tool
from windlass.errors import EngineError, InvalidInput
from windlass.runtime.program import Program
from windlass.testing import FunctionModel, ScriptedModel, call, say

Waiter = Callable[[Runtime[Any]], Coroutine[Any, Any, object]]


def twice() -> ScriptedModel:
    return ScriptedModel([call("pay", cents=5), call("pay", cents=6), say("Done.")])


async def for_turn(rt: Runtime[Any]) -> object:
    return await rt.turn("s", "t").result(through_parks=True)


async def for_session(rt: Runtime[Any]) -> None:
    await rt.session("s").wait()


WAITERS = [pytest.param(for_turn, id="turn"), pytest.param(for_session, id="session")]


async def answer_all(rt: Runtime[Any], n_answers: int) -> None:
    """Approve so many questions, each when it is there."""
    for _ in range(n_answers):
        async with asyncio.timeout(HANGS_S):
            while not (open_waits := await rt.approvals()):  # noqa: ASYNC110 - another runtime opens it
                await asyncio.sleep(0.01)
        await rt.approve(open_waits[0].key, by="eva")  # an answered question is open no more


@pytest.mark.parametrize("wait", WAITERS)
async def test_a_caller_waits_through_questions_that_somebody_else_answers(
    stage: Stage, wait: Waiter
) -> None:
    desk = Desk()
    async with stage.runtime(payer(desk, twice())) as rt, stage.runtime() as elsewhere:
        await rt.session("s").submit("Pay.", turn_id="t")
        async with asyncio.timeout(HANGS_S), asyncio.TaskGroup() as together:
            together.create_task(answer_all(elsewhere, 2))
            await wait(rt)
        result = await rt.turn("s", "t").result()

    assert (result.status, result.text, desk.runs) == ("done", "Done.", [5, 6])


async def test_a_caller_in_a_process_that_drives_nothing_waits_through_parks(stage: Stage) -> None:
    desk = Desk()
    async with stage.runtime(payer(desk, twice())) as drives, stage.runtime(worker=False) as waits:
        await drives.session("s").submit("Pay.", turn_id="t")
        async with asyncio.timeout(HANGS_S), asyncio.TaskGroup() as together:
            together.create_task(answer_all(drives, 2))
            result = await waits.turn("s", "t").result(through_parks=True)

    assert (result.text, desk.runs) == ("Done.", [5, 6])


async def test_time_that_runs_out_ends_the_park_by_the_virtual_clock(stage: Stage) -> None:
    desk = Desk()
    agent = payer(desk, script(), limits=Limits(approval_timeout=60))
    async with stage.runtime(agent) as rt:
        parked = await rt.session("s").run("Pay.", turn_id="t")
        assert parked.parked
        waiting = asyncio.ensure_future(for_turn(rt))
        await asyncio.sleep(0)
        stage.later(61, rt)
        await asyncio.wait_for(waiting, HANGS_S)
        result = await rt.turn("s", "t").result()

    assert (result.text, desk.runs) == ("Done.", [])  # nobody allowed it
    assert result.tool_calls[0].outcome.status == "denied"


@pytest.mark.parametrize("wait", WAITERS)
async def test_a_runtime_that_closes_ends_the_waiting_with_its_error(
    stage: Stage, wait: Waiter
) -> None:
    async with stage.runtime(payer(Desk(), script())) as rt:
        await rt.session("s").run("Pay.", turn_id="t")
        waiting = asyncio.get_running_loop().create_task(wait(rt))
        await until(lambda: bool(rt._worker.resting._patient))

    with pytest.raises(
        EngineError, match="this runtime was closed; it continues when one is opened"
    ):
        await asyncio.wait_for(waiting, HANGS_S)


async def test_a_time_limit_ends_the_waiting_and_not_the_turn(stage: Stage) -> None:
    async with stage.runtime(payer(Desk(), script())) as rt:
        session: Session[Any] = rt.session("s")
        handle: TurnHandle[Any] = await session.submit("Pay.", turn_id="t")
        await handle.result(timeout=HANGS_S)
        with pytest.raises(TimeoutError):
            await handle.result(0.01, through_parks=True)
        with pytest.raises(TimeoutError):
            await session.wait(0.01)
        assert await handle.status() == "parked"
        assert rt._worker.resting._patient == {}


@pytest.mark.parametrize("wait", WAITERS)
async def test_whoever_waits_reads_nothing_while_nothing_happens(
    stage: Stage, wait: Waiter
) -> None:
    async with stage.runtime(payer(Desk(), script()), echo_agent()) as rt:
        await rt.session("s", "payer").run("Pay.", turn_id="t")
        waiting = asyncio.get_running_loop().create_task(wait(rt))
        await until(lambda: bool(rt._worker.resting._patient))
        await rt.session("other", "worker").run("Hello.")
        read: list[str] = []
        store = rt._services.store
        for name in ("load_turn", "load_session", "inbox"):
            setattr(store, name, _noting(getattr(store, name), read))
        for number in range(20):
            await rt._worker.look()
            await rt.session(f"other{number}", "worker").submit("Hello.")
        async with asyncio.timeout(HANGS_S):
            await rt.session("other19", "worker").wait()
        read_for = [session_id for session_id in read if session_id == "s"]
        waiting.cancel()
        await asyncio.wait({waiting})

    assert read_for == []


def echo_agent() -> Agent[None, str]:
    return worker(Desk(), echo())


def _noting(read: Callable[..., Awaitable[object]], into: list[str]) -> object:
    async def noted(session_id: str, *rest: object, **options: object) -> object:
        into.append(session_id)
        return await read(session_id, *rest, **options)

    return noted


@dataclass
class Purse:
    cents: int


def purser(model: ScriptedModel) -> Agent[Purse, str]:
    @tool(effect="keyed", approval="ask")
    async def pay(ctx: ToolContext[Purse]) -> str:
        """Pay."""
        return f"paid {ctx.deps.cents}"

    return Agent("purser", model=model, tools=[pay], deps_type=Purse)


async def test_deps_that_the_next_worker_asks_for_are_given_by_the_caller_that_waits(
    stage: Stage,
) -> None:
    lines = [call("pay"), say("Done.")]
    async with stage.runtime(purser(ScriptedModel(lines))) as rt:
        handle = await rt.session("s").submit("Pay.", turn_id="t", deps=Purse(5))
        parked = await handle.result(timeout=HANGS_S)
        waiting = asyncio.get_running_loop().create_task(handle.result(through_parks=True))
        await until(lambda: bool(rt._worker.resting._patient))
        programs = cast("dict[str, Program]", rt._worker.programs)
        programs.clear()  # this process leaves the driving to the other one, at first
        async with stage.runtime(purser(ScriptedModel(lines))) as other:
            await other.approve(parked.waits[0].key)
            async with asyncio.timeout(HANGS_S):
                while not (asked := await other.waits("deps")):  # noqa: ASYNC110 - a worker opens it
                    await asyncio.sleep(0.01)
            assert [wait.title for wait in asked] == [
                "purser needs deps; run the turn again with them"
            ]
        programs["purser"] = purser(ScriptedModel(lines)).compiled(rt._models)
        rt._worker.kick()
        result = await asyncio.wait_for(waiting, HANGS_S)

    assert [one.outcome.value for one in result.tool_calls] == ["paid 5"]


async def test_a_session_is_waited_for_until_its_inbox_and_its_queue_are_empty(
    stage: Stage,
) -> None:
    desk = Desk(is_open=False)
    async with stage.runtime(worker(desk, echo())) as rt:
        session = rt.session("s")
        await session.wait()  # it has no turns yet
        await session.submit("work")
        await desk.entered.wait()
        await session.enqueue("One.", when="next_turn")
        await session.submit("Two.")
        waiting = asyncio.get_running_loop().create_task(session.wait())
        await until(lambda: bool(rt._worker.resting._patient))
        assert not waiting.done()
        desk.gate.set()
        await asyncio.wait_for(waiting, HANGS_S)
        said = [
            part.text
            for one in await session.history()
            if one.role == "user"
            for part in one.parts
            if hasattr(part, "text")
        ]

    assert sorted(said) == ["One.", "Two.", "work"]


async def test_a_tool_cannot_wait_for_its_own_session(memory_stage: Stage) -> None:
    runtimes: list[Runtime[Any]] = []

    @tool(effect="pure")
    async def wait() -> str:
        """Wait for oneself."""
        try:
            await runtimes[0].session("s").wait()
        except InvalidInput as error:
            return str(error)
        return "waited"

    replies = ScriptedModel([call("wait"), say("Done.")])
    async with memory_stage.runtime(Agent("a", model=replies, tools=[wait])) as rt:
        runtimes.append(rt)
        result = await asyncio.wait_for(rt.session("s").run("Go."), HANGS_S)

    told = "session s: a tool of this session cannot wait for the end of its own turn"
    assert result.tool_calls[0].outcome.value == told


async def test_a_tool_that_waits_through_parks_gives_its_slot_to_the_turn_it_waits_for(
    memory_stage: Stage,
) -> None:
    runtimes: list[Runtime[Any]] = []

    @tool(effect="idempotent")
    async def ask() -> str:
        """Have the payer pay."""
        await runtimes[0].session("child", "payer").submit("Pay.", turn_id="t")
        return (await runtimes[0].turn("child", "t").result(through_parks=True)).text

    asks = FunctionModel(lambda q: call("ask") if len(q.messages) < 2 else say("Asked."))
    asker = Agent("asker", model=asks, tools=[ask])
    async with memory_stage.runtime(asker, payer(Desk(), script()), max_turns=1) as rt:
        runtimes.append(rt)
        async with asyncio.timeout(HANGS_S), asyncio.TaskGroup() as together:
            together.create_task(answer_all(rt, 1))
            result = await rt.session("s", "asker").run("Go.")

    assert (result.text, result.tool_calls[0].outcome.value) == ("Asked.", "Done.")

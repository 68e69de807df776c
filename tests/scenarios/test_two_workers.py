"""Two living workers on one store: each turn is one's or the other's, never both's."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from tests.limits import HANGS_S
from tests.scenarios.payers import payer
from tests.scenarios.stage import DAY_S, Desk, Stage, until
from tests.scenarios.workers import echo, worker
from windlass import Agent, Runtime, TurnResult, tool
from windlass.journal import Contract
from windlass.kernel import ModelReply, ModelRequest, ToolResult
from windlass.testing import FunctionModel, ScriptedModel, call, say

N_SESSIONS = 10


def paying() -> FunctionModel:
    """Return a model that pays first and then is done, in any session."""

    def answer(request: ModelRequest) -> ModelReply | str:
        last = request.messages[-1].parts[0]
        return "Done." if isinstance(last, ToolResult) else call("pay", cents=5)

    return FunctionModel(answer)


def agent(desk: Desk) -> Agent[None, str]:
    toolbox = payer(desk, ScriptedModel([])).toolbox
    return Agent("payer", model=paying(), tools=list(toolbox))


async def test_answers_that_come_together_let_each_body_run_once(stage: Stage) -> None:
    one, two = Desk(), Desk()
    async with (
        stage.runtime(agent(one)) as first,
        stage.runtime(agent(two)) as second,
        stage.runtime() as office,
    ):
        for n in range(N_SESSIONS):
            rt = first if n % 2 else second
            assert (await rt.session(f"s{n}").run("Pay.", turn_id="t")).parked
        waits = await office.approvals()
        receipts = await asyncio.gather(
            *(rt.approve(wait.key) for wait in waits for rt in (first, second, office))
        )
        results = [
            await office.turn(f"s{n}", "t").result(timeout=HANGS_S) for n in range(N_SESSIONS)
        ]

    assert len(waits) == N_SESSIONS
    assert [receipt.status for receipt in receipts].count("accepted") == N_SESSIONS
    assert {result.text for result in results} == {"Done."}
    assert {result.issues for result in results} == {()}
    assert len(one.runs) + len(two.runs) == N_SESSIONS


async def test_what_is_submitted_is_driven_by_one_of_them(stage: Stage) -> None:
    one, two = Desk(), Desk()
    async with (
        stage.runtime(worker(one, echo(), effect="once")) as first,
        stage.runtime(worker(two, echo(), effect="once")) as second,
        stage.runtime(worker(Desk(), echo()), worker=False) as door,
    ):
        handles = [
            await door.session(f"s{n}").submit("work", turn_id="t") for n in range(N_SESSIONS)
        ]
        results = [await handle.result(timeout=HANGS_S) for handle in handles]
        idle = [(await rt.status()).driving for rt in (first, second)]

    assert {result.text for result in results} == {"worked"}
    assert {result.issues for result in results} == {()}
    assert len(one.runs) + len(two.runs) == N_SESSIONS
    assert idle == [(), ()]


async def test_a_session_goes_from_one_to_the_other_between_turns(stage: Stage) -> None:
    one, two = echo(), echo()
    async with (
        stage.runtime(worker(Desk(), one)) as first,
        stage.runtime(worker(Desk(), two)) as second,
    ):
        for n in range(6):
            rt = (first, second)[n % 2]
            await asyncio.wait_for(rt.session("s").run(f"Number {n}.", turn_id=f"t{n}"), HANGS_S)
        history = await first.session("s").history()

    assert len(history) == 12


@pytest.mark.parametrize("effect", ["keyed", "once"])
async def test_a_worker_whose_lease_is_over_is_robbed_and_what_it_does_comes_too_late(
    stage: Stage, effect: Contract
) -> None:
    """It may be stopped or asleep, who can tell; if it lives, it writes nothing any more."""
    desk, other = Desk(is_open=False), Desk()
    model = echo()
    async with stage.runtime(worker(desk, model, effect=effect)) as rt:
        running = asyncio.get_running_loop().create_task(rt.session("s").run("work", turn_id="t"))
        await desk.entered.wait()
        async with stage.runtime(worker(other, model, effect=effect)) as neighbour:
            stage.later(DAY_S, neighbour)
            await until(lambda: _is_done(neighbour))
            before = await neighbour.turn("s", "t").result(timeout=HANGS_S)
            desk.gate.set()
            late = await running
            history = await neighbour.session("s").history()

    assert (desk.runs, other.runs) == ([1], [1] if effect == "keyed" else [])
    status = "ok" if effect == "keyed" else "unknown"
    for result in (before, late):
        assert [one.outcome.status for one in result.tool_calls] == [status]
        assert result.messages == history
    assert len(history) == 4


async def _is_done(rt: Runtime[str]) -> bool:
    return await rt.turn("s", "t").status() == "done"


def test_a_turn_whose_loop_was_closed_under_it_is_taken_over_when_its_lease_is_over(
    tmp_path: Path,
) -> None:
    entered = threading.Event()

    @tool(effect="idempotent")
    async def act() -> str:
        """Act, and never end the first time."""
        if not entered.is_set():
            entered.set()
            await asyncio.Event().wait()
        return "acted"

    def opened() -> Runtime[str]:
        model = ScriptedModel([call("act"), say("Done.")])
        store = f"sqlite:///{tmp_path / 'a.db'}"
        return Runtime(Agent("a", model=model, tools=[act]), store=store, lease_s=0.2)

    forgotten = opened()

    async def leave_open() -> None:
        await forgotten.__aenter__()
        await forgotten.session("s").submit("Go.", turn_id="t")
        while not entered.is_set():  # noqa: ASYNC110 - of another thread's making
            await asyncio.sleep(0.01)

    async def go_on() -> TurnResult[str]:
        async with opened() as rt:
            return await rt.turn("s", "t").result(timeout=HANGS_S)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(leave_open())
    stray = asyncio.all_tasks(loop)
    loop.close()
    result = asyncio.run(go_on())
    for task in stray:
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # that they were left is the point

    assert result.text == "Done."


@pytest.mark.parametrize("n_rounds", [5])
async def test_kill_after_kill_the_turn_ends_once(stage: Stage, n_rounds: int) -> None:
    """Every worker dies one call further on; the last one finds all results in the journal."""
    model = ScriptedModel([*(call("work", n=n) for n in range(n_rounds)), say("Done.")])
    held: list[Desk] = []
    runtimes: list[Runtime[str]] = []
    try:
        for n in range(n_rounds):
            desk = Desk(is_open=False)
            held.append(desk)
            rt = stage.runtime(worker(desk, model, effect="once"))
            await rt.__aenter__()
            runtimes.append(rt)
            if n == 0:
                await rt.session("s").submit("Go.", turn_id="t")
            await desk.entered.wait()
            stage.kill(rt)
        last = Desk()
        async with stage.runtime(worker(last, model, effect="once")) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
    finally:
        for desk in held:
            desk.gate.set()
        for rt in runtimes:
            await rt.__aexit__(None, None, None)

    assert result.text == "Done."
    assert [desk.runs for desk in held] == [[n] for n in range(n_rounds)]
    assert last.runs == []
    assert [one.outcome.status for one in result.tool_calls] == ["unknown"] * n_rounds

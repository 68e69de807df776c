"""Two living workers on one store: each turn is one's or the other's, never both's."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.scenarios.payers import payer
from tests.scenarios.stage import DAY_S, Desk, Stage, until
from tests.scenarios.workers import echo, worker
from windlass import Agent, Runtime
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
        results = [await office.turn(f"s{n}", "t").result(timeout=10) for n in range(N_SESSIONS)]

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
        results = [await handle.result(timeout=10) for handle in handles]
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
            await asyncio.wait_for(rt.session("s").run(f"Number {n}.", turn_id=f"t{n}"), 5)
        history = await first.session("s").history()

    assert len(history) == 12


async def test_a_living_worker_is_never_robbed_however_late_the_clock(tmp_path: Path) -> None:
    """On SQLite the operating system says who lives; a lease that looks spent is no death."""
    stage = Stage("sqlite", tmp_path)
    desk, other = Desk(is_open=False), Desk()
    model = ScriptedModel([call("work"), say("Done.")])
    async with stage.runtime(worker(desk, model, effect="keyed")) as rt:
        running = asyncio.get_running_loop().create_task(rt.session("s").run("Go.", turn_id="t"))
        await desk.entered.wait()
        async with stage.runtime(worker(other, model, effect="keyed")) as neighbour:
            stage.later(DAY_S, neighbour, rt)
            # It does its own work meanwhile, so it has looked around.
            await neighbour.session("own").run("Hello.", model=echo())
            await until(lambda: _has_looked(neighbour))
            assert other.runs == []
            desk.gate.set()
            result = await running

    assert result.text == "Done."
    assert len(desk.runs) == 1


async def _has_looked(rt: Runtime[str]) -> bool:
    """Whether a worker that looks around four times a second has had the time to."""
    await asyncio.sleep(0.3)
    return (await rt.status()).driving == ()


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
            result = await rt.turn("s", "t").result(timeout=5)
    finally:
        for desk in held:
            desk.gate.set()
        for rt in runtimes:
            await rt.__aexit__(None, None, None)

    assert result.text == "Done."
    assert [desk.runs for desk in held] == [[n] for n in range(n_rounds)]
    assert last.runs == []
    assert [one.outcome.status for one in result.tool_calls] == ["unknown"] * n_rounds

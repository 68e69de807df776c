"""Recovery: what a dead worker left is driven on by whoever has the agent, unless it would only die again."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.readings import turn_view
from tests.scenarios.stage import Desk, Stage, until
from tests.scenarios.workers import echo, worker
from windlass import Runtime, TurnInfo
from windlass.testing import FunctionModel, ScriptedModel, call, say


def script() -> ScriptedModel:
    return ScriptedModel([call("work"), say("Done.")])


async def _is_done(runtime: Runtime[Any], turn_id: str = "t") -> bool:
    view = await runtime._services.store.load_turn("s", turn_id)
    return view is not None and view.state == "done"


async def test_on_entry_a_runtime_drives_on_what_was_left_though_nobody_asks(
    stage: Stage,
) -> None:
    desk, model = Desk(is_open=False), script()
    async with stage.runtime(worker(desk, model)) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        stage.kill(lost)
        async with stage.runtime(worker(Desk(), model)) as rt:
            await until(lambda: _is_done(rt))
            history = await rt.session("s").history()
        desk.gate.set()

    assert len(model.requests) == 2
    assert [message.role for message in history] == ["user", "assistant", "user", "assistant"]


async def test_while_it_runs_a_runtime_finds_what_a_neighbour_left(stage: Stage) -> None:
    desk, model = Desk(is_open=False), script()
    async with stage.runtime(worker(desk, model)) as lost:
        # `run`, because what is submitted may be driven by either of the two.
        task = asyncio.get_running_loop().create_task(lost.session("s").run("Go.", turn_id="t"))
        await desk.entered.wait()
        async with stage.runtime(worker(Desk(), model)) as rt:
            assert await rt.turn("s", "t").status() == "running"
            stage.kill(lost)
            await until(lambda: _is_done(rt))
            assert len(model.requests) == 2
        # The dead one lives on here: it may buy one more reply, but writes nothing any more.
        desk.gate.set()
        assert (await task).text == "Done."  # whoever waits with the dead one is told as well


async def test_leaving_ends_no_turn_and_gives_it_up(stage: Stage) -> None:
    """A runtime that is left in the middle of a model call: the next one goes on at once."""
    asked = asyncio.Event()

    async def never(_request: object) -> str:
        asked.set()
        await asyncio.Event().wait()
        return ""

    async with stage.runtime(worker(Desk(), FunctionModel(never, name="m"))) as rt:
        await rt.session("s").submit("Go.", turn_id="t")
        await asked.wait()
    model = ScriptedModel([say("Done.")], name="m")
    async with stage.runtime(worker(Desk(), model)) as rt:
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.text == "Done."


async def test_after_three_lost_workers_without_progress_the_turn_parks(stage: Stage) -> None:
    model = script()
    desks: list[Desk] = []
    async with AsyncExitStack() as stack:
        for n in range(4):
            desk = Desk(is_open=False)
            desks.append(desk)
            rt = await stack.enter_async_context(stage.runtime(worker(desk, model)))
            if n == 0:
                await rt.session("s").submit("Go.", turn_id="t")
            await desk.entered.wait()
            stage.kill(rt)
        last = Desk()
        rt = await stack.enter_async_context(stage.runtime(worker(last, model)))
        parked = await rt.turn("s", "t").result(timeout=HANGS_S)
        (wait,) = parked.waits
        assert (wait.kind, wait.turn_id) == ("poison", "t")
        assert last.runs == []
        assert await rt.retry("s", "t") is True
        result = await rt.turn("s", "t").result(timeout=HANGS_S)
        assert await rt.retry("s", "t") is False  # nothing stands for trying again now
        for desk in desks:
            desk.gate.set()

    assert [len(desk.runs) for desk in desks] == [1, 1, 1, 1]
    assert last.runs == [0]
    assert result.text == "Done."


async def test_progress_counts_takeovers_anew(stage: Stage) -> None:
    """Six workers are lost, but each got one call further: nobody is poisoned."""
    n_calls = 6
    model = ScriptedModel([*(call("work", n=n) for n in range(n_calls)), say("Done.")])
    async with AsyncExitStack() as stack:
        held: list[Desk] = []
        for n in range(n_calls):
            stop = StopAt(n)
            held.append(stop)
            rt = await stack.enter_async_context(stage.runtime(worker(stop, model)))
            if n == 0:
                await rt.session("s").submit("Go.", turn_id="t")
            await stop.entered.wait()
            stage.kill(rt)
        rt = await stack.enter_async_context(stage.runtime(worker(Desk(), model)))
        result = await rt.turn("s", "t").result(timeout=HANGS_S)
        for desk in held:
            desk.gate.set()

    assert result.text == "Done."
    assert len(result.tool_calls) == n_calls


class StopAt(Desk):
    """Lets every call through but the n-th, in which its worker dies."""

    def __init__(self, stop: int) -> None:
        super().__init__(is_open=False)
        self._stop = stop

    async def work(self, about: object = None) -> None:
        self.runs.append(about)
        if about == self._stop:
            self.entered.set()
            await self.gate.wait()


async def test_a_turn_of_an_agent_that_is_not_here_is_left_alone_and_shown(stage: Stage) -> None:
    desk, model = Desk(is_open=False), script()
    async with stage.runtime(worker(desk, model)) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        stage.kill(lost)
        async with stage.runtime(worker(Desk(), echo(), name="stranger")) as other:
            await other.session("mine").run("Hello.")  # it does its own work meanwhile
            status = await other.status()
            view = await turn_view(other, "s", "t")
        assert [(turn.session_id, turn.turn_id, turn.agent) for turn in status.foreign] == [
            ("s", "t", "worker")
        ]
        assert status.due == ()
        assert (view.state, view.takeovers) == ("running", 0)
        fresh = Desk()
        async with stage.runtime(worker(fresh, model)) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
        desk.gate.set()
    assert result.text == "Done."
    assert len(fresh.runs) == 1


async def test_an_agent_drives_what_was_begun_under_its_other_name(stage: Stage) -> None:
    desk, model = Desk(is_open=False), script()
    async with stage.runtime(worker(desk, model, name="old")) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        stage.kill(lost)
        fresh = Desk()
        async with stage.runtime(worker(fresh, model, name="new", aliases=["old"])) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
            await until(lambda: _is_done(rt))
            model_two = await rt.session("s").run("Go on.", turn_id="t2", model=echo())
        desk.gate.set()

    assert result.text == "Done."
    assert model_two.text == "You said: Go on."


async def test_a_runtime_without_agents_is_no_worker(stage: Stage) -> None:
    async with stage.runtime(worker(Desk(), echo()), worker=False) as door:
        handle = await door.session("s").submit("Hello.", turn_id="t")
        async with stage.runtime() as office:
            status = await office.status()
            assert status.worker_id is None
            assert [turn.turn_id for turn in status.foreign] == ["t"]
            assert await handle.status() == "queued"
        async with stage.runtime(worker(Desk(), echo())):
            result = await handle.result(timeout=HANGS_S)

    assert result.text == "You said: Hello."


async def test_a_worker_that_is_full_lets_others_wait_and_forgets_none(stage: Stage) -> None:
    desk, model = Desk(is_open=False), echo()
    async with stage.runtime(worker(desk, model), max_turns=1) as rt:
        first = await rt.session("a").submit("work", turn_id="t")
        await desk.entered.wait()
        rest = [await rt.session(name).submit("Hello.", turn_id="t") for name in "bcd"]
        assert (await rt.status()).driving == ("a",)
        assert len(model.requests) == 1
        desk.gate.set()
        results = [await handle.result(timeout=HANGS_S) for handle in (first, *rest)]

    assert [result.text for result in results] == ["worked", *["You said: Hello."] * 3]


async def test_a_recovered_drive_says_so_to_the_deps_factory(stage: Stage) -> None:
    desk, model = Desk(is_open=False), script()
    infos: list[TurnInfo] = []
    async with stage.runtime(worker(desk, model), deps=infos.append) as lost:
        await lost.session("s").submit("Go.", turn_id="t", context={"n": 1})
        await desk.entered.wait()
        stage.kill(lost)
        fresh = Desk()
        async with stage.runtime(worker(fresh, model), deps=infos.append) as rt:
            await rt.turn("s", "t").result(timeout=HANGS_S)
        desk.gate.set()

    assert [(info.agent, info.session_id, info.turn_id) for info in infos] == [
        ("worker", "s", "t")
    ] * 2
    assert [info.context for info in infos] == [{"n": 1}] * 2
    assert [info.recovered for info in infos] == [False, True]


@pytest.mark.parametrize("n_sessions", [20])
async def test_many_turns_of_a_dead_worker_are_all_driven_on(stage: Stage, n_sessions: int) -> None:
    desk = Desk(is_open=False)
    async with stage.runtime(worker(desk, echo())) as lost:
        for n in range(n_sessions):
            await lost.session(f"s{n}").submit("work", turn_id="t")
        await until(lambda: len(desk.runs) == n_sessions)
        stage.kill(lost)
        fresh = Desk()
        async with stage.runtime(worker(fresh, echo())) as rt:
            results = [
                await rt.turn(f"s{n}", "t").result(timeout=HANGS_S) for n in range(n_sessions)
            ]
        desk.gate.set()

    assert {result.text for result in results} == {"worked"}
    assert len(fresh.runs) == n_sessions

"""Event handlers on turns that were begun before, rest, go on, or run elsewhere."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from tests.limits import HANGS_S
from tests.scenarios.handling import ORDER, working
from tests.scenarios.payers import payer, script
from tests.scenarios.stage import DAY_S, Desk, Stage, until
from tests.scenarios.watching import names
from tests.scenarios.workers import echo, worker
from windlass import Agent, Runtime, ToolContext, tool
from windlass.kernel import events
from windlass.kernel.events import Event
from windlass.kernel.outcomes import Finished
from windlass.testing import ScriptedModel, call, say

FACTS = [
    "UsageReported", "ModelFinished", "ToolFinished", "UsageReported", "ModelFinished", "TurnEnded",
]  # fmt: skip


async def test_a_handler_on_a_recovered_turn_is_told_what_follows(stage: Stage) -> None:
    desk, fresh = Desk(is_open=False), Desk(is_open=False)
    model = ScriptedModel([call("work", n=3), say("All done.")], chunks=1)
    seen: list[Event] = []
    async with stage.runtime(worker(desk, model)) as lost:
        left = asyncio.get_running_loop().create_task(lost.session("s").run("Go.", turn_id="t"))
        await desk.entered.wait()
        stage.kill(lost)
        async with stage.runtime(worker(fresh, model)) as rt:
            running = asyncio.get_running_loop().create_task(
                rt.session("s").run("Go.", turn_id="t", on_event=seen.append)
            )
            await fresh.entered.wait()
            fresh.gate.set()
            result = await asyncio.wait_for(running, HANGS_S)
        desk.gate.set()
        await left

    kinds = names(seen)
    assert kinds[-6:] == ORDER[-6:]  # the tool's result, and all that follows
    assert kinds.count("ModelStarted") == 1  # the first reply is not bought again
    assert result.text == "All done."
    assert (desk.runs, fresh.runs) == ([3], [3])


async def test_a_handler_that_waits_when_a_turn_is_taken_over_gets_it_as_it_stands(
    stage: Stage,
) -> None:
    desk, model = (
        Desk(is_open=False),
        ScriptedModel([call("work", n=3), say("All done.")], chunks=1),
    )
    async with stage.runtime(worker(desk, model)) as lost:
        left = asyncio.get_running_loop().create_task(lost.session("s").run("Go.", turn_id="t"))
        await desk.entered.wait()
        async with stage.runtime(worker(Desk(), model)) as rt:
            watching = asyncio.get_running_loop().create_task(
                rt.session("s").collect("Go.", turn_id="t")
            )
            await until(lambda: rt._services.feeds.of("s").has_readers)
            stage.kill(lost)
            shown, result = await asyncio.wait_for(watching, HANGS_S)
        desk.gate.set()
        await left

    assert names(shown) == ["UsageReported", "ModelFinished", "Recovered", *ORDER[3:]]
    view = shown[2]
    assert isinstance(view, events.Recovered)
    assert [message.role for message in view.view] == ["user", "assistant"]
    assert result.text == "All done."


async def test_a_handler_on_a_turn_that_has_ended_is_told_its_facts(stage: Stage) -> None:
    async with stage.runtime(working()) as rt:
        await rt.session("s").run("Go.", turn_id="t")
    async with stage.runtime(working()) as rt:
        shown, result = await rt.session("s").collect("Go.", turn_id="t")

    assert names(shown) == FACTS
    assert isinstance(shown[-1], events.TurnEnded)
    assert shown[-1].outcome == Finished(text="All done.")
    assert result.text == "All done."


async def test_a_handler_in_another_process_is_told_the_facts(stage: Stage) -> None:
    desk = Desk(is_open=False)
    async with stage.runtime(working(desk)) as rt, stage.runtime(working()) as other:
        await rt.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        watching = asyncio.get_running_loop().create_task(
            other.session("s").collect("Go.", turn_id="t")
        )
        await asyncio.sleep(0)
        desk.gate.set()
        shown, result = await asyncio.wait_for(watching, HANGS_S)

    assert names(shown) == FACTS
    assert result.text == "All done."


async def test_a_handler_in_a_worker_that_is_robbed_is_told_of_the_end_all_the_same(
    stage: Stage,
) -> None:
    desk = Desk(is_open=False)
    model = ScriptedModel([call("work", n=3), say("All done.")], chunks=1)
    async with stage.runtime(worker(desk, model)) as rt:
        running = asyncio.get_running_loop().create_task(
            rt.session("s").collect("Go.", turn_id="t")
        )
        await desk.entered.wait()
        async with stage.runtime(worker(Desk(), model)) as neighbour:
            stage.later(DAY_S, neighbour)
            await until(lambda: _is_done(neighbour))
            desk.gate.set()
            shown, result = await asyncio.wait_for(running, HANGS_S)

    assert names(shown)[:3] == ORDER[:3]
    assert names(shown)[-1] == "TurnEnded"
    assert names(shown).count("TurnEnded") == 1
    assert result.text == "All done."


async def _is_done(rt: Runtime[str]) -> bool:
    return await rt.turn("s", "t").status() == "done"


async def test_a_turn_that_comes_to_rest_ends_its_handlers_work(stage: Stage) -> None:
    async with stage.runtime(payer(Desk(), script())) as rt:
        shown, parked = await rt.session("s").collect("Pay.", turn_id="t")
        await rt.approve(parked.waits[0].key, by="eva")
        result = await rt.turn("s", "t").result(timeout=HANGS_S)
        with_end, again = await rt.session("s").collect("Pay.", turn_id="t")

    assert names(shown) == ["ModelStarted", "UsageReported", "ModelFinished", "WaitOpened"]
    assert parked.parked
    assert names(with_end) == [
        "UsageReported", "ModelFinished", "WaitOpened", "WaitResolved", "ToolFinished",
        "UsageReported", "ModelFinished", "TurnEnded",
    ]  # fmt: skip
    assert result.text == again.text == "Done."


@dataclass
class Shop:
    name: str


def clerk(desk: Desk, model: ScriptedModel) -> Agent[Shop, str]:
    @tool(effect="keyed")
    async def ask(ctx: ToolContext[Shop]) -> str:
        """Ask the shop."""
        await desk.work()
        return f"here is {ctx.deps.name}"

    return Agent("clerk", model=model, tools=[ask], deps_type=Shop)


async def test_a_turn_that_goes_on_within_the_same_run_is_watched_to_its_end(stage: Stage) -> None:
    """It parks for deps; the run that brings them sees both: that it waits no more, and what follows."""

    model = ScriptedModel([call("ask"), say("Done.")], chunks=1)
    desk, fresh = Desk(is_open=False), Desk()
    async with stage.runtime(clerk(desk, model)) as lost:
        left = asyncio.get_running_loop().create_task(
            lost.session("s").run("Go.", turn_id="t", deps=Shop("Ann's"))
        )
        await desk.entered.wait()
        stage.kill(lost)
        async with stage.runtime(clerk(fresh, model)) as rt:
            assert (await rt.turn("s", "t").result(timeout=HANGS_S)).parked
            shown, result = await asyncio.wait_for(
                rt.session("s").collect("Go.", turn_id="t", deps=Shop("Bob's")), 5
            )
        desk.gate.set()
        await left

    assert names(shown)[-5:] == ORDER[-5:]
    assert "ToolFinished" in names(shown)
    assert result.text == "Done."


@pytest.mark.parametrize("way", ["stream", "collect"])
async def test_a_session_that_goes_from_worker_to_worker_is_watched_in_each(
    stage: Stage, way: str
) -> None:
    """A turn that begins where the session was last may find that another worker has it: it waits, and is watched."""
    async with (
        stage.runtime(worker(Desk(), echo())) as first,
        stage.runtime(worker(Desk(), echo())) as second,
    ):
        for n in range(6):
            session = (first, second)[n % 2].session("s")
            async with asyncio.timeout(HANGS_S):
                if way == "collect":
                    shown, result = await session.collect(f"Number {n}.", turn_id=f"t{n}")
                else:
                    async with session.stream(f"Number {n}.", turn_id=f"t{n}") as turn:
                        shown = tuple([event async for event in turn])
                        result = await turn.result()
            assert names(shown)[-1] == "TurnEnded"
            assert result.text == f"You said: Number {n}."

"""A compaction is a turn: it waits its turn, survives its worker, and lets nothing that others rely on get lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.readings import said_by_user, turn_view
from tests.scenarios.stage import Desk, Stage, until
from tests.scenarios.summing import DOWN, SUM, Summing, talked
from tests.scenarios.workers import worker
from windlass import Agent, Runtime, Session, tool
from windlass.errors import SessionParked
from windlass.kernel import (
    ConversationRecord,
    Generation,
)
from windlass.kernel.outcomes import Finished
from windlass.kernel.summary import SEED
from windlass.ports import NewItem


async def test_it_waits_for_a_provider_that_is_down(stage: Stage) -> None:
    mind = Summing(DOWN, DOWN, "SUM")
    async with stage.runtime(worker(Desk(), mind.model)) as rt:
        session = rt.session("s")
        await talked(session)
        result = await session.compact()
        assert [wait.kind for wait in result.waits] == ["provider"]
        stage.later(5, rt)
        await until(lambda: len(mind.wishes) == 2)
        await until(lambda: _is(rt, "parked"))
        stage.later(10, rt)
        await until(lambda: _is(rt, "done"))
        done = await rt.turn("s", "compact-2").result(timeout=HANGS_S)

    assert done.text == "SUM"


async def _is(runtime: Runtime[Any], state: str) -> bool:
    return (await turn_view(runtime, "s", "compact-2")).state == state


async def test_when_its_worker_dies_another_goes_on(stage: Stage) -> None:
    mind = Summing(is_open=False)
    async with stage.runtime(worker(Desk(), mind.model)) as lost:
        await talked(lost.session("s"))
        task = asyncio.get_running_loop().create_task(lost.session("s").compact())
        await mind.asked.wait()
        assert await lost.turn("s", "compact-2").status() == "running"
        stage.kill(lost)
        heir = Summing()
        async with stage.runtime(worker(Desk(), heir.model)) as rt:
            await until(lambda: _is(rt, "done"))
            await rt.session("s").run("Three.", turn_id="t3")
        mind.gate.set()
        assert (await task).text == "SUM"

    assert said_by_user(heir.model.requests[-1]) == [SUM, "Three."]


async def test_a_process_without_agents_may_ask_for_it(stage: Stage) -> None:
    mind = Summing()
    async with stage.runtime(worker(Desk(), mind.model)) as rt, stage.runtime() as other:
        await talked(rt.session("s"))
        result = await other.session("s").compact()
        await rt.session("s").run("Three.", turn_id="t3")

    assert result.text == "SUM"
    assert said_by_user(mind.model.requests[-1]) == [SUM, "Three."]


async def test_while_a_turn_waits_for_an_answer_nothing_is_compacted(stage: Stage) -> None:
    mind = Summing()

    @tool(effect="once", approval="ask")
    async def work(n: int) -> str:
        """Work."""
        return f"worked {n}"

    async with stage.runtime(Agent("worker", model=mind.model, tools=[work])) as rt:
        session = rt.session("s")
        await session.run("One.", turn_id="t1")
        parked = await session.run("Go and work.", turn_id="t2")
        with pytest.raises(SessionParked) as refused:
            await session.compact()
        command = NewItem(
            item_id="n", kind="command", when="next_turn", content={"command": "compact"}
        )
        await rt._services.store.enqueue("s", command, now_ms=0)
        # Who finds this one has looked at the other as well.
        await rt.session("probe").run("Hi.", turn_id="p")
        await rt.session("probe").enqueue("Hello.", key="probe")
        await until(lambda: _is_empty(rt.session("probe")))
        assert mind.wishes == []
        await rt.approve(parked.waits[0].key, remember="session")
        await until(lambda: _is_empty(session))
        await session.run("work again", turn_id="t3")
        done = await rt.turn("s", "t3").result(timeout=HANGS_S)

    assert refused.value.waits == parked.waits
    # The queued one ran when its turn came; what was allowed for the session stays allowed.
    assert len(mind.wishes) == 1
    assert (done.status, done.text) == ("done", "worked")
    assert said_by_user(mind.model.requests[-1])[0].startswith(f"{SEED}SUM")


async def _is_empty(session: Session[Any]) -> bool:
    return (await session.inbox()).items == ()


async def test_what_comes_meanwhile_waits_for_the_new_frame(stage: Stage) -> None:
    mind = Summing(is_open=False)
    async with stage.runtime(worker(Desk(), mind.model)) as rt:
        session = rt.session("s")
        await talked(session)
        async with asyncio.TaskGroup() as group:
            group.create_task(session.compact())
            await mind.asked.wait()
            handle = await session.submit("Three.", turn_id="t3")
            await session.enqueue("Four.", key="four")
            mind.gate.set()
        await handle.result(timeout=HANGS_S)
        await until(lambda: _is_empty(session))

    told = said_by_user(mind.model.requests[-1])
    assert told[0] == SUM
    assert sorted(told[1:]) == ["Four.", "Three."]


async def test_a_command_never_enters_a_turn_that_runs(stage: Stage) -> None:
    desk, mind = Desk(is_open=False), Summing()
    command = NewItem(
        item_id="n",
        kind="command",
        when="next_turn",
        content={"command": "compact", "options": {"keep": 0}},
    )
    async with stage.runtime(worker(desk, mind.model)) as rt:
        session = rt.session("s")
        handle = await session.submit("Go and work.", turn_id="t1")
        await desk.entered.wait()
        await rt._services.store.enqueue("s", command, now_ms=0)
        desk.gate.set()
        await handle.result(timeout=HANGS_S)
        await until(lambda: _is_empty(session))
        await session.run("Two.", turn_id="t2")
        turns = list(dict.fromkeys(node.turn_id for node in await session.nodes()))

    assert len(turns) == 3
    assert turns[1].startswith("i_")
    assert said_by_user(mind.model.requests[-1]) == [f"{SEED}SUM", "Two."]


@pytest.mark.parametrize("options", [{"keep": -1}, {"keep": "all"}, {"window": 0}, {"more": 1}, 5])
async def test_a_wish_that_makes_no_sense_stops_no_session(stage: Stage, options: Any) -> None:  # noqa: ANN401 - anything
    mind = Summing()
    content = {"command": "compact", "options": options}
    command = NewItem(item_id="n", kind="command", when="next_turn", content=content)
    async with stage.runtime(worker(Desk(), mind.model)) as rt:
        session = rt.session("s")
        await talked(session)
        await rt._services.store.enqueue("s", command, now_ms=0)
        await until(lambda: _is_empty(session))
        await session.run("Three.", turn_id="t3")

    assert said_by_user(mind.model.requests[-1]) == [SUM, "Three."]


async def test_a_call_whose_outcome_nobody_knows_is_still_asked_about_in_a_new_frame(
    stage: Stage,
) -> None:
    mind = Summing()
    desk = Desk(is_open=False)
    async with stage.runtime(worker(desk, mind.model, effect="once")) as lost:
        await lost.session("s").submit("Go and work.", turn_id="t1")
        await desk.entered.wait()
        stage.kill(lost)
        async with stage.runtime(worker(Desk(), mind.model, effect="once")) as rt:
            session = rt.session("s")
            await rt.turn("s", "t1").result(timeout=HANGS_S)
            await session.compact()
            again = await session.run("And work.", turn_id="t2")
        desk.gate.set()

    assert again.parked
    assert [wait.kind for wait in again.waits] == ["approval"]


async def test_the_agents_own_shape_limits_and_deps_are_not_the_summarys(stage: Stage) -> None:
    """It asks for words, as many as it takes, and needs nothing to work with."""

    class Shop:
        pass

    mind = Summing()
    brief = Generation(max_output_tokens=5, stop=("SUM",), temperature=0.5)
    agent = Agent("worker", model=mind.model, output_type=int, deps_type=Shop, generation=brief)
    async with stage.runtime(agent) as rt:
        session = rt.session("s")
        await session.run("One.", turn_id="t1", deps=Shop())
        result = await session.compact()

    (wish,) = mind.wishes
    assert result.outcome == Finished(text="SUM")
    assert wish.output is None
    assert wish.generation == Generation(temperature=0.5)


async def test_a_worker_without_deps_sums_up_all_the_same(stage: Stage) -> None:
    """The turn's caller had them; whoever asks for a summary has none, nor has the worker."""
    mind = Summing()
    agent = Agent(
        "worker",
        model=mind.model,
        deps_type=dict,
        instructions=lambda _info, deps: f"You work for {deps['who']}.",
    )
    async with stage.runtime(agent) as rt, stage.runtime() as other:
        await rt.session("s").run("One.", turn_id="t1", deps={"who": "Eva"})
        result = await other.session("s").compact()

    (wish,) = mind.wishes
    assert result.text == "SUM"
    assert [message.role for message in wish.messages] == ["user", "assistant", "user"]


async def test_a_compaction_in_flight_shows_no_messages_and_then_its_one(stage: Stage) -> None:
    mind = Summing(is_open=False)
    async with stage.runtime(worker(Desk(), mind.model)) as rt:
        session = rt.session("s")
        await talked(session)
        async with asyncio.TaskGroup() as group:
            group.create_task(session.compact())
            await mind.asked.wait()
            handle = rt.turn("s", "compact-2")
            during = await handle.messages()
            mind.gate.set()
        after = await handle.messages()
        page = (await rt._services.store.load_session("s")).pages[-1]

    assert during == ()
    assert [node.message for node in page.nodes if isinstance(node, ConversationRecord)] == [*after]
    assert len(after) == 1

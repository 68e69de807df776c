"""Ingress: every turn is accepted once, and the same words twice are one turn only where that is meant."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.payers import payer, script
from tests.scenarios.readings import said_by_user
from tests.scenarios.stage import Desk, Stage, until
from tests.scenarios.workers import echo, worker
from windlass import Generation, Limits, Runtime, Session
from windlass.errors import (
    ConfigError,
    IdempotencyConflict,
    InvalidInput,
    SessionParked,
    UnknownSession,
)
from windlass.testing import ScriptedModel, call, say


async def test_a_known_turn_id_answers_from_the_store(stage: Stage) -> None:
    model = ScriptedModel([say("Hi.")])
    async with stage.runtime(worker(Desk(), model)) as rt:
        first = await rt.session("s").run("Hello.", turn_id="t")
        second = await rt.session("s").run("Hello.", turn_id="t")
    async with stage.runtime(worker(Desk(), model)) as rt:
        third = await rt.session("s").run("Hello.", turn_id="t")
        handle = await rt.session("s").submit("Hello.", turn_id="t")
        fourth = await handle.result(timeout=HANGS_S)
        history = await rt.session("s").history()

    assert len(model.requests) == 1
    assert len(history) == 2
    for again in (second, third, fourth):
        assert again.text == "Hi."
        assert again.messages == first.messages
        assert again.usage == first.usage
        assert again.iterations == first.iterations == 1


async def test_a_turn_that_runs_is_attached_to_by_its_id(stage: Stage) -> None:
    desk, model = Desk(is_open=False), ScriptedModel([call("work"), say("Done.")])
    async with stage.runtime(worker(desk, model)) as rt:
        both = [
            asyncio.get_running_loop().create_task(rt.session("s").run("Go.", turn_id="t"))
            for _ in range(2)
        ]
        await desk.entered.wait()
        desk.gate.set()
        one, two = await asyncio.gather(*both)

    assert one.text == two.text == "Done."
    assert len(desk.runs) == 1


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"input": "Bye."}, id="input"),
        pytest.param({"context": {"lang": "de"}}, id="context"),
        pytest.param({"prompt": "Be brief."}, id="prompt"),
        pytest.param({"limits": Limits(max_iterations=3)}, id="limits"),
        pytest.param({"generation": Generation(temperature=0.5)}, id="generation"),
        pytest.param({"output_type": int}, id="output-type"),
        pytest.param({"model": "other"}, id="model"),
    ],
)
async def test_a_known_turn_id_with_another_request_is_refused(
    stage: Stage, other: dict[str, Any]
) -> None:
    model = ScriptedModel([say("Hi.")])
    spare = ScriptedModel([say("Spare.")], name="other")
    async with stage.runtime(worker(Desk(), model), models=[spare]) as rt:
        session = rt.session("s")
        await session.run("Hello.", turn_id="t")
        options = {"input": "Hello.", "turn_id": "t", **other}
        with pytest.raises(IdempotencyConflict):
            await session.run(**options)
        with pytest.raises(IdempotencyConflict):
            await session.submit(**options)
        assert len(await session.history()) == 2
    assert spare.requests == []


async def test_other_deps_are_no_other_request(stage: Stage) -> None:
    model = ScriptedModel([say("Hi.")])
    async with stage.runtime(worker(Desk(), model)) as rt:
        await rt.session("s").run("Hello.", turn_id="t", deps=1)
        again = await rt.session("s").run("Hello.", turn_id="t", deps=2)

    assert again.text == "Hi."
    assert len(model.requests) == 1


async def test_turn_ids_are_per_session(stage: Stage) -> None:
    model = echo()
    async with stage.runtime(worker(Desk(), model)) as rt:
        one = await rt.session("a").run("One.", turn_id="t")
        two = await rt.session("b").run("Two.", turn_id="t")

    assert (one.text, two.text) == ("You said: One.", "You said: Two.")


async def test_the_same_words_without_an_id_are_a_new_turn_while_their_speaker_lives(
    stage: Stage,
) -> None:
    model = echo()
    async with stage.runtime(worker(Desk(), model)) as rt:
        one = await rt.session("s").run("Hello.")
        two = await rt.session("s").run("Hello.")
        history = await rt.session("s").history()

    assert one.turn_id != two.turn_id
    assert len(history) == 4


async def test_the_same_words_in_two_living_processes_are_two_turns(stage: Stage) -> None:
    desk = Desk(is_open=False)
    async with (
        stage.runtime(worker(desk, echo())) as one,
        stage.runtime(worker(desk, echo())) as two,
    ):
        loop = asyncio.get_running_loop()
        first = loop.create_task(one.session("s").run("work"))
        await desk.entered.wait()
        second = loop.create_task(two.session("s").run("work"))
        await until(lambda: _n_queued(two.session("s"), 1))
        desk.gate.set()
        results = await asyncio.gather(first, second)
        history = await one.session("s").history()

    assert results[0].turn_id != results[1].turn_id
    assert [result.text for result in results] == ["worked", "worked"]
    assert [result.issues for result in results] == [(), ()]
    assert len(history) == 8


async def _n_queued(session: Session[str], wanted: int) -> bool:
    return len((await session.inbox()).queued_turns) == wanted


async def test_a_script_that_was_killed_and_is_run_again_goes_on(stage: Stage) -> None:
    desk, model = Desk(is_open=False), ScriptedModel([call("work"), say("Done.")])
    async with stage.runtime(worker(desk, model)) as lost:
        handle = await lost.session("s").submit("Go.")
        await desk.entered.wait()
        stage.kill(lost)
        fresh = Desk(is_open=False)
        async with stage.runtime(worker(fresh, model)) as rt:
            again = asyncio.get_running_loop().create_task(rt.session("s").run("Go."))
            await fresh.entered.wait()
            fresh.gate.set()
            result = await again
            history = await rt.session("s").history()
        desk.gate.set()

    assert result.turn_id == handle.id
    assert [issue.code for issue in result.issues] == ["attached"]
    assert result.text == "Done."
    assert len(history) == 4
    assert len(model.requests) == 2


async def test_a_stream_of_a_turn_that_a_dead_process_left_says_so(stage: Stage) -> None:
    desk, model = Desk(is_open=False), ScriptedModel([call("work"), say("Done.")])
    async with stage.runtime(worker(desk, model)) as lost:
        handle = await lost.session("s").submit("Go.")
        await desk.entered.wait()
        stage.kill(lost)
        async with (
            stage.runtime(worker(Desk(), model)) as rt,
            rt.session("s").stream("Go.") as turn,
        ):
            result = await turn.result()
        desk.gate.set()

    assert result.turn_id == handle.id
    assert [issue.code for issue in result.issues] == ["attached"]
    assert result.text == "Done."


async def test_a_parked_turn_is_attached_to_when_its_script_is_run_again(stage: Stage) -> None:
    desk, model = Desk(), script()
    async with stage.runtime(payer(desk, model)) as rt:
        parked = await rt.session("s").run("Pay 5.")
    async with stage.runtime(payer(desk, model)) as rt:
        again = await rt.session("s").run("Pay 5.")
        assert (again.turn_id, again.waits) == (parked.turn_id, parked.waits)
        await rt.approve(again.waits[0].key)
        result = await rt.session("s").run("Pay 5.", turn_id=parked.turn_id)

    assert result.text == "Done."
    assert desk.runs == [5]


async def test_other_words_are_not_attached_to_what_was_left(stage: Stage) -> None:
    desk = Desk(is_open=False)
    async with stage.runtime(worker(desk, echo())) as lost:
        await lost.session("s").submit("work", turn_id="t1")
        await desk.entered.wait()
        stage.kill(lost)
        async with stage.runtime(worker(desk, echo())) as rt:
            other = asyncio.get_running_loop().create_task(rt.session("s").run("Hello."))
            await until(lambda: len(desk.runs) == 2)
            desk.gate.set()
            result = await other
            first = await rt.turn("s", "t1").result(timeout=HANGS_S)

    assert first.text == "worked"
    assert result.text == "You said: Hello."
    assert result.issues == ()


async def test_run_on_a_parked_session_is_refused_and_accepts_nothing(stage: Stage) -> None:
    desk = Desk()
    model = ScriptedModel([call("pay", cents=5), say("One."), say("Two.")])
    async with stage.runtime(payer(desk, model)) as rt:
        session = rt.session("s")
        parked = await session.run("Pay 5.", turn_id="t1")
        with pytest.raises(SessionParked) as caught:
            await session.run("And now?", turn_id="t2")
        assert caught.value.waits == parked.waits
        assert (await session.inbox()).queued_turns == ()
        with pytest.raises(UnknownSession):
            await rt.turn("s", "t2").status()
        # submit waits its turn.
        handle = await session.submit("And now?", turn_id="t2")
        assert await handle.status() == "queued"
        assert (await session.inbox()).queued_turns == ("t2",)
        await rt.approve(parked.waits[0].key)
        assert (await handle.result(timeout=HANGS_S)).text == "Two."
        assert (await rt.turn("s", "t1").result(timeout=HANGS_S)).text == "One."

    assert said_by_user(model.requests[-1]) == ["Pay 5.", "And now?"]


async def test_a_second_input_waits_until_the_first_has_ended(stage: Stage) -> None:
    desk, model = Desk(is_open=False), echo()
    async with stage.runtime(worker(desk, model)) as rt:
        session, loop = rt.session("s"), asyncio.get_running_loop()
        one = loop.create_task(session.run("work", turn_id="t1"))
        await desk.entered.wait()
        two = loop.create_task(session.run("Second.", turn_id="t2"))
        await until(lambda: _queued(session, ("t2",)))
        assert len(model.requests) == 1
        desk.gate.set()
        assert (await one).text == "worked"
        assert (await two).text == "You said: Second."

    assert said_by_user(model.requests[-1]) == ["work", "Second."]


async def _queued(session: Session[str], wanted: tuple[str, ...]) -> bool:
    return (await session.inbox()).queued_turns == wanted


async def test_fifty_racing_submits_of_one_turn_are_one_turn(stage: Stage) -> None:
    model = echo()
    async with stage.runtime(worker(Desk(), model)) as rt, stage.runtime() as door:
        sessions = (rt.session("s"), door.session("s", None))
        await rt.session("s").run("Before.", turn_id="t0")
        handles = await asyncio.gather(
            *(sessions[n % 2].submit("Hello.", turn_id="t") for n in range(50))
        )
        results = await asyncio.gather(*(handle.result(timeout=HANGS_S) for handle in handles))
        history = await rt.session("s").history()

    assert {result.text for result in results} == {"You said: Hello."}
    assert len(model.requests) == 2
    assert len(history) == 4


async def test_fifty_racing_runs_of_one_turn_are_one_turn(stage: Stage) -> None:
    model = echo()
    async with stage.runtime(worker(Desk(), model)) as rt:
        results = await asyncio.gather(
            *(rt.session("s").run("Hello.", turn_id="t") for _ in range(50))
        )
        history = await rt.session("s").history()

    assert {result.text for result in results} == {"You said: Hello."}
    assert len(model.requests) == 1
    assert len(history) == 2


async def test_fifty_racing_submits_of_many_turns_each_have_their_place(stage: Stage) -> None:
    model = echo()
    async with stage.runtime(worker(Desk(), model)) as rt:
        session = rt.session("s")
        handles = await asyncio.gather(
            *(session.submit(f"Number {n}.", turn_id=f"t{n}") for n in range(50))
        )
        results = await asyncio.gather(*(handle.result(timeout=HANGS_S) for handle in handles))
        nodes = await session.nodes()

    assert [result.text for result in results] == [f"You said: Number {n}." for n in range(50)]
    order = list(dict.fromkeys(node.turn_id for node in nodes))
    assert sorted(order) == sorted(f"t{n}" for n in range(50))
    assert len(nodes) == 100
    # Each turn saw all that came before it, and nothing else.
    assert [len(request.messages) for request in model.requests] == [2 * n + 1 for n in range(50)]


async def test_racing_runs_in_two_runtimes_each_run_once(stage: Stage) -> None:
    first, second = echo(), echo()
    async with (
        stage.runtime(worker(Desk(), first)) as one,
        stage.runtime(worker(Desk(), second)) as two,
    ):
        runs = [
            (one if n % 2 else two).session("s").run(f"Number {n}.", turn_id=f"t{n}")
            for n in range(10)
        ]
        results = await asyncio.gather(*runs)
        history = await one.session("s").history()

    assert [result.text for result in results] == [f"You said: Number {n}." for n in range(10)]
    assert len(history) == 20
    assert len(first.requests) + len(second.requests) >= 10


@pytest.mark.parametrize("bad", ["", "  ", [], object(), None, 7, ["ok", 7]])
async def test_input_that_is_none_is_refused_before_anything_is_kept(
    memory_stage: Stage, bad: str
) -> None:
    async with memory_stage.runtime(worker(Desk(), echo())) as rt:
        with pytest.raises(InvalidInput):
            await rt.session("s").run(bad, turn_id="t")
        assert await rt.sessions() == ()


@pytest.mark.parametrize("bad", ["", "a b", "a/b", "x" * 129, "é"])
async def test_ids_that_are_none_are_refused(memory_stage: Stage, bad: str) -> None:
    async with memory_stage.runtime(worker(Desk(), echo())) as rt:
        with pytest.raises(InvalidInput):
            await rt.session("s").run("Hello.", turn_id=bad)
        with pytest.raises(InvalidInput):
            rt.session(bad)
        with pytest.raises(InvalidInput):
            rt.turn("s", bad)


async def test_a_new_session_of_a_runtime_with_two_agents_needs_a_name(
    memory_stage: Stage,
) -> None:
    one, two = worker(Desk(), echo(), name="one"), worker(Desk(), echo(), name="two")
    async with memory_stage.runtime(one, two) as rt:
        with pytest.raises(ConfigError, match="name one"):
            await rt.session("s").run("Hello.")
        await rt.session("s", two).run("Hello.")
        again = await rt.session("s").run("Again.")  # its agent is known now
        (row,) = await rt.sessions()

    assert again.text == "You said: Again."
    assert row.agent == "two"


async def test_run_in_a_session_of_an_agent_that_is_not_here_says_so_instead_of_waiting(
    memory_stage: Stage,
) -> None:
    agents = [worker(Desk(), echo(), name=name) for name in ("one", "two", "three")]
    async with memory_stage.runtime(agents[0]) as rt:
        await rt.session("s").run("Hello.")
    async with memory_stage.runtime(*agents[1:]) as rt:
        with pytest.raises(ConfigError, match="session s belongs to the agent one"):
            await rt.session("s").run("Again.")
        await rt.session("s").submit("Again.")  # for a worker that has it
        (turn,) = (await rt.status()).foreign

    assert turn.agent == "one"


async def test_a_closed_runtime_says_so(memory_stage: Stage) -> None:
    rt = memory_stage.runtime(worker(Desk(), echo()))
    session = rt.session("s")
    with pytest.raises(ConfigError, match="not open"):
        await session.run("Hello.")
    async with rt:
        await session.run("Hello.")
    with pytest.raises(ConfigError, match="not open"):
        await rt.waits()


async def test_models_that_are_no_list_are_refused_where_they_are_written() -> None:
    with pytest.raises(ConfigError, match=r"Runtime.models: found int"):
        Runtime(worker(Desk(), echo()), store="memory:", models=5)  # type: ignore[call-overload]  # wrong on purpose

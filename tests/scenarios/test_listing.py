"""Lists of a whole store: turns, sessions and waits, a page at a time, each line once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenarios.payers import payer
from tests.scenarios.stage import Desk, Stage
from tests.scenarios.workers import echo
from windlass import Agent
from windlass.errors import InvalidInput, LimitExceeded
from windlass.testing import FunctionModel, call


async def test_turns_are_listed_newest_first_page_by_page(stage: Stage) -> None:
    async with stage.runtime(Agent("a", model=echo())) as rt:
        for n in range(7):
            await rt.session(f"s{n % 2}").run("Hi.", turn_id=f"t{n}", by="eva")
        found: list[str] = []
        before: int | None = None
        while page := await rt.turns(before=before, limit=3):
            found += [one.turn_id for one in page]
            before = page[-1].no
        mine = await rt.turns(session_id="s1")

    assert found == ["t6", "t5", "t4", "t3", "t2", "t1", "t0"]
    assert [one.turn_id for one in mine] == ["t5", "t3", "t1"]
    assert {one.by for one in mine} == {"eva"}
    assert {one.state for one in mine} == {"done"}


async def test_who_asked_is_no_part_of_what_was_asked(stage: Stage) -> None:
    async with stage.runtime(Agent("a", model=echo())) as rt:
        first = await rt.session("s").run("Hi.", turn_id="t", by="eva")
        again = await rt.session("s").run("Hi.", turn_id="t", by="ada")
        (line,) = await rt.turns()

    assert first.text == again.text
    assert line.by == "eva"


async def test_turns_are_found_by_state_and_agent(stage: Stage) -> None:
    asks = payer(Desk(), FunctionModel(lambda _request: call("pay", cents=1)))  # type: ignore[arg-type]  # a model
    async with stage.runtime(asks, Agent("a", model=echo())) as rt:
        await rt.session("s1", asks).run("Pay.", turn_id="t1")
        await rt.session("s2", "a").run("Hi.", turn_id="t2")
        parked = await rt.turns(state="parked")
        others = await rt.turns(agent="a")
        sessions = await rt.sessions(agent="payer")

    assert [one.turn_id for one in parked] == ["t1"]
    assert [one.turn_id for one in others] == ["t2"]
    assert [one.session_id for one in sessions] == ["s1"]


async def test_waits_are_listed_by_session_and_page_by_page(stage: Stage) -> None:
    asks = payer(Desk(), FunctionModel(lambda _request: call("pay", cents=1)))  # type: ignore[arg-type]  # a model
    async with stage.runtime(asks) as rt:
        for n in range(5):
            await rt.session(f"s{n}").run("Pay.", turn_id="t")
        first = await rt.waits(limit=2)
        rest = await rt.waits(after=first[-1].key)
        whole = await rt.waits()
        one = await rt.waits(session_id="s3")

    assert [wait.session_id for wait in (*first, *rest)] == ["s0", "s1", "s2", "s3", "s4"]
    assert whole == (*first, *rest)
    assert [wait.session_id for wait in one] == ["s3"]


async def test_a_history_is_read_backwards_by_turns(stage: Stage) -> None:
    async with stage.runtime(Agent("a", model=echo())) as rt:
        session = rt.session("s")
        for n in range(4):
            await session.run(f"Words {n}.", turn_id=f"t{n}")
        whole = await session.history()
        last = await session.history(limit=2)
        before = await session.history(before=3, limit=2)

    assert last == whole[4:]
    assert before == whole[:4]


@pytest.mark.parametrize("wanted", [
    {"state": "asleep"}, {"limit": 0}, {"limit": True}, {"before": 0}, {"before": "t1"},
])  # fmt: skip
async def test_lists_refuse_what_makes_no_sense(
    memory_stage: Stage, wanted: dict[str, Any]
) -> None:
    async with memory_stage.runtime(worker=False) as rt:
        with pytest.raises(InvalidInput):
            await rt.turns(**wanted)


async def test_a_page_has_its_limit(memory_stage: Stage) -> None:
    async with memory_stage.runtime(worker=False) as rt:
        with pytest.raises(LimitExceeded):
            await rt.turns(limit=1_001)
        with pytest.raises(InvalidInput):
            await rt.sessions(kind="thread")  # type: ignore[arg-type]  # that is the point
        with pytest.raises(LimitExceeded):
            await rt.waits(limit=1_001)


@pytest.mark.parametrize("wanted", [{"before": 0}, {"limit": 0}, {"limit": -1}])
async def test_a_history_refuses_what_makes_no_sense(
    memory_stage: Stage, wanted: dict[str, Any]
) -> None:
    async with memory_stage.runtime(Agent("a", model=echo())) as rt:
        await rt.session("s").run("Hi.")
        with pytest.raises(InvalidInput):
            await rt.session("s").history(**wanted)


async def test_a_status_shows_the_oldest_and_says_that_there_is_more(memory_stage: Stage) -> None:
    """Turns of agents that nobody has do not hide those that this runtime could take up."""
    async with memory_stage.runtime(Agent("theirs", model=echo()), worker=False) as rt:
        for n in range(100):
            await rt.session(f"theirs{n:03}").submit("Hi.", turn_id="t")
        assert not (await rt.status()).has_more
    async with memory_stage.runtime(Agent("mine", model=echo()), worker=False) as rt:
        await rt.session("mine").submit("Hi.", turn_id="t")
        crowded = await rt.status()
        assert [turn.session_id for turn in crowded.due] == ["mine"]
        assert len(crowded.foreign) == 100
        assert crowded.has_more

"""Leaf waits: a turn that waits for other sessions, or for a time, rests only when those do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.stage import DAY_S, Desk, Stage, until
from tests.scenarios.workers import worker
from windlass import Agent, Runtime, tool
from windlass.engines.resting import Resting
from windlass.errors import Forbidden, SessionParked, StoreUnavailable
from windlass.kernel import Finished, Text
from windlass.ports import (
    AcceptTurn,
    AnswerWait,
    NewTurn,
    Start,
    TurnCommit,
    TurnRequest,
    Unit,
    Wait,
    WaitAnswer,
)
from windlass.testing import ScriptedModel, call, say

MINUTE_MS = 60_000


class Parent:
    """A turn that is written by hand: it starts children and parks until they answer."""

    def __init__(
        self, rt: Runtime[Any], session_id: str = "parent", agent: str = "nobody-has-it"
    ) -> None:
        self.store = rt._services.store
        self.now_ms = rt._services.clock.now_ms()
        self.session_id = session_id
        self.agent = agent
        self.generation = 1
        self.worker_id = ""

    async def begin(self) -> None:
        self.worker_id = await self.store.join(until_ms=self.now_ms + 10**9, now_ms=self.now_ms)
        request = TurnRequest(input=(Text(text="Lead."),))
        new = NewTurn(agent=self.agent, request=request, now_ms=self.now_ms)
        start = Start(worker_id=self.worker_id, until_ms=self.now_ms + 10**9, now_ms=self.now_ms)
        await self.write(accept=new, start=start)

    async def write(self, **parts: Any) -> None:
        unit = Unit(session_id=self.session_id, turn_id="t", generation=self.generation, **parts)
        await self.store.submit(unit).durable()

    def wait(self, key: str, **more: Any) -> Wait:
        return Wait(key=key, session_id=self.session_id, turn_id="t", **more)

    def child(self, name: str, agent: str = "child") -> tuple[Wait, AcceptTurn]:
        """Return the wait for a child, and the errand that starts it."""
        wait = self.wait(f"w_{name}", kind="child", detail={"session": name, "turn": "t"})
        request = TurnRequest(input=(Text(text="Work."),))
        turn = NewTurn(agent=agent, request=request, now_ms=self.now_ms)
        return wait, AcceptTurn(session_id=name, turn_id="t", turn=turn, kind="child")

    async def park(self, *parts: tuple[Wait, AcceptTurn] | Wait) -> None:
        """Park behind children and waits."""
        waits = tuple(one if isinstance(one, Wait) else one[0] for one in parts)
        errands = tuple(one[1] for one in parts if not isinstance(one, Wait))
        await self.write(waits=waits, parks=True, errands=errands)
        await self.store.release(self.session_id, generation=self.generation)

    async def end(self) -> None:
        """Take the turn up again and end it."""
        lease = await self.store.take_over(
            self.session_id,
            "t",
            worker_id=self.worker_id,
            until_ms=self.now_ms + 10**9,
            now_ms=self.now_ms,
        )
        self.generation = lease.generation
        outcome = Finished(text="Led.")
        await self.write(commit=TurnCommit(expected_head=0, nodes=(), outcome=outcome))


@tool(effect="keyed", approval="ask")
async def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


def payer(n: int = 1) -> Agent[None, str]:
    script = [reply for _ in range(n) for reply in (call("pay", cents=5), say("Paid."))]
    return Agent("child", model=ScriptedModel(script), tools=[pay])


async def test_what_a_turn_waits_for_are_the_waits_at_its_leaves(stage: Stage) -> None:
    async with stage.runtime(payer()) as rt:
        parent = Parent(rt)
        await parent.begin()
        await parent.park(parent.child("kid"))
        result = await rt.turn("parent", "t").result(timeout=HANGS_S)

        assert result.parked
        (wait,) = result.waits
        assert (wait.kind, wait.session_id, wait.title) == ("approval", "kid", wait.title)
        await rt.approve(wait.key)
        done = await rt.turn("kid", "t").result(timeout=HANGS_S)
        assert done.text == "Paid."


async def test_a_turn_whose_child_is_at_work_does_not_rest(stage: Stage) -> None:
    desk = Desk(is_open=False)
    agent = worker(desk, ScriptedModel([call("work"), say("Done.")]), name="child")
    async with stage.runtime(agent) as rt:
        parent = Parent(rt)
        await parent.begin()
        wait = parent.child("kid")
        await parent.park(wait)
        waiting = asyncio.get_running_loop().create_task(rt.turn("parent", "t").result())
        await asyncio.wait_for(desk.entered.wait(), HANGS_S)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not waiting.done()

        desk.gate.set()
        await rt.turn("kid", "t").result(timeout=HANGS_S)
        await parent.store.run_errands(
            [AnswerWait(key="w_kid", answer=WaitAnswer(value="Done."))], now_ms=parent.now_ms
        )
        await parent.end()
        result = await asyncio.wait_for(waiting, HANGS_S)
        assert result.text == "Led."


@pytest.mark.parametrize("is_out", [False, True], ids=["", "after an outage"])
async def test_a_caller_reads_nothing_while_a_child_is_at_work(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, is_out: bool
) -> None:
    looks: list[str] = []
    look = Resting._look

    async def noted(self: Resting, session_id: str, *given: Any, **named: Any) -> Any:  # noqa: ANN401 - as that one
        looks.append(session_id)
        return await look(self, session_id, *given, **named)

    monkeypatch.setattr(Resting, "_look", noted)
    desk = Desk(is_open=False)
    agent = worker(desk, ScriptedModel([call("work"), say("Done.")]), name="child")
    async with stage.runtime(agent) as rt:
        parent = Parent(rt)
        await parent.begin()
        await parent.park(parent.child("kid"))
        waiting = asyncio.get_running_loop().create_task(rt.turn("parent", "t").result())
        await asyncio.wait_for(desk.entered.wait(), HANGS_S)
        await until(lambda: rt._worker.resting.has_idle_callers)
        looks.clear()
        if is_out:
            rt._worker._drives.outages["parent", "t"] = StoreUnavailable("the disk is full")
        rt._worker.resting.wake()
        for _ in range(500):
            await asyncio.sleep(0)
        # The worker looks four times a second, and wakes the caller: it reads then, in an outage.
        assert len(looks) <= (3 if is_out else 0)
        waiting.cancel()
        desk.gate.set()


async def test_a_question_of_its_own_is_told_whatever_its_children_do(stage: Stage) -> None:
    desk = Desk(is_open=False)
    agent = worker(desk, ScriptedModel([call("work"), say("Done.")]), name="child")
    async with stage.runtime(agent) as rt:
        parent = Parent(rt)
        await parent.begin()
        await parent.park(
            parent.child("kid"), parent.wait("w_own", kind="approval", title="Go on?")
        )
        result = await rt.turn("parent", "t").result(timeout=HANGS_S)
        desk.gate.set()

    assert [wait.key for wait in result.waits] == ["w_own"]


async def test_a_timer_that_is_far_off_is_a_leaf_and_a_near_one_is_waited_for(stage: Stage) -> None:
    async with stage.runtime(payer()) as rt:
        parent = Parent(rt)
        await parent.begin()
        far_ms = parent.now_ms + int(3 * DAY_S * 1000)
        await parent.park(parent.wait("w_far", kind="timer", expires_ms=far_ms))
        result = await rt.turn("parent", "t").result(timeout=HANGS_S)
        assert [wait.key for wait in result.waits] == ["w_far"]

        near = Parent(rt, "near")
        await near.begin()
        await near.park(near.wait("w_near", kind="timer", expires_ms=near.now_ms + MINUTE_MS))
        waiting = asyncio.get_running_loop().create_task(rt.turn("near", "t").result())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not waiting.done()
        waiting.cancel()


async def test_the_leaves_of_leaves_are_found(stage: Stage) -> None:
    async with stage.runtime(payer()) as rt:
        middle = Parent(rt, "middle")
        top = Parent(rt, "top")
        await top.begin()
        await top.write(
            waits=(top.wait("w_m", kind="child", detail={"session": "middle", "turn": "t"}),)
        )
        await middle.begin()
        await middle.park(middle.child("kid"))
        await top.park()
        result = await rt.turn("top", "t").result(timeout=HANGS_S)

    assert [(wait.kind, wait.session_id) for wait in result.waits] == [("approval", "kid")]


async def test_a_child_that_is_gone_leaves_the_wait_for_it(stage: Stage) -> None:
    async with stage.runtime(payer()) as rt:
        parent = Parent(rt)
        await parent.begin()
        lost = parent.wait("w_lost", kind="child", detail={"session": "never-was", "turn": "t"})
        await parent.park(lost)
        result = await rt.turn("parent", "t").result(timeout=HANGS_S)

    assert [wait.key for wait in result.waits] == ["w_lost"]


async def test_a_second_turn_queues_behind_one_that_waits_for_its_children_only(
    stage: Stage,
) -> None:
    async with stage.runtime(payer(2)) as rt:
        parent = Parent(rt, agent="child")
        await parent.begin()
        await parent.park(parent.child("kid"))
        await rt.turn("parent", "t").result(timeout=HANGS_S)
        running = asyncio.get_running_loop().create_task(
            rt.session("parent").run("Next.", turn_id="t2")
        )
        async with asyncio.timeout(HANGS_S):
            while "t2" not in (await rt.session("parent").inbox()).queued_turns:  # noqa: ASYNC110 - the store's
                await asyncio.sleep(0.01)
        running.cancel()

        other = Parent(rt, "asks", agent="child")
        await other.begin()
        await other.park(other.wait("w_asks", kind="approval"))
        with pytest.raises(SessionParked):
            await rt.session("asks").run("Next.")


async def test_nobody_outside_answers_for_a_child_or_for_time(stage: Stage) -> None:
    async with stage.runtime(payer()) as rt:
        parent = Parent(rt)
        await parent.begin()
        timer = parent.wait("w_time", kind="timer", expires_ms=parent.now_ms + 3 * MINUTE_MS)
        await parent.park(parent.child("kid"), timer)
        for key in ("w_kid", "w_time"):
            with pytest.raises(Forbidden):
                await rt.resolve(key, "Done.")
            with pytest.raises(Forbidden):
                await rt.reject(key, "No.")


async def test_nobody_outside_begins_a_turn_in_a_childs_session(stage: Stage) -> None:
    async with stage.runtime(payer()) as rt:
        parent = Parent(rt)
        await parent.begin()
        await parent.park(parent.child("kid"))
        await rt.turn("kid", "t").result(timeout=HANGS_S)
        with pytest.raises(Forbidden):
            await rt.session("kid").submit("Mine now.")
        with pytest.raises(Forbidden):
            await rt.session("kid").enqueue("Mine now.")
        assert [one.session_id for one in await rt.sessions()] == ["parent"]
        kids = await rt.sessions(kind="child", started_by="parent")
        assert [one.session_id for one in kids] == ["kid"]

"""One order: what a session is given enters it as it was given, and no reply is bought for a turn that has to wait."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.stage import Desk, Stage
from tests.scenarios.workers import worker
from windlass import Agent, Attachment, Runtime, Session, Text, TurnInfo
from windlass.kernel import ModelReply, ModelRequest, Usage
from windlass.plugins import Compaction, Plugin, PluginTurn
from windlass.ports import NewTurn, TurnRequest
from windlass.testing import FunctionModel, ScriptedModel, call, say


class Counted(Plugin):
    """Counts how often turns begin."""

    name = "counted"
    version = "1"

    def __init__(self) -> None:
        self.begun: list[str] = []

    async def before_turn(self, turn: PluginTurn) -> None:
        self.begun.append(turn.turn_id)


class Gate:
    """Instructions that a turn waits for: it has begun, and the store does not know of it."""

    def __init__(self) -> None:
        self.entered, self.opened = asyncio.Event(), asyncio.Event()

    async def __call__(self, _: TurnInfo) -> str:
        self.entered.set()
        await self.opened.wait()
        return "Be brief."


def agent(**more: Any) -> Agent[None, str]:
    return Agent("a", model=FunctionModel(lambda _: say("ok"), name="m"), **more)


async def heard(session: Session[Any]) -> list[str]:
    """Return what users said, in the order of the history."""
    return [
        part.text
        for message in await session.history()
        if message.role == "user"
        for part in message.parts
        if isinstance(part, Text)
    ]


def asked(*agents: Agent[Any, Any]) -> int:
    """Return how many replies were asked for."""
    models = [one.model for one in agents]
    return sum(len(model.requests) for model in models if isinstance(model, FunctionModel))


# ------------------------------------------------------------------------- one process


@pytest.mark.parametrize("is_new", [True, False])
async def test_runs_that_are_given_at_once_enter_in_their_order_and_each_is_paid_once(
    stage: Stage, is_new: bool
) -> None:
    counted = Counted()
    helper = agent(plugins=[counted])
    async with stage.runtime(helper) as rt:
        session = rt.session("s")
        before = [] if is_new else ["zero"]
        for said in before:
            await session.run(said)

        await asyncio.gather(session.run("first"), session.run("second"), session.run("third"))

        calls = (await session.usage()).calls
        assert await heard(session) == [*before, "first", "second", "third"]
    assert (asked(helper), calls) == (3 + len(before), 3 + len(before))
    assert len(counted.begun) == len(set(counted.begun)) == 3 + len(before)


async def test_it_makes_no_difference_how_something_is_given_or_what_it_has_to_ask_first(
    stage: Stage,
) -> None:
    helper = agent()
    async with stage.runtime(helper) as rt:
        session = rt.session("s")
        image = Attachment.from_bytes(b"\x89PNG\r\n\x1a\n", media_type="image/png")
        given = (
            session.run([Text(text="with a file"), image], turn_id="f"),
            session.run("named", turn_id="n"),
            session.enqueue("an item", when="next_turn"),
            session.submit("submitted"),
            session.enqueue("a named item", when="next_turn", key="k"),
            session.run("plain"),
            session.compact(),
            session.run("last"),
        )
        await asyncio.gather(*given)
        turns = dict.fromkeys(node.turn_id for node in await session.nodes())
        words = await heard(session)

    assert words[:6] == [
        "with a file", "named", "an item", "submitted", "a named item", "plain",
    ]  # fmt: skip
    assert words[-1] == "last"
    assert len(turns) == 8
    assert asked(helper) == 8


async def test_an_item_that_came_before_a_turn_begins_one_before_it(stage: Stage) -> None:
    async with stage.runtime(agent()) as rt:
        session = rt.session("s")
        await session.run("zero")
        await session.enqueue("A")
        await session.run("B")
        assert await heard(session) == ["zero", "A", "B"]


async def test_items_and_turns_that_come_during_a_turn_keep_their_order(stage: Stage) -> None:
    desk = Desk(is_open=False)
    model = ScriptedModel([call("work"), say("0"), say("A"), say("B"), say("C"), say("D")])
    async with stage.runtime(worker(desk, model)) as rt:
        session = rt.session("s")
        await session.submit("zero")
        await desk.entered.wait()
        await session.enqueue("A", when="next_turn")
        await session.submit("B")
        await session.enqueue("C", when="next_turn")
        last = await session.submit("D")
        await session.enqueue("and now", when="now")
        desk.gate.set()
        await last.result(timeout=HANGS_S)
        assert await heard(session) == ["zero", "and now", "A", "B", "C", "D"]


async def test_the_order_outlives_the_worker(stage: Stage) -> None:
    first, helper = agent(instructions=Gate()), agent()
    async with stage.runtime(first) as dead:
        session = dead.session("s")
        await session.submit("zero")
        await session.enqueue("A", when="next_turn")
        await session.submit("B")
        await session.enqueue("C", when="next_turn")
        await session.submit("D", turn_id="d")
        stage.kill(dead)
        async with stage.runtime(helper) as rt:
            await rt.turn("s", "d").result(timeout=HANGS_S)
            assert await heard(rt.session("s")) == ["zero", "A", "B", "C", "D"]
    assert asked(first) == 0


async def test_an_item_that_is_taken_back_lets_what_is_behind_it_begin(stage: Stage) -> None:
    owner, other = agent(), Agent("b", model=FunctionModel(lambda _: say("b"), name="m"))
    async with stage.runtime(owner) as rt:
        await rt.session("s").run("zero")
    async with stage.runtime(other) as rt:
        session = rt.session("s")
        # Only a worker with the session's own agent can begin a turn with its items.
        await session.enqueue("A", key="a")
        asked = TurnRequest(input=(Text(text="B"),))
        await rt._services.store.accept("s", "behind", NewTurn(agent="b", request=asked))
        behind = rt.turn("s", "behind")
        await rt._worker.look()
        assert await behind.status() == "queued"
        await session.withdraw("a")
        assert (await behind.result(timeout=HANGS_S)).text == "b"


async def test_one_who_comes_behind_a_turn_that_waits_for_a_slot_need_not_wait(
    stage: Stage,
) -> None:
    desk = Desk(is_open=False)
    model = ScriptedModel([call("work"), say("0"), say("A"), say("B")])
    async with stage.runtime(worker(desk, model), max_turns=1) as rt:
        await rt.session("busy").submit("zero")
        await desk.entered.wait()
        session = rt.session("s")
        waiting = asyncio.create_task(session.run("A"))
        await asyncio.sleep(0)
        async with asyncio.timeout(HANGS_S):
            behind = await session.submit("B")
        desk.gate.set()
        await waiting
        await behind.result(timeout=HANGS_S)
        assert await heard(session) == ["A", "B"]


async def test_what_makes_the_deps_of_a_turn_may_give_its_session_something(stage: Stage) -> None:
    helper = agent()
    runtimes: list[Runtime[str]] = []

    async def deps(info: TurnInfo) -> None:
        if info.turn_id == "t":
            await runtimes[-1].session("s").submit("afterwards", turn_id="after")

    for at, turn_id in enumerate(("t", "other")):
        async with stage.runtime(helper, deps=deps) as rt:
            runtimes.append(rt)
            async with asyncio.timeout(HANGS_S):
                await rt.session("s").run(f"go {at}", turn_id=turn_id)
                await rt.turn("s", "after").result()
    async with stage.runtime(helper) as rt:
        assert await heard(rt.session("s")) == ["go 0", "afterwards", "go 1"]


# ------------------------------------------------------------------------- compactions


async def test_compactions_keep_up_with_turns_that_follow_each_other(stage: Stage) -> None:
    """The window is full after every fourth turn, and after every third that follows a summary and its own words."""
    seen: list[str] = []

    def answer(request: ModelRequest) -> ModelReply:
        is_summary = not any(
            isinstance(part, Text) and part.text.startswith("turn ")
            for part in request.messages[-1].parts
        )
        seen.append("C" if is_summary else ".")
        if is_summary:
            return say("<summary>So far, so good.</summary>")
        return say("ok", usage=Usage(input_tokens=250 * len(request.messages)))

    helper = Agent("a", model=FunctionModel(answer), plugins=[Compaction(window=2_000, keep=0)])
    issues: list[str] = []
    async with stage.runtime(helper) as rt:
        for number in range(20):
            result = await rt.session("s").run(f"turn {number}")
            issues += [issue.message for issue in result.issues]

    # Requests have 1, 3, 5, 7 messages, and after a summary 2, 4, 6, 8: from 1,600 tokens on a frame is asked for.
    assert "".join(seen) == "....C" + "....C" * 3 + "...."
    assert issues == []


# ------------------------------------------------------------------------- several processes


async def test_a_turn_that_has_begun_does_not_give_way_to_one_that_another_process_accepts(
    stage: Stage,
) -> None:
    gate, counted = Gate(), Counted()
    mine, theirs = agent(instructions=gate, plugins=[counted]), agent()
    gate.opened.set()
    async with stage.runtime(mine) as rt, stage.runtime(theirs, worker=False) as other:
        await rt.session("s").run("zero")
        gate.entered.clear()
        gate.opened.clear()
        running = asyncio.create_task(rt.session("s").run("first"))
        await gate.entered.wait()
        second = await other.session("s", "a").submit("second")
        gate.opened.set()
        await running
        await second.result(timeout=HANGS_S)
        assert await heard(rt.session("s")) == ["zero", "first", "second"]
    assert asked(mine) == len(counted.begun) == 3


async def test_what_another_process_was_given_before_comes_before(stage: Stage) -> None:
    mine = agent()
    async with stage.runtime(mine) as rt, stage.runtime(agent(), worker=False) as other:
        session = rt.session("s")
        await session.run("zero")
        await other.session("s", "a").enqueue("first", when="next_turn")
        await other.session("s", "a").submit("second")
        await session.run("third")
        assert await heard(session) == ["zero", "first", "second", "third"]
    assert asked(mine) == 4


async def test_a_turn_in_a_session_of_another_worker_is_left_to_that_one(stage: Stage) -> None:
    mine, theirs = agent(), agent()
    async with stage.runtime(mine) as rt, stage.runtime(theirs) as other:
        await rt.session("s").run("zero")
        async with asyncio.timeout(HANGS_S):
            assert (await other.session("s").run("first")).text == "ok"
    assert (asked(mine), asked(theirs)) == (2, 0)


async def test_of_two_workers_that_begin_in_one_session_at_once_only_one_buys(
    stage: Stage,
) -> None:
    counted = Counted()
    first, second = agent(plugins=[counted]), agent(plugins=[counted])
    async with stage.runtime(first) as rt:
        await rt.session("s").run("zero")
    async with stage.runtime(first) as rt, stage.runtime(second) as other:
        one = asyncio.create_task(rt.session("s").run("A"))
        two = asyncio.create_task(other.session("s").run("B"))
        async with asyncio.timeout(HANGS_S):
            await asyncio.gather(one, two)
        assert sorted(await heard(rt.session("s"))) == ["A", "B", "zero"]
    assert asked(first, second) == len(counted.begun) == 3

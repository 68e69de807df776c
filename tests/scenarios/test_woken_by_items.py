"""An item for now wakes a turn that waits for nothing but children or a time: the turn takes it in, once, and is told of
it when what it waits for is there.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.inside_calls import InsideCall
from tests.limits import HANGS_S
from tests.scenarios.readings import said_by_user, turn_view
from tests.scenarios.stage import DAY_S, Desk, Stage, until
from windlass import Agent, Runtime, ToolContext, tool
from windlass.kernel import ModelReply, ModelRequest, Text, ToolResult
from windlass.kernel.outcomes import Stopped
from windlass.ports import AnswerWait, NewTurn, TurnRequest, WaitAnswer
from windlass.ports.tool import Pending
from windlass.testing import FunctionModel, ScriptedModel, call, say


def lead(**options: Any) -> Agent[None, str]:
    """Return an agent that asks a child, or sleeps, and then says what it has heard."""

    @tool(effect="keyed")
    async def ask(ctx: ToolContext[None]) -> Pending:
        """Ask a child."""
        inside, request = InsideCall(ctx), TurnRequest(input=(Text(text="Work."),))
        return await inside.wait_for_child(inside.child("kid"), "child", request)

    @tool(effect="keyed")
    async def sleep(ctx: ToolContext[None], days: int) -> Pending:
        """Sleep."""
        return await InsideCall(ctx).wait_for_time(int(days * DAY_S * 1000))

    @tool(effect="keyed", approval="ask")
    async def pay() -> str:
        """Pay."""
        return "paid"

    return Agent("lead", model=FunctionModel(_lead), tools=[ask, sleep, pay], **options)


def _lead(request: ModelRequest) -> ModelReply | str:
    heard, last = said_by_user(request), request.messages[-1]
    name, _, days = heard[-1].partition(" ")
    is_answered = any(isinstance(part, ToolResult) for part in last.parts)
    if name in ("ask", "sleep", "pay") and not is_answered:
        return call(name, **({"days": int(days)} if days else {}))
    return f"Heard: {' | '.join(heard[1:])}"


def child(desk: Desk) -> Agent[None, str]:
    """Return an agent that answers its parent when the desk's gate is open."""

    @tool(effect="keyed")
    async def answer(ctx: ToolContext[None]) -> str:
        """Answer."""
        await desk.work()
        inside = InsideCall(ctx)
        key = inside.request.context["answers"]
        inside.send(AnswerWait(key=key, answer=WaitAnswer(value="42", now_ms=inside.now_ms)))
        return "answered"

    return Agent("child", model=ScriptedModel([call("answer"), say("Done.")]), tools=[answer])


async def parked(rt: Runtime[Any], session_id: str = "s") -> None:
    """Wait until the turn of a session is parked."""

    async def is_parked() -> bool:
        turn = await rt._services.store.load_turn(session_id, "t")
        return turn is not None and turn.state == "parked" and session_id not in rt._worker.driving

    await until(is_parked, within_s=HANGS_S)


async def items(rt: Runtime[Any]) -> list[tuple[str, str, str | None]]:
    return [(one.item_id, one.state, one.turn_id) for one in (await rt.session("s").inbox()).items]


async def taken(rt: Runtime[Any], *names: str) -> None:
    """Wait until the turn has taken these, and is parked again."""

    async def is_taken() -> bool:
        return await items(rt) == [(name, "taken", "t") for name in names]

    await until(is_taken, within_s=HANGS_S)
    await parked(rt)


async def test_a_turn_that_waits_for_a_child_takes_in_what_comes_and_is_told_when_the_child_answers(
    stage: Stage,
) -> None:
    desk = Desk(is_open=False)
    async with stage.runtime(lead(), child(desk)) as rt:
        session = rt.session("s", "lead")
        handle = await session.submit("ask", turn_id="t")
        await desk.entered.wait()
        await parked(rt)
        await session.enqueue("Hurry.", key="hurry")
        await taken(rt, "hurry")
        generation = (await turn_view(rt, "s", "t")).generation
        for _ in range(5):
            await rt._worker.look()
        await session.enqueue("And be kind.", key="kind")
        await taken(rt, "hurry", "kind")
        # One drive for each item: what was taken does not wake it again.
        assert (await turn_view(rt, "s", "t")).generation == generation + 1

        desk.gate.set()
        result = await handle.result(timeout=HANGS_S)
        assert result.text == "Heard: Hurry. | And be kind."
        assert [one.outcome.value for one in result.tool_calls] == ["42"]
        assert await items(rt) == []
        assert (await session.enqueue("Hurry.", key="hurry")).state == "settled"


async def test_a_turn_that_sleeps_takes_in_what_comes_and_is_told_when_the_time_is_over(
    stage: Stage,
) -> None:
    async with stage.runtime(lead()) as rt:
        session = rt.session("s")
        result = await asyncio.wait_for(session.run("sleep 3", turn_id="t"), HANGS_S)
        assert [wait.kind for wait in result.waits] == ["timer"]
        await session.enqueue("Wake up.", key="up")
        await taken(rt, "up")

        stage.later(3 * DAY_S, rt)
        done = await rt.turn("s", "t").result(timeout=HANGS_S)
    assert done.text == "Heard: Wake up."


async def test_a_turn_that_waits_for_a_person_is_not_woken(stage: Stage) -> None:
    async with stage.runtime(lead()) as rt:
        session = rt.session("s")
        assert (await session.run("pay", turn_id="t")).parked
        generation = (await turn_view(rt, "s", "t")).generation
        await session.enqueue("Hurry.", key="hurry")
        for _ in range(3):
            await rt._worker.look()
            await rt._worker.drive("s")
        assert await items(rt) == [("hurry", "pending", None)]
        assert (await turn_view(rt, "s", "t")).generation == generation


async def test_driving_one_session_wakes_its_turn_too(stage: Stage) -> None:
    async with stage.runtime(lead()) as rt, stage.runtime(worker=False) as other:
        session = rt.session("s")
        await asyncio.wait_for(session.run("sleep 3", turn_id="t"), HANGS_S)
        await rt._worker._engine.close()  # type: ignore[union-attr]  # a worker has one
        await other.session("s").enqueue("Wake up.", key="up")
        due_ms = await asyncio.wait_for(rt._worker.drive("s"), HANGS_S)
        assert due_ms == stage.clock.now_ms() + int(3 * DAY_S * 1000)
        assert await items(rt) == [("up", "taken", "t")]


async def test_a_worker_without_the_agent_of_the_turn_leaves_it_alone(stage: Stage) -> None:
    host = Agent("host", model=FunctionModel(lambda _: "Hello."))
    async with stage.runtime(host, lead()) as rt:
        await rt.session("s", host).run("Hi.")
        asked = TurnRequest(input=(Text(text="sleep 3"),))
        await rt._services.store.accept("s", "t", NewTurn(agent="lead", request=asked))
        assert (await rt.turn("s", "t").result(timeout=HANGS_S)).parked
    async with stage.runtime(host) as rt:  # the session is this agent's, its turn is not
        await rt.session("s").enqueue("Wake up.", key="up")
        assert [one.active for one in (await rt._services.store.due(0)).inboxes] == ["t"]
        for _ in range(3):
            await rt._worker.look()
        view = await turn_view(rt, "s", "t")
        assert (view.state, view.owner) == ("parked", None)
        assert await items(rt) == [("up", "pending", None)]


# ------------------------------------------------------------------------- neither lost nor taken twice


@pytest.mark.parametrize("is_taken", [True, False])
async def test_a_worker_that_dies_as_the_turn_takes_an_item_loses_none_and_doubles_none(
    stage: Stage,
    is_taken: bool,
) -> None:
    died, released = asyncio.Event(), asyncio.Event()
    async with stage.runtime(lead()) as dying:
        await asyncio.wait_for(dying.session("s").run("sleep 3", turn_id="t"), HANGS_S)
        store: Any = dying._services.store
        take = store.take_inbox

        async def dies(*place: Any, **how: Any) -> Any:  # noqa: ANN401 - as the store says
            if is_taken:
                await take(*place, **how)
            stage.kill(dying)
            died.set()
            await released.wait()  # what it does from here on comes too late
            return ()

        store.take_inbox = dies
        await dying.session("s").enqueue("Wake up.", key="up")
        await asyncio.wait_for(died.wait(), HANGS_S)
        del store.take_inbox
        async with stage.runtime(lead()) as rt:
            await taken(rt, "up")
            stage.later(3 * DAY_S, rt)
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
            history = await rt.session("s").history()
        released.set()

    assert result.text == "Heard: Wake up."
    said = [part.text for one in history for part in one.parts if isinstance(part, Text)]
    assert said == ["sleep 3", "Wake up.", "Heard: Wake up."]


async def test_what_a_woken_turn_took_and_did_not_use_begins_the_next_turn(stage: Stage) -> None:
    async with stage.runtime(lead()) as rt:
        session = rt.session("s")
        await asyncio.wait_for(session.run("sleep 3", turn_id="t"), HANGS_S)
        await session.enqueue("Wake up.", key="up")
        await taken(rt, "up")
        await rt.cancel("s", "t", "Enough.")
        result = await rt.turn("s", "t").result(timeout=HANGS_S)
        assert result.outcome == Stopped(reason="cancelled", detail="Enough.")
        await until(lambda: _is_empty(rt), within_s=HANGS_S)
        turns = (await rt._services.store.load_session("s")).pages
    assert [one.turn_id == "t" for one in turns] == [True, False]


async def _is_empty(rt: Runtime[Any]) -> bool:
    return await items(rt) == [] and not rt._worker.driving


async def test_one_at_a_time_they_enter_in_the_order_in_which_they_came(stage: Stage) -> None:
    desk = Desk(is_open=False)
    async with stage.runtime(lead(steering="one"), child(desk)) as rt:
        session = rt.session("s", "lead")
        handle = await session.submit("ask", turn_id="t")
        await desk.entered.wait()
        await parked(rt)
        for name in ("One.", "Two.", "Three."):
            await session.enqueue(name, key=name)
        await taken(rt, "One.", "Two.", "Three.")
        desk.gate.set()
        result = await handle.result(timeout=HANGS_S)
        assert await items(rt) == []
    assert result.text == "Heard: One. | Two. | Three."

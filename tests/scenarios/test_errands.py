"""Errands: a turn acts on other sessions with the unit that it writes, and what they touch goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.inside_calls import CHILD_TURN, InsideCall
from tests.limits import HANGS_S
from tests.scenarios.engines import Engines, KickedEngine, ToldEngine
from tests.scenarios.readings import said_by_user, turn_view
from tests.scenarios.stage import Desk, Stage
from tests.scenarios.workers import worker
from windlass import Agent, ToolContext, tool
from windlass.kernel import ModelReply, ModelRequest, Text
from windlass.kernel.outcomes import Stopped
from windlass.ports import (
    AcceptTurn,
    AnswerWait,
    CancelTurn,
    Errand,
    NewItem,
    NewTurn,
    PostItem,
    TurnRequest,
    WaitAnswer,
)
from windlass.ports.tool import Pending
from windlass.testing import FunctionModel, ScriptedModel, call, say


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> Engines:
    return Engines(monkeypatch)


def sender(
    make: Callable[[InsideCall], list[Errand]],
    name: str = "sender",
    model: ScriptedModel | None = None,
    tools: Sequence[Any] = (),
) -> Agent[None, str]:
    """Return an agent whose tool runs errands with its result."""

    @tool(effect="keyed")
    async def send(ctx: ToolContext[None]) -> str:
        """Send."""
        inside = InsideCall(ctx)
        inside.send(*make(inside))
        return "sent"

    script = model or ScriptedModel([call("send"), say("Sent.")])
    return Agent(name, model=script, tools=[send, *tools])


def answer(inside: InsideCall) -> list[Errand]:
    """Answer the parent."""
    key = inside.request.context["answers"]
    return [AnswerWait(key=key, answer=WaitAnswer(value="42", now_ms=inside.now_ms))]


def asker() -> Agent[None, str]:
    """Return an agent that asks a child and waits for its answer."""

    @tool(effect="keyed")
    async def ask(ctx: ToolContext[None]) -> Pending:
        """Ask a child."""
        inside, request = InsideCall(ctx), TurnRequest(input=(Text(text="Work."),))
        return await inside.wait_for_child(inside.child("kid"), "child", request)

    return Agent("lead", model=ScriptedModel([call("ask"), say("Led.")]), tools=[ask])


def note(words: str) -> NewItem:
    """Return an item that says something now."""
    parts = [{"type": "text", "text": words}]
    return NewItem(item_id=f"note-{words.split(maxsplit=1)[0].lower()}", content={"parts": parts})


# ------------------------------------------------------------------------- in one runtime, at once


async def test_a_turn_that_an_errand_accepts_begins_without_a_timer(
    stage: Stage, engines: Engines
) -> None:
    def start(inside: InsideCall) -> list[Errand]:
        request = TurnRequest(input=(Text(text="Work."),))
        new = NewTurn(agent="child", request=request, now_ms=inside.now_ms)
        kid = inside.child("kid")
        return [AcceptTurn(session_id=kid, turn_id=CHILD_TURN, turn=new, kind="child")]

    engines.use(KickedEngine)
    child = Agent("child", model=ScriptedModel([say("Done.")]))
    lead = sender(start)
    async with stage.runtime(lead, child) as rt:
        await rt.session("s", lead).run("Go.")
        (kid,) = await rt.sessions(kind="child", started_by="s")
        result = await rt.turn(kid.session_id, CHILD_TURN).result(timeout=HANGS_S)

    assert result.text == "Done."


async def test_a_parent_goes_on_as_soon_as_its_child_has_answered_without_a_timer(
    stage: Stage, engines: Engines
) -> None:
    desk = Desk(is_open=False)

    @tool(effect="keyed")
    async def work() -> str:
        """Go on, with the answer given."""
        await desk.work()
        return "worked"

    engines.use(KickedEngine)
    lead = asker()
    script = [call("send"), call("work"), say("Done.")]
    child = sender(answer, "child", model=ScriptedModel(script), tools=[work])
    async with stage.runtime(lead, child) as rt:
        handle = await rt.session("s", lead).submit("Go.")
        await desk.entered.wait()
        result = await handle.result(timeout=HANGS_S)
        desk.gate.set()

    assert result.text == "Led."
    assert [one.outcome.value for one in result.tool_calls] == ["42"]


async def test_an_item_that_an_errand_posts_enters_a_turn_under_way_without_a_timer(
    stage: Stage, engines: Engines
) -> None:
    engines.use(KickedEngine)
    model = ScriptedModel([call("work", n=1), call("work", n=2), say("Noted.")])
    desk = Desk(is_open=False)
    busy = worker(desk, model)
    lead = sender(lambda _: [PostItem(session_id="busy", item=note("Hurry up."))])
    async with stage.runtime(busy, lead) as rt:
        handle = await rt.session("busy", busy).submit("Go.")
        await desk.entered.wait()
        desk.entered.clear()
        desk.gate.set()
        desk.gate.clear()
        await desk.entered.wait()  # behind a checkpoint at which the turn has looked into its inbox
        await rt.session("s", lead).run("Go.")
        desk.gate.set()
        await handle.result(timeout=HANGS_S)

    assert said_by_user(model.requests[2]) == ["Go.", "Hurry up."]


async def test_a_turn_that_an_errand_cancels_ends_without_a_timer(
    stage: Stage, engines: Engines
) -> None:
    engines.use(KickedEngine)
    desk = Desk(is_open=False)
    busy = worker(desk, ScriptedModel([call("work"), say("Never.")]))
    lead = sender(lambda _: [CancelTurn(session_id="busy", turn_id="t", reason="Enough.")])
    async with stage.runtime(busy, lead) as rt:
        handle = await rt.session("busy", busy).submit("Go.", turn_id="t")
        await desk.entered.wait()
        await rt.session("s", lead).run("Go.")
        result = await handle.result(timeout=HANGS_S)

    assert result.outcome == Stopped(reason="cancelled", detail="Enough.")


# ------------------------------------------------------------------------- across runtimes


async def test_an_errand_into_a_session_of_another_runtime_is_found_by_its_look(
    stage: Stage, engines: Engines
) -> None:
    engines.use(ToldEngine)
    desk, model = Desk(is_open=False), FunctionModel(_works_once)
    busy = worker(desk, model)
    lead = sender(lambda _: [PostItem(session_id="busy", item=note("Hurry up."))])
    async with stage.runtime(busy) as theirs, stage.runtime(lead) as ours:
        running = asyncio.get_running_loop().create_task(theirs.session("busy").run("Go."))
        await desk.entered.wait()
        await ours.session("s", lead).run("Go.")
        (their_engine, our_engine) = engines.made
        # It wakes its own runtime, where nothing is to be done; the other one has not heard of it.
        assert "busy" in our_engine.kicks
        assert "busy" not in their_engine.kicks
        await our_engine.look()
        assert [item.state for item in (await ours.session("busy").inbox()).items] == ["pending"]

        await their_engine.look()
        desk.gate.set()
        await asyncio.wait_for(running, HANGS_S)

    assert said_by_user(model.requests[1]) == ["Go.", "Hurry up."]


def _works_once(request: ModelRequest) -> ModelReply | str:
    return call("work") if len(request.messages) == 1 else "Noted."


async def test_a_wait_that_another_runtime_answers_is_found_by_a_look(
    stage: Stage, engines: Engines
) -> None:
    """A parked turn is in no runtime: whichever looks goes on with it, if it has the agent."""
    engines.use(ToldEngine)
    async with stage.runtime(asker()) as theirs, stage.runtime(sender(answer, "child")) as ours:
        (their_engine, our_engine) = engines.made
        handle = await theirs.session("s").submit("Go.", turn_id="t")
        await their_engine.look()
        await _drives_nothing(theirs)
        assert (await turn_view(theirs, "s", "t")).state == "parked"

        await our_engine.look()
        await _drives_nothing(ours)
        assert (await turn_view(theirs, "s", "t")).state == "ready"
        await their_engine.look()
        result = await handle.result(timeout=HANGS_S)

    assert [one.outcome.value for one in result.tool_calls] == ["42"]


async def _drives_nothing(rt: Any) -> None:  # noqa: ANN401 - a runtime
    async with asyncio.timeout(HANGS_S):
        while rt._worker.driving:  # noqa: ASYNC110 - the loop's own
            await asyncio.sleep(0)


# ------------------------------------------------------------------------- dropped


async def test_a_dropped_errand_is_named_in_the_status_and_in_the_log_and_ends_no_turn(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    lead = sender(
        lambda _: [
            PostItem(session_id="gone", item=note("Hello there.")),
            CancelTurn(session_id="s2", turn_id="no-such-turn"),
            AnswerWait(key="w_none", answer=WaitAnswer()),
        ]
    )
    idle = Agent("idle", model=FunctionModel(lambda _: say("Here.")))
    async with stage.runtime(lead, idle) as rt:
        await rt.session("gone", idle).run("Hi.")
        await rt.session("s2", idle).run("Hi.")
        await rt.session("gone", idle).delete()
        result = await rt.session("s", lead).run("Go.")
        status = await rt.status()

    assert result.text == "Sent."
    assert [(one.status, one.session_id, one.reason) for one in status.dropped] == [
        ("dropped", "gone", "session gone: was deleted"),
        ("dropped", "s2", "turn no-such-turn: the session has no turn of this id"),
        ("dropped", "", "key: there is no such wait in this store"),
    ]
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert told == [
        "an errand to session gone was dropped: session gone: was deleted",
        "an errand to session s2 was dropped: turn no-such-turn: the session has no turn of this id",
        "an errand to a wait was dropped: key: there is no such wait in this store",
    ]


async def test_a_child_that_cannot_begin_is_told_to_the_turn_that_waits_for_it(
    stage: Stage,
) -> None:
    @tool(effect="keyed")
    async def ask(ctx: ToolContext[None]) -> Pending:
        """Ask a child whose session was deleted."""
        request = TurnRequest(input=(Text(text="Work."),))
        return await InsideCall(ctx).wait_for_child("gone", "idle", request)

    lead = Agent("lead", model=ScriptedModel([call("ask"), say("Alone then.")]), tools=[ask])
    idle = Agent("idle", model=FunctionModel(lambda _: say("Here.")))
    async with stage.runtime(lead, idle) as rt:
        await rt.session("gone", idle).run("Hi.")
        await rt.session("gone", idle).delete()
        result = await asyncio.wait_for(rt.session("s", lead).run("Go."), HANGS_S)

    assert result.text == "Alone then."
    assert [(one.outcome.status, one.outcome.value) for one in result.tool_calls] == [
        ("error", "session gone: was deleted")
    ]

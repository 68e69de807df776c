"""Wakes: a process tells a session something, once, as an item with a cause; and belongs to a session that may change."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.readings import said_by_user
from tests.scenarios.stage import Stage, until
from windlass import Agent, ProcessContext, Runtime, process
from windlass.errors import InvalidInput, ProcessFailed, UnknownSession
from windlass.kernel import ProcessOrigin
from windlass.testing import FunctionModel


@process
async def sign(ctx: ProcessContext[Any], chat: str | None) -> str:
    await ctx.step(lambda: "drawn", name="draw")
    await ctx.wake(chat, "The contract is signed.", event="signed")
    return "done"


def clerk() -> tuple[Agent[Any, Any], FunctionModel]:
    model = FunctionModel(lambda request: f"heard {len(request.messages)}")
    return Agent("clerk", model=model), model


async def is_quiet(rt: Runtime[Any], chat: str) -> bool:
    return not rt._worker.driving and (await rt.session(chat).inbox()).items == ()


async def test_a_wake_begins_a_turn_that_is_told_which_process_it_came_from(stage: Stage) -> None:
    agent, model = clerk()
    async with stage.runtime(agent, processes=[sign]) as rt:
        await rt.session("chat").run("Hello.")
        handle = await rt.processes.start(sign, id="sign-7", chat="chat")
        await handle.result(timeout=HANGS_S)
        await until(lambda: is_quiet(rt, "chat"))
        history = await rt.session("chat").history()

    (event,) = [one for one in history if one.role == "event"]
    origin = event.origin
    assert isinstance(origin, ProcessOrigin)
    assert (origin.process_id, origin.event_type, origin.sequence) == ("sign-7", "signed", 2)
    assert origin.wake_id is not None
    told = said_by_user(model.requests[1])[-1]
    assert f"from process sign-7, signed number 2 (wake {origin.wake_id})" in told
    assert told.endswith("The contract is signed.")
    assert len(model.requests) == 2


async def test_a_process_wakes_the_session_that_it_belongs_to_also_after_a_transfer(
    stage: Stage,
) -> None:
    @process
    async def late(ctx: ProcessContext[Any]) -> None:
        for _ in range(2):
            await ctx.wait("go")
            await ctx.wake(None, "It is time.")

    agent, model = clerk()
    async with stage.runtime(agent, processes=[late]) as rt:
        for chat in ("one", "two"):
            await rt.session(chat).run(f"I am {chat}.")
        handle = await rt.processes.start(late, id="l", session="one")
        await handle.signal("go")
        await until(lambda: len(model.requests) == 3)
        with pytest.raises(UnknownSession):
            await handle.transfer("three")
        await handle.transfer("two", tell="It went to two.")
        await handle.transfer("two", tell="It went to two.")
        await handle.signal("go")
        await handle.result(timeout=HANGS_S)
        await until(lambda: len(model.requests) == 5)
        for chat in ("one", "two"):
            await until(lambda chat=chat: is_quiet(rt, chat))  # type: ignore[misc]
        status = await handle.status()
        said = {
            chat: [
                part.text  # type: ignore[union-attr]
                for message in await rt.session(chat).history()
                if message.role == "event"
                for part in message.parts
            ]
            for chat in ("one", "two")
        }
        listed = [one.id for one in await rt.processes.list(session="two")]

    assert said == {"one": ["It is time.", "It went to two."], "two": ["It is time."]}
    assert (status.session, listed) == ("two", ["l"])


async def test_a_wake_to_no_session_is_refused_and_one_to_a_deleted_session_is_seen(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    agent, model = clerk()
    async with stage.runtime(agent, processes=[sign]) as rt:
        alone = await rt.processes.start(sign, chat=None)
        with pytest.raises(ProcessFailed, match="session: found none that the process belongs to"):
            await alone.result(timeout=HANGS_S)

        await rt.session("chat").run("Hello.")
        await rt.session("chat").delete()
        caplog.set_level(logging.WARNING, "windlass")
        handle = await rt.processes.start(sign, chat="chat")
        assert await handle.result(timeout=HANGS_S) == "done"
        (dropped,) = (await rt.status()).dropped

    assert (dropped.session_id, dropped.code) == ("chat", "session_deleted")
    assert "an errand to session chat was dropped" in caplog.text
    assert len(model.requests) == 1


async def test_a_process_cannot_be_moved_below_itself(stage: Stage) -> None:
    @process
    async def waits(ctx: ProcessContext[Any]) -> object:
        return await ctx.wait("never")

    async with stage.runtime(processes=[waits]) as rt:
        one = await rt.processes.start(waits)
        two = await rt.processes.start(waits, session=one.session_id)
        with pytest.raises(InvalidInput, match="MoveSession"):
            await one.transfer(two.session_id)


async def test_deleting_a_session_ends_the_processes_that_belong_to_it(stage: Stage) -> None:
    @process
    async def waits(ctx: ProcessContext[Any]) -> object:
        return await ctx.wait("never")

    agent, _ = clerk()
    async with stage.runtime(agent, processes=[waits]) as rt:
        await rt.session("chat").run("Hello.")
        await rt.processes.start(waits, id="w", session="chat")
        await rt.session("chat").delete()
        await until(lambda: not rt._worker.driving)
        assert await rt.processes.list() == ()

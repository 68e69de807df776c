"""Sessions: history, forks, usage, vacuum and the end of a session; and turns without any of it."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from tests.limits import HANGS_S
from tests.scenarios.payers import payer, script
from tests.scenarios.readings import said_by_user, turn_view
from tests.scenarios.stage import DAY_S, Desk, Stage
from tests.scenarios.workers import echo, worker
from windlass import Agent, Runtime, Wait, tool
from windlass.errors import (
    CallerError,
    ConfigError,
    IdempotencyConflict,
    InvalidInput,
    SessionDeleted,
    UnknownSession,
)
from windlass.kernel import ConversationRecord
from windlass.testing import ScriptedModel, call, say


async def test_history_and_nodes_are_one_unbroken_line(stage: Stage) -> None:
    async with stage.runtime(worker(Desk(), echo())) as rt:
        session = rt.session("s")
        for n in range(3):
            await session.run(f"Number {n}.", turn_id=f"t{n}")
        history, nodes = await session.history(), await session.nodes()

    assert [node.turn_id for node in nodes] == ["t0", "t0", "t1", "t1", "t2", "t2"]
    assert [node.parent for node in nodes] == [None, *(node.id for node in nodes[:-1])]
    assert len({node.id for node in nodes}) == 6
    bodies = [node.body for node in nodes]
    assert [body.message for body in bodies if isinstance(body, ConversationRecord)] == list(
        history
    )


async def test_a_fork_shares_the_past_and_goes_its_own_way(stage: Stage) -> None:
    model = echo()
    async with stage.runtime(worker(Desk(), model)) as rt:
        session = rt.session("s")
        for n in range(3):
            await session.run(f"Number {n}.", turn_id=f"t{n}")
        fork = await session.fork("t1", id="f")
        assert [m.parts for m in await fork.history()] == [
            m.parts for m in (await session.history())[:4]
        ]
        result = await fork.run("Other.", turn_id="t2")  # ids are not copied
        assert said_by_user(model.requests[-1]) == ["Number 0.", "Number 1.", "Other."]
        assert len(await session.history()) == 6
        assert len(await fork.history()) == 6
        assert [node.turn_id for node in await fork.nodes()][-1] == "t2"

    assert result.text == "You said: Other."


@pytest.mark.parametrize(("at", "kept"), [(None, 4), (1, 2), ("t0", 2), ("t1", 4)])
async def test_a_fork_begins_at_the_end_of_a_turn(
    memory_stage: Stage, at: str | int | None, kept: int
) -> None:
    async with memory_stage.runtime(worker(Desk(), echo())) as rt:
        session = rt.session("s")
        await session.run("Zero.", turn_id="t0")
        await session.run("One.", turn_id="t1")
        fork = await session.fork(at)
        assert fork.id != "s"
        assert len(await fork.history()) == kept


async def test_a_fork_copies_no_usage_and_no_inbox(stage: Stage) -> None:
    async with stage.runtime(worker(Desk(), echo())) as rt:
        session = rt.session("s")
        await session.run("Zero.", turn_id="t0")
        fork = await session.fork(id="f")
        assert (await session.usage()).calls == 1
        assert (await fork.usage()).calls == 0
        inbox = await fork.inbox()
        assert (inbox.queued_turns, inbox.items) == ((), ())


@pytest.mark.parametrize("at", [7, -1, "nobody", "t1"])
async def test_a_fork_at_a_place_that_is_none_is_refused(
    memory_stage: Stage, at: str | int
) -> None:
    model = ScriptedModel([say("Zero."), call("pay", cents=1)])
    async with memory_stage.runtime(payer(Desk(), model)) as rt:
        session = rt.session("s")
        await session.run("Zero.", turn_id="t0")
        await session.run("Pay.", turn_id="t1")  # parked: it has no end yet
        with pytest.raises((InvalidInput, UnknownSession)):
            await session.fork(at, id="f")
        assert [row.session_id for row in await rt.sessions()] == ["s"]


async def test_a_fork_onto_an_id_that_is_taken_is_refused(memory_stage: Stage) -> None:
    async with memory_stage.runtime(worker(Desk(), echo())) as rt:
        await rt.session("a").run("One.")
        await rt.session("b").run("Two.")
        with pytest.raises(CallerError):
            await rt.session("a").fork(id="b")
        assert len(await rt.session("b").history()) == 2


async def test_a_released_session_is_read_again_when_it_is_needed(stage: Stage) -> None:
    model = echo()
    async with stage.runtime(worker(Desk(), model)) as rt:
        session = rt.session("s")
        await session.run("One.")
        await session.release()
        await session.run("Two.")

    assert said_by_user(model.requests[-1]) == ["One.", "Two."]


async def test_another_runtime_goes_on_where_the_first_was(stage: Stage) -> None:
    model = echo()
    async with (
        stage.runtime(worker(Desk(), model)) as one,
        stage.runtime(worker(Desk(), model)) as two,
    ):
        for n, rt in enumerate((one, two, one, two)):
            result = await rt.session("s").run(f"Number {n}.", turn_id=f"t{n}")
            assert result.text == f"You said: Number {n}."

    assert said_by_user(model.requests[-1]) == [f"Number {n}." for n in range(4)]


async def test_after_vacuum_an_old_turn_still_answers(stage: Stage) -> None:
    desk, model = Desk(), ScriptedModel([call("work", n=4), say("Done.")])
    async with stage.runtime(worker(desk, model)) as rt:
        first = await rt.session("s").run("Go.", turn_id="t")
        early = await rt.vacuum()
        assert early.journals == 0
        stage.later(8 * DAY_S)
        report = await rt.vacuum()
        assert report.journals == 1
        assert (await turn_view(rt, "s", "t")).pages == ()
    async with stage.runtime(worker(desk, model)) as rt:
        again = await rt.session("s").run("Go.", turn_id="t")
        with pytest.raises(IdempotencyConflict):
            await rt.session("s").run("Something else.", turn_id="t")
        assert (await rt.cancel("s", "t")).status == "finished"
        usage = await rt.session("s").usage()

    assert again.text == "Done."
    assert again.outcome == first.outcome
    assert again.messages == first.messages
    assert again.usage == first.usage
    assert [one.name for one in again.tool_calls] == ["work"]
    assert again.iterations == first.iterations == 2
    assert usage.calls == 2
    assert len(desk.runs) == 1


async def test_vacuum_leaves_a_parked_turn_alone(stage: Stage) -> None:
    desk, model = Desk(), script()
    async with stage.runtime(payer(desk, model)) as rt:
        parked = await rt.session("s").run("Pay.", turn_id="t")
        stage.later(100 * DAY_S)
        await rt.vacuum()
        await rt.approve(parked.waits[0].key)
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.text == "Done."
    assert desk.runs == [5]


async def test_a_shorter_retention_reclaims_sooner(stage: Stage) -> None:
    async with stage.runtime(worker(Desk(), echo()), retention=60) as rt:
        await rt.session("s").run("Hello.", turn_id="t")
        stage.later(61)
        assert (await rt.vacuum()).journals == 1


async def test_a_deleted_session_is_gone_and_its_id_is_not_used_again(stage: Stage) -> None:
    async with stage.runtime(worker(Desk(), echo())) as rt:
        session = rt.session("s")
        await session.run("Hello.", turn_id="t")
        await rt.session("other").run("Hello.")
        report = await session.delete()
        # What was asked, its journal, and what was said.
        assert (report.session_id, report.pages) == ("s", 3)
        assert [row.session_id for row in await rt.sessions()] == ["other"]
        for late in (session.run("Hello."), session.history(), session.fork(), session.delete()):
            with pytest.raises((SessionDeleted, UnknownSession)):
                await late
    async with stage.runtime(worker(Desk(), echo())) as rt:
        with pytest.raises((SessionDeleted, UnknownSession)):
            await rt.session("s").run("Hello.")


async def test_a_fork_outlives_the_session_that_it_came_from(stage: Stage) -> None:
    async with stage.runtime(worker(Desk(), echo())) as rt:
        session = rt.session("s")
        await session.run("Hello.", turn_id="t")
        fork = await session.fork(id="f")
        await session.delete()
        await rt.vacuum()
        assert len(await fork.history()) == 2
        result = await fork.run("Again.")

    assert result.text == "You said: Again."


async def test_sessions_are_listed_a_page_at_a_time(stage: Stage) -> None:
    async with stage.runtime(worker(Desk(), echo())) as rt:
        for name in "cabd":
            await rt.session(name).run("Hello.", turn_id="t")
        page = await rt.sessions(limit=3)
        rest = await rt.sessions(after=page[-1].session_id)

    assert [row.session_id for row in page] == ["a", "b", "c"]
    assert [(row.session_id, row.agent, row.head) for row in rest] == [("d", "worker", 1)]


def test_code_that_does_not_await_can_run_a_turn(tmp_path: Path) -> None:
    model = ScriptedModel([say("One."), say("Two.")])
    agent = Agent("a", model=model)
    store = f"sqlite:///{tmp_path / 'a.db'}"
    assert Runtime(agent, store=store).run_sync("s", "Hello.", turn_id="t1").text == "One."
    assert Runtime(agent, store=store).run_sync("s", "Again.", turn_id="t2").text == "Two."
    assert said_by_user(model.requests[-1]) == ["Hello.", "Again."]


def test_one_runtime_can_be_used_again_by_code_that_does_not_await(tmp_path: Path) -> None:
    agent = Agent("a", model=ScriptedModel([say("One."), say("Two.")]))
    rt = Runtime(agent, store=f"sqlite:///{tmp_path / 'a.db'}")
    assert rt.run_sync("s", "Hello.").text == "One."
    assert rt.run_sync("s", "Again.").text == "Two."


async def test_run_sync_inside_a_loop_says_what_to_do_instead() -> None:
    agent = Agent("a", model=ScriptedModel([say("One.")]))
    with pytest.raises(ConfigError, match="await"):
        agent.run_sync("Hello.")
    with pytest.raises(ConfigError, match="await"):
        Runtime(agent, store="memory:").run_sync("s", "Hello.")


async def test_an_agent_alone_runs_in_memory_and_says_so() -> None:
    model = ScriptedModel([say("Hi.")])
    result = await Agent("a", model=model).run("Hello.")

    assert result.text == "Hi."
    assert [issue.code for issue in result.issues] == ["not_durable"]
    assert result.output_state == "usable"


def test_an_agent_alone_runs_without_await() -> None:
    assert Agent("a", model=ScriptedModel([say("Hi.")])).run_sync("Hello.").text == "Hi."


@tool(approval="ask")
async def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


async def test_an_agent_alone_refuses_tools_that_ask_unless_somebody_answers() -> None:
    model = ScriptedModel([call("pay", cents=5), say("Done.")])
    agent = Agent("a", model=model, tools=[pay])
    with pytest.raises(ConfigError, match="approval"):
        await agent.run("Pay.")
    assert model.requests == []
    asked: list[Wait] = []

    def approve(wait: Wait) -> bool:
        asked.append(wait)
        return True

    result = await agent.run("Pay.", approve=approve)
    assert result.text == "Done."
    assert [one.outcome.value for one in result.tool_calls] == ["paid 5"]
    assert len(asked) == 1


def test_what_does_not_work_is_not_there_to_refuse() -> None:
    settings = {**inspect.signature(Runtime).parameters, **inspect.signature(Agent).parameters}

    assert {"trace", "mode"}.isdisjoint(settings)


async def test_status_says_what_is_going_on(stage: Stage) -> None:
    desk = Desk(is_open=False)
    async with stage.runtime(worker(desk, echo())) as rt:
        handle = await rt.session("s").submit("work", turn_id="t")
        await desk.entered.wait()
        status = await rt.status()
        desk.gate.set()
        await handle.result(timeout=HANGS_S)

    assert status.agents == ("worker",)
    assert status.driving == ("s",)
    assert status.is_durable is (stage.kind == "sqlite")
    assert status.worker_id
    assert (status.due, status.foreign, status.open_waits) == ((), (), 0)

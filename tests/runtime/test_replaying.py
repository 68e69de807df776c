"""A replay tells how far a journal leads: to the turn's end, or to what would be done next, and no further."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.runtime import played
from tests.runtime.replays import Kept, check_prefixes, check_same, kept, prefixes, read, replayed
from tests.scenarios.stage import Desk, Stage
from tests.scenarios.workers import worker
from windlass import Agent
from windlass.errors import InvalidInput
from windlass.journal import Recorded
from windlass.journal.keys import call_key
from windlass.kernel import ModelReply
from windlass.kernel.outcomes import Finished, Stopped
from windlass.ports import WaitAnswer
from windlass.runtime.replaying import Replayed, replay
from windlass.runtime.session_memory import SessionMemory
from windlass.testing import FunctionModel, ScriptedModel, call, calls, say

N_CALLS = 12


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage("memory", tmp_path)


async def long_turn(stage: Stage) -> Kept:
    """Return a turn of one call after the other."""
    return await played.one(stage, played.agent(*[call("send")] * N_CALLS, say("Done.")))


# ---------------------------------------------------------------------- to the end


async def test_of_a_finished_turn_it_tells_outcome_messages_and_what_was_answered(
    stage: Stage,
) -> None:
    turn = await long_turn(stage)

    found = await replayed(turn)

    assert found == Replayed(
        state="ends",
        effects=2 * N_CALLS + 1,
        messages=turn.committed,
        outcome=Finished(text="Done."),
        is_same=True,
    )


async def test_a_turn_whose_commit_alone_is_missing_would_end(stage: Stage) -> None:
    turn = await long_turn(stage)
    *_, last = prefixes(turn.view)

    found = await replayed(turn._replace(view=last))

    assert (found.state, found.outcome, found.is_same) == ("ends", Finished(text="Done."), None)
    assert found.messages == turn.committed


async def test_other_messages_or_another_outcome_than_those_committed_are_told(
    stage: Stage,
) -> None:
    turn = await long_turn(stage)
    page = turn.view.page
    assert page is not None
    less = msgspec.structs.replace(page, nodes=page.nodes[:-1])
    other = msgspec.structs.replace(page, outcome=Finished(text="Well."))

    found = [await replayed(turn.with_view(page=one, outcome=one.outcome)) for one in (less, other)]

    assert [(one.state, one.is_same) for one in found] == [("ends", False)] * 2
    assert [one.outcome for one in found] == [Finished(text="Done.")] * 2


async def test_a_finished_turn_that_would_go_on_is_not_the_same(stage: Stage) -> None:
    """As if the code of today asked once more where the turn had ended."""
    turn = await long_turn(stage)

    found = await replayed(turn.with_view(pages=turn.view.pages[:-1]))

    assert (found.state, found.is_same, found.outcome) == ("goes_on", False, None)
    # What was stopped without a plugin and without a clock was stopped by what the journal says.
    stopped = Stopped(reason="incomplete", detail="")
    assert turn.view.page is not None
    page = msgspec.structs.replace(turn.view.page, outcome=stopped)
    again = await replayed(turn.with_view(pages=turn.view.pages[:-1], page=page, outcome=stopped))
    assert (again.state, again.is_same) == ("goes_on", False)


async def test_later_turns_of_its_session_are_passed_over(stage: Stage) -> None:
    replies = [call("look"), say("1"), call("look"), say("2"), call("look"), say("3")]
    async with stage.runtime(played.agent(*replies)) as rt:
        for turn_id in ("t1", "t2", "t3"):
            await rt.session("s").run("Go.", turn_id=turn_id)
        turns = [await kept(rt, turn_id) for turn_id in ("t1", "t2", "t3")]

    for turn in turns:
        assert len(turn.session.pages) == 3
        await check_same(turn)


# ---------------------------------------------------------------------- to the frontier


async def test_it_stops_at_what_comes_next_and_nowhere_else(stage: Stage) -> None:
    turn = await long_turn(stage)
    recorded = [
        call_key(entry.key)
        for page in turn.view.pages
        for entry in page.entries
        if isinstance(entry, Recorded)
    ]
    assert len(recorded) == 2 * N_CALLS + 1

    stops: list[str] = []
    for found in await check_prefixes(turn):
        if not stops or found.at != stops[-1]:
            stops.append(found.at)

    assert stops == [*recorded, ""]


async def test_it_has_the_messages_up_to_there(stage: Stage) -> None:
    turn = await long_turn(stage)
    n_pages = len(turn.view.pages)
    running = {"state": "running", "page": None, "outcome": None}

    found = [
        await replayed(turn.with_view(pages=turn.view.pages[:n], **running))
        for n in range(1, n_pages + 1)
    ]

    # A page has the result of the call before, and the next reply: two messages more.
    assert [len(one.messages) for one in found] == [*range(2, 2 * N_CALLS + 1, 2), 2 * N_CALLS + 2]
    assert [one.effects for one in found] == [*range(1, 2 * N_CALLS, 2), 2 * N_CALLS + 1]
    assert [one.state for one in found] == ["goes_on"] * (n_pages - 1) + ["ends"]


@pytest.mark.parametrize("asked", [call("pay", cents=5), call("order")], ids=["person", "result"])
@pytest.mark.parametrize("is_answered", [False, True])
async def test_a_parked_turn_stops_at_the_call_that_waits_also_once_it_was_answered(
    stage: Stage, asked: ModelReply, is_answered: bool
) -> None:
    async with stage.runtime(played.agent(asked)) as rt:
        await rt.session("s").run("Go.", turn_id="t")
    async with stage.runtime() as office:
        store = office._services.store
        if is_answered:
            (wait,) = await store.list_waits()
            await store.resolve_wait(wait.wait.key, WaitAnswer(status="answered", value="a book"))
        view, session = await read(store, "s", "t")
    assert view.state == ("ready" if is_answered else "parked")

    found = await replayed(Kept(rt._programs["a"], view, session))

    assert (found.state, found.at, found.effects) == ("goes_on", "s/t/1/0/tool_call/2/0", 1)
    assert [message.role for message in found.messages] == ["user", "assistant"]


async def test_of_calls_side_by_side_it_stops_at_the_first_without_a_result(stage: Stage) -> None:
    both = calls(("send", {}), ("pay", {"cents": 5}), ("look", {}), ("pay", {"cents": 6}))
    async with stage.runtime(played.agent(both)) as rt:
        await rt.session("s").run("Go.", turn_id="t")
        turn = await kept(rt)

    assert (await replayed(turn)).at == "s/t/1/0/tool_call/2/1"


async def test_a_turn_that_was_killed_in_a_model_call_stops_there(stage: Stage) -> None:
    asked = asyncio.Event()

    async def never(_request: object) -> str:
        asked.set()
        await asyncio.Event().wait()
        return ""

    agent = Agent("a", model=FunctionModel(never))
    async with stage.runtime(agent) as rt:
        await rt.session("s").submit("Go.", turn_id="t")
        await asked.wait()
    async with stage.runtime() as office:
        view, session = await read(office._services.store, "s", "t")

    found = await replayed(Kept(rt._programs["a"], view, session))

    assert (found.state, found.at, found.effects) == ("goes_on", "s/t/1/0/model_call/1", 0)
    assert [message.role for message in found.messages] == ["user"]


async def test_a_turn_that_no_worker_has_begun_has_nothing_to_replay(stage: Stage) -> None:
    agent = played.agent(say("Done."))
    async with stage.runtime(agent, worker=False) as door:
        await door.session("s").submit("Go.", turn_id="t")
        turn = await kept(door)

    assert await replayed(turn) == Replayed(state="goes_on")


async def test_a_cancelled_turn_that_nobody_has_ended_yet_would_end(stage: Stage) -> None:
    desk, model = Desk(is_open=False), ScriptedModel([call("work"), say("Done.")])
    async with stage.runtime(worker(desk, model, effect="once")) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        turn = await kept(lost)
        found = await replayed(turn.with_view(cancel="enough"))
        desk.gate.set()

    assert (found.state, found.is_same) == ("ends", None)
    assert found.outcome == Stopped(reason="cancelled", detail="enough")
    result = found.messages[-1].parts[0]
    assert (result.status, "cancelled while it ran" in str(result)) == ("unknown", True)  # type: ignore[union-attr]  # a result


# ---------------------------------------------------------------------- what it is given


async def test_what_it_is_given_stays_as_it_was(stage: Stage) -> None:
    """A worker may replay with the memory that it drives with."""
    turn = await played.a_second_turn_with_its_own_settings(stage)
    pages = turn.session.pages[:1]
    memory = SessionMemory.of(msgspec.structs.replace(turn.session, head=1, pages=pages))
    before = {name: getattr(memory, name) for name in SessionMemory.__slots__}

    found = [await replay(turn.program, turn.view, memory) for _ in range(2)]

    assert [one.is_same for one in found] == [True, True]
    assert {name: getattr(memory, name) for name in SessionMemory.__slots__} == before
    assert memory.messages.length == 2


async def test_the_frame_that_was_open_is_enough(stage: Stage) -> None:
    turn = await played.a_turn_in_the_second_frame(stage)
    pages = turn.session.pages
    assert [page.is_beginning for page in pages] == [False, False, True, False]

    await check_same(turn._replace(session=msgspec.structs.replace(turn.session, pages=pages[2:])))


@pytest.mark.parametrize("n_left_out", [1, 3, 4])
async def test_less_than_that_is_refused(stage: Stage, n_left_out: int) -> None:
    turn = await played.a_turn_in_the_second_frame(stage)
    less = msgspec.structs.replace(turn.session, pages=turn.session.pages[n_left_out:])

    with pytest.raises(InvalidInput, match=r"session\.pages: .* wanted the history up to turn 3"):
        await replayed(turn._replace(session=less))


async def test_a_memory_of_another_time_is_refused(stage: Stage) -> None:
    turn = await played.a_second_turn_with_its_own_settings(stage)

    with pytest.raises(InvalidInput, match=r"session\.head: .* 3, wanted 1"):
        await replay(turn.program, turn.view, SessionMemory.of(turn.session))


async def test_a_part_of_a_journal_is_refused(stage: Stage) -> None:
    turn = await long_turn(stage)

    with pytest.raises(InvalidInput, match=r"view\.since: .* 2, wanted 0"):
        await replayed(turn.with_view(pages=turn.view.pages[2:], since=2))


async def test_a_journal_that_is_not_kept_any_more_is_told(stage: Stage) -> None:
    turn = await long_turn(stage)

    found = await replayed(turn.with_view(pages=(), request=None))

    assert found == Replayed(state="blocked", why="Its journal is not kept any more")

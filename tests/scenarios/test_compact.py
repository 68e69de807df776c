"""Compaction: a turn of its own that opens a new frame with a summary, or changes nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.scenarios.readings import said_by_user
from tests.scenarios.stage import Desk, Stage
from tests.scenarios.summing import SUM, Summing, stored, talked
from tests.scenarios.workers import worker
from windlass.errors import IdempotencyConflict, InvalidInput, UnknownSession
from windlass.journal import FrameOpened
from windlass.kernel import (
    ModelReply,
    Reasoning,
    ToolCall,
    canonical,
)
from windlass.kernel.outcomes import Finished, Stopped
from windlass.kernel.summary import SEED
from windlass.testing import say
from windlass.testing.provider_rules import broken_rules

# ---------------------------------------------------------------------- a new frame


async def test_after_a_compaction_the_model_sees_the_summary_and_what_comes_then(
    stage: Stage,
) -> None:
    desk, mind = Desk(), Summing()
    async with stage.runtime(worker(desk, mind.model)) as rt:
        session = rt.session("s")
        await talked(session)
        result = await session.compact()
        await session.run("And work again.", turn_id="t9")

    assert (result.status, result.outcome, result.text) == ("done", Finished(text="SUM"), "SUM")
    assert result.turn_id == "compact-2"
    assert result.usage.calls == 1
    (wish,) = mind.wishes
    assert (wish.tools, wish.tool_choice) == ((), "none")
    after = mind.model.requests[-2:]
    assert [said_by_user(request) for request in after] == [[SUM, "And work again."]] * 2
    for request in mind.model.requests:
        assert broken_rules(request) == []
    assert len(desk.runs) == 2


async def test_older_frames_stay_readable(stage: Stage) -> None:
    mind = Summing()
    async with stage.runtime(worker(Desk(), mind.model)) as rt:
        session = rt.session("s")
        await talked(session)
        before = await session.history()
        await session.compact()
        await session.run("Three.", turn_id="t3")
        history, nodes = await session.history(), await session.nodes()
        usage = await session.usage()

    assert history[: len(before)] == before
    assert len({message.id for message in history}) == len(history)
    assert [message.role for message in history[len(before) :]] == ["user", "user", "assistant"]
    (frame,) = [node for node in nodes if isinstance(node.body, FrameOpened)]
    assert frame.turn_id == "compact-2"
    assert isinstance(frame.body, FrameOpened)
    assert (frame.body.reason, frame.body.detail) == ("compaction", {"turns": 2, "messages": 6})
    assert nodes[nodes.index(frame) + 1].parent == frame.id
    assert usage.calls == 5


async def test_the_next_compaction_brings_the_summary_up_to_date(stage: Stage) -> None:
    mind = Summing("FIRST", "SECOND")
    async with stage.runtime(worker(Desk(), mind.model)) as rt:
        session = rt.session("s")
        await talked(session)
        await session.compact()
        await session.run("Three.", turn_id="t3")
        await session.compact(instructions="Keep the threes.")
        await session.run("Four.", turn_id="t4")

    first, second = mind.wishes
    assert "begins with the summary" not in said_by_user(first)[-1]
    assert said_by_user(second)[0].startswith(f"{SEED}FIRST")
    assert "begins with the summary" in said_by_user(second)[-1]
    assert said_by_user(second)[-1].endswith("\nBesides: Keep the threes.")
    told = said_by_user(mind.model.requests[-1])
    assert told[0].startswith(f"{SEED}SECOND")
    assert "FIRST" not in told[0]
    assert told[1:] == ["Four."]


async def test_a_worker_that_reads_the_session_anew_sees_the_same_frame(stage: Stage) -> None:
    mind = Summing()
    async with stage.runtime(worker(Desk(), mind.model)) as rt:
        await talked(rt.session("s"))
        await rt.session("s").compact()
    async with stage.runtime(worker(Desk(), mind.model)) as rt:
        await rt.session("s").run("Three.", turn_id="t3")

    assert said_by_user(mind.model.requests[-1]) == [SUM, "Three."]


@pytest.mark.parametrize("at", ["t1", "compact-2"])
async def test_a_fork_has_the_frame_of_its_place(stage: Stage, at: str) -> None:
    mind = Summing()
    async with stage.runtime(worker(Desk(), mind.model)) as rt:
        session = rt.session("s")
        await talked(session)
        await session.compact()
        other = await session.fork(at=at, id="other")
        await other.run("Three.", turn_id="t3")

    whole = ["Go and work.", "Two.", "Three."]
    wanted = {"t1": whole, "compact-2": [SUM, "Three."]}
    assert said_by_user(mind.model.requests[-1]) == wanted[at]


# ---------------------------------------------------------------------- once, or nothing at all


async def test_asked_for_twice_at_one_head_it_is_one(stage: Stage) -> None:
    mind = Summing(is_open=False)
    async with stage.runtime(worker(Desk(), mind.model)) as rt:
        session = rt.session("s")
        await talked(session)
        async with asyncio.TaskGroup() as group:
            first, second = (group.create_task(session.compact()) for _ in range(2))
            await mind.asked.wait()
            mind.gate.set()
        again = await session.compact()  # the head has moved, and there is nothing to sum up

    assert first.result().turn_id == second.result().turn_id == "compact-2"
    assert (again.turn_id, again.outcome) == ("compact-3", Finished(text=""))
    assert len(mind.wishes) == 1


async def test_a_turn_id_makes_it_one_however_often_a_program_is_run(stage: Stage) -> None:
    mind = Summing()
    for _ in range(2):
        async with stage.runtime(worker(Desk(), mind.model)) as rt:
            session = rt.session("s")
            await talked(session)
            result = await session.compact(turn_id="c", instructions="Be short.")
            await session.run("Three.", turn_id="t3")
            with pytest.raises(IdempotencyConflict, match="turn c"):
                await session.compact(turn_id="c")

    assert (result.turn_id, result.text) == ("c", "SUM")
    assert len(mind.wishes) == 1


async def test_a_session_without_turns_has_nothing_to_compact(stage: Stage) -> None:
    mind = Summing()
    async with stage.runtime(worker(Desk(), mind.model)) as rt:
        result = await rt.session("s").compact()
        with pytest.raises(UnknownSession):
            await rt.session("s").nodes()  # it was not even made

    assert (result.status, result.outcome, result.text) == ("done", Finished(text=""), "")
    assert mind.model.requests == []


@pytest.mark.parametrize("bad", [{"instructions": "\x00"}, {"instructions": 5}, {"turn_id": "a b"}])
async def test_bad_wishes_are_refused_by_name(memory_stage: Stage, bad: dict[str, Any]) -> None:
    mind = Summing()
    async with memory_stage.runtime(worker(Desk(), mind.model)) as rt:
        session = rt.session("s")
        await talked(session)
        with pytest.raises(InvalidInput) as refused:
            await session.compact(**bad)
        assert len(await stored(rt)) == 2
    assert refused.value.field == next(iter(bad))


BAD: dict[str, tuple[ModelReply | Exception, str]] = {
    "cut": (ModelReply(text="<summary>SU", terminal="output_limit"), "incomplete"),
    "broken off": (say("<summary>SU"), "incomplete"),
    "empty": (ModelReply(), "provider_error"),
    "only thoughts": (ModelReply(parts=(Reasoning(text="hm", replay={"s": 1}),)), "provider_error"),
    "a call": (ModelReply(parts=(ToolCall(call_id="c", name="work"),)), "provider_error"),
    "words and a call": (
        ModelReply(text="SUM", parts=(ToolCall(call_id="c", name="work"),)),
        "provider_error",
    ),
    "too long": (say("x" * 2_001), "provider_error"),
    "filtered": (ModelReply(text="SU", terminal="content_filter"), "provider_error"),
    "no room": (ModelReply(terminal="context_overflow"), "provider_error"),
    "an adapter that raises": (RuntimeError("boom"), "provider_error"),
}


@pytest.mark.parametrize("kind", BAD)
async def test_what_is_no_summary_changes_nothing_byte_for_byte(stage: Stage, kind: str) -> None:
    bad, reason = BAD[kind]
    desk, mind = Desk(), Summing(*[bad] * 9)
    async with stage.runtime(worker(desk, mind.model)) as rt:
        session = rt.session("s")
        await talked(session)
        before = await stored(rt)
        twin = await session.fork(id="twin")
        result = await session.compact()
        after = await stored(rt)
        await session.run("Three.", turn_id="t3")
        await twin.run("Three.", turn_id="t3")

    assert isinstance(result.outcome, Stopped)
    assert result.outcome.reason == reason
    assert result.outcome.detail
    assert result.messages == ()
    assert after == [*before, b"[]"]
    assert len(desk.runs) == 1
    mine, theirs = mind.model.requests[-2:]
    assert canonical.encode(tuple(mine.messages)) == canonical.encode(tuple(theirs.messages))


async def test_a_history_that_the_window_has_no_room_for_is_told_shorter(stage: Stage) -> None:
    full = ModelReply(terminal="context_overflow")
    mind = Summing(full, full, "SUM")
    async with stage.runtime(worker(Desk(), mind.model)) as rt:
        session = rt.session("s")
        await talked(session)
        result = await session.compact()

    assert result.text == "SUM"
    assert len(mind.wishes) == 3


async def test_a_cancelled_compaction_changes_nothing(stage: Stage) -> None:
    mind = Summing(is_open=False)
    async with stage.runtime(worker(Desk(), mind.model)) as rt:
        session = rt.session("s")
        await talked(session)
        before = await stored(rt)
        async with asyncio.TaskGroup() as group:
            compacting = group.create_task(session.compact())
            await mind.asked.wait()
            receipt = await rt.cancel("s", "compact-2", "not now")
        after = await stored(rt)
        await session.run("Three.", turn_id="t3")

    assert receipt.status == "requested"
    assert compacting.result().outcome == Stopped(reason="cancelled", detail="not now")
    assert after == [*before, b"[]"]
    assert said_by_user(mind.model.requests[-1]) == ["Go and work.", "Two.", "Three."]

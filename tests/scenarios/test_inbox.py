"""The inbox: what comes meanwhile enters at the next checkpoint, or begins a turn of its own; nothing is lost."""

from __future__ import annotations

import asyncio

import pytest

from tests.limits import HANGS_S
from tests.scenarios.readings import said_by_user
from tests.scenarios.stage import Desk, Stage, until
from tests.scenarios.workers import echo, worker
from windlass import Runtime, Session
from windlass.errors import IdempotencyConflict, InvalidInput, UnknownSession
from windlass.kernel import ModelReply, ModelRequest
from windlass.kernel.events import InputAccepted
from windlass.kernel.outcomes import Stopped
from windlass.ports import InboxItem
from windlass.stores.memory import MemoryStore
from windlass.testing import FunctionModel, ScriptedModel, call, say


async def turns_of(session: Session[str]) -> list[str]:
    """Return the ids of a session's committed turns, in order."""
    return list(dict.fromkeys(node.turn_id for node in await session.nodes()))


async def test_what_comes_now_enters_the_running_turn_at_its_next_checkpoint(
    stage: Stage,
) -> None:
    desk = Desk(is_open=False)
    model = ScriptedModel([call("work"), say("Noted."), say("Spare.")])
    async with stage.runtime(worker(desk, model)) as rt:
        session = rt.session("s")
        handle = await session.submit("Go.", turn_id="t")
        await desk.entered.wait()
        receipt = await session.enqueue("And hurry.", key="note-1")
        assert (receipt.item_id, receipt.state, receipt.known) == ("note-1", "pending", False)
        desk.gate.set()
        result = await handle.result(timeout=HANGS_S)
        inbox = await session.inbox()
        known = await session.enqueue("And hurry.", key="note-1")
        turns = await turns_of(session)

    assert said_by_user(model.requests[1]) == ["Go.", "And hurry."]
    assert result.text == "Noted."
    assert inbox.items == ()
    assert (known.state, known.known) == ("settled", True)
    assert turns == ["t"]


async def test_a_watcher_is_told_that_input_entered(stage: Stage) -> None:
    desk = Desk(is_open=False)
    model = ScriptedModel([call("work"), say("Noted.")])
    async with stage.runtime(worker(desk, model)) as rt:
        session = rt.session("s")
        async with session.stream("Go.", turn_id="t") as turn:
            await desk.entered.wait()
            await session.enqueue("And hurry.", key="note-1")
            desk.gate.set()
            seen = [event async for event in turn]

    assert [event.input_id for event in seen if isinstance(event, InputAccepted)] == ["note-1"]


async def test_what_is_for_the_next_turn_does_not_enter_this_one(stage: Stage) -> None:
    desk = Desk(is_open=False)
    model = ScriptedModel([call("work"), say("One."), say("Two.")])
    async with stage.runtime(worker(desk, model)) as rt:
        session = rt.session("s")
        handle = await session.submit("Go.", turn_id="t")
        await desk.entered.wait()
        await session.enqueue("Later.", when="next_turn", key="note-1")
        desk.gate.set()
        assert (await handle.result(timeout=HANGS_S)).text == "One."
        await until(lambda: _settled(session))
        turns = await turns_of(session)

    assert said_by_user(model.requests[1]) == ["Go."]
    assert said_by_user(model.requests[2]) == ["Go.", "Later."]
    assert len(turns) == 2


async def _settled(session: Session[str]) -> bool:
    return (await session.inbox()).items == ()


@pytest.mark.parametrize("when", ["now", "next_turn"])
async def test_in_an_idle_session_an_item_begins_a_turn_whose_id_derives_from_it(
    stage: Stage, when: str
) -> None:
    ids = []
    for session_id in ("a", "b"):
        model = echo()
        async with stage.runtime(worker(Desk(), model)) as rt:
            session = rt.session(session_id)
            await session.run("First.", turn_id="t")
            await session.enqueue("Second.", when=when, key="note-1")  # type: ignore[arg-type]  # both are
            await until(lambda s=session: _settled(s))  # type: ignore[misc]
            turns = await turns_of(session)
            result = await rt.turn(session_id, turns[1]).result(timeout=HANGS_S)
            ids.append(turns[1])
        assert result.text == "You said: Second."
        assert said_by_user(model.requests[-1]) == ["First.", "Second."]
    assert ids[0] == ids[1]  # the same whoever begins it


async def test_an_item_that_came_after_the_last_checkpoint_moves_on(stage: Stage) -> None:
    """It arrives while the last reply is on its way; the turn ends, the item begins the next."""
    asked, gate = asyncio.Event(), asyncio.Event()

    async def answer(request: ModelRequest) -> ModelReply | str:
        asked.set()
        await gate.wait()
        return f"{len(said_by_user(request))} heard"

    model = FunctionModel(answer)
    async with stage.runtime(worker(Desk(), model)) as rt:
        session = rt.session("s")
        handle = await session.submit("One.", turn_id="t")
        await asked.wait()
        await session.enqueue("Two.", key="note-1")
        gate.set()
        await handle.result(timeout=HANGS_S)
        await until(lambda: _settled(session))
        history = await session.history()

    said = [message.parts[0].text for message in history if message.role == "user"]  # type: ignore[union-attr]
    assert said == ["One.", "Two."]
    assert history[-1].parts[0].text == "2 heard"  # type: ignore[union-attr]  # whichever turn it was


async def test_items_of_a_cancelled_turn_wait_again(stage: Stage) -> None:
    desk = Desk(is_open=False)
    async with stage.runtime(worker(desk, echo())) as rt:
        session = rt.session("s")
        handle = await session.submit("work", turn_id="t")
        await desk.entered.wait()
        await session.enqueue("Second.", key="note-1")
        await handle.cancel("enough")
        desk.gate.set()
        await handle.result(timeout=HANGS_S)
        await until(lambda: _settled(session))
        turns = await turns_of(session)
        last = await rt.turn("s", turns[-1]).result(timeout=HANGS_S)

    assert len(turns) == 2
    assert last.text == "You said: Second."


class CancellingStore(MemoryStore):
    """Somebody cancels the turn in the very moment in which it takes its mail."""

    async def take_inbox(
        self, session_id: str, turn_id: str, *, generation: int, limit: int = 64
    ) -> tuple[InboxItem, ...]:
        items = await super().take_inbox(session_id, turn_id, generation=generation, limit=limit)
        if items and turn_id == "t":
            await self.request_cancel(session_id, turn_id, reason="enough")
        return items


async def test_an_item_that_was_taken_and_not_used_waits_again() -> None:
    desk = Desk(is_open=False)
    async with Runtime(worker(desk, echo()), store=CancellingStore()) as rt:
        session = rt.session("s")
        handle = await session.submit("work", turn_id="t")
        await desk.entered.wait()
        await session.enqueue("Second.", key="note-1")
        desk.gate.set()
        result = await handle.result(timeout=HANGS_S)
        await until(lambda: _settled(session))
        turns = await turns_of(session)
        last = await rt.turn("s", turns[-1]).result(timeout=HANGS_S)

    assert result.outcome == Stopped(reason="cancelled", detail="enough")
    assert len(turns) == 2
    assert last.text == "You said: Second."


async def test_an_item_can_be_taken_back_until_a_turn_has_taken_it(stage: Stage) -> None:
    desk = Desk(is_open=False)
    model = ScriptedModel([call("work"), say("Done."), say("Spare.")])
    async with stage.runtime(worker(desk, model)) as rt:
        session = rt.session("s")
        handle = await session.submit("Go.", turn_id="t")
        await desk.entered.wait()
        await session.enqueue("No, wait.", key="gone")
        await session.enqueue("And hurry.", key="stays")
        assert [item.item_id for item in (await session.inbox()).items] == ["gone", "stays"]
        assert (await session.withdraw("gone")).status == "withdrawn"
        assert (await session.withdraw("gone")).status == "already"
        assert (await session.withdraw("never")).status == "unknown"
        assert [item.item_id for item in (await session.inbox()).items] == ["stays"]
        desk.gate.set()
        await handle.result(timeout=HANGS_S)
        assert (await session.withdraw("stays")).status == "settled"

    assert said_by_user(model.requests[1]) == ["Go.", "And hurry."]


async def test_a_known_key_with_other_words_is_refused(stage: Stage) -> None:
    desk = Desk(is_open=False)
    async with stage.runtime(worker(desk, echo())) as rt:
        session = rt.session("s")
        handle = await session.submit("work", turn_id="t")
        await desk.entered.wait()
        await session.enqueue("One.", key="k")
        with pytest.raises(IdempotencyConflict):
            await session.enqueue("Two.", key="k")
        again = await session.enqueue("One.", key="k")
        desk.gate.set()
        await handle.result(timeout=HANGS_S)

    assert again.known


async def test_items_keep_their_order(stage: Stage) -> None:
    desk = Desk(is_open=False)
    model = ScriptedModel([call("work"), say("Done.")])
    async with stage.runtime(worker(desk, model)) as rt:
        session = rt.session("s")
        handle = await session.submit("Go.", turn_id="t")
        await desk.entered.wait()
        for n in range(10):
            await session.enqueue(f"Note {n}.", key=f"k{9 - n}")
        desk.gate.set()
        await handle.result(timeout=HANGS_S)

    assert said_by_user(model.requests[1]) == ["Go.", *(f"Note {n}." for n in range(10))]


async def test_an_item_that_entered_is_not_lost_with_the_worker(stage: Stage) -> None:
    """Taken, written down, and then the worker dies in the next call: the item is in the turn once."""
    desk = Desk(is_open=False)
    model = ScriptedModel([call("work", n=1), call("work", n=2), say("Done.")])
    async with stage.runtime(worker(desk, model)) as lost:
        session = lost.session("s")
        await session.submit("Go.", turn_id="t")
        await desk.entered.wait()
        await session.enqueue("And hurry.", key="note-1")
        desk.entered.clear()
        desk.gate.set()
        desk.gate = asyncio.Event()
        await desk.entered.wait()
        stage.kill(lost)
        fresh = Desk()
        async with stage.runtime(worker(fresh, model)) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
            inbox = await rt.session("s").inbox()
        desk.gate.set()

    assert said_by_user(model.requests[-1]) == ["Go.", "And hurry."]
    assert inbox.items == ()
    assert result.text == "Done."
    assert (desk.runs, fresh.runs) == ([1, 2], [2])


async def test_an_item_put_in_by_another_process_enters_too(stage: Stage) -> None:
    desk = Desk(is_open=False)
    model = ScriptedModel([call("work"), say("Noted."), say("Spare.")])
    async with stage.runtime(worker(desk, model)) as rt, stage.runtime() as door:
        handle = await rt.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        await door.session("s").enqueue("From elsewhere.", key="note-1")
        await until(lambda: _noticed(rt))
        desk.gate.set()
        await handle.result(timeout=HANGS_S)
        await until(lambda: _settled(rt.session("s")))

    assert said_by_user(model.requests[-1]) == ["Go.", "From elsewhere."]


async def _noticed(rt: Runtime[str]) -> bool:
    """Whether a worker that looks around four times a second has had the time to."""
    await asyncio.sleep(0.3)
    return True


@pytest.mark.parametrize("when", ["later", "", None])
async def test_another_time_than_now_or_next_turn_is_refused(
    memory_stage: Stage, when: object
) -> None:
    async with memory_stage.runtime(worker(Desk(), echo())) as rt:
        await rt.session("s").run("Hello.")
        with pytest.raises(InvalidInput, match="when"):
            await rt.session("s").enqueue("Hello.", when=when)  # type: ignore[arg-type]  # that is the point


async def test_an_inbox_of_a_session_that_is_not_there_is_unknown(memory_stage: Stage) -> None:
    async with memory_stage.runtime(worker(Desk(), echo())) as rt:
        with pytest.raises(UnknownSession):
            await rt.session("nobody").inbox()
        with pytest.raises(UnknownSession):
            await rt.session("nobody").history()


@pytest.mark.parametrize("words", ["Second.", "Another."])
async def test_an_item_that_was_reclaimed_and_comes_again_begins_a_turn_again_and_holds_up_no_other(
    stage: Stage, words: str
) -> None:
    """The store has forgotten it: it knows an item for as long as `retention`."""
    async with stage.runtime(worker(Desk(), echo()), retention=0) as rt:
        session = rt.session("s")
        await session.run("First.", turn_id="t")
        await session.enqueue("Second.", key="note-1")
        await until(lambda: _settled(session))
        stage.clock.advance(1)
        await rt.vacuum()

        assert not (await session.enqueue(words, key="note-1")).known
        await session.enqueue("Third.", when="next_turn", key="note-2")
        await until(lambda: _settled(session))
        await until(lambda: not rt._worker.driving)
        turns = await turns_of(session)
        last = await rt.turn("s", turns[-1]).result(timeout=HANGS_S)

    assert len(turns) == 4
    assert last.text == "You said: Third."

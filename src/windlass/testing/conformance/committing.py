"""Committing: a turn ends once, whole, onto the head that it expected."""

# ruff: noqa: D103 - the name of a claim says it all
from __future__ import annotations

from typing import Any

from windlass.errors import HeadMoved, IdempotencyConflict, TurnCancelled
from windlass.journal import HistoryPage, UsageLine
from windlass.kernel import ConversationRecord, Finished, Message, Stopped, Text, Usage
from windlass.ports import CancelReceipt, CommitReceipt, TurnCommit
from windlass.testing.conformance.checks import with_crash
from windlass.testing.conformance.entries import intent, reply, result
from windlass.testing.conformance.scene import Driven, Scene, ending, expect

NODES = (
    ConversationRecord(message=Message(id="m1", role="user", parts=(Text(text="hi"),))),
    ConversationRecord(message=Message(id="m2", role="assistant", parts=(Text(text="ho"),))),
)
CANCELLED = Stopped(reason="cancelled", detail="told so")


def _used(tokens: int, *, calls: int = 1, source: str = "turn") -> UsageLine:
    usage = Usage(output_tokens=tokens)
    return UsageLine(source=source, model="scripted", calls=calls, usage=usage)


def _receipt(end: TurnCommit, *, head: int = 1, turn_id: str = "t1") -> CommitReceipt:
    return CommitReceipt(session_id="s1", turn_id=turn_id, head=head, digest=end.digest())


async def an_end_is_a_page_of_history(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(reply(turn, tokens=3)))
    usage = (_used(3),)
    said: dict[str, Any] = {"nodes": NODES, "outcome": Finished(text="ho"), "usage": usage}
    end = TurnCommit(expected_head=0, now_ms=8, **said)

    receipt = await scene.commit(turn, end)

    expect(receipt, _receipt(end))
    page = HistoryPage(format=1, turn_id="t1", committed_ms=8, **said)
    session = await scene.session()
    expect((session.head, session.active, session.pages), (1, None, (page,)))
    expect((session.usage, session.owner), (usage, turn.worker_id))
    view = await scene.turn()
    expect((view.state, view.outcome, view.receipt), ("done", end.outcome, receipt))
    expect((view.owner, view.generation, view.turn_index), (None, 0, 1))
    expect((await scene.store.load_session("s1", history=False)).pages, ())


async def what_a_turn_used_comes_with_its_end(scene: Scene, turn: Driven) -> None:
    lines = (_used(7, calls=2), _used(5, source="titles"))

    await scene.write(turn.unit(reply(turn, tokens=3), commit=ending(usage=lines)))

    session = await scene.session()
    expect(session.pages[0].usage, lines)
    # A session's sums stand in the order of their sources.
    expect(session.usage, (_used(5, source="titles"), _used(7, calls=2)))


async def what_was_used_is_no_part_of_what_an_end_is_compared_by(scene: Scene) -> None:
    turn = await scene.begin()
    receipt = await scene.commit(turn, ending(usage=(_used(3),)))

    await scene.unchanged(scene.commit(turn, ending(usage=(_used(4),))), receipt)


async def usage_adds_up_over_turns(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(reply(turn, tokens=3), commit=ending(usage=(_used(3),))))
    second = await scene.begin("t2", worker_id=turn.worker_id)
    end = ending(head=1, usage=(_used(4),))
    await scene.write(second.unit(reply(second, tokens=4), commit=end))

    session = await scene.session()
    expect((session.usage, session.head), ((_used(7, calls=2),), 2))
    expect([page.turn_id for page in session.pages], ["t1", "t2"])
    expect(session.pages[1].usage[0].usage.output_tokens, 4)


async def an_end_retried_after_a_lost_answer_gives_the_same_receipt(scene: Scene) -> None:
    turn = await scene.begin()
    end = ending("done", now_ms=5)
    receipt = await scene.commit(turn, end)

    await scene.unchanged(scene.commit(turn, end), receipt)
    # When, and onto what, is no part of its content.
    await scene.unchanged(scene.commit(turn, ending("done", head=9, now_ms=7)), receipt)


async def an_end_is_known_even_after_the_lease_has_gone(scene: Scene, turn: Driven) -> None:
    unit = turn.unit(reply(turn), commit=ending())
    receipt = await scene.write(unit)
    await scene.accept("t2")
    other = await scene.replace_worker(turn)
    await scene.start("t2", worker_id=other, generation=2)

    await scene.unchanged(unit, receipt)
    await scene.unchanged(scene.commit(turn), receipt.committed)


async def an_end_alone_is_answered_with_all_pages_each_time(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(reply(turn)))
    unit = turn.unit(commit=ending())

    receipt = await scene.write(unit)

    expect(receipt.page, 1)
    await scene.unchanged(unit, receipt)


async def an_end_with_other_content_is_refused(scene: Scene, turn: Driven) -> None:
    await scene.commit(turn, ending("one"))

    await scene.refused(IdempotencyConflict, scene.commit(turn, ending("two")))
    later = turn._replace(generation=7)
    await scene.refused(IdempotencyConflict, scene.commit(later, ending("two")))


async def the_same_end_behind_other_entries_is_refused(scene: Scene, turn: Driven) -> None:
    unit = turn.unit(reply(turn), commit=ending())
    receipt = await scene.write(unit)

    await scene.unchanged(scene.write(unit), receipt)
    other = turn.unit(reply(turn, text="other words"), commit=ending())
    await scene.refused(IdempotencyConflict, other)


async def an_end_onto_another_head_is_refused(scene: Scene, turn: Driven) -> None:
    for head in (1, -1):
        await scene.refused(HeadMoved, scene.commit(turn, ending(head=head)))
    await scene.commit(turn, ending(head=0))


async def a_turn_that_was_not_begun_does_not_end(scene: Scene, turn: Driven) -> None:
    await scene.accept("t2")

    await scene.refused(HeadMoved, scene.commit(turn._replace(turn_id="t2")))


async def a_parked_turn_may_end(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(waits=(turn.wait("w"),), parks=True))

    await scene.commit(turn)

    expect((await scene.turn()).state, "done")


async def the_ends_of_neighbours_do_not_meet(scene: Scene) -> None:
    turns = [await scene.begin(session_id=f"s{at}") for at in range(5)]
    for turn in turns[::2]:
        await scene.write(turn.unit(reply(turn), commit=ending(turn.session_id)))
    await scene.refused(HeadMoved, scene.commit(turns[1], ending(head=3)))

    heads = [(await scene.session(turn.session_id)).head for turn in turns]
    expect(heads, [1, 0, 1, 0, 1])
    last = await scene.session("s4")
    expect([page.outcome for page in last.pages], [Finished(text="s4")])


async def a_turn_that_is_done_shows_the_page_that_it_added(scene: Scene) -> None:
    first = await scene.begin("t1")
    expect((await scene.turn("t1")).page, None)
    await scene.commit(first, ending("one"))
    second = await scene.begin("t2", worker_id=first.worker_id)
    await scene.commit(second, ending("two", head=1))

    shown = [(await scene.turn(turn_id)).page for turn_id in ("t1", "t2")]
    expect(tuple(shown), (await scene.session()).pages)
    await scene.store.vacuum(now_ms=10**9, retention_ms=0)
    shown = [(await scene.turn(turn_id)).page for turn_id in ("t1", "t2")]
    expect(tuple(shown), (await scene.session()).pages, "the pages once the journals are reclaimed")


async def cancelling_marks_a_turn_once(scene: Scene, turn: Driven) -> None:
    store = scene.store

    expect(await store.request_cancel("s1", "t1", reason="late"), CancelReceipt(status="requested"))
    expect((await scene.turn()).cancel, "late")
    again = store.request_cancel("s1", "t1", reason="other")
    await scene.unchanged(again, CancelReceipt(status="already"))
    await scene.commit(turn, ending(outcome=CANCELLED))
    await scene.unchanged(store.request_cancel("s1", "t1"), CancelReceipt(status="finished"))
    for place in (("s1", "t9"), ("s9", "t1")):
        await scene.unchanged(store.request_cancel(*place), CancelReceipt(status="unknown"))


async def a_cancel_without_a_reason_is_a_cancel(scene: Scene, turn: Driven) -> None:
    await scene.store.request_cancel("s1", "t1")

    expect((await scene.turn()).cancel, "")
    await scene.refused(TurnCancelled, scene.commit(turn))


async def a_cancelled_turn_claims_nothing_and_ends_only_so(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(intent(turn)))
    await scene.store.request_cancel("s1", "t1")

    await scene.refused(TurnCancelled, turn.unit(intent(turn, 1), position=1))
    await scene.write(turn.unit(result(turn), position=1))
    for outcome in (Finished(text="done"), Stopped(reason="limit")):
        await scene.refused(TurnCancelled, scene.commit(turn, ending(outcome=outcome)))
    await scene.commit(turn, ending(outcome=CANCELLED))
    expect((await scene.turn()).outcome, CANCELLED)


async def what_is_claimed_already_is_refused_to_a_cancelled_turn_as_cancelled(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.write(turn.unit(intent(turn)))
    await scene.store.request_cancel("s1", "t1")

    await scene.refused(TurnCancelled, turn.unit(intent(turn), position=1))


async def a_queued_turn_that_is_cancelled_still_starts_and_ends_so(scene: Scene) -> None:
    await scene.accept()
    await scene.store.request_cancel("s1", "t1")
    expect((await scene.turn()).state, "queued")
    turn = await scene.start(worker_id=await scene.join())

    await scene.refused(TurnCancelled, turn.unit(intent(turn)))
    await scene.commit(turn, ending(outcome=CANCELLED))


async def a_queued_turn_that_is_cancelled_starts_and_ends_in_one_unit(scene: Scene) -> None:
    await scene.accept()
    await scene.store.request_cancel("s1", "t1")
    turn = Driven("s1", "t1", await scene.join(), 1)
    start, cancelled = turn.start, ending(outcome=CANCELLED)

    await scene.refused(TurnCancelled, turn.unit(intent(turn), start=start))
    await scene.refused(TurnCancelled, turn.unit(intent(turn), start=start, commit=cancelled))
    await scene.refused(TurnCancelled, turn.unit(start=start, commit=ending()))
    expect((await scene.turn()).state, "queued")
    receipt = await scene.write(turn.unit(start=start, commit=cancelled))

    expect(receipt.committed is not None and receipt.committed.head, 1)
    view = await scene.turn()
    expect((view.state, view.outcome), ("done", CANCELLED))


async def cancelling_wakes_a_parked_turn(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(waits=(turn.wait("w"),), parks=True))

    await scene.store.request_cancel("s1", "t1")

    expect((await scene.turn()).state, "ready")


async def a_cancel_before_the_turn_parks_is_not_lost(scene: Scene, turn: Driven) -> None:
    await scene.store.request_cancel("s1", "t1")

    await scene.write(turn.unit(waits=(turn.wait("w"),), parks=True))

    expect((await scene.turn()).state, "ready")
    now = await scene.take_over(turn, turn.worker_id)
    await scene.write(now.unit(parks=True))
    expect((await scene.turn()).state, "ready", "a cancelled turn that parks once more")


@with_crash
async def an_end_is_there_after_a_crash(scene: Scene, turn: Driven) -> None:
    unit = turn.unit(reply(turn), commit=ending())
    receipt = await scene.write(unit)

    await scene.keeps(scene.everything)

    expect(await scene.write(unit), receipt)

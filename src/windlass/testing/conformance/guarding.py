"""Guarding: what only errands may do in sessions that are no chats, and which answers a wait takes from whom."""

# ruff: noqa: D103 - the name of a claim says it all
from __future__ import annotations

from typing import get_args

from windlass.errors import Forbidden, IdempotencyConflict, InvalidInput
from windlass.ports import (
    AnswerWait,
    NewItem,
    SessionKind,
    TurnReceipt,
    Unit,
    WaitAnswer,
    WaitReceipt,
)
from windlass.testing.conformance.checks import with_crash
from windlass.testing.conformance.errands import YES, begin, post
from windlass.testing.conformance.scene import Driven, Scene, ending, expect, expect_that, new_turn

CLOSED = tuple(kind for kind in get_args(SessionKind) if kind != "chat")


async def _closed(scene: Scene) -> None:
    """Let there be a session of every kind but chat, named after it, with the turn `t1`."""
    await scene.run(*(begin(kind, "t1", "hi", kind=kind) for kind in CLOSED))


async def callers_begin_no_turn_where_only_errands_do(scene: Scene) -> None:
    await _closed(scene)

    for kind in CLOSED:
        unit = Unit.accepting(kind, "t2", new_turn())
        for call in (scene.accept("t2", session_id=kind), unit):
            refusal = await scene.refused(Forbidden, call)
            expect(refusal.field, "session_id")
            said = f"session {kind}: is of kind {kind}, where only errands begin turns"
            expect(str(refusal), said)


async def a_turn_that_is_known_there_is_answered(scene: Scene) -> None:
    await _closed(scene)

    known = TurnReceipt(session_id="child", turn_id="t1", state="queued", known=True)
    await scene.unchanged(scene.accept(session_id="child", text="hi"), known)
    await scene.refused(Forbidden, scene.accept(session_id="child", text="other"))


async def a_worker_begins_a_turn_there_with_an_item(scene: Scene) -> None:
    await _closed(scene)
    now = await scene.start(session_id="process", worker_id=await scene.join())
    await scene.commit(now)
    await scene.run(post("process", "i1"))

    await scene.accept("t2", session_id="process", takes=("i1",))

    expect((await scene.session("process")).queued, ("t2",))
    call = scene.accept("t3", session_id="process", takes=("i1",))
    await scene.refused(IdempotencyConflict, call)
    await scene.refused(InvalidInput, scene.accept("t3", session_id="process", takes=("none",)))


async def callers_put_no_item_where_only_errands_do(scene: Scene) -> None:
    await _closed(scene)
    await scene.run(post("trigger", "i1"))

    for kind in CLOSED:
        for item_id in ("i1", "i2"):
            call = scene.store.enqueue(kind, NewItem(item_id=item_id))
            refusal = await scene.refused(Forbidden, call)
            expect(refusal.field, "session_id")
    said = "session trigger: is of kind trigger, where only errands post items"
    call = scene.store.enqueue("trigger", NewItem(item_id="i1"))
    expect(str(await scene.refused(Forbidden, call)), said)
    expect([item.item_id for item in (await scene.store.inbox("trigger")).items], ["i1"])


async def the_end_of_a_turn_there_has_follow_ups(scene: Scene) -> None:
    await _closed(scene)
    now = await scene.start(session_id="process", worker_id=await scene.join())

    await scene.commit(now, ending(follow_ups=(NewItem(item_id="i1"),)))

    expect([item.item_id for item in (await scene.store.inbox("process")).items], ["i1"])


async def a_chat_that_an_errand_made_is_open_to_callers(scene: Scene, turn: Driven) -> None:
    await scene.send(turn, begin("talk", "t1"))

    await scene.accept("t2", session_id="talk")
    await scene.enqueue("i1", session_id="talk")

    expect((await scene.session("talk")).queued, ("t1", "t2"))


async def a_turn_there_may_be_cancelled_by_callers(scene: Scene) -> None:
    await _closed(scene)

    receipt = await scene.store.request_cancel("child", "t1", reason="late")

    expect(receipt.status, "requested")
    expect((await scene.turn(session_id="child")).cancel, "late")


# ------------------------------------------------------------------ waits


async def only_an_errand_answers_a_wait_for_a_child(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(waits=(turn.wait("w_secret", kind="child"),), parks=True))
    other = await scene.begin(session_id="s2")

    for status in ("answered", "rejected", "expired", "superseded"):
        call = scene.store.resolve_wait("w_secret", WaitAnswer(status=status, now_ms=5))
        refusal = await scene.refused(Forbidden, call)
        expect(refusal.field, "key")
        expect_that("w_secret" not in str(refusal), "the message does not tell the key")
    (receipt,) = await scene.send(other, AnswerWait(key="w_secret", answer=YES))

    expect(receipt.status, "done")
    view = await scene.turn()
    expect((view.state, view.waits[0].answer), ("ready", YES))
    await scene.refused(Forbidden, scene.store.resolve_wait("w_secret", YES))


async def a_wait_for_a_child_has_no_time_of_its_own(scene: Scene, turn: Driven) -> None:
    wait = turn.wait("w", kind="child", expires_ms=50)

    refusal = await scene.refused(InvalidInput, turn.unit(waits=(wait,)))

    expect(refusal.field, "Wait.expires_ms")


async def only_its_time_answers_a_timer(scene: Scene, turn: Driven) -> None:
    waits = (turn.wait("w", kind="timer", expires_ms=50), turn.wait("never", kind="timer"))
    await scene.write(turn.unit(waits=waits, parks=True))
    too_early = WaitAnswer(status="expired", now_ms=49)
    others = [WaitAnswer(status=one, now_ms=99) for one in ("answered", "rejected", "superseded")]

    for answer in (too_early, YES, *others):
        refusal = await scene.refused(Forbidden, scene.store.resolve_wait("w", answer))
        expect(str(refusal), "key: found a timer, which only its time answers")
        (receipt,) = await scene.run(AnswerWait(key="w", answer=answer))
        expect((receipt.status, receipt.reason), ("dropped", str(refusal)))
    never = WaitAnswer(status="expired", now_ms=99)
    await scene.refused(Forbidden, scene.store.resolve_wait("never", never))
    on_time = WaitAnswer(status="expired", now_ms=50)
    receipt_of_it = await scene.store.resolve_wait("w", on_time)

    expect(receipt_of_it, WaitReceipt(status="accepted", answer=on_time))
    expect((await scene.turn()).state, "ready")
    late = scene.store.resolve_wait("w", WaitAnswer(status="expired", now_ms=60))
    await scene.unchanged(late, WaitReceipt(status="expired", answer=on_time))


@with_crash
async def doors_are_closed_after_a_crash(scene: Scene) -> None:
    await _closed(scene)
    turn = await scene.begin()
    await scene.open_wait(turn, kind="child")

    await scene.keeps(scene.everything)

    await scene.refused(Forbidden, scene.accept("t2", session_id="schedule"))
    await scene.refused(Forbidden, scene.store.enqueue("schedule", NewItem(item_id="i1")))
    await scene.refused(Forbidden, scene.store.resolve_wait("w", YES))

"""Waiting: a wait is answered once, and the turn that waits is woken."""

# ruff: noqa: D103 - the name of a claim says it all
from __future__ import annotations

from asyncio import gather
from typing import Any

from windlass.errors import IdempotencyConflict, InvalidInput, LeaseLost
from windlass.ports import WaitAnswer, WaitReceipt, WaitView
from windlass.testing.conformance.checks import with_crash
from windlass.testing.conformance.entries import reply
from windlass.testing.conformance.scene import Driven, Scene, expect, expect_that

YES = WaitAnswer(value={"ok": True}, by="eva", now_ms=5)
NO = WaitAnswer(status="rejected", value="no", by="ada", now_ms=6)
TIME_IS_OVER = WaitAnswer(status="expired", now_ms=50)


async def _parked(scene: Scene, **more: object) -> Driven:
    turn = await scene.begin()
    await scene.write(turn.unit(waits=(turn.wait("w", **more),), parks=True))
    return turn


async def _is_over(scene: Scene, late: WaitAnswer, **stands: Any) -> None:
    """Fail unless a late answer changes nothing and is told what stands."""
    await scene.unchanged(scene.store.resolve_wait("w", late), WaitReceipt(**stands))


async def _state(scene: Scene) -> str:
    return (await scene.turn()).state


async def a_wait_is_opened_and_seen(scene: Scene, turn: Driven) -> None:
    told = {"call_id": "c1", "title": "Pay?", "detail": {"cents": 5}}

    view = await scene.open_wait(turn, "w", created_ms=3, expires_ms=50, **told)

    expect(view, WaitView(wait=turn.wait("w", created_ms=3, expires_ms=50, **told)))
    expect((await scene.turn()).waits, (view,))
    expect(await scene.store.list_waits(), (view,))


async def a_wait_knows_how_many_pages_its_turn_had_with_the_unit_that_opened_it(
    scene: Scene, turn: Driven
) -> None:
    await scene.write(turn.unit(waits=(turn.wait("first"),)))
    await scene.write(turn.unit(reply(turn), waits=(turn.wait("second"),)))
    await scene.write(turn.unit(reply(turn, 1), position=1))
    await scene.write(turn.unit(waits=(turn.wait("third"), turn.wait("first")), position=2))

    wanted = [("first", 0), ("second", 1), ("third", 2)]
    expect([(view.wait.key, view.page) for view in (await scene.turn()).waits], wanted)
    expect([(view.wait.key, view.page) for view in await scene.store.list_waits()], wanted)
    await scene.store.resolve_wait("second", YES)
    expect([view.page for view in (await scene.turn()).waits], [0, 1, 2], "once one is answered")


async def the_same_wait_again_stays_as_it_stands(scene: Scene, turn: Driven) -> None:
    await scene.open_wait(turn)
    await scene.store.resolve_wait("w", YES)

    stands = WaitView(wait=turn.wait("w"), state="answered", answer=YES)
    await scene.unchanged(scene.open_wait(turn), stands)


async def another_wait_under_a_known_key_is_refused(scene: Scene, turn: Driven) -> None:
    other = await scene.begin(session_id="s2")
    await scene.write(turn.unit(waits=(turn.wait("w"),)))

    unit = turn.unit(waits=(turn.wait("w2"), turn.wait("w", title="other")))
    await scene.refused(IdempotencyConflict, unit)
    await scene.refused(IdempotencyConflict, other.unit(waits=(other.wait("w"),)))


async def a_turn_opens_no_wait_for_another(scene: Scene, turn: Driven) -> None:
    other = await scene.begin(session_id="s2")

    await scene.refused(InvalidInput, turn.unit(waits=(other.wait("w"),)))


async def the_first_answer_stands_for_ever(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(waits=(turn.wait("w"),)))

    expect(await scene.store.resolve_wait("w", YES), WaitReceipt(status="accepted", answer=YES))
    for late in (NO, YES, TIME_IS_OVER):
        await _is_over(scene, late, status="already", answer=YES)
    view = WaitView(wait=turn.wait("w"), state="answered", answer=YES)
    expect((await scene.turn()).waits, (view,))
    expect(await scene.store.list_waits(), ())


async def a_no_is_an_answer_that_stands(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(waits=(turn.wait("w"),)))
    await scene.store.resolve_wait("w", NO)

    expect((await scene.turn()).waits[0].state, "rejected")
    await _is_over(scene, YES, status="already", answer=NO)


async def a_key_that_is_not_known_is_refused_and_not_repeated(scene: Scene) -> None:
    await scene.begin()

    call = scene.store.resolve_wait("w_secret", YES)
    refusal = await scene.refused(InvalidInput, call)

    expect(refusal.field, "key")
    expect_that("w_secret" not in str(refusal), "the message does not tell the key")


async def of_fifty_answers_that_race_one_stands(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(waits=(turn.wait("w"),)))

    answers = [WaitAnswer(value=at) for at in range(50)]
    receipts = await gather(*(scene.store.resolve_wait("w", answer) for answer in answers))

    statuses = sorted(receipt.status for receipt in receipts)
    expect(statuses, ["accepted"] + ["already"] * 49)
    expect(len({receipt.answer.value for receipt in receipts if receipt.answer}), 1)


async def an_answer_wakes_a_parked_turn(scene: Scene) -> None:
    await _parked(scene)
    expect(await _state(scene), "parked")

    await scene.store.resolve_wait("w", YES)

    expect(await _state(scene), "ready")


async def an_answer_before_the_turn_parks_is_not_lost(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(waits=(turn.wait("w"),)))
    await scene.store.resolve_wait("w", YES)
    expect(await _state(scene), "running")

    await scene.write(turn.unit(reply(turn), parks=True))

    expect(await _state(scene), "ready")


async def a_turn_that_was_driven_on_since_the_answer_parks(scene: Scene) -> None:
    turn = await _parked(scene)
    await scene.store.resolve_wait("w", YES)
    now = await scene.take_over(turn, turn.worker_id)

    await scene.write(now.unit(waits=(now.wait("w2"),), parks=True))

    expect(await _state(scene), "parked")


async def a_turn_whose_worker_still_has_it_goes_on_by_writing(scene: Scene) -> None:
    turn = await _parked(scene)
    await scene.store.resolve_wait("w", YES)

    await scene.write(turn.unit(reply(turn)))
    expect(await _state(scene), "running")
    await scene.write(turn.unit(parks=True))
    expect(await _state(scene), "parked")
    await scene.write(turn.unit(reply(turn, 1), position=1))
    expect(await _state(scene), "running")


async def a_wait_that_expires_wakes_its_turn(scene: Scene) -> None:
    await _parked(scene, expires_ms=50)

    receipt = await scene.store.resolve_wait("w", TIME_IS_OVER)

    expect(receipt, WaitReceipt(status="accepted", answer=TIME_IS_OVER))
    expect(await _state(scene), "ready")
    expect((await scene.turn()).waits[0].state, "expired")
    await _is_over(scene, YES, status="expired", answer=TIME_IS_OVER)


async def an_answer_that_comes_at_the_deadline_comes_too_late(scene: Scene) -> None:
    await _parked(scene, expires_ms=50)

    late = WaitAnswer(value="yes", by="eva", now_ms=50)
    receipt = await scene.store.resolve_wait("w", late)

    stands = WaitAnswer(status="expired", now_ms=50)
    expect(receipt, WaitReceipt(status="expired", answer=stands))
    view = (await scene.turn()).waits[0]
    expect((view.state, view.answer), ("expired", stands))
    expect(await _state(scene), "ready")


async def an_answer_just_before_the_deadline_stands(scene: Scene) -> None:
    await _parked(scene, expires_ms=50)

    receipt = await scene.store.resolve_wait("w", WaitAnswer(value="yes", now_ms=49))

    expect(receipt.status, "accepted")


async def open_waits_end_with_their_turn(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(waits=(turn.wait("w"), turn.wait("answered"))))
    await scene.store.resolve_wait("answered", YES)
    await scene.commit(turn)

    expect([wait.state for wait in (await scene.turn()).waits], ["superseded", "answered"])
    await _is_over(scene, YES, status="superseded", answer=None)
    expect(await scene.store.list_waits(), ())


async def a_wait_can_be_superseded_by_an_answer(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(waits=(turn.wait("w"),)))
    answer = WaitAnswer(status="superseded", now_ms=3)

    receipt = await scene.store.resolve_wait("w", answer)

    expect(receipt, WaitReceipt(status="accepted", answer=answer))
    await _is_over(scene, YES, status="superseded", answer=answer)


async def only_the_owner_opens_a_wait(scene: Scene, turn: Driven) -> None:
    await scene.refused(LeaseLost, scene.open_wait(turn._replace(generation=0)))


async def open_waits_are_listed_oldest_first_by_kind_and_session(scene: Scene) -> None:
    turn = await scene.begin()
    other = await scene.begin(session_id="s2")
    await scene.write(turn.unit(waits=(turn.wait("c"), turn.wait("a", kind="timer"))))
    await scene.write(other.unit(waits=(other.wait("b"),)))
    store = scene.store

    async def keys(**wanted: object) -> list[str]:
        return [view.wait.key for view in await store.list_waits(**wanted)]  # type: ignore[arg-type]  # its options

    expect(await keys(), ["c", "a", "b"])
    expect(await keys(limit=2), ["c", "a"])
    expect(await keys(kind="approval"), ["c", "b"])
    expect(await keys(session_id="s1"), ["c", "a"])
    expect(await keys(session_id="s1", kind="timer"), ["a"])
    expect(await keys(session_id="s9"), [])
    expect(await keys(key="b"), ["b"])
    expect(await keys(key="b", session_id="s1"), [])
    expect(await keys(key="z"), [])


async def open_waits_are_listed_by_turn_within_its_session(scene: Scene) -> None:
    first = await scene.begin()
    await scene.write(first.unit(waits=(first.wait("old"),)))
    await scene.commit_and_accept(first)
    turn = await scene.start("t2", worker_id=first.worker_id)
    other = await scene.begin("t2", session_id="s2")
    await scene.write(other.unit(waits=(other.wait("other"),)))
    waits = (turn.wait("b"), turn.wait("a", kind="timer"), turn.wait("c"))
    await scene.write(turn.unit(waits=waits))
    await scene.store.resolve_wait("c", YES)
    store = scene.store

    async def keys(turn_id: str, **wanted: object) -> list[str]:
        found = await store.list_waits(session_id="s1", turn_id=turn_id, **wanted)  # type: ignore[arg-type]  # its options
        return [view.wait.key for view in found]

    expect(await keys("t2"), ["b", "a"])
    expect(await keys("t2", kind="timer"), ["a"])
    expect(await keys("t2", limit=1), ["b"])
    expect(await keys("t1"), [])
    expect(await keys("t9"), [])
    expect(await store.list_waits(session_id="s9", turn_id="t2"), ())
    refusal = await scene.refused(InvalidInput, store.list_waits(turn_id="t2"))
    expect(refusal.field, "turn_id")


@with_crash
async def an_answer_is_there_after_a_crash(scene: Scene) -> None:
    await _parked(scene)
    await scene.store.resolve_wait("w", YES)

    await scene.keeps(scene.turn)

    receipt = await scene.store.resolve_wait("w", NO)
    expect(receipt, WaitReceipt(status="already", answer=YES))

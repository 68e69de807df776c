"""Accepting: a turn arrives once, from any process and however often it is handed in."""

# ruff: noqa: D103 - the name of a claim says it all
from __future__ import annotations

from asyncio import gather

from windlass.errors import IdempotencyConflict, InvalidInput, SessionDeleted
from windlass.ports import TurnReceipt
from windlass.testing.conformance.checks import with_crash
from windlass.testing.conformance.scene import Driven, Scene, expect, request


def _receipt(turn_id: str = "t1", *, known: bool = False) -> TurnReceipt:
    return TurnReceipt(session_id="s1", turn_id=turn_id, state="queued", known=known)


async def a_turn_is_accepted_into_a_session_that_is_made_for_it(scene: Scene) -> None:
    receipt = await scene.accept("t1", text="hi", submitter="mail", by="eva", now_ms=7)

    expect(receipt, _receipt())
    session = await scene.session()
    expect((session.agent, session.created_ms), ("helper", 7))
    expect((session.head, session.generation, session.owner, session.active), (0, 0, None, None))
    expect((session.usage, session.pages, session.parent), ((), (), None))
    turn = await scene.turn()
    expect((turn.agent, turn.state, turn.submitter, turn.by), ("helper", "queued", "mail", "eva"))
    expect((turn.request, turn.request_digest), (request("hi"), request("hi").digest()))
    expect((turn.turn_index, turn.generation, turn.owner), (None, 0, None))
    expect((turn.cancel, turn.takeovers, turn.pages, turn.waits), (None, 0, (), ()))
    expect((turn.outcome, turn.receipt), (None, None))


async def the_same_request_again_is_known_and_changes_nothing(scene: Scene) -> None:
    await scene.accept("t1")

    again = scene.accept("t1", now_ms=99, submitter="other", by="bob")
    await scene.unchanged(again, _receipt(known=True))


async def a_known_turn_answers_with_the_state_it_is_in(scene: Scene, turn: Driven) -> None:
    expect((await scene.accept()).state, "running")
    await scene.commit(turn)

    done = TurnReceipt(session_id="s1", turn_id="t1", state="done", known=True)
    await scene.unchanged(scene.accept(), done)


async def another_request_under_a_known_turn_id_is_refused(scene: Scene) -> None:
    await scene.accept("t1", text="hi")

    await scene.refused(IdempotencyConflict, scene.accept("t1", text="ho"))


async def turn_ids_are_of_their_session(scene: Scene) -> None:
    await scene.accept("t1", session_id="s1", text="hi")
    await scene.accept("t1", session_id="s2", text="ho")

    expect((await scene.turn("t1", session_id="s1")).request, request("hi"))
    expect((await scene.turn("t1", session_id="s2")).request, request("ho"))


async def a_session_keeps_the_agent_that_it_was_made_with(scene: Scene) -> None:
    await scene.accept("t1", agent="first")
    await scene.accept("t2", agent="second")

    expect((await scene.session()).agent, "first")
    expect((await scene.turn("t2")).agent, "second")


async def nothing_is_accepted_into_a_deleted_session(scene: Scene, turn: Driven) -> None:
    await scene.commit(turn)
    await scene.store.delete_session("s1", now_ms=1)

    await scene.refused(SessionDeleted, scene.accept("t2"))


async def turns_wait_in_the_order_in_which_they_arrived(scene: Scene) -> None:
    for turn_id in ("b", "a", "c"):
        await scene.accept(turn_id)

    expect((await scene.store.inbox("s1")).queued_turns, ("b", "a", "c"))
    expect((await scene.session()).queued, ("b", "a", "c"))
    expect((await scene.store.load_session("s1", history=False)).queued, ("b", "a", "c"))


async def a_turn_is_queued_until_it_begins(scene: Scene) -> None:
    turn = await scene.begin("t1")
    await scene.accept("t2")
    await scene.accept("t3")
    await scene.accept("t1", session_id="s2")

    session = await scene.session()
    expect((session.active, session.queued), ("t1", ("t2", "t3")))
    await scene.commit(turn)
    session = await scene.session()
    expect((session.active, session.queued), (None, ("t2", "t3")))
    await scene.start("t2", worker_id=turn.worker_id)
    session = await scene.session()
    expect((session.active, session.queued), ("t2", ("t3",)))


async def fifty_that_race_with_one_turn_id_make_one_turn(scene: Scene) -> None:
    receipts = await gather(*(scene.accept("t1") for _ in range(50)))

    expect(sorted(receipt.known for receipt in receipts), [False] + [True] * 49)
    expect((await scene.store.inbox("s1")).queued_turns, ("t1",))


async def of_fifty_that_race_with_other_requests_one_is_accepted(scene: Scene) -> None:
    calls = [scene.accept("t1", text=str(at)) for at in range(50)]
    answers = await gather(*calls, return_exceptions=True)

    kinds = sorted(type(answer).__name__ for answer in answers)
    expect(kinds, ["IdempotencyConflict"] * 49 + ["TurnReceipt"])


async def an_id_that_is_none_is_refused(scene: Scene) -> None:
    await scene.refused(InvalidInput, scene.accept("a/b"))


@with_crash
async def an_accepted_turn_is_there_after_a_crash(scene: Scene) -> None:
    await scene.accept("t1")
    await scene.accept("t2")

    await scene.keeps(scene.everything)

    expect(await scene.accept("t1"), _receipt(known=True))

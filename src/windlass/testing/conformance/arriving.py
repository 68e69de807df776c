"""Arriving: what waits to enter a session is pending, taken, settled or withdrawn, and in one of these."""

# ruff: noqa: D103 - the name of a claim says it all
from __future__ import annotations

from windlass import errors
from windlass.ports import InboxItem, InboxReceipt, NewItem, WithdrawReceipt
from windlass.testing.conformance.checks import with_crash
from windlass.testing.conformance.scene import Driven, Scene, ending, expect


async def _take(scene: Scene, turn: Driven, **more: int) -> list[str]:
    items = await scene.store.take_inbox(
        turn.session_id, turn.turn_id, generation=turn.generation, **more
    )
    return [item.item_id for item in items]


async def _states(scene: Scene) -> dict[str, str]:
    return {item.item_id: item.state for item in (await scene.store.inbox("s1")).items}


async def _filled(scene: Scene, *item_ids: str) -> Driven:
    turn = await scene.begin()
    await scene.enqueue(*item_ids)
    return turn


async def an_item_arrives_once(scene: Scene) -> None:
    await scene.begin()
    item = NewItem(item_id="i1", kind="wake", when="next_turn", content={"a": [1]})

    receipt = await scene.store.enqueue("s1", item, now_ms=4)

    expect(receipt, InboxReceipt(item_id="i1", state="pending"))
    again = InboxReceipt(item_id="i1", state="pending", known=True)
    await scene.unchanged(scene.store.enqueue("s1", item, now_ms=9), again)
    # Turns and items share one row: the turn came first.
    wanted = InboxItem(item_id="i1", kind="wake", when="next_turn", content={"a": [1]}, arrived=2)
    expect((await scene.store.inbox("s1")).items, (wanted,))


async def another_item_under_a_known_id_is_refused(scene: Scene) -> None:
    await _filled(scene, "i1")

    call = scene.store.enqueue("s1", NewItem(item_id="i1", content="other"))
    await scene.refused(errors.IdempotencyConflict, call)


async def nothing_arrives_where_no_session_is(scene: Scene, turn: Driven) -> None:
    await scene.commit(turn)
    await scene.store.delete_session("s1", now_ms=1)
    item = NewItem(item_id="i1")

    await scene.refused(errors.UnknownSession, scene.store.enqueue("s9", item))
    await scene.refused(errors.SessionDeleted, scene.store.enqueue("s1", item))
    await scene.refused(errors.UnknownSession, scene.store.inbox("s9"))
    await scene.refused(errors.SessionDeleted, scene.store.inbox("s1"))


async def a_turn_takes_what_waits_for_now_in_order_of_arrival(scene: Scene) -> None:
    turn = await _filled(scene, "b", "a")
    later = NewItem(item_id="later", when="next_turn")
    await scene.store.enqueue("s1", later)

    items = await scene.store.take_inbox("s1", "t1", generation=1)

    taken = [(item.item_id, item.arrived, item.state) for item in items]
    expect(taken, [("b", 2, "taken"), ("a", 3, "taken")])
    expect({(item.turn_id, item.generation) for item in items}, {(turn.turn_id, 1)})
    expect(await _states(scene), {"b": "taken", "a": "taken", "later": "pending"})


async def a_turn_takes_again_what_it_took_and_what_came_since(scene: Scene) -> None:
    turn = await _filled(scene, "a", "b", "c")

    expect(await _take(scene, turn, limit=2), ["a", "b"])
    expect(await _take(scene, turn, limit=2), ["a", "b"])
    expect(await _take(scene, turn), ["a", "b", "c"])


async def a_worker_that_takes_over_finds_what_the_turn_had_taken(scene: Scene) -> None:
    turn = await _filled(scene, "a")
    await _take(scene, turn)
    now = await scene.take_over(turn, turn.worker_id)

    items = await scene.store.take_inbox("s1", "t1", generation=now.generation)

    expect([(item.item_id, item.generation) for item in items], [("a", 2)])


async def only_the_turn_under_way_takes(scene: Scene) -> None:
    turn = await _filled(scene, "a")
    await scene.accept("t2")

    await scene.refused(errors.LeaseLost, _take(scene, turn._replace(generation=0)))
    await scene.refused(errors.HeadMoved, _take(scene, turn._replace(turn_id="t2")))
    await scene.refused(errors.InvalidInput, _take(scene, turn._replace(turn_id="t9")))
    await scene.refused(errors.UnknownSession, _take(scene, turn._replace(session_id="s9")))


async def a_cancelled_turn_takes_nothing(scene: Scene) -> None:
    turn = await _filled(scene, "a")
    await scene.store.request_cancel("s1", "t1")

    await scene.unchanged(_take(scene, turn), [])


async def an_end_settles_what_was_used_and_gives_the_rest_back(scene: Scene) -> None:
    turn = await _filled(scene, "a", "b", "c")
    await _take(scene, turn, limit=2)

    await scene.commit(turn, ending(settle=("b",)))

    items = (await scene.store.inbox("s1")).items
    seen = [(item.item_id, item.arrived, item.state, item.turn_id) for item in items]
    expect(seen, [("a", 2, "pending", None), ("c", 4, "pending", None)])
    known = InboxReceipt(item_id="b", state="settled", known=True)
    expect(await scene.store.enqueue("s1", NewItem(item_id="b")), known)


async def an_end_settles_nothing_that_its_turn_has_not_taken(scene: Scene) -> None:
    turn = await _filled(scene, "a", "b")
    await _take(scene, turn, limit=1)

    for item_id in ("b", "nothing"):
        call = scene.commit(turn, ending(settle=("a", item_id)))
        await scene.refused(errors.InvalidInput, call)


async def follow_ups_arrive_with_the_end_of_the_turn(scene: Scene) -> None:
    turn = await _filled(scene, "a", "b")
    await _take(scene, turn, limit=1)
    follow_ups = (NewItem(item_id="next", kind="wake"), NewItem(item_id="b"))

    await scene.commit(turn, ending(settle=("a",), follow_ups=follow_ups))

    items = (await scene.store.inbox("s1")).items
    expect([(item.item_id, item.arrived) for item in items], [("b", 3), ("next", 4)])


async def a_follow_up_under_a_known_id_with_other_content_is_refused(scene: Scene) -> None:
    turn = await _filled(scene, "a")
    other = NewItem(item_id="a", content="other")

    call = scene.commit(turn, ending(follow_ups=(NewItem(item_id="new"), other)))
    await scene.refused(errors.IdempotencyConflict, call)
    twice = (NewItem(item_id="x"), NewItem(item_id="x", content="other"))
    await scene.refused(errors.IdempotencyConflict, scene.commit(turn, ending(follow_ups=twice)))


async def an_item_that_waits_can_be_withdrawn(scene: Scene) -> None:
    turn = await _filled(scene, "a", "b")
    store = scene.store

    expect(await store.withdraw("s1", "a"), WithdrawReceipt(status="withdrawn"))
    await scene.unchanged(store.withdraw("s1", "a"), WithdrawReceipt(status="already"))
    expect(await _states(scene), {"b": "pending"})
    expect(await _take(scene, turn), ["b"])
    await scene.unchanged(store.withdraw("s1", "b"), WithdrawReceipt(status="taken"))
    await scene.commit(turn, ending(settle=("b",)))
    await scene.unchanged(store.withdraw("s1", "b"), WithdrawReceipt(status="settled"))
    await scene.unchanged(store.withdraw("s1", "x"), WithdrawReceipt(status="unknown"))
    await scene.refused(errors.UnknownSession, store.withdraw("s9", "a"))


async def items_are_of_their_session(scene: Scene) -> None:
    await scene.begin(session_id="s1")
    turn = await scene.begin(session_id="s2")
    await scene.store.enqueue("s1", NewItem(item_id="a", content=1))
    await scene.store.enqueue("s2", NewItem(item_id="a", content=2))

    items = await scene.store.take_inbox("s2", turn.turn_id, generation=1)

    expect([item.content for item in items], [2])
    expect(await _states(scene), {"a": "pending"})


@with_crash
async def the_inbox_is_there_after_a_crash(scene: Scene) -> None:
    turn = await _filled(scene, "a", "b", "c")
    await _take(scene, turn, limit=1)
    await scene.store.withdraw("s1", "c")

    await scene.keeps(lambda: scene.store.inbox("s1"))

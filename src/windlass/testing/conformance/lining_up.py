"""Lining up: turns and items of a session enter it in one order, that in which they arrived."""

# ruff: noqa: D103 - the name of a claim says it all
from __future__ import annotations

from windlass.errors import HeadMoved
from windlass.ports import ClaimedTurn, NewItem
from windlass.testing.conformance.checks import with_crash
from windlass.testing.conformance.scene import Driven, Scene, ending, expect, new_turn


async def _put(scene: Scene, *item_ids: str) -> None:
    for item_id in item_ids:
        await scene.store.enqueue("s1", NewItem(item_id=item_id, when="next_turn"))


async def _mixed(scene: Scene) -> Driven:
    """Let items and turns arrive by turns while one is under way: a, b, c, d."""
    turn = await scene.begin("t0")
    await _put(scene, "a")
    await scene.accept("b")
    await _put(scene, "c")
    await scene.accept("d")
    return turn


async def _claim(scene: Scene, worker_id: str) -> tuple[ClaimedTurn, ...]:
    return await scene.store.claim(
        worker_id, agents=("helper",), limit=10, until_ms=1_000, now_ms=0
    )


async def _entered(scene: Scene, worker_id: str, head: int) -> list[str]:
    """Do what a worker does until nothing waits; return the turns in the order in which they ended."""
    entered: list[str] = []
    while len(entered) < 10:
        for inbox in (await scene.store.due(0)).inboxes:
            turn = new_turn(inbox.first.item_id, takes=(inbox.first.item_id,))
            await scene.store.accept("s1", f"of-{inbox.first.item_id}", turn)
        given = await _claim(scene, worker_id)
        if not given:
            break
        (one,) = given
        turn_id = one.lease.turn_id
        taken = tuple(item.item_id for item in (await scene.store.inbox("s1")).items)
        mine = tuple(name for name in taken if turn_id == f"of-{name}")
        driven = Driven("s1", turn_id, worker_id, one.lease.generation)
        await scene.commit(driven, ending(head=head + len(entered), settle=mine))
        entered.append(turn_id)
    return entered


async def turns_and_items_enter_in_the_order_of_their_arrival(scene: Scene) -> None:
    turn = await _mixed(scene)
    await scene.commit(turn)

    expect(await _entered(scene, turn.worker_id, 1), ["of-a", "b", "of-c", "d"])


@with_crash
async def the_order_outlives_a_crash(scene: Scene) -> None:
    turn = await _mixed(scene)
    await scene.commit(turn)
    await scene.crash()

    expect(await _entered(scene, await scene.join(), 1), ["of-a", "b", "of-c", "d"])


async def a_turn_that_begins_with_an_item_has_its_place(scene: Scene) -> None:
    turn = await _mixed(scene)

    await scene.accept("of-c", takes=("c",))
    await scene.accept("of-a", takes=("a",))

    expect((await scene.session()).queued, ("of-a", "b", "of-c", "d"))
    expect((await scene.store.inbox("s1")).queued_turns, ("of-a", "b", "of-c", "d"))
    await scene.commit(turn)
    expect(await _entered(scene, turn.worker_id, 1), ["of-a", "b", "of-c", "d"])


async def a_turn_that_begins_with_several_items_has_the_place_of_the_first(scene: Scene) -> None:
    await _mixed(scene)

    await scene.accept("both", takes=("c", "a"))

    expect((await scene.session()).queued, ("both", "b", "d"))


async def a_turn_behind_an_item_is_neither_due_nor_given_nor_begun(scene: Scene) -> None:
    turn = await _mixed(scene)
    await scene.commit(turn)
    worker = turn.worker_id

    expect((await scene.store.due(0)).turns, ())
    expect(await _claim(scene, worker), ())
    await scene.refused(HeadMoved, scene.start("b", worker_id=worker))
    behind = Driven("s1", "b", worker, 1)
    await scene.refused(HeadMoved, scene.take_over(behind, worker))
    await scene.store.leave(worker)
    expect(await _claim(scene, await scene.join()), (), "what is given to another worker")


async def an_item_behind_a_turn_is_not_due_before_it_has_begun(scene: Scene) -> None:
    turn = await scene.begin("t0")
    await scene.accept("b")
    await scene.enqueue("now")
    await scene.commit(turn)

    expect((await scene.store.due(0)).inboxes, ())
    (given,) = await _claim(scene, turn.worker_id)
    (inbox,) = (await scene.store.due(0)).inboxes
    expect((inbox.active, inbox.now, inbox.first.item_id), ("b", True, "now"))
    generation = given.lease.generation
    items = await scene.store.take_inbox("s1", "b", generation=generation)
    expect([item.item_id for item in items], ["now"])


async def an_item_that_is_withdrawn_holds_nothing_up(scene: Scene) -> None:
    turn = await _mixed(scene)
    await scene.commit(turn)

    await scene.store.withdraw("s1", "a")

    expect([one.turn_id for one in (await scene.store.due(0)).turns], ["b"])
    expect(await _entered(scene, turn.worker_id, 1), ["b", "of-c", "d"])


async def an_item_that_its_turn_did_not_use_waits_in_its_old_place(scene: Scene) -> None:
    turn = await scene.begin("t0")
    await scene.enqueue("a")
    await scene.accept("b")
    await scene.store.take_inbox("s1", "t0", generation=1)

    await scene.commit(turn)

    expect(await _entered(scene, turn.worker_id, 1), ["of-a", "b"])


async def a_session_says_how_many_items_wait(scene: Scene) -> None:
    turn = await _mixed(scene)
    expect((await scene.session()).waiting, 2)

    await scene.accept("of-a", takes=("a",))
    expect((await scene.session()).waiting, 1)
    await scene.store.withdraw("s1", "c")
    expect((await scene.session()).waiting, 0)
    await scene.commit(turn)
    expect((await scene.session()).waiting, 0)


def _beginning(turn: Driven) -> Driven:
    return turn._replace(turn_id="now")


async def a_turn_that_is_accepted_as_it_begins_goes_before_what_has_not_begun(
    scene: Scene,
) -> None:
    turn = await _mixed(scene)
    await scene.commit(turn)
    now = _beginning(turn)

    await scene.write(now.unit(accept=new_turn("now"), start=now.start))

    session = await scene.session()
    expect((session.active, session.queued), ("now", ("b", "d")))
    expect(await _claim(scene, turn.worker_id), ())
    await scene.write(now.unit(waits=(now.wait("w"),), parks=True))
    expect(((await scene.store.due(0)).turns, (await scene.store.due(0)).inboxes), ((), ()))
    expect(await _claim(scene, turn.worker_id), (), "what is given beside a parked turn")
    await scene.commit(now, ending(head=1))
    expect(await _entered(scene, turn.worker_id, 2), ["of-a", "b", "of-c", "d"])


async def a_turn_that_is_accepted_as_it_begins_waits_for_one_under_way(scene: Scene) -> None:
    turn = await _mixed(scene)
    now = _beginning(turn)

    await scene.refused(HeadMoved, now.unit(accept=new_turn("now"), start=now.start))

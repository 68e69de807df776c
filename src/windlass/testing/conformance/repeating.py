"""Repeating: an errand is run once, however often it is sent and whatever has become of it."""

# ruff: noqa: D103 - the name of a claim says it all
from __future__ import annotations

from windlass.ports import (
    ErrandReceipt,
    NewItem,
)
from windlass.testing.conformance.checks import with_crash
from windlass.testing.conformance.entries import reply
from windlass.testing.conformance.errands import (
    YES,
    begin,
    items_in,
    one_of_each,
    post,
    statuses,
    waiting_session,
)
from windlass.testing.conformance.scene import Driven, Scene, ending, expect, new_turn


async def a_unit_that_landed_runs_its_errands_once(scene: Scene, turn: Driven) -> None:
    other = await waiting_session(scene)
    unit = turn.unit(reply(turn), errands=one_of_each())
    expect(statuses((await scene.write(unit)).errands), ["done"] * 4)

    owner = other.worker_id
    again = (
        ErrandReceipt(status="known", session_id="s2", turn_id="t2", owner=owner),
        ErrandReceipt(status="known", session_id="s2", owner=owner),
        ErrandReceipt(status="known", session_id="s2", turn_id="t1", owner=owner),
        ErrandReceipt(status="known", session_id="s2", turn_id="t1", owner=owner),
    )
    receipt = await scene.write(unit)
    expect((receipt.page, receipt.errands), (1, again))
    await scene.unchanged(unit, receipt)


async def an_end_that_landed_runs_its_errands_once(scene: Scene, turn: Driven) -> None:
    await waiting_session(scene)
    unit = turn.unit(reply(turn), commit=ending(), errands=one_of_each())
    first = await scene.write(unit)

    again = await scene.write(unit)

    expect((statuses(first.errands), statuses(again.errands)), (["done"] * 4, ["known"] * 4))
    expect((again.page, again.committed), (first.page, first.committed))
    await scene.unchanged(unit, again)


async def a_unit_that_landed_posts_nothing_that_was_settled_and_forgotten(scene: Scene) -> None:
    """Its page tells that it landed, or its turn's end; the item that it posted, by then, tells nothing."""
    turn, worker = await scene.begin(), await scene.join()
    for unit in (
        turn.unit(reply(turn), errands=(post(item_id="i0"),)),
        turn.unit(commit=ending(), errands=(post(item_id="i1"),), position=1),
    ):
        head = unit.position
        other = await scene.begin(f"t{head}", session_id="s2", worker_id=worker)
        await scene.write(unit)
        await scene.store.take_inbox("s2", other.turn_id, generation=1)
        await scene.commit(other, ending(head=head, settle=(f"i{head}",), now_ms=head))
        expect((await scene.store.vacuum(now_ms=head + 1, retention_ms=0)).items, 1)

        expect(statuses((await scene.write(unit)).errands), ["known"])
        expect(await items_in(scene, "s2"), [])


async def an_errand_that_was_run_by_another_unit_is_known(scene: Scene, turn: Driven) -> None:
    await waiting_session(scene)
    await scene.send(turn, *one_of_each())

    before = await scene.everything()
    for unit in (turn.unit(errands=one_of_each()), turn.unit(waits=(), errands=one_of_each())):
        expect(statuses((await scene.write(unit)).errands), ["known"] * 4)
    expect(statuses(await scene.run(*one_of_each())), ["known"] * 4)
    expect(await scene.everything(), before, "what is there after")


async def what_callers_did_before_is_known_to_errands(scene: Scene, turn: Driven) -> None:
    await waiting_session(scene)
    store = scene.store
    await store.accept("s2", "t2", new_turn("go", now_ms=1))
    await store.enqueue("s2", NewItem(item_id="i1"))
    await store.resolve_wait("w", YES)
    await store.request_cancel("s2", "t1", reason="another reason")

    expect(statuses(await scene.send(turn, *one_of_each())), ["known"] * 4)


async def one_errand_twice_in_a_unit_runs_once(scene: Scene, turn: Driven) -> None:
    await waiting_session(scene)

    receipts = await scene.send(turn, *one_of_each(), *one_of_each())

    expect(statuses(receipts), ["done"] * 4 + ["known"] * 4)
    expect(await items_in(scene, "s2"), ["i1"])


@with_crash
async def errands_are_there_after_a_crash_and_are_not_run_again(scene: Scene, turn: Driven) -> None:
    await waiting_session(scene)
    unit = turn.unit(reply(turn), errands=one_of_each())
    await scene.write(unit)

    await scene.keeps(scene.everything)

    again = await scene.write(unit)
    expect(statuses(again.errands), ["known"] * 4)
    await scene.unchanged(unit, again)


@with_crash
async def an_end_and_its_errands_are_there_after_a_crash(scene: Scene, turn: Driven) -> None:
    await waiting_session(scene)
    unit = turn.unit(commit=ending(), errands=one_of_each())
    await scene.write(unit)
    await scene.run(post(item_id="i2"))

    await scene.keeps(scene.everything)

    expect(statuses((await scene.write(unit)).errands), ["known"] * 4)
    expect(await items_in(scene, "s2"), ["i1", "i2"])


async def a_turn_that_another_session_knows_is_not_accepted_again(scene: Scene) -> None:
    await scene.run(begin("old", "t1"))
    before = await scene.everything()

    receipts = await scene.run(begin("new", "t1", known_in=("nowhere", "old")))

    expect(statuses(receipts), ["known"])
    expect(await scene.everything(), before)
    expect(statuses(await scene.run(begin("new", "t2", known_in=("old",)))), ["done"])
    expect((await scene.session("new")).queued, ("t2",))


async def a_turn_that_another_session_knows_otherwise_is_dropped(
    scene: Scene, turn: Driven
) -> None:
    await scene.run(begin("old", "t1", "go"))

    (receipt,) = await scene.send(turn, begin("new", "t1", "stop", known_in=("old",)))

    expect((receipt.status, receipt.code), ("dropped", "idempotency_conflict"))


async def a_deleted_session_knows_no_turn(scene: Scene) -> None:
    driven = await scene.begin(session_id="old")
    await scene.commit(driven)
    await scene.store.delete_session("old", now_ms=9)

    receipts = await scene.run(begin("new", "t1", known_in=("old",)))

    expect(statuses(receipts), ["done"])

"""Entering: items that come in with a turn are its own from the moment it is accepted."""

# ruff: noqa: D103 - the name of a claim says it all
from __future__ import annotations

from asyncio import gather

from windlass.errors import IdempotencyConflict, InvalidInput
from windlass.kernel.outcomes import Stopped
from windlass.ports import InboxReceipt, NewItem, TurnReceipt, WithdrawReceipt
from windlass.testing.conformance.checks import with_crash
from windlass.testing.conformance.scene import Driven, Scene, ending, expect, new_turn, request


async def _waiting(scene: Scene, *item_ids: str) -> Driven:
    """Fill an inbox, in a session whose first turn is done."""
    turn = await scene.begin("t0")
    await scene.enqueue(*item_ids)
    await scene.commit(turn)
    return turn


async def _items(scene: Scene) -> list[tuple[str, str, str | None, int | None]]:
    items = (await scene.store.inbox("s1")).items
    return [(item.item_id, item.state, item.turn_id, item.generation) for item in items]


async def what_a_turn_takes_is_its_own_when_it_is_accepted(scene: Scene) -> None:
    await _waiting(scene, "a", "b", "c")
    await scene.store.enqueue("s1", NewItem(item_id="later", when="next_turn"))

    await scene.accept("t1", takes=("later", "a", "a"))

    wanted = [
        ("a", "taken", "t1", None),
        ("b", "pending", None, None),
        ("c", "pending", None, None),
        ("later", "taken", "t1", None),
    ]
    expect(await _items(scene), wanted)
    expect((await scene.turn("t1")).state, "queued")
    call = scene.store.withdraw("s1", "a")
    await scene.unchanged(call, WithdrawReceipt(status="taken"))


async def what_a_turn_takes_is_no_part_of_its_request(scene: Scene) -> None:
    await _waiting(scene, "a", "b")
    await scene.accept("t1", takes=("a",))

    known = TurnReceipt(session_id="s1", turn_id="t1", state="queued", known=True)
    for takes in (("a",), (), ("b",), ("nothing",)):
        await scene.unchanged(scene.accept("t1", takes=takes), known)
    expect((await scene.turn("t1")).request_digest, request("hi").digest())


async def a_turn_that_takes_what_does_not_wait_is_not_accepted(scene: Scene) -> None:
    used = await scene.begin("t0")
    await scene.enqueue("settled", "withdrawn", "taken", "a")
    await scene.store.take_inbox("s1", "t0", generation=1, limit=1)
    await scene.commit(used, ending(settle=("settled",)))
    await scene.store.withdraw("s1", "withdrawn")
    await scene.accept("t1", takes=("taken",))

    for item_id in ("settled", "withdrawn", "taken"):
        call = scene.accept("t2", takes=("a", item_id))
        refusal = await scene.refused(IdempotencyConflict, call)
        expect(refusal.field, "NewTurn.takes")
    unknown = await scene.refused(InvalidInput, scene.accept("t2", takes=("a", "nothing")))
    expect(unknown.field, "NewTurn.takes")
    expect(await scene.store.load_turn("s1", "t2"), None)


async def an_item_of_another_session_is_not_taken_nor_is_a_session_made_for_it(
    scene: Scene,
) -> None:
    await _waiting(scene, "a")

    await scene.refused(InvalidInput, scene.accept("t1", session_id="s2", takes=("a",)))
    expect([found.session_id for found in await scene.store.list_sessions()], ["s1"])


async def of_turns_that_race_for_an_item_one_is_accepted(scene: Scene) -> None:
    await _waiting(scene, "a")

    calls = [scene.accept(f"t{at}", takes=("a",)) for at in range(1, 11)]
    answers = await gather(*calls, return_exceptions=True)

    kinds = sorted(type(answer).__name__ for answer in answers)
    expect(kinds, ["IdempotencyConflict"] * 9 + ["TurnReceipt"])
    expect(len((await scene.store.inbox("s1")).queued_turns), 1)


async def a_turn_takes_again_what_it_came_with(scene: Scene) -> None:
    before = await _waiting(scene)
    await scene.store.enqueue("s1", NewItem(item_id="first", when="next_turn"))
    await scene.enqueue("a", "b")
    await scene.begin("t1", worker_id=before.worker_id, takes=("first",))

    items = await scene.store.take_inbox("s1", "t1", generation=1)

    seen = [(item.item_id, item.generation) for item in items]
    expect(seen, [("first", 1), ("a", 1), ("b", 1)])


async def no_other_turn_takes_what_a_queued_one_came_with(scene: Scene) -> None:
    await scene.begin("t0")
    await scene.enqueue("a", "b")
    await scene.accept("t1", takes=("a",))

    items = await scene.store.take_inbox("s1", "t0", generation=1)

    expect([item.item_id for item in items], ["b"])


async def an_end_settles_what_its_turn_came_with_or_lets_it_wait_again(scene: Scene) -> None:
    before = await _waiting(scene, "a", "b")
    turn = await scene.begin("t1", worker_id=before.worker_id, takes=("a", "b"))

    await scene.commit(turn, ending(head=1, settle=("b",)))

    expect(await _items(scene), [("a", "pending", None, None)])
    known = InboxReceipt(item_id="b", state="settled", known=True)
    expect(await scene.store.enqueue("s1", NewItem(item_id="b")), known)


async def taking_and_settling_fit_into_one_unit(scene: Scene) -> None:
    turn = (await _waiting(scene, "a"))._replace(turn_id="t1")
    end = ending(head=1, settle=("a",))
    unit = turn.unit(accept=new_turn(takes=("a",)), start=turn.start, commit=end)

    receipt = await scene.write(unit)

    expect(receipt.committed is not None and receipt.committed.head, 2)
    expect(await _items(scene), [])
    again = await scene.write(unit)
    expect(again.committed, receipt.committed)


async def a_unit_that_is_refused_later_takes_nothing(scene: Scene) -> None:
    turn = (await _waiting(scene, "a"))._replace(turn_id="t1")
    end = ending(head=1, settle=("nothing",))
    unit = turn.unit(accept=new_turn(takes=("a",)), start=turn.start, commit=end)

    await scene.refused(InvalidInput, unit)

    expect(await _items(scene), [("a", "pending", None, None)])


async def what_a_cancelled_turn_came_with_waits_again_when_it_ends(scene: Scene) -> None:
    before = await _waiting(scene, "a")
    await scene.accept("t1", takes=("a",))
    await scene.store.request_cancel("s1", "t1")
    turn = await scene.start("t1", worker_id=before.worker_id)

    await scene.commit(turn, ending(head=1, outcome=Stopped(reason="cancelled")))

    expect(await _items(scene), [("a", "pending", None, None)])


async def an_id_that_is_none_is_no_item(scene: Scene) -> None:
    await _waiting(scene, "a")

    for wrong in (("a", "a/b"), ("",), ["a"]):
        refusal = await scene.refused(InvalidInput, scene.accept("t1", takes=wrong))
        expect(refusal.field, "NewTurn.takes")


@with_crash
async def what_a_turn_came_with_is_there_after_a_crash(scene: Scene) -> None:
    await _waiting(scene, "a", "b")
    await scene.accept("t1", takes=("a",))

    await scene.keeps(lambda: scene.store.inbox("s1"))

    again = await scene.accept("t1", takes=("a",))
    expect((again.turn_id, again.known), ("t1", True))

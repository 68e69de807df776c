"""Sending: a unit acts on other sessions with its errands, all of it or nothing."""

# ruff: noqa: D103 - the name of a claim says it all
from __future__ import annotations

import asyncio
from typing import Any

from windlass.errors import HeadMoved, InvalidInput, LeaseLost, TurnCancelled
from windlass.ports import (
    AnswerWait,
    CancelTurn,
    ErrandReceipt,
)
from windlass.testing.conformance.entries import intent, reply
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

STUCK_S = 60.0
"""For how many seconds two units may be under way before they are said to wait for each other."""


async def a_unit_posts_an_item_into_another_session(scene: Scene, turn: Driven) -> None:
    other = await waiting_session(scene)

    receipts = await scene.send(turn, post(content={"n": 1}, when="next_turn"))

    expect(receipts, (ErrandReceipt(status="done", session_id="s2", owner=other.worker_id),))
    (item,) = (await scene.store.inbox("s2")).items
    expect((item.item_id, item.content, item.when), ("i1", {"n": 1}, "next_turn"))
    expect((item.state, item.arrived), ("pending", 2))
    expect(await items_in(scene, "s1"), [])


async def a_unit_answers_a_wait_of_another_turn(scene: Scene, turn: Driven) -> None:
    other = await waiting_session(scene)

    receipts = await scene.send(turn, AnswerWait(key="w", answer=YES))

    place = {"session_id": "s2", "turn_id": "t1", "owner": other.worker_id}
    expect(receipts, (ErrandReceipt(status="done", **place),))
    view = await scene.turn(session_id="s2")
    expect((view.state, view.waits[0].state, view.waits[0].answer), ("ready", "answered", YES))


async def a_unit_asks_for_another_turn_to_end(scene: Scene, turn: Driven) -> None:
    other = await waiting_session(scene)

    receipts = await scene.send(turn, CancelTurn(session_id="s2", turn_id="t1", reason="late"))

    place = {"session_id": "s2", "turn_id": "t1", "owner": other.worker_id}
    expect(receipts, (ErrandReceipt(status="done", **place),))
    view = await scene.turn(session_id="s2")
    expect((view.state, view.cancel), ("ready", "late"))


async def a_unit_accepts_a_turn_in_another_session(scene: Scene, turn: Driven) -> None:
    other = await waiting_session(scene)

    receipts = await scene.send(turn, begin())

    place = {"session_id": "s2", "turn_id": "t2", "owner": other.worker_id}
    expect(receipts, (ErrandReceipt(status="done", **place),))
    expect((await scene.store.inbox("s2")).queued_turns, ("t2",))


async def a_target_without_a_worker_has_no_owner(scene: Scene, turn: Driven) -> None:
    await scene.accept(session_id="s2")

    (receipt,) = await scene.send(turn, post())

    expect(receipt, ErrandReceipt(status="done", session_id="s2", owner=None))


async def a_unit_may_act_on_its_own_session(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(waits=(turn.wait("w"),), parks=True))

    receipts = await scene.send(turn, begin("s1"), AnswerWait(key="w", answer=YES), post("s1"))

    expect(statuses(receipts), ["done"] * 3)
    expect(((await scene.turn()).state, await items_in(scene, "s1")), ("ready", ["i1"]))
    expect((await scene.session()).queued, ("t2",))
    await scene.write(turn.unit(reply(turn)))
    await scene.commit(turn)
    await scene.start("t2", worker_id=turn.worker_id)


async def errands_come_after_the_end_of_their_turn(scene: Scene, turn: Driven) -> None:
    errands = (CancelTurn(session_id="s1", turn_id="t1"), begin("s1"))

    receipt = await scene.write(turn.unit(reply(turn), commit=ending(), errands=errands))

    expect(statuses(receipt.errands), ["dropped", "done"])
    expect(receipt.errands[0].reason, "turn t1: has ended")
    expect((await scene.turn()).cancel, None)
    expect((await scene.session()).queued, ("t2",))


async def errands_come_with_every_part_of_a_unit(scene: Scene) -> None:
    await scene.accept(session_id="s2")
    turn = Driven("s1", "t1", await scene.join(), 1)
    parts: dict[str, Any] = {
        "accept": new_turn(),
        "start": turn.start,
        "waits": (turn.wait("w"),),
        "parks": True,
    }

    receipt = await scene.write(turn.unit(reply(turn), errands=(post(),), **parts))

    expect((receipt.page, statuses(receipt.errands)), (1, ["done"]))
    expect(((await scene.turn()).state, await items_in(scene, "s2")), ("parked", ["i1"]))


async def receipts_stand_in_the_order_of_the_errands(scene: Scene, turn: Driven) -> None:
    names = ("z", "b", "gone", "m", "a")
    for name in names:
        if name != "gone":
            await scene.accept(session_id=name)

    receipts = await scene.send(turn, *(post(name) for name in names))

    expect([receipt.session_id for receipt in receipts], list(names))
    expect(statuses(receipts), ["done", "done", "dropped", "done", "done"])


async def errands_into_one_session_run_as_they_were_told(scene: Scene, turn: Driven) -> None:
    for name in ("z", "a"):
        await scene.accept(session_id=name)
    told = (post("z", "2"), post("a", "2"), post("z", "1"), post("a", "1"), post("z", "3"))

    receipts = await scene.send(turn, *told, begin("new", "t1"), post("new"))

    expect(statuses(receipts), ["done"] * 7)
    expect((await items_in(scene, "z"), await items_in(scene, "a")), (["2", "1", "3"], ["2", "1"]))
    expect(await items_in(scene, "new"), ["i1"])


async def an_item_came_when_the_errand_says_or_else_its_unit_or_its_caller(scene: Scene) -> None:
    """One that is withdrawn is kept from then on, and goes when it came longer ago than the retention."""
    turn = await scene.begin()
    await scene.accept(session_id="s2")
    told = (post(item_id="told", now_ms=100), post(item_id="unit"))
    await scene.write(turn.unit(commit=ending(now_ms=200), errands=told))
    await scene.run(post(item_id="caller"), now_ms=300)
    for item_id in ("told", "unit", "caller"):
        await scene.store.withdraw("s2", item_id)

    times = (100, 101, 200, 201, 300, 301)
    found = [(await scene.store.vacuum(now_ms=now, retention_ms=0)).items for now in times]

    expect(found, [0, 1, 0, 1, 0, 1])


# ------------------------------------------------------------------ with their unit, or not at all


async def a_unit_that_is_refused_runs_no_errand(scene: Scene, turn: Driven) -> None:
    await waiting_session(scene)
    told: dict[str, Any] = {"errands": one_of_each()}
    await scene.store.request_cancel("s1", "t1")

    await scene.refused(HeadMoved, turn.unit(reply(turn), position=3, **told))
    await scene.refused(TurnCancelled, turn.unit(intent(turn), **told))
    await scene.refused(TurnCancelled, turn.unit(commit=ending(), **told))
    await scene.refused(LeaseLost, turn._replace(generation=0).unit(**told))


async def a_unit_behind_a_refused_one_runs_no_errand(scene: Scene, turn: Driven) -> None:
    await waiting_session(scene)
    first = scene.store.submit(turn.unit(reply(turn), position=4))
    second = scene.store.submit(turn.unit(reply(turn), errands=one_of_each()), after=first)

    for ticket in (first, second):
        await scene.refused(HeadMoved, ticket.durable())


async def a_neighbour_that_is_refused_takes_no_errand_along(scene: Scene, turn: Driven) -> None:
    await waiting_session(scene)
    third = await scene.begin(session_id="s3")
    bad = scene.store.submit(third.unit(reply(third), position=2, errands=(post(item_id="no"),)))
    good = scene.store.submit(turn.unit(errands=one_of_each()))

    expect(statuses((await good.durable()).errands), ["done"] * 4)
    await scene.refused(HeadMoved, bad.durable())
    expect(await items_in(scene, "s2"), ["i1"])


async def only_the_owner_sends_errands(scene: Scene, turn: Driven) -> None:
    await waiting_session(scene)
    await scene.refused(LeaseLost, scene.send(turn._replace(generation=0), post()))
    await scene.commit(turn)

    await scene.refused(HeadMoved, scene.send(turn, post()))


# ------------------------------------------------------------------ without a unit


async def errands_run_without_a_unit(scene: Scene) -> None:
    other = await waiting_session(scene)

    receipts = await scene.run(*one_of_each(), post("s9"), now_ms=3)

    expect(statuses(receipts), ["done"] * 4 + ["dropped"])
    expect([receipt.owner for receipt in receipts], [other.worker_id] * 4 + [None])
    expect((await scene.store.inbox("s2")).queued_turns, ("t2",))
    expect(await items_in(scene, "s2"), ["i1"])
    view = await scene.turn(session_id="s2")
    expect((view.cancel, view.waits[0].answer), ("enough", YES))
    again = [receipt.status for receipt in await scene.run(*one_of_each())]
    expect(again, ["known"] * 4)
    expect(await scene.run(), ())


async def errands_without_a_unit_know_no_tree_and_no_turn(scene: Scene, turn: Driven) -> None:
    await scene.open_wait(turn)
    for more, field in (({"most": 3}, "AcceptTurn.most"), ({"rejects": "w"}, "AcceptTurn.rejects")):
        told = (post("s1"), begin(**more))
        refusal = await scene.refused(InvalidInput, scene.run(*told))
        expect(refusal.field, field)


# ------------------------------------------------------------------ several at once


async def two_units_with_errands_into_each_other_land_however_often(scene: Scene) -> None:
    """Each acts on its own session first; a store that locks sessions as they are named would lock for ever."""
    pair = [await scene.begin(session_id=name) for name in ("s1", "s2")]

    async def keep_sending(turn: Driven, other: Driven, times: int) -> list[str]:
        found: list[str] = []
        for at in range(times):
            errands = (
                post(turn.session_id, f"own{at}"),
                post(other.session_id, f"{turn.session_id}-{at}"),
            )
            unit = turn.unit(reply(turn, at), position=at, errands=errands)
            found += statuses((await scene.write(unit)).errands)
        return found

    first, second = pair
    both = asyncio.gather(keep_sending(first, second, 50), keep_sending(second, first, 50))
    try:
        found = await asyncio.wait_for(both, STUCK_S)
    except TimeoutError:
        raise AssertionError(
            "found two units that wait for each other, wanted that both land"
        ) from None
    expect(found, [["done"] * 100] * 2)
    for turn in pair:
        expect(len(await items_in(scene, turn.session_id)), 100)
        expect(len((await scene.turn(session_id=turn.session_id)).pages), 50)

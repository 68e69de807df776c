"""Signalling: a signal and the wait that asks for it by name meet, in whichever order they come, and once."""

# ruff: noqa: D103 - the name of a claim says it all
from __future__ import annotations

from typing import Any

from windlass.errors import Forbidden, HeadMoved, InvalidInput
from windlass.kernel.value import Json
from windlass.ports import (
    AcceptTurn,
    Due,
    ErrandReceipt,
    NewItem,
    PostItem,
    Wait,
    WaitAnswer,
    WaitView,
)
from windlass.testing.conformance.checks import with_crash
from windlass.testing.conformance.entries import reply
from windlass.testing.conformance.scene import Driven, Scene, ending, expect, new_turn

LATER_MS = 10**9


def signal(item_id: str, name: str = "go", value: Json = 1, by: str | None = None) -> NewItem:
    """Return a signal."""
    content = {"name": name, "value": value, "by": by}
    return NewItem(item_id=item_id, kind="signal", when="asked", content=content)


def post(item_id: str, *said: Any, to: str = "s1", now_ms: int = 5, **more: Any) -> PostItem:
    """Return the errand that sends a signal."""
    return PostItem(session_id=to, item=signal(item_id, *said, **more), now_ms=now_ms)


def asking(turn: Driven, key: str, name: str = "go", **more: Any) -> Wait:
    """Return a wait for a signal."""
    return turn.wait(key, kind="signal", detail={"signal": name}, **more)


async def _waits(scene: Scene, turn: Driven) -> dict[str, WaitView]:
    view = await scene.turn(turn.turn_id, session_id=turn.session_id)
    return {one.wait.key: one for one in view.waits}


async def _values(scene: Scene, turn: Driven) -> list[Json]:
    """Return what the waits of a turn were answered with, in order; `...` for one that is open."""
    views = (await _waits(scene, turn)).values()
    return ["..." if view.answer is None else view.answer.value for view in views]


async def _items(scene: Scene, session_id: str = "s1") -> list[tuple[str, str]]:
    items = (await scene.store.inbox(session_id)).items
    return [(item.item_id, item.state) for item in items]


async def _process(scene: Scene, session_id: str = "p1") -> Driven:
    """Let a process be under way."""
    await scene.run(
        AcceptTurn(session_id=session_id, turn_id="t1", turn=new_turn(), kind="process")
    )
    return await scene.start(session_id=session_id, worker_id=await scene.join())


# ------------------------------------------------------------------ they meet


async def a_signal_answers_the_wait_that_asks_for_it(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(waits=(asking(turn, "w"),), parks=True))

    receipts = await scene.run(post("k1", "go", {"n": 1}, "eva"))

    expect(receipts, (ErrandReceipt(status="done", session_id="s1", owner=turn.worker_id),))
    (view,) = (await _waits(scene, turn)).values()
    expect(view.answer, WaitAnswer(value={"n": 1}, by="eva", now_ms=5))
    expect((view.state, (await scene.turn()).state), ("answered", "ready"))
    expect(await _items(scene), [])


async def a_wait_is_answered_by_the_signal_that_is_there(scene: Scene, turn: Driven) -> None:
    await scene.run(post("k1", "go", 7, "eva"))
    expect(await _items(scene), [("k1", "pending")])

    await scene.write(turn.unit(waits=(asking(turn, "w", created_ms=9),), parks=True))

    (view,) = (await _waits(scene, turn)).values()
    expect(view.answer, WaitAnswer(value=7, by="eva", now_ms=9))
    expect((await scene.turn()).state, "ready", "the turn that parked")
    expect(await _items(scene), [])


async def a_signal_of_another_name_or_session_answers_nothing(scene: Scene, turn: Driven) -> None:
    other = await scene.begin(session_id="s2")
    await scene.write(other.unit(waits=(asking(other, "theirs", "stop"),), parks=True))
    await scene.run(post("k1", "stop"), post("k2", "go", to="s2"))

    await scene.write(turn.unit(waits=(asking(turn, "w"),), parks=True))

    expect((await scene.turn()).state, "parked")
    expect((await scene.turn(session_id="s2")).state, "parked")
    expect(await _items(scene), [("k1", "pending")])
    expect(await _items(scene, "s2"), [("k2", "pending")])


async def signals_are_given_in_the_order_of_their_arrival(scene: Scene, turn: Driven) -> None:
    await scene.run(post("k9", "go", "a"), post("k2", "stop", "x"), post("k1", "go", "b"))

    for key in ("w1", "w2", "w3"):
        await scene.write(turn.unit(waits=(asking(turn, key),)))

    expect(await _values(scene, turn), ["a", "b", "..."])
    await scene.run(post("k3", "go", "c"))
    expect(await _values(scene, turn), ["a", "b", "c"])
    expect(await _items(scene), [("k2", "pending")])


async def of_two_waits_for_one_name_the_oldest_is_answered_first(
    scene: Scene, turn: Driven
) -> None:
    # The key of the second comes first.
    await scene.write(turn.unit(waits=(asking(turn, "w2"), asking(turn, "w1"))))

    await scene.run(post("k1", "go", "a"))
    expect(await _values(scene, turn), ["a", "..."])
    await scene.run(post("k2", "go", "b"))

    expect(await _values(scene, turn), ["a", "b"])


async def several_meet_in_one_unit(scene: Scene, turn: Driven) -> None:
    await scene.run(post("k1", "go", "a"), post("k2", "go", "b"), post("k3", "go", "c"))

    waits = (asking(turn, "w1"), asking(turn, "w2", "stop"), asking(turn, "w3"))
    told = (post("k4", "stop", "x"), post("k5", "stop", "y"))
    receipts = await scene.send(turn, *told, waits=waits, parks=True)

    expect([one.status for one in receipts], ["done"] * 2)
    expect(await _values(scene, turn), ["a", "x", "b"])
    expect(await _items(scene), [("k3", "pending"), ("k5", "pending")])


async def a_signal_is_sent_with_the_unit_of_another_turn_or_not_at_all(
    scene: Scene, turn: Driven
) -> None:
    other = await _process(scene)
    await scene.write(other.unit(waits=(asking(other, "w"),), parks=True))

    told = (post("k1", "go", "yes", to="p1"),)
    await scene.refused(HeadMoved, turn.unit(reply(turn), position=4, errands=told))
    receipts = await scene.send(turn, *told)

    expect([one.status for one in receipts], ["done"])
    expect((await scene.turn(session_id="p1")).state, "ready")


async def a_wait_that_a_caller_answered_takes_no_signal(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(waits=(asking(turn, "w"),)))
    await scene.store.resolve_wait("w", WaitAnswer(value="by hand", now_ms=1))

    await scene.run(post("k1"))

    expect((await _values(scene, turn), await _items(scene)), (["by hand"], [("k1", "pending")]))


async def a_wait_that_is_opened_again_takes_no_second_signal(scene: Scene, turn: Driven) -> None:
    wait = asking(turn, "w")
    await scene.run(post("k1", "go", "a"), post("k2", "go", "b"))

    for _ in range(2):
        await scene.write(turn.unit(waits=(wait,)))

    expect((await _values(scene, turn), await _items(scene)), (["a"], [("k2", "pending")]))


async def a_wait_without_a_name_is_for_callers_alone(scene: Scene, turn: Driven) -> None:
    await scene.run(post("k1"))
    await scene.write(turn.unit(waits=(turn.wait("w", kind="signal"),)))
    await scene.run(post("k2"))

    expect(await _items(scene), [("k1", "pending"), ("k2", "pending")])
    expect((await scene.store.resolve_wait("w", WaitAnswer(value=1))).status, "accepted")


# ------------------------------------------------------------------ times and ends


async def a_signal_is_not_lost_in_a_wait_whose_time_is_over(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(waits=(asking(turn, "w1", expires_ms=100),)))

    await scene.run(post("k1", "go", "a", now_ms=100))

    expect((await _values(scene, turn), await _items(scene)), (["..."], [("k1", "pending")]))
    await scene.store.resolve_wait("w1", WaitAnswer(status="expired", now_ms=100))
    await scene.write(turn.unit(waits=(asking(turn, "w2"),)))
    expect(await _values(scene, turn), [None, "a"])


async def a_wait_of_no_time_at_all_gets_what_is_there(scene: Scene, turn: Driven) -> None:
    await scene.run(post("k1", "go", "a"))
    now: dict[str, Any] = {"created_ms": 50, "expires_ms": 50}

    await scene.write(turn.unit(waits=(asking(turn, "w1", **now), asking(turn, "w2", **now))))

    expect(await _values(scene, turn), ["a", "..."])


async def a_turn_that_ends_leaves_signals_to_the_next(scene: Scene, turn: Driven) -> None:
    await scene.run(post("k1", "go", "a"))
    waits = (asking(turn, "w1"),)
    end = ending(follow_ups=(signal("k2", "go", "b"),))

    await scene.write(turn.unit(waits=waits, commit=end, errands=(post("k3", "go", "c"),)))

    expect(await _items(scene), [("k1", "pending"), ("k2", "pending"), ("k3", "pending")])
    after = await scene.begin("t2", worker_id=turn.worker_id)
    await scene.write(after.unit(waits=(asking(after, "w2"),)))
    expect(await _values(scene, after), ["a"])


async def a_signal_to_a_turn_that_has_not_begun_waits_for_it(scene: Scene) -> None:
    await scene.run(AcceptTurn(session_id="p1", turn_id="t1", turn=new_turn(), kind="process"))
    await scene.run(post("k1", "go", "a", to="p1"))

    turn = await scene.start(session_id="p1", worker_id=await scene.join())

    await scene.write(turn.unit(waits=(asking(turn, "w"),)))
    expect(await _values(scene, turn), ["a"])


# ------------------------------------------------------------------ it enters nothing


async def a_signal_begins_no_turn_and_enters_none(scene: Scene, turn: Driven) -> None:
    await scene.run(post("k1"))

    expect(await scene.store.take_inbox("s1", "t1", generation=1), ())
    expect((await scene.session()).waiting, 0)
    expect((await scene.store.due(0)).inboxes, ())
    await scene.commit(turn)
    expect(await scene.store.due(LATER_MS), Due())
    expect((await scene.session()).waiting, 0)
    unit = new_turn(takes=("k1",))
    refusal = await scene.refused(InvalidInput, scene.store.accept("s1", "t2", unit))
    expect(refusal.field, "NewTurn.takes")


async def nothing_waits_behind_a_signal(scene: Scene, turn: Driven) -> None:
    await scene.run(post("k1"))
    await scene.commit(turn)
    await scene.accept("t2")

    due = await scene.store.due(0)

    expect([one.turn_id for one in due.turns], ["t2"])
    await scene.start("t2", worker_id=turn.worker_id)


async def a_signal_hides_no_item_that_enters(scene: Scene, turn: Driven) -> None:
    await scene.commit(turn)
    await scene.run(post("k1"))
    await scene.enqueue("i1")

    (inbox,) = (await scene.store.due(0)).inboxes

    expect((inbox.first.item_id, inbox.now), ("i1", True))
    expect((await scene.session()).waiting, 1)


async def a_signal_that_was_withdrawn_answers_nothing(scene: Scene, turn: Driven) -> None:
    await scene.run(post("k1"))
    expect((await scene.store.withdraw("s1", "k1")).status, "withdrawn")

    await scene.write(turn.unit(waits=(asking(turn, "w"),)))

    expect((await _values(scene, turn), await _items(scene)), (["..."], []))


# ------------------------------------------------------------------ who sends, and what


async def callers_put_no_signal_into_an_inbox(scene: Scene, turn: Driven) -> None:
    refusal = await scene.refused(Forbidden, scene.store.enqueue("s1", signal("k1")))
    expect(refusal.field, "NewItem.kind")
    await scene.commit(turn)


async def errands_send_signals_to_sessions_of_any_kind(scene: Scene, turn: Driven) -> None:
    other = await _process(scene)
    await scene.write(other.unit(waits=(asking(other, "w"),), parks=True))

    receipts = await scene.send(turn, post("k1", to="p1"), post("k2", to="s1"), post("k3", to="no"))

    expect([one.status for one in receipts], ["done", "done", "dropped"])
    expect((receipts[0].owner, receipts[2].code), (other.worker_id, "unknown_session"))
    expect((await scene.turn(session_id="p1")).state, "ready")


async def a_signal_is_known_by_its_id_whatever_became_of_it(scene: Scene, turn: Driven) -> None:
    await scene.run(post("k1", "go", "a"))

    for key in ("w1", "w2"):
        (again,) = await scene.run(post("k1", "go", "a"))
        expect(again.status, "known")
        (other,) = await scene.run(post("k1", "go", "b"))
        expect((other.status, other.code), ("dropped", "idempotency_conflict"))
        await scene.write(turn.unit(waits=(asking(turn, key),)))

    expect((await _values(scene, turn), await _items(scene)), (["a", "..."], []))


async def a_settled_signal_is_known_until_its_turn_is_forgotten(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(waits=(asking(turn, "w"),)))
    await scene.run(post("k1", now_ms=5))

    before = await scene.store.vacuum(now_ms=LATER_MS, retention_ms=0)
    (again,) = await scene.run(post("k1", now_ms=5))
    expect((before.items, again.status), (0, "known"), "while the turn goes on")
    await scene.commit(turn, ending(now_ms=LATER_MS))
    found = [
        (await scene.store.vacuum(now_ms=now_ms, retention_ms=0)).items
        for now_ms in (LATER_MS, LATER_MS + 1)
    ]
    expect(found, [0, 1])


# ------------------------------------------------------------------ after a crash


@with_crash
async def signals_and_what_they_answered_are_there_after_a_crash(
    scene: Scene, turn: Driven
) -> None:
    await scene.write(turn.unit(waits=(asking(turn, "w1"), asking(turn, "w2", "stop")), parks=True))
    await scene.run(post("k1", "go", "a"), post("k2", "later", "b"))

    await scene.keeps(scene.everything)

    await scene.run(post("k1", "go", "a"), post("k3", "stop", "c"))
    expect((await _values(scene, turn), await _items(scene)), (["a", "c"], [("k2", "pending")]))

"""Driving: what is due is shown, to whom it concerns, oldest first, and nothing else is."""

# ruff: noqa: D103 - the name of a claim says it all
from __future__ import annotations

from functools import partial
from typing import Any

from windlass import ports
from windlass.kernel.outcomes import Stopped
from windlass.testing.conformance.checks import with_crash
from windlass.testing.conformance.scene import Driven, Scene, ending, expect


async def _due(scene: Scene, now_ms: int = 0) -> list[tuple[str, str, str]]:
    found = await scene.store.due(now_ms)
    return [(turn.session_id, turn.turn_id, turn.why) for turn in found.turns]


async def _inbox_due(scene: Scene) -> ports.DueInbox:
    found = (await scene.store.due(0)).inboxes
    expect(len(found), 1, "how many inboxes are due")
    return found[0]


async def _sessions_due(scene: Scene, what: str, **wanted: Any) -> list[str]:
    return [due.session_id for due in getattr(await scene.store.due(0, **wanted), what)]


async def _are_due(scene: Scene, what: str, first: str, second: str, third: str) -> None:
    """Fail unless these sessions are due in this order; the second is of the agent two, the others of one."""
    due = partial(_sessions_due, scene, what)
    expect(await due(), [first, second, third])
    expect(await due(limit=2), [first, second])
    expect(await due(agents=["one"]), [first, third])
    expect(await due(agents=["one"], limit=1), [first])
    expect(await due(agents=()), [])


async def nothing_is_due_in_an_empty_store(scene: Scene) -> None:
    expect(await scene.store.due(10**9), ports.Due())


async def the_oldest_queued_turn_of_a_session_is_due(scene: Scene) -> None:
    await scene.accept("t1")
    await scene.accept("t2")

    wanted = ports.DueTurn(session_id="s1", turn_id="t1", agent="helper", why="queued")
    expect(await scene.store.due(0), ports.Due(turns=(wanted,)))


async def a_queued_turn_behind_an_unfinished_one_is_not_due(scene: Scene, turn: Driven) -> None:
    await scene.accept("t2")
    expect(await _due(scene), [])

    await scene.commit(turn)

    expect(await _due(scene), [("s1", "t2", "queued")])


async def a_running_turn_is_due_once_its_worker_is_gone(scene: Scene) -> None:
    expired = await scene.begin(session_id="expired")
    dead = await scene.begin(session_id="dead")
    left = await scene.begin(session_id="left")
    given = await scene.begin(session_id="given")
    await scene.store.renew(dead.worker_id, until_ms=9_000).durable()
    expect(await _due(scene, 999), [])

    await scene.kill(dead.worker_id)
    await scene.store.leave(left.worker_id)
    await scene.store.release("given", generation=given.generation)

    gone = [(name, "t1", "abandoned") for name in ("dead", "left", "given")]
    expect(await _due(scene, 999), gone)
    expect(await _due(scene, 1_000), [(expired.session_id, "t1", "abandoned"), *gone])


async def a_parked_turn_is_not_due_whoever_has_it(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(waits=(turn.wait("w"),), parks=True))
    await scene.store.leave(turn.worker_id)

    expect(await _due(scene, 10**9), [])


async def an_answered_turn_is_due_unless_a_live_worker_has_it(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(waits=(turn.wait("w"),), parks=True))
    await scene.store.resolve_wait("w", ports.WaitAnswer(value=True))
    expect(await _due(scene, 999), [])

    expect(await _due(scene, 1_000), [("s1", "t1", "answered")])
    await scene.store.release("s1", generation=1)
    expect(await _due(scene, 999), [("s1", "t1", "answered")])


async def a_turn_that_is_due_names_the_worker_that_has_its_session(scene: Scene) -> None:
    alive = await scene.begin(session_id="alive")
    await scene.commit_and_accept(alive)
    dead = await scene.begin(session_id="dead")
    left = await scene.begin(session_id="left")
    await scene.accept(session_id="new")
    await scene.kill(dead.worker_id)
    await scene.store.leave(left.worker_id)

    found = {turn.session_id: turn.owner for turn in (await scene.store.due(0)).turns}

    wanted = {"alive": alive.worker_id, "dead": dead.worker_id, "left": None, "new": None}
    expect(found, wanted)


async def a_running_turn_that_was_cancelled_is_due_to_end(scene: Scene, turn: Driven) -> None:
    expect((await scene.store.due(0)).cancels, ())

    await scene.store.request_cancel("s1", "t1")

    wanted = ports.DueCancel(session_id="s1", turn_id="t1", agent="helper", owner=turn.worker_id)
    expect(await scene.store.due(0), ports.Due(cancels=(wanted,)))
    await scene.store.leave(turn.worker_id)
    found = await scene.store.due(0)
    expect([(one.turn_id, one.owner) for one in found.cancels], [("t1", None)])
    expect([one.why for one in found.turns], ["abandoned"])


async def a_cancelled_turn_that_does_not_run_is_due_to_be_driven_only(scene: Scene) -> None:
    await scene.accept(session_id="queued")
    parked = await scene.begin(session_id="parked")
    await scene.write(parked.unit(parks=True))
    for session_id in ("queued", "parked"):
        await scene.store.request_cancel(session_id, "t1")

    expect((await scene.store.due(0)).cancels, ())
    due = await _due(scene, 1_000)
    expect(due, [("queued", "t1", "queued"), ("parked", "t1", "answered")])

    now = await scene.take_over(parked, parked.worker_id)
    found = await scene.store.due(0)
    expect([turn.session_id for turn in found.cancels], ["parked"])
    await scene.commit(now, ending(outcome=Stopped(reason="cancelled")))
    expect((await scene.store.due(0)).cancels, ())


async def cancels_are_due_oldest_first_by_agent_and_up_to_a_limit(scene: Scene) -> None:
    places = (("b", "one"), ("a", "two"), ("c", "one"))
    for session_id, agent in places:
        await scene.accept(session_id=session_id, agent=agent)
    worker = await scene.join()
    for session_id, _ in reversed(places):
        await scene.start(session_id=session_id, worker_id=worker)
        await scene.store.request_cancel(session_id, "t1")

    await _are_due(scene, "cancels", "b", "a", "c")


async def a_session_is_due_while_an_item_waits_in_it(scene: Scene, turn: Driven) -> None:
    store = scene.store
    await store.enqueue("s1", ports.NewItem(item_id="later", when="next_turn", content={"a": 1}))

    first = ports.InboxItem(item_id="later", when="next_turn", content={"a": 1}, arrived=2)
    wanted = ports.DueInbox(session_id="s1", agent="helper", active="t1", now=False, first=first)
    expect(await store.due(0), ports.Due(inboxes=(wanted,)))

    await store.enqueue("s1", ports.NewItem(item_id="soon"))
    found = await _inbox_due(scene)
    expect((found.now, found.first.item_id), (True, "later"))

    await store.take_inbox("s1", "t1", generation=1)
    found = await _inbox_due(scene)
    expect((found.now, found.first.item_id), (False, "later"), "what is taken does not wait")

    await scene.commit(turn)
    found = await _inbox_due(scene)
    expect((found.active, found.now), (None, True), "what was not used waits again")

    await store.withdraw("s1", "later")
    found = await _inbox_due(scene)
    expect((found.first.item_id, found.first.arrived), ("soon", 3))
    await scene.accept("t2", takes=("soon",))
    expect((await store.due(0)).inboxes, ())


async def what_waits_behind_a_parked_turn_is_due_when_the_turn_goes_on(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.enqueue("soon")
    await scene.write(turn.unit(waits=(turn.wait("w"),), parks=True))
    expect((await scene.store.due(0)).inboxes, ())

    await scene.store.resolve_wait("w", ports.WaitAnswer(value=True))
    found = await _inbox_due(scene)
    expect((found.active, found.first.item_id), ("t1", "soon"))


async def an_item_for_now_wakes_a_turn_that_waits_for_children_or_a_time_alone(
    scene: Scene,
) -> None:
    turn = await scene.begin()
    leaves = (turn.wait("child", kind="child"), turn.wait("timer", kind="timer"))
    await scene.write(turn.unit(waits=(*leaves, turn.wait("person")), parks=True))
    later = ports.NewItem(item_id="later", when="next_turn")
    await scene.store.enqueue("s1", later)
    await scene.enqueue("soon")
    expect((await scene.store.due(0)).inboxes, (), "what is due while a person is waited for")

    await scene.store.resolve_wait("person", ports.WaitAnswer(value=True))
    now = await scene.take_over(turn, turn.worker_id)
    await scene.write(now.unit(parks=True))

    found = await _inbox_due(scene)
    expect((found.active, found.now, found.first.item_id), ("t1", True, "later"))
    await scene.store.withdraw("s1", "soon")
    expect((await scene.store.due(0)).inboxes, (), "what is due for the next turn")


async def nothing_enters_a_parked_turn_that_waits_for_nothing(scene: Scene, turn: Driven) -> None:
    await scene.enqueue("soon")
    await scene.write(turn.unit(parks=True))

    expect((await scene.store.due(0)).inboxes, ())


async def inboxes_are_due_oldest_item_first_by_agent_and_up_to_a_limit(scene: Scene) -> None:
    for session_id, agent in (("a", "one"), ("b", "two"), ("c", "one")):
        await scene.commit(await scene.begin(session_id=session_id, agent=agent))
    for session_id, item_id in (("c", "i"), ("b", "i"), ("a", "i"), ("c", "j")):
        await scene.store.enqueue(session_id, ports.NewItem(item_id=item_id))
    for session_id in ("a", "b", "c"):
        # The turn's agent is not the session's: an inbox is of the session.
        await scene.accept("behind", session_id=session_id, agent="two")

    await _are_due(scene, "inboxes", "c", "b", "a")
    await scene.store.withdraw("c", "i")
    expect(await _sessions_due(scene, "inboxes"), ["b", "a", "c"])


async def turns_are_due_oldest_first_by_agent_and_up_to_a_limit(scene: Scene) -> None:
    for session_id, agent in (("b", "one"), ("a", "two"), ("c", "one")):
        await scene.accept(session_id=session_id, agent=agent)

    await _are_due(scene, "turns", "b", "a", "c")


async def a_worker_finds_turns_of_other_agents_in_the_sessions_that_it_has(scene: Scene) -> None:
    mine, others = await scene.begin(session_id="mine"), await scene.begin(session_id="others")
    for turn in (mine, others):
        await scene.commit(turn)
        await scene.accept("t2", session_id=turn.session_id, agent="two")
    await scene.accept(session_id="no_ones", agent="two")
    await scene.accept(session_id="ours", agent="one")
    busy = await scene.begin(session_id="busy", worker_id=mine.worker_id, agent="two")
    await scene.accept("t2", session_id="busy", agent="two")

    due = partial(_sessions_due, scene, "turns", worker_id=mine.worker_id)
    expect(await due(agents=["one"]), ["mine", "ours"])
    expect(await due(agents=["one"], limit=1), ["mine", "ours"], "neither hides the other")
    expect(await due(agents=["two"]), ["mine", "others", "no_ones"])
    expect(await due(agents=[]), ["mine"])
    expect(await due(), ["mine", "others", "no_ones", "ours"])
    await scene.commit(busy)
    expect(await due(agents=["one"]), ["mine", "ours", "busy"])


async def an_open_wait_is_due_when_its_time_is_over(scene: Scene, turn: Driven) -> None:
    waits = (
        turn.wait("late", kind="timer", expires_ms=60),
        turn.wait("soon", expires_ms=50),
        turn.wait("never"),
        turn.wait("answered", expires_ms=10),
    )
    await scene.write(turn.unit(waits=waits))
    await scene.store.resolve_wait("answered", ports.WaitAnswer(value=True))

    expect((await scene.store.due(49)).waits, ())
    soon = ports.DueWait(key="soon", kind="approval", session_id="s1", turn_id="t1", expires_ms=50)
    expect((await scene.store.due(50)).waits, (soon,))
    found = await scene.store.due(10**9)
    expect([wait.key for wait in found.waits], ["soon", "late"])
    found = await scene.store.due(10**9, agents=("nobody",), limit=1)
    expect([wait.key for wait in found.waits], ["soon"])


async def looking_at_what_is_due_changes_nothing(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(waits=(turn.wait("w", expires_ms=5),), parks=True))
    await scene.enqueue("i1")
    cancelled = await scene.begin(session_id="s2")
    await scene.store.request_cancel("s2", cancelled.turn_id)

    wanted = await scene.store.due(10**9)
    await scene.unchanged(scene.store.due(10**9), wanted)


@with_crash
async def a_turn_is_due_at_once_after_a_crash(scene: Scene) -> None:
    await scene.begin()

    await scene.crash()

    expect(await _due(scene), [("s1", "t1", "abandoned")])

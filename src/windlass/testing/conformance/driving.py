"""Driving: what is due is shown, to whom it concerns, oldest first, and nothing else is."""

# ruff: noqa: D103 - the name of a claim says it all
from __future__ import annotations

from windlass.ports import Due, DueTurn, DueWait, WaitAnswer
from windlass.testing.conformance.checks import Claims
from windlass.testing.conformance.scene import Scene, expect

DRIVING = Claims("driving")


async def _due(scene: Scene, now_ms: int = 0) -> list[tuple[str, str, str]]:
    found = await scene.store.due(now_ms)
    return [(turn.session_id, turn.turn_id, turn.why) for turn in found.turns]


@DRIVING.claim
async def nothing_is_due_in_an_empty_store(scene: Scene) -> None:
    expect(await scene.store.due(10**9), Due())


@DRIVING.claim
async def the_oldest_queued_turn_of_a_session_is_due(scene: Scene) -> None:
    await scene.accept("t1")
    await scene.accept("t2")

    wanted = DueTurn(session_id="s1", turn_id="t1", agent="helper", why="queued")
    expect(await scene.store.due(0), Due(turns=(wanted,)))


@DRIVING.claim
async def a_queued_turn_behind_an_unfinished_one_is_not_due(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.accept("t2")
    expect(await _due(scene), [])

    await scene.commit(turn)

    expect(await _due(scene), [("s1", "t2", "queued")])


@DRIVING.claim
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


@DRIVING.claim
async def a_parked_turn_is_not_due_whoever_has_it(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.write(turn.unit(waits=(turn.wait("w"),), parks=True))
    await scene.store.leave(turn.worker_id)

    expect(await _due(scene, 10**9), [])


@DRIVING.claim
async def an_answered_turn_is_due_unless_a_live_worker_has_it(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.write(turn.unit(waits=(turn.wait("w"),), parks=True))
    await scene.store.resolve_wait("w", WaitAnswer(value=True))
    expect(await _due(scene, 999), [])

    expect(await _due(scene, 1_000), [("s1", "t1", "answered")])
    await scene.store.release("s1", generation=1)
    expect(await _due(scene, 999), [("s1", "t1", "answered")])


@DRIVING.claim
async def turns_are_due_oldest_first_by_agent_and_up_to_a_limit(scene: Scene) -> None:
    for session_id, agent in (("b", "one"), ("a", "two"), ("c", "one")):
        await scene.accept(session_id=session_id, agent=agent)
    store = scene.store

    expect([turn.session_id for turn in (await store.due(0)).turns], ["b", "a", "c"])
    expect([turn.session_id for turn in (await store.due(0, limit=2)).turns], ["b", "a"])
    found = await store.due(0, agents=["one"])
    expect([turn.session_id for turn in found.turns], ["b", "c"])
    found = await store.due(0, agents=["one"], limit=1)
    expect([turn.session_id for turn in found.turns], ["b"])
    expect((await store.due(0, agents=())).turns, ())


@DRIVING.claim
async def an_open_wait_is_due_when_its_time_is_over(scene: Scene) -> None:
    turn = await scene.begin()
    waits = (
        turn.wait("late", kind="timer", expires_ms=60),
        turn.wait("soon", expires_ms=50),
        turn.wait("never"),
        turn.wait("answered", expires_ms=10),
    )
    await scene.write(turn.unit(waits=waits))
    await scene.store.resolve_wait("answered", WaitAnswer(value=True))

    expect((await scene.store.due(49)).waits, ())
    soon = DueWait(key="soon", kind="approval", session_id="s1", turn_id="t1", expires_ms=50)
    expect((await scene.store.due(50)).waits, (soon,))
    found = await scene.store.due(10**9)
    expect([wait.key for wait in found.waits], ["soon", "late"])
    found = await scene.store.due(10**9, agents=("nobody",), limit=1)
    expect([wait.key for wait in found.waits], ["soon"])


@DRIVING.claim
async def looking_at_what_is_due_changes_nothing(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.write(turn.unit(waits=(turn.wait("w", expires_ms=5),), parks=True))

    wanted = await scene.store.due(10**9)
    await scene.unchanged(scene.store.due(10**9), wanted)


@DRIVING.claim_with_crash
async def a_turn_is_due_at_once_after_a_crash(scene: Scene) -> None:
    await scene.begin()

    await scene.crash()

    expect(await _due(scene), [("s1", "t1", "abandoned")])

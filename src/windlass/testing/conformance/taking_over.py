"""Taking over: a worker goes on with the turn of one that is gone, which then writes nothing more."""

# ruff: noqa: D103 - the name of a claim says it all
from __future__ import annotations

from windlass.errors import HeadMoved, InvalidInput, LeaseLost, UnknownSession
from windlass.ports import Lease, WaitAnswer
from windlass.testing.conformance.entries import intent, reply, result
from windlass.testing.conformance.scene import Driven, Scene, expect


async def _counted(scene: Scene, turn: Driven, counts: list[int]) -> Driven:
    """Let the worker of a turn take it over, and add how often that has happened since something was recorded."""
    place = (turn.session_id, turn.turn_id)
    worker_id = turn.worker_id
    lease = await scene.store.take_over(*place, worker_id=worker_id, until_ms=1_000, now_ms=0)
    expect((await scene.turn()).takeovers, lease.takeovers)
    counts.append(lease.takeovers)
    return turn._replace(generation=lease.generation)


async def a_takeover_fences_the_worker_before_out(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(reply(turn)))
    other = await scene.replace_worker(turn)

    lease = await scene.store.take_over("s1", "t1", worker_id=other, until_ms=2_000, now_ms=1)

    place = {"session_id": "s1", "turn_id": "t1", "worker_id": other}
    expect(lease, Lease(**place, generation=2, until_ms=2_000, takeovers=1))
    view = await scene.turn()
    expect((view.state, view.owner, view.generation), ("running", other, 2))
    await scene.refused(LeaseLost, turn.unit(intent(turn), position=1))
    await scene.refused(LeaseLost, turn.unit(waits=(turn.wait("w"),)))
    await scene.refused(LeaseLost, turn.unit(parks=True))
    await scene.refused(LeaseLost, scene.commit(turn))
    await scene.refused(LeaseLost, scene.store.release("s1", generation=1))
    await scene.refused(LeaseLost, scene.store.take_inbox("s1", "t1", generation=1))


async def a_stale_worker_hears_of_its_lease_even_where_another_wrote(scene: Scene) -> None:
    turn = await scene.begin()
    other = await scene.replace_worker(turn)
    now = await scene.take_over(turn, other)
    await scene.write(now.unit(reply(now)))

    await scene.refused(LeaseLost, turn.unit(intent(turn), position=0))


async def a_generation_from_the_future_writes_nothing(scene: Scene, turn: Driven) -> None:
    early = turn._replace(generation=2)
    await scene.refused(LeaseLost, early.unit(reply(early)))


async def a_live_worker_is_not_robbed_before_its_lease_is_over(scene: Scene, turn: Driven) -> None:
    other = await scene.join()

    await scene.refused(LeaseLost, scene.take_over(turn, other, now_ms=999))
    await scene.take_over(turn, other, now_ms=1_000)


async def a_clock_that_went_back_robs_nobody(scene: Scene, turn: Driven) -> None:
    other = await scene.join()

    await scene.refused(LeaseLost, scene.take_over(turn, other, now_ms=-5_000))


async def an_owner_may_take_its_own_turn_over(scene: Scene, turn: Driven) -> None:
    now = await scene.take_over(turn, turn.worker_id)

    expect(now.generation, 2)
    await scene.refused(LeaseLost, turn.unit(reply(turn)))
    await scene.write(now.unit(reply(now)))


async def takeovers_that_find_nothing_new_are_counted(scene: Scene, turn: Driven) -> None:
    counts: list[int] = []
    for _ in range(3):
        turn = await _counted(scene, turn, counts)
    await scene.write(turn.unit(intent(turn)))
    turn = await _counted(scene, turn, counts)
    await scene.write(turn.unit(result(turn), position=1))
    for _ in range(2):
        turn = await _counted(scene, turn, counts)

    expect(counts, [1, 2, 3, 4, 1, 2], "takeovers")


async def going_on_after_an_answer_is_no_takeover_after_a_death(scene: Scene, turn: Driven) -> None:
    counts: list[int] = []
    for _ in range(2):
        turn = await _counted(scene, turn, counts)
    await scene.write(turn.unit(waits=(turn.wait("w"),), parks=True))
    for _ in range(2):
        turn = await _counted(scene, turn, counts)
    await scene.write(turn.unit(reply(turn), waits=(turn.wait("w2"),), parks=True))
    await scene.store.resolve_wait("w2", WaitAnswer(value=True))
    expect((await scene.turn()).state, "ready")
    # The reply was there when it went on: what is counted from is what there was then.
    for _ in range(3):
        turn = await _counted(scene, turn, counts)

    expect(counts, [1, 2, 0, 1, 0, 1, 2], "takeovers")


async def a_parked_turn_that_is_taken_over_runs(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(parks=True))

    await scene.take_over(turn, turn.worker_id)

    expect((await scene.turn()).state, "running")


async def taking_over_a_queued_turn_starts_it(scene: Scene) -> None:
    await scene.accept("t1")
    await scene.accept("t2")
    worker = await scene.join()
    call = scene.store.take_over("s1", "t2", worker_id=worker, until_ms=1_000, now_ms=0)
    await scene.refused(HeadMoved, call)

    lease = await scene.store.take_over("s1", "t1", worker_id=worker, until_ms=1_000, now_ms=0)

    expect((lease.generation, lease.takeovers), (1, 0))
    view = await scene.turn("t1")
    expect((view.state, view.turn_index), ("running", 1))


async def what_cannot_be_taken_over_is_refused(scene: Scene, turn: Driven) -> None:
    worker = turn.worker_id

    await scene.refused(UnknownSession, scene.take_over(turn._replace(session_id="s9"), worker))
    await scene.refused(InvalidInput, scene.take_over(turn._replace(turn_id="t9"), worker))
    await scene.refused(InvalidInput, scene.take_over(turn, "nobody", now_ms=5_000))
    await scene.commit(turn)
    await scene.refused(HeadMoved, scene.take_over(turn, worker))

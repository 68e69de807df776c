"""Taking over: a worker goes on with the turn of one that is gone, which then writes nothing more."""

# ruff: noqa: D103 - the name of a claim says it all
from __future__ import annotations

from windlass.errors import HeadMoved, InvalidInput, LeaseLost, UnknownSession
from windlass.ports import Lease, WaitAnswer
from windlass.testing.conformance.checks import Claims
from windlass.testing.conformance.entries import intent, reply, result
from windlass.testing.conformance.scene import Scene, expect

TAKING_OVER = Claims("taking over")


@TAKING_OVER.claim
async def a_takeover_fences_the_worker_before_out(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.write(turn.unit(reply(turn)))
    other = await scene.join()
    await scene.kill(turn.worker_id)

    lease = await scene.store.take_over("s1", "t1", worker_id=other, until_ms=2_000, now_ms=1)

    wanted = Lease(
        session_id="s1",
        turn_id="t1",
        worker_id=other,
        generation=2,
        until_ms=2_000,
        takeovers=1,
    )
    expect(lease, wanted)
    view = await scene.turn()
    expect((view.state, view.owner, view.generation), ("running", other, 2))
    stale = turn.unit(intent(turn), position=1)
    await scene.refused(LeaseLost, scene.write(stale))
    await scene.refused(LeaseLost, scene.write(turn.unit(waits=(turn.wait("w"),))))
    await scene.refused(LeaseLost, scene.write(turn.unit(parks=True)))
    await scene.refused(LeaseLost, scene.commit(turn))
    await scene.refused(LeaseLost, scene.store.release("s1", generation=1))
    await scene.refused(LeaseLost, scene.store.take_inbox("s1", "t1", generation=1))


@TAKING_OVER.claim
async def a_stale_worker_hears_of_its_lease_even_where_another_wrote(scene: Scene) -> None:
    turn = await scene.begin()
    other = await scene.join()
    await scene.kill(turn.worker_id)
    now = await scene.take_over(turn, other)
    await scene.write(now.unit(reply(now)))

    await scene.refused(LeaseLost, scene.write(turn.unit(intent(turn), position=0)))


@TAKING_OVER.claim
async def a_generation_from_the_future_writes_nothing(scene: Scene) -> None:
    turn = await scene.begin()

    early = turn._replace(generation=2)
    await scene.refused(LeaseLost, scene.write(early.unit(reply(early))))


@TAKING_OVER.claim
async def a_live_worker_is_not_robbed_before_its_lease_is_over(scene: Scene) -> None:
    turn = await scene.begin()
    other = await scene.join()

    await scene.refused(LeaseLost, scene.take_over(turn, other, now_ms=999))
    await scene.take_over(turn, other, now_ms=1_000)


@TAKING_OVER.claim
async def a_clock_that_went_back_robs_nobody(scene: Scene) -> None:
    turn = await scene.begin()
    other = await scene.join()

    await scene.refused(LeaseLost, scene.take_over(turn, other, now_ms=-5_000))


@TAKING_OVER.claim
async def an_owner_may_take_its_own_turn_over(scene: Scene) -> None:
    turn = await scene.begin()

    now = await scene.take_over(turn, turn.worker_id)

    expect(now.generation, 2)
    await scene.refused(LeaseLost, scene.write(turn.unit(reply(turn))))
    await scene.write(now.unit(reply(now)))


@TAKING_OVER.claim
async def takeovers_that_find_nothing_new_are_counted(scene: Scene) -> None:
    turn = await scene.begin()
    counts = []
    for _ in range(3):
        turn = await scene.take_over(turn, turn.worker_id)
        counts.append((await scene.turn()).takeovers)
    await scene.write(turn.unit(intent(turn)))
    turn = await scene.take_over(turn, turn.worker_id)
    counts.append((await scene.turn()).takeovers)
    await scene.write(turn.unit(result(turn), position=1))
    turn = await scene.take_over(turn, turn.worker_id)
    counts.append((await scene.turn()).takeovers)
    turn = await scene.take_over(turn, turn.worker_id)
    counts.append((await scene.turn()).takeovers)

    expect(counts, [1, 2, 3, 4, 1, 2], "takeovers")


@TAKING_OVER.claim
async def going_on_after_an_answer_is_no_takeover_after_a_death(scene: Scene) -> None:
    turn = await scene.begin()
    counts = []

    async def take_over() -> None:
        nonlocal turn
        lease = await scene.store.take_over(
            "s1", "t1", worker_id=turn.worker_id, until_ms=1_000, now_ms=0
        )
        turn = turn._replace(generation=lease.generation)
        expect((await scene.turn()).takeovers, lease.takeovers)
        counts.append(lease.takeovers)

    await take_over()
    await take_over()
    await scene.write(turn.unit(waits=(turn.wait("w"),), parks=True))
    await take_over()
    await take_over()
    await scene.write(turn.unit(reply(turn), waits=(turn.wait("w2"),), parks=True))
    await scene.store.resolve_wait("w2", WaitAnswer(value=True))
    expect((await scene.turn()).state, "ready")
    await take_over()
    await take_over()
    # The reply was there when it went on: what is counted from is what there was then.
    await take_over()

    expect(counts, [1, 2, 0, 1, 0, 1, 2], "takeovers")


@TAKING_OVER.claim
async def a_parked_turn_that_is_taken_over_runs(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.write(turn.unit(parks=True))

    await scene.take_over(turn, turn.worker_id)

    expect((await scene.turn()).state, "running")


@TAKING_OVER.claim
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


@TAKING_OVER.claim
async def what_cannot_be_taken_over_is_refused(scene: Scene) -> None:
    turn = await scene.begin()
    worker = turn.worker_id

    await scene.refused(UnknownSession, scene.take_over(turn._replace(session_id="s9"), worker))
    await scene.refused(InvalidInput, scene.take_over(turn._replace(turn_id="t9"), worker))
    await scene.refused(InvalidInput, scene.take_over(turn, "nobody", now_ms=5_000))
    await scene.commit(turn)
    await scene.refused(HeadMoved, scene.take_over(turn, worker))

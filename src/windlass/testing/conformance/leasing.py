"""Leasing: one worker writes a session, under one generation, until it is gone."""

# ruff: noqa: D103 - the name of a claim says it all
from __future__ import annotations

from asyncio import to_thread

from windlass.errors import HeadMoved, InvalidInput, LeaseLost, UnknownSession
from windlass.journal import TurnStarted
from windlass.ports import NewTurn, Start, Unit
from windlass.testing.conformance.checks import Claims
from windlass.testing.conformance.entries import reply
from windlass.testing.conformance.scene import Scene, ending, expect, request

LEASING = Claims("leasing")


@LEASING.claim
async def starting_a_turn_gives_its_session_to_the_worker(scene: Scene) -> None:
    turn = await scene.begin()

    session = await scene.session()
    expect((session.owner, session.generation, session.active), (turn.worker_id, 1, "t1"))
    view = await scene.turn()
    expect((view.state, view.turn_index), ("running", 1))
    expect((view.owner, view.generation), (turn.worker_id, 1))
    expect((await scene.store.inbox("s1")).queued_turns, ())


@LEASING.claim
async def a_worker_that_has_not_joined_starts_nothing(scene: Scene) -> None:
    await scene.accept()

    await scene.refused(InvalidInput, scene.start(worker_id="nobody"))


@LEASING.claim
async def a_turn_that_was_not_accepted_cannot_start(scene: Scene) -> None:
    worker = await scene.join()
    await scene.refused(UnknownSession, scene.start(worker_id=worker))
    await scene.accept("t1")

    refusal = await scene.refused(InvalidInput, scene.start("t2", worker_id=worker))
    expect(refusal.field, "turn_id")


@LEASING.claim
async def starting_again_under_the_same_lease_changes_nothing(scene: Scene) -> None:
    turn = await scene.begin()
    before = await scene.everything()

    await scene.start(worker_id=turn.worker_id)

    expect(await scene.everything(), before)


@LEASING.claim
async def a_free_session_starts_under_the_next_generation_only(scene: Scene) -> None:
    await scene.accept()
    worker = await scene.join()

    for generation in (0, 2, -1):
        await scene.refused(LeaseLost, scene.start(worker_id=worker, generation=generation))
    await scene.start(worker_id=worker, generation=1)


@LEASING.claim
async def the_same_beginning_by_another_worker_is_refused(scene: Scene) -> None:
    """Two workers that begin a turn in the same moment write the same bytes, and only one has begun it."""
    first, second = await scene.join(), await scene.join()
    started = TurnStarted(agent="helper", model="m")

    def beginning(worker_id: str) -> Unit:
        return Unit(
            session_id="s1",
            turn_id="t1",
            generation=1,
            accept=NewTurn(agent="helper", request=request("t1")),
            start=Start(worker_id=worker_id, until_ms=1_000),
            entries=(started,),
        )

    await scene.store.submit(beginning(first)).durable()
    before = await scene.everything()

    await scene.refused(LeaseLost, scene.store.submit(beginning(second)).durable())
    expect(await scene.everything(), before)
    again = await scene.store.submit(beginning(first)).durable()
    expect(again.page, 1)


@LEASING.claim
async def a_session_of_another_worker_is_not_started(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.commit(turn)
    await scene.accept("t2")
    other = await scene.join()

    for generation in (1, 2):
        call = scene.start("t2", worker_id=other, generation=generation, now_ms=999)
        await scene.refused(LeaseLost, call)


@LEASING.claim
async def the_owner_starts_the_next_turn_under_the_same_generation(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.commit(turn)
    await scene.accept("t2")
    await scene.refused(
        LeaseLost, scene.start("t2", worker_id=turn.worker_id, generation=2, now_ms=999)
    )

    await scene.start("t2", worker_id=turn.worker_id, generation=1)

    view = await scene.turn("t2")
    expect((view.state, view.turn_index, view.generation), ("running", 2, 1))


@LEASING.claim
async def an_expired_lease_frees_a_session_at_its_very_end(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.commit(turn)
    await scene.accept("t2")
    other = await scene.join()
    call = scene.start("t2", worker_id=other, generation=2, now_ms=999)
    await scene.refused(LeaseLost, call)

    await scene.start("t2", worker_id=other, generation=2, now_ms=1_000)

    expect((await scene.session()).owner, other)


@LEASING.claim
async def an_owner_whose_own_lease_is_over_may_start_under_either_generation(
    scene: Scene,
) -> None:
    for generation in (1, 2):
        session_id = f"s{generation}"
        turn = await scene.begin(session_id=session_id)
        await scene.commit(turn)
        await scene.accept("t2", session_id=session_id)

        await scene.start(
            "t2",
            session_id=session_id,
            worker_id=turn.worker_id,
            generation=generation,
            now_ms=1_000,
        )

        expect((await scene.session(session_id)).generation, generation)


@LEASING.claim
async def a_start_holds_all_sessions_of_its_worker_longer(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.accept("t1", session_id="s2")
    await scene.start("t1", session_id="s2", worker_id=turn.worker_id, until_ms=5_000)
    other = await scene.join()

    await scene.refused(LeaseLost, scene.take_over(turn, other, now_ms=4_999))
    await scene.take_over(turn, other, now_ms=5_000)


@LEASING.claim
async def a_dead_worker_frees_its_sessions_at_once(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.commit(turn)
    await scene.accept("t2")
    other = await scene.join()
    await scene.kill(turn.worker_id)

    await scene.start("t2", worker_id=other, generation=2, now_ms=1)

    expect((await scene.session()).owner, other)


@LEASING.claim
async def a_younger_turn_waits_for_the_older_one(scene: Scene) -> None:
    await scene.accept("t1")
    await scene.accept("t2")
    worker = await scene.join()

    await scene.refused(HeadMoved, scene.start("t2", worker_id=worker))
    turn = await scene.start("t1", worker_id=worker)
    await scene.refused(HeadMoved, scene.start("t2", worker_id=worker))
    await scene.commit(turn)
    await scene.start("t2", worker_id=worker)


@LEASING.claim
async def a_parked_turn_keeps_the_next_one_waiting(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.accept("t2")
    await scene.write(turn.unit(waits=(turn.wait("w"),), parks=True))

    await scene.refused(HeadMoved, scene.start("t2", worker_id=turn.worker_id))


@LEASING.claim
async def a_turn_that_another_began_is_taken_over_not_started(scene: Scene) -> None:
    turn = await scene.begin()
    other = await scene.join()
    await scene.kill(turn.worker_id)

    await scene.refused(LeaseLost, scene.start(worker_id=other, generation=2))


@LEASING.claim
async def a_finished_turn_is_not_started_again(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.commit(turn)

    await scene.refused(HeadMoved, scene.start(worker_id=turn.worker_id))


@LEASING.claim
async def renewing_holds_on_and_never_lets_go_early(scene: Scene) -> None:
    turn = await scene.begin()
    other = await scene.join()
    await scene.store.renew(turn.worker_id, until_ms=3_000).durable()
    await scene.store.renew(turn.worker_id, until_ms=10).durable()

    await scene.refused(LeaseLost, scene.take_over(turn, other, now_ms=2_999))
    await scene.take_over(turn, other, now_ms=3_000)


@LEASING.claim
async def a_lease_is_renewed_from_another_thread(scene: Scene) -> None:
    turn = await scene.begin()
    other = await scene.join()

    ticket = await to_thread(scene.store.renew, turn.worker_id, until_ms=3_000)
    await ticket.durable()

    await scene.refused(LeaseLost, scene.take_over(turn, other, now_ms=2_999))


@LEASING.claim
async def a_worker_that_is_not_here_renews_nothing(scene: Scene) -> None:
    await scene.begin()

    await scene.refused(LeaseLost, scene.store.renew("nobody", until_ms=9).durable())


@LEASING.claim
async def a_released_session_is_free_for_another(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.commit(turn)
    await scene.accept("t2")
    await scene.store.release("s1", generation=1)

    session = await scene.session()
    expect((session.owner, session.generation), (None, 1))
    other = await scene.join()
    await scene.start("t2", worker_id=other, generation=2)


@LEASING.claim
async def releasing_twice_is_releasing_once(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.commit(turn)
    await scene.store.release("s1", generation=1)

    await scene.unchanged(scene.store.release("s1", generation=1), None)
    await scene.refused(UnknownSession, scene.store.release("s9", generation=1))


@LEASING.claim
async def nothing_is_written_to_a_session_that_was_released(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.store.release("s1", generation=1)

    await scene.refused(LeaseLost, scene.write(turn.unit(reply(turn))))
    await scene.refused(LeaseLost, scene.commit(turn))


@LEASING.claim
async def a_worker_that_leaves_gives_up_all_its_sessions_and_ends_no_turn(scene: Scene) -> None:
    turn = await scene.begin(session_id="s1")
    await scene.accept("t1", session_id="s2")
    await scene.start("t1", session_id="s2", worker_id=turn.worker_id)
    other = await scene.begin(session_id="s3")

    await scene.store.leave(turn.worker_id)

    owners = [(await scene.session(name)).owner for name in ("s1", "s2", "s3")]
    expect(owners, [None, None, other.worker_id])
    expect((await scene.turn()).state, "running")
    await scene.refused(InvalidInput, scene.take_over(turn, turn.worker_id))
    await scene.take_over(turn, other.worker_id)


@LEASING.claim
async def a_worker_is_present_until_its_lease_is_over(scene: Scene) -> None:
    turn = await scene.begin()
    before = await scene.everything()

    async def present(now_ms: int) -> bool:
        return await scene.store.is_present(turn.worker_id, now_ms=now_ms)

    expect([await present(999), await present(1_000)], [True, False])
    expect(await scene.everything(), before, "what is there after")
    await scene.store.renew(turn.worker_id, until_ms=3_000).durable()
    expect([await present(2_999), await present(3_000)], [True, False])


@LEASING.claim
async def a_worker_that_is_dead_has_left_or_never_was_is_not_present(scene: Scene) -> None:
    dead, gone, alive = await scene.join(), await scene.join(), await scene.join()
    await scene.kill(dead)
    await scene.store.leave(gone)

    found = [await scene.store.is_present(name, now_ms=0) for name in (dead, gone, alive, "nobody")]

    expect(found, [False, False, True, False])


@LEASING.claim
async def accepting_starting_and_ending_fit_into_one_unit(scene: Scene) -> None:
    worker = await scene.join()
    unit = Unit(
        session_id="s1",
        turn_id="t1",
        generation=1,
        accept=NewTurn(agent="helper", request=request("hi")),
        start=Start(worker_id=worker, until_ms=1_000),
        commit=ending(),
    )

    receipt = await scene.write(unit)

    expect(receipt.committed is not None and receipt.committed.head, 1)
    session = await scene.session()
    expect((session.head, session.owner, session.active), (1, worker, None))


@LEASING.claim_with_crash
async def after_a_crash_the_workers_of_before_are_dead(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.crash()
    other = await scene.join()
    present = [await scene.store.is_present(name, now_ms=1) for name in (turn.worker_id, other)]
    expect(present, [False, True])

    now = await scene.take_over(turn, other, now_ms=1)

    expect(now.generation, 2)
    await scene.refused(LeaseLost, scene.write(turn.unit(reply(turn))))

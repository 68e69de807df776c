"""Leasing: one worker writes a session, under one generation, until it is gone."""

# ruff: noqa: D103 - the name of a claim says it all
from __future__ import annotations

from asyncio import to_thread

import msgspec

from windlass.errors import HeadMoved, InvalidInput, LeaseLost, UnknownSession
from windlass.journal import TurnStarted
from windlass.testing.conformance.checks import with_crash
from windlass.testing.conformance.entries import reply
from windlass.testing.conformance.scene import Driven, Scene, ending, expect, new_turn


async def starting_a_turn_gives_its_session_to_the_worker(scene: Scene, turn: Driven) -> None:
    session = await scene.session()
    expect((session.owner, session.generation, session.active), (turn.worker_id, 1, "t1"))
    view = await scene.turn()
    expect((view.state, view.turn_index), ("running", 1))
    expect((view.owner, view.generation), (turn.worker_id, 1))
    expect((await scene.store.inbox("s1")).queued_turns, ())


async def a_worker_that_has_not_joined_starts_nothing(scene: Scene) -> None:
    await scene.accept()

    await scene.refused(InvalidInput, scene.start(worker_id="nobody"))


async def a_turn_that_was_not_accepted_cannot_start(scene: Scene) -> None:
    worker = await scene.join()
    await scene.refused(UnknownSession, scene.start(worker_id=worker))
    await scene.accept("t1")

    refusal = await scene.refused(InvalidInput, scene.start("t2", worker_id=worker))
    expect(refusal.field, "turn_id")


async def starting_again_under_the_same_lease_changes_nothing(scene: Scene, turn: Driven) -> None:
    before = await scene.everything()

    await scene.start(worker_id=turn.worker_id)

    expect(await scene.everything(), before)


async def a_free_session_starts_under_the_next_generation_only(scene: Scene) -> None:
    await scene.accept()
    worker = await scene.join()

    for generation in (0, 2, -1):
        await scene.refused(LeaseLost, scene.start(worker_id=worker, generation=generation))
    await scene.start(worker_id=worker, generation=1)


async def the_same_beginning_by_another_worker_is_refused(scene: Scene) -> None:
    """Two workers that begin a turn in the same moment write the same bytes, and only one has begun it."""
    turns = [Driven("s1", "t1", await scene.join(), 1) for _ in range(2)]
    started = TurnStarted(agent="helper", model="m")
    first, second = (turn.unit(started, accept=new_turn(), start=turn.start) for turn in turns)

    await scene.write(first)

    await scene.refused(LeaseLost, second)
    expect((await scene.write(first)).page, 1)


async def a_session_of_another_worker_is_not_started(scene: Scene, turn: Driven) -> None:
    await scene.commit_and_accept(turn)
    other = await scene.join()

    for generation in (1, 2):
        call = scene.start("t2", worker_id=other, generation=generation, now_ms=999)
        await scene.refused(LeaseLost, call)


async def the_owner_starts_the_next_turn_under_the_same_generation(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.commit_and_accept(turn)
    call = scene.start("t2", worker_id=turn.worker_id, generation=2, now_ms=999)
    await scene.refused(LeaseLost, call)

    await scene.start("t2", worker_id=turn.worker_id, generation=1)

    view = await scene.turn("t2")
    expect((view.state, view.turn_index, view.generation), ("running", 2, 1))


async def an_expired_lease_frees_a_session_at_its_very_end(scene: Scene, turn: Driven) -> None:
    await scene.commit_and_accept(turn)
    other = await scene.join()
    call = scene.start("t2", worker_id=other, generation=2, now_ms=999)
    await scene.refused(LeaseLost, call)

    await scene.start("t2", worker_id=other, generation=2, now_ms=1_000)

    expect((await scene.session()).owner, other)


async def an_owner_whose_own_lease_is_over_may_start_under_either_generation(scene: Scene) -> None:
    for generation in (1, 2):
        turn = await scene.begin(session_id=f"s{generation}")
        await scene.commit_and_accept(turn)
        now = turn._replace(turn_id="t2", generation=generation)

        await scene.write(now.unit(start=msgspec.structs.replace(turn.start, now_ms=1_000)))

        expect((await scene.session(turn.session_id)).generation, generation)


async def a_start_holds_all_sessions_of_its_worker_longer(scene: Scene, turn: Driven) -> None:
    await scene.accept("t1", session_id="s2")
    await scene.start("t1", session_id="s2", worker_id=turn.worker_id, until_ms=5_000)
    other = await scene.join()

    await scene.refused(LeaseLost, scene.take_over(turn, other, now_ms=4_999))
    await scene.take_over(turn, other, now_ms=5_000)


async def a_dead_worker_frees_its_sessions_at_once(scene: Scene, turn: Driven) -> None:
    await scene.commit_and_accept(turn)
    other = await scene.replace_worker(turn)

    await scene.start("t2", worker_id=other, generation=2, now_ms=1)

    expect((await scene.session()).owner, other)


async def a_younger_turn_waits_for_the_older_one(scene: Scene) -> None:
    await scene.accept("t1")
    await scene.accept("t2")
    worker = await scene.join()

    await scene.refused(HeadMoved, scene.start("t2", worker_id=worker))
    turn = await scene.start("t1", worker_id=worker)
    await scene.refused(HeadMoved, scene.start("t2", worker_id=worker))
    await scene.commit(turn)
    await scene.start("t2", worker_id=worker)


async def a_parked_turn_keeps_the_next_one_waiting(scene: Scene, turn: Driven) -> None:
    await scene.accept("t2")
    await scene.write(turn.unit(waits=(turn.wait("w"),), parks=True))

    await scene.refused(HeadMoved, scene.start("t2", worker_id=turn.worker_id))


async def a_turn_that_another_began_is_taken_over_not_started(scene: Scene, turn: Driven) -> None:
    other = await scene.replace_worker(turn)

    await scene.refused(LeaseLost, scene.start(worker_id=other, generation=2))


async def a_finished_turn_is_not_started_again(scene: Scene, turn: Driven) -> None:
    await scene.commit(turn)

    await scene.refused(HeadMoved, scene.start(worker_id=turn.worker_id))


async def renewing_holds_on_and_never_lets_go_early(scene: Scene, turn: Driven) -> None:
    other = await scene.join()
    await scene.store.renew(turn.worker_id, until_ms=3_000).durable()
    await scene.store.renew(turn.worker_id, until_ms=10).durable()

    await scene.refused(LeaseLost, scene.take_over(turn, other, now_ms=2_999))
    await scene.take_over(turn, other, now_ms=3_000)


async def a_lease_is_renewed_from_another_thread(scene: Scene, turn: Driven) -> None:
    other = await scene.join()

    ticket = await to_thread(scene.store.renew, turn.worker_id, until_ms=3_000)
    await ticket.durable()

    await scene.refused(LeaseLost, scene.take_over(turn, other, now_ms=2_999))


async def a_worker_that_is_not_here_renews_nothing(scene: Scene) -> None:
    await scene.begin()

    await scene.refused(LeaseLost, scene.store.renew("nobody", until_ms=9).durable())


async def a_released_session_is_free_for_another(scene: Scene, turn: Driven) -> None:
    await scene.commit_and_accept(turn)
    await scene.store.release("s1", generation=1)

    session = await scene.session()
    expect((session.owner, session.generation), (None, 1))
    other = await scene.join()
    await scene.start("t2", worker_id=other, generation=2)


async def releasing_twice_is_releasing_once(scene: Scene, turn: Driven) -> None:
    await scene.commit(turn)
    await scene.store.release("s1", generation=1)

    await scene.unchanged(scene.store.release("s1", generation=1), None)
    await scene.refused(UnknownSession, scene.store.release("s9", generation=1))


async def nothing_is_written_to_a_session_that_was_released(scene: Scene, turn: Driven) -> None:
    await scene.store.release("s1", generation=1)

    await scene.refused(LeaseLost, turn.unit(reply(turn)))
    await scene.refused(LeaseLost, scene.commit(turn))


async def a_worker_that_leaves_gives_up_all_its_sessions_and_ends_no_turn(scene: Scene) -> None:
    turn = await scene.begin(session_id="s1")
    await scene.begin("t1", session_id="s2", worker_id=turn.worker_id)
    other = await scene.begin(session_id="s3")

    await scene.store.leave(turn.worker_id)

    owners = [(await scene.session(name)).owner for name in ("s1", "s2", "s3")]
    expect(owners, [None, None, other.worker_id])
    expect((await scene.turn()).state, "running")
    await scene.refused(InvalidInput, scene.take_over(turn, turn.worker_id))
    await scene.take_over(turn, other.worker_id)


async def a_worker_is_present_until_its_lease_is_over(scene: Scene, turn: Driven) -> None:
    before = await scene.everything()

    async def present(now_ms: int) -> bool:
        return await scene.store.is_present(turn.worker_id, now_ms=now_ms)

    expect([await present(999), await present(1_000)], [True, False])
    expect(await scene.everything(), before, "what is there after")
    await scene.store.renew(turn.worker_id, until_ms=3_000).durable()
    expect([await present(2_999), await present(3_000)], [True, False])


async def a_worker_that_is_dead_has_left_or_never_was_is_not_present(scene: Scene) -> None:
    dead, gone, alive = await scene.join(), await scene.join(), await scene.join()
    await scene.kill(dead)
    await scene.store.leave(gone)

    found = [await scene.store.is_present(name, now_ms=0) for name in (dead, gone, alive, "nobody")]

    expect(found, [False, False, True, False])


async def accepting_starting_and_ending_fit_into_one_unit(scene: Scene) -> None:
    worker = await scene.join()
    turn = Driven("s1", "t1", worker, 1)

    receipt = await scene.write(turn.unit(accept=new_turn(), start=turn.start, commit=ending()))

    expect(receipt.committed is not None and receipt.committed.head, 1)
    session = await scene.session()
    expect((session.head, session.owner, session.active), (1, worker, None))


@with_crash
async def after_a_crash_the_workers_of_before_are_dead(scene: Scene, turn: Driven) -> None:
    await scene.crash()
    other = await scene.join()
    present = [await scene.store.is_present(name, now_ms=1) for name in (turn.worker_id, other)]
    expect(present, [False, True])

    now = await scene.take_over(turn, other, now_ms=1)

    expect(now.generation, 2)
    await scene.refused(LeaseLost, turn.unit(reply(turn)))

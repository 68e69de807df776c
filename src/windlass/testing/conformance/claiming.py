"""Claiming: what was claimed or recorded under a key is never silently something else."""

# ruff: noqa: D103 - the name of a claim says it all
from __future__ import annotations

from windlass.errors import IdempotencyConflict, InvalidInput, ReplayMismatch, StoreContended
from windlass.ports import WaitAnswer
from windlass.testing.conformance.checks import Claims
from windlass.testing.conformance.entries import intent, reply, result
from windlass.testing.conformance.scene import Scene, expect, expect_that

CLAIMING = Claims("claiming")


@CLAIMING.claim
async def a_claim_of_this_generation_is_not_claimed_again(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.write(turn.unit(intent(turn)))

    await scene.refused(StoreContended, scene.write(turn.unit(intent(turn), position=1)))


@CLAIMING.claim
async def another_request_under_a_claimed_key_is_refused(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.write(turn.unit(intent(turn, tool="pay")))

    call = scene.write(turn.unit(intent(turn, tool="refund"), position=1))
    refusal = await scene.refused(ReplayMismatch, call)

    expect(refusal.key, intent(turn).key)
    expect_that(refusal.diff, "the refusal shows where they part")
    call = scene.write(turn.unit(result(turn, tool="refund"), position=1))
    await scene.refused(ReplayMismatch, call)


@CLAIMING.claim
async def a_recorded_outcome_is_not_claimed_again(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.write(turn.unit(intent(turn), result(turn)))
    turn = await scene.take_over(turn, turn.worker_id)

    await scene.refused(IdempotencyConflict, scene.write(turn.unit(intent(turn), position=1)))


@CLAIMING.claim
async def another_outcome_than_the_recorded_one_is_refused(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.write(turn.unit(intent(turn), result(turn, value="paid")))

    call = scene.write(turn.unit(result(turn, value="lost"), position=1))
    await scene.refused(IdempotencyConflict, call)
    await scene.write(turn.unit(result(turn, value="paid"), position=1))


@CLAIMING.claim
async def a_later_generation_takes_an_unfinished_claim_over(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.write(turn.unit(intent(turn)))
    now = await scene.take_over(turn, turn.worker_id)

    await scene.write(now.unit(intent(now), position=1))
    await scene.write(now.unit(result(now), position=2))

    generations = [page.generation for page in (await scene.turn()).pages]
    expect(generations, [1, 2, 2])


@CLAIMING.claim
async def a_record_without_a_claim_names_its_command(scene: Scene) -> None:
    turn = await scene.begin()

    await scene.refused(InvalidInput, scene.write(turn.unit(result(turn))))
    await scene.write(turn.unit(reply(turn)))


@CLAIMING.claim
async def one_refused_entry_keeps_its_whole_page_out(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.write(turn.unit(intent(turn)))

    unit = turn.unit(reply(turn), intent(turn, 1), intent(turn), position=1)
    await scene.refused(StoreContended, scene.write(unit))

    await scene.write(turn.unit(intent(turn, 1), position=1))


@CLAIMING.claim
async def an_approval_is_used_up_by_the_call_that_it_allowed(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.write(turn.unit(waits=(turn.wait("w"),)))
    await scene.store.resolve_wait("w", WaitAnswer(value=True))

    await scene.write(turn.unit(intent(turn, consumes="w")))

    expect([wait.consumed for wait in (await scene.turn()).waits], [True])
    call = scene.write(turn.unit(intent(turn, 1, consumes="w"), position=1))
    await scene.refused(IdempotencyConflict, call)


@CLAIMING.claim
async def two_calls_of_one_unit_do_not_share_an_approval(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.write(turn.unit(waits=(turn.wait("w"),)))
    await scene.store.resolve_wait("w", WaitAnswer(value=True))

    unit = turn.unit(intent(turn, 0, consumes="w"), intent(turn, 1, consumes="w"))
    await scene.refused(IdempotencyConflict, scene.write(unit))


@CLAIMING.claim
async def only_an_answer_that_stands_allows_a_call(scene: Scene) -> None:
    turn = await scene.begin()
    keys = ("open", "rejected", "expired")
    await scene.write(turn.unit(waits=tuple(turn.wait(key) for key in keys)))
    await scene.store.resolve_wait("rejected", WaitAnswer(status="rejected"))
    await scene.store.resolve_wait("expired", WaitAnswer(status="expired"))

    for key in keys:
        unit = turn.unit(intent(turn, consumes=key))
        await scene.refused(IdempotencyConflict, scene.write(unit))


@CLAIMING.claim
async def an_approval_of_another_turn_allows_nothing(scene: Scene) -> None:
    turn = await scene.begin()
    other = await scene.begin(session_id="s2")
    await scene.write(other.unit(waits=(other.wait("w"),)))
    await scene.store.resolve_wait("w", WaitAnswer(value=True))

    for key in ("w", "nothing"):
        unit = turn.unit(intent(turn, consumes=key))
        await scene.refused(InvalidInput, scene.write(unit))


@CLAIMING.claim_with_crash
async def the_journal_is_enforced_after_a_crash(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.write(turn.unit(intent(turn), result(turn), intent(turn, 1)))
    await scene.crash()
    now = await scene.take_over(turn, await scene.join())

    call = scene.write(now.unit(result(now, value="lost"), position=1))
    await scene.refused(IdempotencyConflict, call)
    await scene.write(now.unit(intent(now, 1), position=1))

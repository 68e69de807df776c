"""Claiming: what was claimed or recorded under a key is never silently something else."""

# ruff: noqa: D103 - the name of a claim says it all
from __future__ import annotations

from windlass.errors import IdempotencyConflict, InvalidInput, JournalCorrupt
from windlass.ports import Unit, WaitAnswer
from windlass.testing.conformance.checks import with_crash
from windlass.testing.conformance.entries import intent, reply, result
from windlass.testing.conformance.scene import Driven, Scene, expect, expect_that


async def _is_noticed(scene: Scene, unit: Unit, told: str) -> None:
    """Write a unit that breaks a law of the journal; fail unless that is told when the journal is read."""
    await scene.write(unit)
    view = await scene.turn()
    try:
        view.journal()
    except JournalCorrupt as error:
        expect(error.field, f"journal of s1/t1, page {unit.position}", "the place that is named")
        expect_that(told in str(error), f"{error} says {told!r}")
    else:
        raise AssertionError("found a journal, wanted JournalCorrupt")


async def a_claim_made_twice_by_one_generation_is_noticed_when_it_is_read(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.write(turn.unit(intent(turn)))

    again = turn.unit(intent(turn), position=1)
    await _is_noticed(scene, again, "is being run under this generation")


async def another_request_under_a_claimed_key_is_noticed_when_it_is_read(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.write(turn.unit(intent(turn, tool="pay"), intent(turn, 1, tool="pay")))

    other = turn.unit(intent(turn, tool="refund"), position=1)
    await _is_noticed(scene, other, f"{intent(turn).key}: the journal holds another")


async def a_result_of_another_request_is_noticed_when_it_is_read(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.write(turn.unit(intent(turn, tool="pay")))

    other = turn.unit(result(turn, tool="refund"), position=1)
    await _is_noticed(scene, other, f"{result(turn).key}: the journal holds another")


async def a_claim_of_a_recorded_outcome_is_noticed_when_it_is_read(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.write(turn.unit(intent(turn), result(turn)))
    turn = await scene.take_over(turn, turn.worker_id)

    await _is_noticed(scene, turn.unit(intent(turn), position=1), "is recorded already")


async def another_outcome_than_the_recorded_one_is_noticed_when_it_is_read(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.write(turn.unit(intent(turn), result(turn, value="paid")))
    await scene.write(turn.unit(result(turn, value="paid"), position=1))
    expect((await scene.turn()).journal().recorded, 1)

    other = turn.unit(result(turn, value="lost"), position=2)
    await _is_noticed(scene, other, "another outcome is recorded already")


async def a_later_generation_takes_an_unfinished_claim_over(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(intent(turn)))
    now = await scene.take_over(turn, turn.worker_id)

    await scene.write(now.unit(intent(now), position=1))
    await scene.write(now.unit(result(now), position=2))

    generations = [page.generation for page in (await scene.turn()).pages]
    expect(generations, [1, 2, 2])


async def a_record_without_claim_and_command_is_noticed_when_it_is_read(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.write(turn.unit(reply(turn)))

    await _is_noticed(scene, turn.unit(result(turn), position=1), "names its command")


async def one_refused_claim_keeps_its_whole_page_out(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(intent(turn)))

    unit = turn.unit(reply(turn), intent(turn, 1), intent(turn, 2, consumes="w"), position=1)
    await scene.refused(InvalidInput, unit)

    await scene.write(turn.unit(intent(turn, 1), position=1))


async def an_approval_is_used_up_by_the_call_that_it_allowed(scene: Scene, turn: Driven) -> None:
    await scene.approve(turn)

    await scene.write(turn.unit(intent(turn, consumes="w")))

    expect([wait.consumed for wait in (await scene.turn()).waits], [True])
    again = turn.unit(intent(turn, 1, consumes="w"), position=1)
    await scene.refused(IdempotencyConflict, again)


async def two_calls_of_one_unit_do_not_share_an_approval(scene: Scene, turn: Driven) -> None:
    await scene.approve(turn)

    unit = turn.unit(intent(turn, 0, consumes="w"), intent(turn, 1, consumes="w"))
    await scene.refused(IdempotencyConflict, unit)


async def only_an_answer_that_stands_allows_a_call(scene: Scene, turn: Driven) -> None:
    keys = ("open", "rejected", "expired")
    await scene.write(turn.unit(waits=tuple(turn.wait(key) for key in keys)))
    await scene.store.resolve_wait("rejected", WaitAnswer(status="rejected"))
    await scene.store.resolve_wait("expired", WaitAnswer(status="expired"))

    for key in keys:
        await scene.refused(IdempotencyConflict, turn.unit(intent(turn, consumes=key)))


async def an_approval_of_another_turn_allows_nothing(scene: Scene, turn: Driven) -> None:
    other = await scene.begin(session_id="s2")
    await scene.approve(other)

    for key in ("w", "nothing"):
        await scene.refused(InvalidInput, turn.unit(intent(turn, consumes=key)))


@with_crash
async def the_journal_is_the_same_after_a_crash(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(intent(turn), result(turn), intent(turn, 1)))
    await scene.crash()
    now = await scene.take_over(turn, await scene.join())
    await scene.write(now.unit(intent(now, 1), position=1))
    expect((await scene.turn()).journal().recorded, 1)

    other = now.unit(result(now, value="lost"), position=2)
    await _is_noticed(scene, other, "another outcome is recorded already")

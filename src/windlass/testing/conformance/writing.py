"""Writing: units land whole, in order and once."""

# ruff: noqa: D103 - the name of a claim says it all
from __future__ import annotations

from asyncio import Queue, gather

from windlass import errors
from windlass.journal import Entry, JournalPage
from windlass.ports import Ticket, Unit, UnitReceipt
from windlass.testing.conformance.checks import with_crash
from windlass.testing.conformance.entries import intent, reply, result
from windlass.testing.conformance.scene import Driven, Scene, ending, expect, expect_that, new_turn


async def a_unit_is_a_page_of_the_journal(scene: Scene, turn: Driven) -> None:
    first = await scene.write(turn.unit(reply(turn), intent(turn)))
    second = await scene.write(turn.unit(result(turn), position=1))

    expect((first.page, second.page), (1, 2))
    wanted = (
        JournalPage(format=2, generation=1, entries=(reply(turn), intent(turn))),
        JournalPage(format=2, generation=1, entries=(result(turn),)),
    )
    expect((await scene.turn()).pages, wanted)


async def what_is_loaded_folds_to_the_journal_that_was_written(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(reply(turn), intent(turn)))
    await scene.write(turn.unit(result(turn), position=1))

    journal = (await scene.turn()).journal()

    expect(journal.recorded, 2)
    row = journal.row(result(turn).key)
    expect(row is not None and row.outcome, result(turn).outcome)


async def a_unit_handed_in_twice_lands_once(scene: Scene, turn: Driven) -> None:
    first = turn.unit(reply(turn), intent(turn), waits=(turn.wait("w"),))
    receipt = await scene.write(first)
    await scene.write(turn.unit(result(turn), position=1))

    await scene.unchanged(first, receipt)


async def a_unit_whose_answer_was_lost_is_known_after_a_takeover(scene: Scene) -> None:
    turn = await scene.begin()
    unit = turn.unit(reply(turn))
    receipt = await scene.write(unit)
    await scene.take_over(turn, turn.worker_id)

    await scene.unchanged(unit, receipt)


async def a_whole_turn_handed_in_again_unit_by_unit_lands_once(scene: Scene) -> None:
    await scene.accept()
    turn = Driven("s1", "t1", await scene.join(), 1)
    units = (
        turn.unit(reply(turn), start=turn.start),
        turn.unit(intent(turn), position=1, waits=(turn.wait("w"),)),
        turn.unit(result(turn), position=2, commit=ending()),
    )
    receipts = [await scene.write(unit) for unit in units]
    before = await scene.everything()

    again = [await scene.write(unit) for unit in units]

    expect(again, receipts)
    expect(await scene.everything(), before, "what is there after")


async def another_page_at_a_position_that_is_taken_is_refused(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(reply(turn)))

    await scene.refused(errors.IdempotencyConflict, turn.unit(intent(turn)))
    # It repeats a page and adds an end: that unit was never written.
    await scene.refused(errors.IdempotencyConflict, turn.unit(reply(turn), commit=ending()))


async def a_page_beyond_the_next_position_is_refused(scene: Scene, turn: Driven) -> None:
    await scene.refused(errors.HeadMoved, turn.unit(reply(turn), position=1))


async def a_unit_without_entries_has_no_position(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(reply(turn)))

    receipt = await scene.write(turn.unit(position=7, waits=(turn.wait("w"),)))

    expect(receipt, UnitReceipt(page=1))


async def a_receipt_counts_all_pages_also_after_a_refusal(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(reply(turn)))
    await scene.refused(errors.HeadMoved, turn.unit(reply(turn, 1), position=9))

    expect(await scene.write(turn.unit(parks=True)), UnitReceipt(page=1))


async def an_acceptance_handed_in_again_counts_the_pages_since(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.write(turn.unit(reply(turn)))

    receipt = await scene.write(Unit.accepting("s1", "t1", new_turn()))

    expect((receipt.page, receipt.accepted is not None and receipt.accepted.known), (1, True))


async def a_unit_of_a_turn_that_is_not_there_is_refused(scene: Scene, turn: Driven) -> None:
    lost = turn._replace(turn_id="t9")

    refusal = await scene.refused(errors.InvalidInput, lost.unit(reply(lost)))

    expect(refusal.field, "turn_id")
    gone = turn._replace(session_id="s9")
    await scene.refused(errors.UnknownSession, gone.unit(reply(gone)))


async def a_unit_of_a_turn_that_is_not_under_way_is_refused(scene: Scene, turn: Driven) -> None:
    await scene.accept("t2")
    queued = turn._replace(turn_id="t2")

    await scene.refused(errors.HeadMoved, queued.unit(reply(queued)))
    await scene.commit(turn)
    await scene.refused(errors.HeadMoved, turn.unit(reply(turn)))
    await scene.refused(errors.HeadMoved, turn.unit(parks=True))


async def a_part_that_is_refused_takes_the_parts_before_it_along(scene: Scene) -> None:
    turn = Driven("s1", "t1", await scene.join(), 1)

    unit = turn.unit(accept=new_turn(), start=turn.start, commit=ending(head=5))
    await scene.refused(errors.HeadMoved, unit)

    await scene.refused(errors.UnknownSession, scene.store.load_session("s1"))


async def a_refused_end_takes_page_wait_and_approval_of_its_unit_along(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.approve(turn)
    unit = turn.unit(intent(turn, consumes="w"), waits=(turn.wait("w2"),), commit=ending(head=5))

    await scene.refused(errors.HeadMoved, unit)

    await scene.write(turn.unit(intent(turn, consumes="w")))


async def units_handed_in_together_land_in_order(scene: Scene, turn: Driven) -> None:
    tickets: list[Ticket[UnitReceipt]] = []
    for at in range(20):
        unit = turn.unit(reply(turn, at), position=at)
        tickets.append(scene.store.submit(unit, after=tickets[-1] if tickets else None))

    receipts = await gather(*(ticket.durable() for ticket in tickets))

    expect([receipt.page for receipt in receipts], list(range(1, 21)))
    expect([ticket.is_settled for ticket in tickets], [True] * 20)
    expect([ticket.refusal for ticket in tickets], [None] * 20)
    pages = (await scene.turn()).pages
    expect([page.entries for page in pages], [(reply(turn, at),) for at in range(20)])


async def a_refused_unit_takes_all_after_it_along_and_none_of_another_turn(scene: Scene) -> None:
    turn = await scene.begin()
    other = await scene.begin(session_id="s2")
    first = scene.store.submit(turn.unit(reply(turn)))
    bad = scene.store.submit(turn.unit(reply(turn, 1), position=5), after=first)
    neighbour = scene.store.submit(other.unit(reply(other)))
    later = [bad]
    for at in (1, 2, 3):
        unit = turn.unit(intent(turn, at), position=at)
        later.append(scene.store.submit(unit, after=later[-1]))

    answers = await gather(*(ticket.durable() for ticket in later), return_exceptions=True)

    expect([type(answer) for answer in answers], [errors.HeadMoved] * 4)
    expect([type(ticket.refusal) for ticket in later], [errors.HeadMoved] * 4)
    expect((await first.durable()).page, 1)
    expect((await neighbour.durable()).page, 1)
    expect(len((await scene.turn()).pages), 1)


async def a_ticket_tells_the_same_however_often_it_is_asked(scene: Scene, turn: Driven) -> None:
    ticket = scene.store.submit(turn.unit(reply(turn)))
    refused = scene.store.submit(turn.unit(reply(turn), position=9))

    expect(await ticket.durable(), await ticket.durable())
    for _ in range(2):
        await scene.refused(errors.HeadMoved, refused.durable())


async def whoever_wants_to_know_is_told_once_that_a_unit_is_settled(scene: Scene) -> None:
    turn = await scene.begin()
    told: Queue[str] = Queue()
    landed = scene.store.submit(turn.unit(reply(turn)))
    landed.when_settled(lambda: told.put_nowait("landed"))
    expect(told.qsize(), 0, "what was told before the loop went on")
    expect(await told.get(), "landed")
    refused = scene.store.submit(turn.unit(reply(turn), position=9), after=landed)
    refused.when_settled(lambda: told.put_nowait("refused"))
    expect(await told.get(), "refused")

    expect((landed.is_settled, refused.is_settled, told.qsize()), (True, True, 0))
    expect((landed.refusal, type(refused.refusal)), (None, errors.HeadMoved))


async def a_turn_of_two_thousand_calls_is_written_and_committed(scene: Scene, turn: Driven) -> None:
    ticket: Ticket[UnitReceipt] | None = None
    for at in range(100):
        calls = range(at * 20, at * 20 + 20)
        results = [result(turn, call) for call in range(at * 20 - 20, at * 20) if at]
        entries: tuple[Entry, ...] = (*results, *(intent(turn, call) for call in calls))
        ticket = scene.store.submit(turn.unit(*entries, position=at), after=ticket)
    last = [result(turn, call) for call in range(1_980, 2_000)]
    ticket = scene.store.submit(turn.unit(*last, position=100, commit=ending()), after=ticket)

    receipt = await ticket.durable()

    expect((receipt.page, receipt.committed is not None), (101, True))
    view = await scene.turn()
    expect((view.state, len(view.pages), view.journal().recorded), ("done", 101, 2_000))


async def what_is_handed_out_is_not_changed_by_what_comes_later(scene: Scene, turn: Driven) -> None:
    view, session = await scene.turn(), await scene.session()
    seen = (view.state, view.pages, session.head, session.pages)

    await scene.write(turn.unit(reply(turn), commit=ending()))

    expect((view.state, view.pages, session.head, session.pages), seen)


async def a_cancelled_turn_still_records_what_came_back(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(intent(turn)))
    await scene.store.request_cancel("s1", "t1")

    unit = turn.unit(result(turn), intent(turn, 1), position=1)
    await scene.refused(errors.TurnCancelled, unit)
    await scene.write(turn.unit(result(turn), position=1))


@with_crash
async def a_durable_unit_is_there_after_a_crash(scene: Scene, turn: Driven) -> None:
    unit = turn.unit(reply(turn), intent(turn), waits=(turn.wait("w", detail={"a": [1]}),))
    receipt = await scene.write(unit)

    await scene.keeps(scene.turn)

    expect(await scene.write(unit), receipt)


async def a_ticket_that_is_settled_now_is_settled_with_all_before_it(scene: Scene) -> None:
    turn = await scene.begin()
    first = scene.store.submit(turn.unit(reply(turn)))
    second = scene.store.submit(turn.unit(reply(turn, 1), position=1), after=first)
    told: Queue[str] = Queue()
    second.when_settled(lambda: told.put_nowait("told"))

    if second.settle_now():
        expect((first.is_settled, second.is_settled), (True, True))
        expect(len((await scene.turn()).pages), 2)

    expect([(await ticket.durable()).page for ticket in (first, second)], [1, 2])
    expect_that(second.settle_now(), "it is settled when asked once more")
    expect((await told.get(), told.qsize()), ("told", 0))


async def a_refusal_is_the_same_when_it_is_known_now(scene: Scene, turn: Driven) -> None:
    refused = scene.store.submit(turn.unit(reply(turn), position=9))
    refused.settle_now()

    await scene.refused(errors.HeadMoved, refused.durable())
    expect(type(refused.refusal), errors.HeadMoved)
    await scene.write(turn.unit(reply(turn)))

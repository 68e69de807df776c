"""Facts beside the machine's: waits, their answers, and what was taken out of the inbox; and where they stand."""

from __future__ import annotations

from typing import Any

from tests.folds.rows import (
    awaited,
    calls,
    entered,
    intent,
    page,
    reply,
    result,
    started,
    view,
    wait,
)
from tests.folds.told import ALSO, WORK, fact, replied, returned, used
from windlass.folds import facts_of
from windlass.journal import (
    AwaitEventCommand,
    Claimed,
    DirectAnswered,
    DirectCallCommand,
    Recorded,
    RequestSpec,
)
from windlass.kernel import InputAccepted, ModelReply, WaitOpened, WaitResolved
from windlass.kernel.events import Event


def opened(number: int, key: str, **more: Any) -> Event:
    more.setdefault("kind", "approval")
    return fact(WaitOpened, f"wait{number}", key=key, **more)


def over(number: int, key: str, status: str = "answered", **more: Any) -> Event:
    more.setdefault("kind", "approval")
    return fact(WaitResolved, f"wait{number}.over", key=key, status=status, **more)


ASKED = (used(1, 1), replied(2, 1, "", WORK))
BEGUN = page(started(), reply(1, calls("work")))


def test_a_wait_stands_behind_the_pages_that_came_before_it() -> None:
    about = {"title": "Work?", "call_id": "c0", "expires_ms": 9}
    turn = view(BEGUN, waits=(wait("w", 1, **about),))

    assert facts_of(turn) == (*ASKED, opened(1, "w", **about))


def test_an_answer_is_told_when_the_turn_has_taken_it() -> None:
    asks = (wait("w", 1),)
    answer = awaited("2.0.approval", "w", "rejected", by="eva")
    turn = view(BEGUN, page(answer, result(2, 0, "no", status="denied")), waits=asks)

    told = facts_of(turn)
    assert told[:4] == (*ASKED, opened(1, "w"), over(1, "w", "rejected", by="eva"))
    assert len(told) == 5


def test_waits_stand_in_the_order_in_which_they_were_opened() -> None:
    waits = (wait("w1", 0), wait("w2", 1), wait("w3", 1), wait("w4", 2))
    turn = view(BEGUN, page(intent(2)), page(awaited("2.0.unknown", "w3")), waits=waits)

    assert facts_of(turn) == (
        opened(1, "w1"),
        *ASKED,
        opened(2, "w2"),
        opened(3, "w3"),
        opened(4, "w4"),
        over(3, "w3"),
    )


def test_a_wait_that_was_opened_behind_pages_which_are_not_here_is_not_told_yet() -> None:
    assert facts_of(view(BEGUN, waits=(wait("w1", 1), wait("w2", 2)))) == (*ASKED, opened(1, "w1"))


def test_a_result_that_comes_from_outside_is_awaited_under_its_claim() -> None:
    key = "s/t/1/0/await_event/2.0.deferred"
    claim = Claimed(key=key, command=AwaitEventCommand(wait_key="w"))
    answer = awaited("2.0.deferred", "w", value="a book")
    recorded = Recorded(key=answer.key, outcome=answer.outcome)
    turn = view(
        page(started(), reply(1, calls("work")), intent(2)),
        page(claim),
        page(recorded, result(2, 0, "a book", claimed=True)),
        waits=(wait("w", 1, kind="deferred"),),
    )

    assert facts_of(turn) == (
        *ASKED,
        opened(1, "w", kind="deferred"),
        over(1, "w", kind="deferred"),
        returned(3, "2.0", "a book"),
    )


def test_an_answer_to_a_wait_whose_row_is_gone_is_not_told() -> None:
    assert facts_of(view(BEGUN, page(awaited("2.0.approval", "w")))) == ASKED


def test_a_question_before_the_first_model_call_is_told_before_it() -> None:
    turn = view(
        page(started()),
        page(awaited("1.budget.more", "w"), reply(1)),
        waits=(wait("w", 1, kind="budget"),),
    )

    told = (opened(1, "w", kind="budget"), over(1, "w", kind="budget"))
    assert facts_of(turn) == (*told, used(1, 1), replied(3, 1))


def test_what_was_taken_out_of_the_inbox_is_told_before_what_the_machine_says_then() -> None:
    turn = view(
        page(started(), reply(1, calls("work", "also"))),
        page(result(2), result(2, 1, name="also"), entered(3, "Hurry.", taken=("i1", "i2"))),
        page(reply(4)),
    )

    told = facts_of(turn)
    assert told[1] == replied(2, 1, "", WORK, ALSO)
    assert told[4:] == (
        fact(InputAccepted, "3.i1", 3, input_id="i1"),
        fact(InputAccepted, "3.i2", 3, input_id="i2"),
        used(6, 4, iteration=1),
        replied(8, 4, iteration=1),
    )


def test_what_plugins_put_in_was_in_no_inbox() -> None:
    turn = view(page(started(), reply(1, calls("work")), result(2), entered(3, "Think.")))

    assert facts_of(turn) == (*ASKED, returned(3, "2.0"))


def test_calls_by_tools_and_plugins_are_not_told() -> None:
    spec = RequestSpec(model="m", messages="ab" * 32, message_count=1)
    direct = Recorded(
        key="s/t/1/0/direct_call/2.0.abcd.1",
        outcome=DirectAnswered(result=ModelReply(text="aside")),
        command=DirectCallCommand(request=spec, usage_source="tool:work"),
    )

    assert facts_of(view(BEGUN, page(direct))) == ASKED

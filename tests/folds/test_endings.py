"""How turns end: by themselves, from outside, in the middle of a batch, before they began, long ago."""

from __future__ import annotations

import pytest

from tests.folds.rows import (
    calls,
    ended,
    entered,
    intent,
    page,
    presented,
    reply,
    result,
    said,
    started,
    view,
)
from tests.folds.told import DONE, WORK, also, end, replied, returned, used
from windlass.folds import TurnFold, facts_of
from windlass.journal import FinalizeCommand, Recorded, TurnFinalized
from windlass.kernel import (
    Chain,
    Finished,
    FinishedValue,
    ModelReply,
    Stopped,
    ToolOutcome,
)
from windlass.kernel.outcomes import Outcome
from windlass.kernel.tool_call import EndTurn
from windlass.ports import TurnRequest

CANCELLED = Stopped(reason="cancelled", detail="")
OVERTAKEN = ToolOutcome(status="cancelled", value="Not run to its end: the turn ended first.")


@pytest.mark.parametrize(
    "outcome", [DONE, FinishedValue(value=1), Stopped(reason="cancelled", detail="too late")]
)
def test_the_end_is_told_as_it_is_stored(outcome: Outcome) -> None:
    """A value is read by code that is not here; a cancel may have come first, though the machine had ended."""
    turn = view(page(started(driver="structured"), reply(1)))

    assert facts_of(ended(turn, outcome)) == (used(1, 1), replied(3, 1), end(outcome))


def test_what_follows_the_end_is_not_told() -> None:
    finalized = Recorded(
        key="s/t/1/0/finalize/end",
        outcome=TurnFinalized(issues=("one",)),
        command=FinalizeCommand(outcome=DONE),
    )
    turn = view(page(started(), reply(1)), page(finalized))

    assert facts_of(ended(turn, DONE))[2:] == (end(),)


def test_a_turn_that_a_tool_ended_is_told_with_its_result() -> None:
    outcome = ToolOutcome(value="bye", control=EndTurn(value=1))
    row = result(2, 0, "bye", control=EndTurn(value=1))
    turn = ended(view(page(started(), reply(1, calls("work")), row)), Finished(text=""))

    assert facts_of(turn)[2:] == (returned(3, "2.0", outcome=outcome), end(Finished(text="")))


def test_a_turn_that_a_plugin_ended_with_a_result_is_told_with_it() -> None:
    stopped = Stopped(reason="tool_failure", detail="Enough.")
    rows = page(reply(1, calls("work")), result(2), presented(2, ends=stopped))
    turn = ended(view(page(started(looks=("tools",))), rows), stopped)

    assert facts_of(turn)[2:] == (returned(3, "2.0"), end(stopped))


def test_calls_that_the_end_overtook_are_told_before_it() -> None:
    """By a limit, or by a cancel that came before any of them began: none has a row."""
    limit = Stopped(reason="limit", detail="The turn used 3 tool calls, the limit is 2.")
    turn = ended(view(page(started(), reply(1, calls("work", "also")))), limit)

    assert facts_of(turn)[2:] == (
        returned(3, "call.0.c0", outcome=OVERTAKEN),
        also(4, "call.0.c1", outcome=OVERTAKEN),
        end(limit),
    )


def test_a_batch_that_was_cancelled_keeps_the_results_that_are_there() -> None:
    unknown = ToolOutcome(status="unknown", value="?")
    turn = view(
        page(started(), reply(1, calls("work", "also", "rest")), intent(2, 1, name="also")),
        page(result(2, 1, "?", status="unknown", claimed=True)),
    )

    assert facts_of(turn) == facts_of(ended(turn, CANCELLED))[:2]
    assert facts_of(ended(turn, CANCELLED))[2:] == (
        also(3, "2.1", outcome=unknown),
        returned(4, "call.0.c0", outcome=OVERTAKEN),
        returned(5, "call.0.c2", call_id="c2", name="rest", args={"n": 2}, outcome=OVERTAKEN),
        end(CANCELLED),
    )


def test_a_batch_that_was_cancelled_with_its_last_result_is_told_as_one_that_was_not() -> None:
    turn = view(page(started(), reply(1, calls("work"))), page(result(2)))

    assert facts_of(ended(turn, CANCELLED)) == (*facts_of(turn), end(CANCELLED))


def test_a_result_that_the_end_kept_from_plugins_is_told_as_withheld() -> None:
    withheld = ToolOutcome(value="(Its result is withheld: …)")
    rows = page(
        reply(1, calls("work", "also")), result(2, 0, "4711"), presented(2, outcome=withheld)
    )
    turn = ended(view(page(started(looks=("tools",))), rows), CANCELLED)

    assert facts_of(turn)[2] == returned(3, "2.0", outcome=withheld)


def test_a_turn_that_ended_while_the_model_was_asked_tells_no_more() -> None:
    rows = page(started(), reply(1, calls("work")), result(2), entered(3, "Hurry."))

    assert facts_of(ended(view(rows), CANCELLED)) == (*facts_of(view(rows)), end(CANCELLED))


@pytest.mark.parametrize("pages", [(), (page(started(ends=CANCELLED)),)])
def test_a_turn_that_ended_before_it_asked_for_anything_tells_its_end(
    pages: tuple[object, ...],
) -> None:
    assert facts_of(ended(view(*pages), CANCELLED)) == (end(CANCELLED),)  # type: ignore[arg-type]  # pages


def test_a_turn_whose_journal_is_gone_tells_its_end() -> None:
    gone = ended(view(request=None), DONE, said("Go.", "u"))
    fold = TurnFold.of(gone)

    assert gone.is_reclaimed
    assert fold.facts == [end()]
    assert [one.id for one in fold.messages] == ["u"]


def test_a_journal_that_went_while_it_was_read_is_a_hole_before_the_end() -> None:
    fold = TurnFold.of(view(page(started(), reply(1, calls("work")))))
    fold.absorb(ended(view(request=None), DONE))

    assert fold.facts == [used(1, 1), replied(2, 1, "", WORK), end()]


# ---------------------------------------------------------------------- turns that sum up

HISTORY = Chain([said("Hello.", "u"), said("Well, hello.", "a", "assistant")])
SUMS = TurnRequest(overrides={"compact": {"keep": 0}})


def test_a_turn_that_sums_up_tells_of_its_one_call() -> None:
    rows = page(started(driver="compaction"), reply(1, "<summary>SUM</summary>"))
    turn = ended(view(rows, request=SUMS), Finished(text="SUM"))

    assert facts_of(turn, HISTORY) == (
        used(1, 1),
        replied(3, 1, "<summary>SUM</summary>"),
        end(Finished(text="SUM")),
    )


def test_a_turn_that_sums_up_asks_again_when_there_was_no_room() -> None:
    full = ModelReply(terminal="context_overflow")
    rows = page(started(driver="compaction"), reply(1, full)), page(reply(2, "SUM"))

    assert facts_of(view(*rows, request=SUMS), HISTORY) == (
        used(1, 1),
        replied(2, 1, ""),
        used(4, 2, iteration=1),
        replied(6, 2, "SUM", iteration=1),
    )


def test_a_turn_that_has_nothing_to_sum_up_asks_for_nothing() -> None:
    turn = ended(view(page(started(driver="compaction")), request=SUMS), Finished(text=""))

    assert facts_of(turn) == (end(Finished(text="")),)

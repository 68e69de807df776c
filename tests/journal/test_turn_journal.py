"""The journal of a turn, folded: recorded once, claimed as allowed, changed only by what is absorbed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.journal.builders import COMMANDS, RECORDS, claim, envelope, journal, record, take
from windlass.errors import (
    IdempotencyConflict,
    InvalidInput,
    LeaseLost,
    ReplayMismatch,
    StoreContended,
    WindlassError,
)
from windlass.journal import (
    Answer,
    Attempt,
    Busy,
    CallDecided,
    CallReturned,
    Claimed,
    DriveBegan,
    DriveEnded,
    Emitted,
    Entry,
    JournalPage,
    JournalRow,
    ModelAnswered,
    Recorded,
    Run,
    SleepCommand,
    Slept,
    Stale,
    TakeOver,
    ToolCallCommand,
    TurnJournal,
    TurnStarted,
    count_recorded,
    digest_of,
)
from windlass.kernel import ModelReply, ToolOutcome, Usage

MODEL = COMMANDS["model_call"]
TOOL = COMMANDS["tool_call"]
STARTED = TurnStarted(agent="a", model="m")
ANSWERED = RECORDS[ModelAnswered]
RETURNED = RECORDS[CallReturned]
CALL = "s/t/0/1/tool_call/e/0"
INTENT = Claimed(key=f"{CALL}/intent", digest="d", command=TOOL, contract="once")
RESULT = Recorded(key=f"{CALL}/result", digest="d", outcome=RETURNED)


def state(folded: TurnJournal) -> Any:  # noqa: ANN401 - all there is to see, to compare
    return folded.rows(), folded.started, folded.recorded, folded.usage()


def refused_whole(
    folded: TurnJournal, kind: type[WindlassError], *entries: Entry, generation: int = 1
) -> WindlassError:
    """Return the error with which a unit is refused, having changed nothing."""
    before = state(folded)
    with pytest.raises(WindlassError) as caught:
        folded.plan(entries, generation=generation)
    assert type(caught.value) is kind
    assert state(folded) == before
    return caught.value


def test_outcomes_are_counted_from_pages_as_the_folded_journal_counts_them() -> None:
    reply = Recorded(key="s/t/0/1/model_call/1", outcome=ANSWERED, command=MODEL)
    pages = [
        JournalPage(format=2, generation=1, entries=(STARTED, reply, INTENT)),
        # Recorded again by the drive that took over: it is the same outcome.
        JournalPage(format=2, generation=2, entries=(reply, RESULT)),
    ]
    folded = TurnJournal()
    for page in pages:
        folded.absorb(folded.plan(page.entries, generation=page.generation))

    assert count_recorded(pages) == folded.recorded == 2


# --- law 1: an outcome is recorded once ----------------------------------------------------------


def test_nothing_is_known_of_a_new_turn() -> None:
    folded = TurnJournal()
    assert state(folded) == ((), None, 0, ())
    assert folded.row("s/t/0/1/model_call/e") is None
    assert folded.decide(claim(MODEL), generation=1) == Run()


def test_what_is_recorded_answers_every_generation() -> None:
    folded = journal(claim(MODEL), record(MODEL, ANSWERED, claimed=True), generation=3)
    for generation in (1, 3, 9):
        assert folded.decide(claim(MODEL), generation=generation) == Answer(outcome=ANSWERED)


def test_recording_the_same_again_changes_nothing() -> None:
    folded = journal(record(MODEL, ANSWERED))
    before = state(folded)
    take(folded, record(MODEL, ANSWERED), generation=2)
    take(folded, record(MODEL, ANSWERED, claimed=True), generation=2)
    assert state(folded) == before
    assert folded.recorded == 1


def test_recording_another_outcome_is_refused() -> None:
    folded = journal(record(MODEL, ANSWERED))
    other = ModelAnswered(result=ModelReply(text="something else"))
    error = refused_whole(folded, IdempotencyConflict, record(MODEL, other))
    assert "s/t/0/1/model_call/e" in str(error)
    assert "something else" not in str(error)


def test_recording_under_another_request_is_refused() -> None:
    folded = journal(record(SleepCommand(duration_ms=1), RECORDS[Slept]))
    other = record(SleepCommand(duration_ms=2), RECORDS[Slept])
    error = refused_whole(folded, ReplayMismatch, other)
    assert isinstance(error, ReplayMismatch)
    assert error.key == "s/t/0/1/sleep/e"
    assert [place.path for place in error.diff] == ["$.duration_ms"]


def test_a_record_without_its_command_shows_no_difference() -> None:
    folded = journal(record(SleepCommand(duration_ms=1), RECORDS[Slept]))
    other = record(SleepCommand(duration_ms=2), RECORDS[Slept], claimed=True)
    error = refused_whole(folded, ReplayMismatch, other)
    assert isinstance(error, ReplayMismatch)
    assert error.diff == ()


def test_a_record_without_a_claim_names_its_command() -> None:
    alone = record(MODEL, ANSWERED, claimed=True)
    error = refused_whole(TurnJournal(), InvalidInput, alone)
    assert error.field == "Recorded.command"


def test_a_turn_begins_once() -> None:
    folded = journal(STARTED)
    assert folded.started == STARTED
    take(folded, STARTED, generation=2)
    assert folded.started == STARTED
    other = TurnStarted(agent="b", model="m")
    assert refused_whole(folded, IdempotencyConflict, other).field == "started"
    refused_whole(TurnJournal(), IdempotencyConflict, STARTED, other)


def test_an_outcome_recorded_again_with_other_times_is_the_same_outcome() -> None:
    folded = journal(record(MODEL, ANSWERED))
    before = state(folded)
    attempt = Attempt(began_ms=1, took_ms=2, code="throttled", model="m")
    again = msgspec.structs.replace(
        record(MODEL, ANSWERED), began_ms=9, took_ms=8, first_ms=7, attempts=(attempt,)
    )
    take(folded, again, generation=2)
    assert state(folded) == before


def test_a_record_of_a_claim_has_its_digest() -> None:
    made = claim(TOOL, moment="intent")
    alone = Recorded(key=f"{CALL}/result", outcome=RETURNED)
    row = journal(made, alone).row(CALL)
    assert row is not None
    assert (row.outcome, row.digest) == (RETURNED, digest_of(made))


def test_who_drove_and_what_was_emitted_changes_nothing_that_is_known() -> None:
    folded = journal(
        DriveBegan(worker="w", at_ms=1),
        Emitted(key="s/t/0/1/process/e", name="said"),
        DriveEnded(at_ms=2, why="parked"),
    )
    assert state(folded) == ((), None, 0, ())


# --- law 2: a claim stands only as it is allowed -------------------------------------------------


def test_a_claim_is_kept_with_everything_it_said() -> None:
    reserved = Usage(output_tokens=100)
    made = claim(TOOL, moment="intent", contract="keyed", due_ms=7, reserved=reserved)
    assert journal(made, generation=4).row(made.key) == JournalRow(
        key=CALL,
        digest=digest_of(made),
        generation=4,
        command=TOOL,
        contract="keyed",
        due_ms=7,
        reserved=reserved,
    )


def test_a_claim_of_this_generation_is_busy() -> None:
    folded = journal(claim(MODEL))
    assert folded.decide(claim(MODEL), generation=1) == Busy()
    refused_whole(folded, StoreContended, claim(MODEL))


def test_a_claim_of_a_newer_generation_is_lost() -> None:
    folded = journal(claim(MODEL), generation=5)
    assert folded.decide(claim(MODEL), generation=4) == Stale(generation=5)
    error = refused_whole(folded, LeaseLost, claim(MODEL), generation=4)
    assert "claimed by generation 5, this is 4" in str(error)


def test_what_is_recorded_is_not_claimed_again() -> None:
    folded = journal(record(MODEL, ANSWERED))
    refused_whole(folded, IdempotencyConflict, claim(MODEL), generation=9)


def test_another_request_under_a_key_is_not_claimed() -> None:
    folded = journal(claim(SleepCommand(duration_ms=1)))
    error = refused_whole(folded, ReplayMismatch, claim(SleepCommand(duration_ms=2)), generation=2)
    assert isinstance(error, ReplayMismatch)
    assert error.key == "s/t/0/1/sleep/e"
    assert [place.path for place in error.diff] == ["$.duration_ms"]


def test_a_claim_of_an_older_generation_is_taken_over() -> None:
    folded = journal(claim(MODEL))
    assert folded.decide(claim(MODEL), generation=2) == TakeOver(how="again")
    take(folded, claim(MODEL), generation=2)
    row = folded.row("s/t/0/1/model_call/e")
    assert row is not None
    assert row.generation == 2
    refused_whole(folded, LeaseLost, claim(MODEL), generation=1)


def test_a_sleep_keeps_its_first_due_time_over_takeovers() -> None:
    sleep = COMMANDS["sleep"]
    folded = journal(claim(sleep, due_ms=1_000))
    for generation in (2, 3):
        take(folded, claim(sleep, due_ms=9_000), generation=generation)
        row = folded.row("s/t/0/1/sleep/e")
        assert row is not None
        assert row.due_ms == 1_000
    taken = folded.decide(claim(sleep, due_ms=9_000), generation=4)
    assert taken == TakeOver(how="first_due", due_ms=1_000)


def test_a_due_time_of_zero_is_one() -> None:
    sleep = COMMANDS["sleep"]
    folded = journal(claim(sleep, due_ms=0))
    take(folded, claim(sleep, due_ms=9_000), generation=2)
    assert folded.decide(claim(sleep), generation=3) == TakeOver(how="first_due", due_ms=0)


def test_the_first_contract_governs_over_takeovers() -> None:
    """An intent written as `once` may have acted, however often its code says `pure` since."""
    folded = journal(claim(TOOL, moment="intent", contract="once"))
    now = claim(TOOL, moment="intent", contract="pure")
    assert folded.decide(now, generation=2) == TakeOver(how="unknown")
    take(folded, now, generation=2)
    assert folded.decide(now, generation=3) == TakeOver(how="unknown")


# --- law 3: a plan changes nothing ---------------------------------------------------------------


def test_a_plan_changes_nothing_until_it_is_absorbed() -> None:
    folded = journal(claim(MODEL))
    before = state(folded)
    plan = folded.plan([STARTED, record(MODEL, ANSWERED, claimed=True)], generation=1)
    assert state(folded) == before
    assert plan.started == STARTED
    assert plan.recorded == 1
    assert [row.outcome for row in plan.rows.values()] == [ANSWERED]
    folded.absorb(plan)
    assert folded.started == STARTED
    assert folded.recorded == 1
    assert folded.decide(claim(MODEL), generation=1) == Answer(outcome=ANSWERED)


def test_an_empty_unit_changes_nothing() -> None:
    folded = journal(STARTED, claim(MODEL))
    before = state(folded)
    take(folded, [])
    assert state(folded) == before


def test_a_unit_sees_its_own_entries() -> None:
    folded = journal([STARTED, claim(MODEL), record(MODEL, ANSWERED, claimed=True)])
    assert folded.recorded == 1
    refused_whole(TurnJournal(), StoreContended, claim(MODEL), claim(MODEL))
    other = ModelAnswered(result=ModelReply(text="other"))
    refused_whole(TurnJournal(), IdempotencyConflict, record(MODEL, ANSWERED), record(MODEL, other))


def test_a_unit_is_refused_whole() -> None:
    folded = journal(claim(MODEL))
    refused_whole(folded, StoreContended, STARTED, claim(COMMANDS["sleep"]), claim(MODEL))
    assert folded.started is None
    assert folded.row("s/t/0/1/sleep/e") is None


def test_outcomes_are_counted_once() -> None:
    folded = journal(
        claim(MODEL),
        record(MODEL, ANSWERED, claimed=True),
        record(MODEL, ANSWERED, claimed=True),
        record(COMMANDS["sleep"], RECORDS[Slept]),
        claim(COMMANDS["run_code"]),
    )
    assert folded.recorded == 2
    assert [row.is_recorded for row in folded.rows()] == [True, True, False]


def test_rows_stand_in_the_order_in_which_they_were_first_written() -> None:
    folded = journal(
        claim(MODEL),
        record(COMMANDS["sleep"], RECORDS[Slept]),
        record(MODEL, ANSWERED, claimed=True),
    )
    assert [row.key for row in folded.rows()] == ["s/t/0/1/model_call/e", "s/t/0/1/sleep/e"]


# --- calls ---------------------------------------------------------------------------------------


def test_an_intent_and_its_result_are_one_row() -> None:
    folded = journal(INTENT, RESULT)
    assert len(folded.rows()) == 1
    assert folded.row(f"{CALL}/intent") == folded.row(f"{CALL}/result") == folded.row(CALL)
    row = folded.row(CALL)
    assert row is not None
    assert (row.outcome, row.contract, row.command) == (RETURNED, "once", TOOL)


def test_the_result_of_an_envelope_ends_the_claim_of_its_intent() -> None:
    """The claim is of the envelope with the intent's key, the record of the one with the result's."""
    intent = envelope(TOOL, moment="intent")
    result = envelope(TOOL, moment="result")
    folded = journal(
        Claimed.of(intent, contract="once"), Recorded.of(result, RETURNED, claimed=True)
    )
    assert folded.recorded == 1
    assert len(folded.rows()) == 1


def test_a_result_answers_the_intent_that_is_asked_for_again() -> None:
    assert journal(INTENT, RESULT).decide(INTENT, generation=2) == Answer(outcome=RETURNED)


def test_a_decision_is_a_row_of_its_own() -> None:
    decided = record(TOOL, RECORDS[CallDecided], moment="decide")
    folded = journal(decided, INTENT)
    assert [row.key for row in folded.rows()] == [f"{CALL}/decide", CALL]
    assert folded.decide(INTENT, generation=1) == Busy()


def test_two_calls_of_one_effect_are_two_rows() -> None:
    other = Claimed(
        key="s/t/0/1/tool_call/e/1/intent",
        digest="d2",
        command=ToolCallCommand(call_id="c2", name="add"),
        contract="once",
    )
    assert len(journal(INTENT, other).rows()) == 2


def test_effects_with_the_ids_intent_and_result_are_two_rows() -> None:
    folded = journal(
        record(MODEL, ANSWERED, "intent"),
        record(MODEL, ANSWERED, "result"),
    )
    assert len(folded.rows()) == 2


def test_a_pure_call_is_recorded_without_a_claim() -> None:
    alone = Recorded(key=f"{CALL}/result", digest="d", outcome=RETURNED, command=TOOL)
    folded = journal(alone)
    assert folded.recorded == 1
    other = CallReturned(outcome=ToolOutcome(value=2))
    refused_whole(
        folded,
        IdempotencyConflict,
        Recorded(key=f"{CALL}/result", digest="d", outcome=other, command=TOOL),
    )

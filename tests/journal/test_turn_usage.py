"""What a turn has used, from its journal: by source and model, with what was reserved and lost."""

from __future__ import annotations

from tests.journal.builders import COMMANDS, RECORDS, REPLY, SPEC, claim, journal, record, take
from windlass.journal import (
    DirectAnswered,
    DirectCallCommand,
    ModelAnswered,
    ModelCallCommand,
    Released,
    RequestSpec,
    TurnFinalized,
    UsageLine,
)
from windlass.kernel import ModelFailure, Usage

MODEL = COMMANDS["model_call"]
ANSWERED = RECORDS[ModelAnswered]
USED = Usage(input_tokens=3, output_tokens=2)


def asking(model: str) -> ModelCallCommand:
    return ModelCallCommand(request=RequestSpec(model=model, messages="ab" * 32, message_count=1))


def test_usage_is_summed_by_source_and_model() -> None:
    folded = journal(
        record(asking("m"), ANSWERED, "e1"),
        record(asking("m"), ANSWERED, "e2"),
        record(asking("big"), ANSWERED, "e3"),
        record(asking("m"), ANSWERED, "e4", usage_source="retry"),
        record(
            DirectCallCommand(request=SPEC, usage_source="titles"), RECORDS[DirectAnswered], "e5"
        ),
    )
    assert folded.usage() == (
        UsageLine(source="retry", model="m", calls=1, usage=USED),
        UsageLine(source="titles", model="m", calls=1, usage=USED),
        UsageLine(source="turn", model="big", calls=1, usage=USED),
        UsageLine(source="turn", model="m", calls=2, usage=USED + USED),
    )


def test_a_failed_call_is_a_call_that_used_nothing() -> None:
    failed = ModelAnswered(result=ModelFailure(message="busy"))
    folded = journal(record(MODEL, failed))
    assert folded.usage() == (UsageLine(source="turn", model="m", calls=1),)


def test_a_reservation_without_an_outcome_is_lost() -> None:
    reserved = Usage(output_tokens=100)
    folded = journal(claim(MODEL, reserved=reserved))
    assert folded.usage() == (UsageLine(source="turn", model="m", calls=1, lost=1, usage=reserved),)


def test_an_outcome_settles_its_reservation_at_what_was_used() -> None:
    folded = journal(
        claim(MODEL, reserved=Usage(output_tokens=100)),
        record(MODEL, ANSWERED, claimed=True, usage_source="retry"),
    )
    assert folded.usage() == (UsageLine(source="retry", model="m", calls=1, usage=USED),)


def test_a_lost_call_and_an_answered_one_are_one_line() -> None:
    direct = DirectCallCommand(request=SPEC, usage_source="titles")
    folded = journal(
        claim(direct, "e1", reserved=Usage(output_tokens=100)),
        record(direct, DirectAnswered(result=REPLY), "e2"),
    )
    assert folded.usage() == (
        UsageLine(
            source="titles",
            model="m",
            calls=2,
            lost=1,
            usage=Usage(input_tokens=3, output_tokens=102),
        ),
    )


def test_a_claim_that_reserved_nothing_and_what_asks_no_model_count_nothing() -> None:
    folded = journal(
        claim(MODEL),
        claim(COMMANDS["sleep"]),
        claim(COMMANDS["tool_call"], moment="intent"),
        record(COMMANDS["finalize"], RECORDS[TurnFinalized]),
    )
    assert folded.usage() == ()


def test_replay_adds_nothing_to_the_usage() -> None:
    folded = journal(record(MODEL, ANSWERED), record(MODEL, ANSWERED), record(MODEL, ANSWERED))
    assert folded.usage() == (UsageLine(source="turn", model="m", calls=1, usage=USED),)


def test_what_an_attempt_reserved_is_lost_when_the_next_worker_asks_again() -> None:
    first, second = Usage(output_tokens=100), Usage(output_tokens=70)
    folded = journal(claim(MODEL, reserved=first), generation=1)
    take(folded, claim(MODEL, reserved=second), generation=2)
    take(folded, record(MODEL, ANSWERED, claimed=True), generation=2)
    assert folded.usage() == (
        UsageLine(source="turn", model="m", calls=2, lost=1, usage=USED + first),
    )


def test_a_reservation_that_is_released_is_not_lost_and_the_next_one_may_be() -> None:
    first, second = Usage(output_tokens=100), Usage(output_tokens=70)
    folded = journal(claim(MODEL, reserved=first), generation=1)
    (key,) = [row.key for row in folded.rows()]
    take(folded, Released(key=key), generation=1)
    assert folded.usage() == ()
    take(folded, claim(MODEL, reserved=second), generation=2)
    assert folded.usage() == (UsageLine(source="turn", model="m", calls=1, lost=1, usage=second),)


def test_a_release_of_what_nobody_claimed_changes_nothing() -> None:
    folded = journal(Released(key="s/t/1/0/model_call/9"))
    assert folded.rows() == ()


def test_what_was_sent_to_another_model_is_counted_there_and_so_is_what_was_reserved_for_it() -> (
    None
):
    small = RequestSpec(model="small", messages="ab" * 32, message_count=1)
    reserved = Usage(output_tokens=9)
    folded = journal(
        record(MODEL, ModelAnswered(result=REPLY, sent=small), "e1"),
        record(
            DirectCallCommand(request=SPEC, usage_source="titles"),
            DirectAnswered(result=REPLY, sent=small),
            "e2",
        ),
        claim(MODEL, "e3", reserved=reserved, reserved_for="small"),
    )
    assert folded.usage() == (
        UsageLine(source="titles", model="small", calls=1, usage=USED),
        UsageLine(
            source="turn",
            model="small",
            calls=2,
            lost=1,
            usage=Usage(input_tokens=3, output_tokens=11),
        ),
    )

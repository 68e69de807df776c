"""Entries: the start record, claims and records, made of envelopes."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from tests.journal.builders import COMMANDS, RECORDS, envelope
from tests.kernel.refusals import refused
from windlass.journal import (
    CallDecided,
    CallReturned,
    Claimed,
    Contract,
    ModelAnswered,
    Recorded,
    Slept,
    ToolContract,
    TurnStarted,
)
from windlass.kernel import Generation, Text, canonical


def test_a_claim_is_under_the_key_and_the_digest_of_its_envelope() -> None:
    whole = envelope(COMMANDS["sleep"])
    claimed = Claimed.of(whole, due_ms=5)
    assert claimed == Claimed(
        key="s/t/0/1/sleep/e", digest=whole.digest(), command=COMMANDS["sleep"], due_ms=5
    )


@pytest.mark.parametrize("contract", get_args(Contract))
def test_an_intent_brings_its_contract(contract: Contract) -> None:
    whole = envelope(COMMANDS["tool_call"], moment="intent")
    claimed = Claimed.of(whole, contract=contract, consumes="w_1")
    assert (claimed.contract, claimed.consumes) == (contract, "w_1")


def test_an_intent_without_a_contract_is_refused() -> None:
    whole = envelope(COMMANDS["tool_call"], moment="intent")
    assert refused(lambda: Claimed.of(whole)).field == "Claimed.contract"


def test_other_claims_need_no_contract() -> None:
    for whole in (
        envelope(COMMANDS["tool_call"], moment="decide"),
        envelope(COMMANDS["tool_hooks"], moment="presented"),
        envelope(COMMANDS["model_call"]),
        envelope(COMMANDS["model_call"], effect_id="intent"),
    ):
        assert Claimed.of(whole).contract is None


def test_a_record_brings_its_command_unless_it_was_claimed() -> None:
    whole = envelope(COMMANDS["model_call"])
    outcome = RECORDS[ModelAnswered]
    alone = Recorded.of(whole, outcome)
    after = Recorded.of(whole, outcome, claimed=True)
    assert (alone.command, after.command) == (COMMANDS["model_call"], None)
    assert alone.digest == after.digest == whole.digest()
    assert alone.outcome == after.outcome == outcome


def test_a_record_of_another_kind_than_its_key_is_refused() -> None:
    error = refused(lambda: Recorded.of(envelope(COMMANDS["sleep"]), RECORDS[ModelAnswered]))
    assert (error.found, error.wanted) == ("ModelAnswered", "Slept")


def test_a_stored_record_of_another_kind_is_refused_by_its_place() -> None:
    written = canonical.encode(Recorded.of(envelope(COMMANDS["sleep"]), RECORDS[Slept]))
    moved = written.replace(b"/sleep/e", b"/finalize/e")
    error = refused(lambda: canonical.decode(moved, Recorded))
    assert "Slept" in str(error)


def test_a_decision_and_a_result_are_recorded_under_their_moments() -> None:
    decide = envelope(COMMANDS["tool_call"], moment="decide")
    result = envelope(COMMANDS["tool_call"], moment="result")
    assert Recorded.of(decide, RECORDS[CallDecided]).key.endswith("/e/0/decide")
    assert Recorded.of(result, RECORDS[CallReturned]).key.endswith("/e/0/result")


# --- the start record ----------------------------------------------------------------------------


def test_a_start_record_is_what_a_worker_needs_and_nothing_by_chance() -> None:
    context: dict[str, Any] = {"tenant": ["acme"]}
    started = TurnStarted(agent="a", model="m", input=(Text(text="hi"),), context=context)
    context["tenant"].append("other")
    assert started.context == {"tenant": ["acme"]}
    assert canonical.encode(started) == (
        b'{"agent":"a","context":{"tenant":["acme"]},"input":[{"text":"hi","type":"text"}],'
        b'"model":"m","type":"turn_started"}'
    )


def test_equal_start_records_have_equal_bytes() -> None:
    given = TurnStarted(
        agent="a",
        model="m",
        tools="".join(["[", "]"]),
        driver="".join(["stan", "dard"]),
        generation=Generation(),
        limits={},
    )
    assert given == TurnStarted(agent="a", model="m")
    assert canonical.encode(given) == b'{"agent":"a","model":"m","type":"turn_started"}'


def test_a_tool_is_once_unless_it_says_otherwise() -> None:
    effect: Any = "".join(["on", "ce"])
    assert ToolContract(tool="add").effect == "once"
    given = ToolContract(tool="add", effect=effect)
    assert canonical.encode(given) == b'{"tool":"add","type":"tool_contract"}'

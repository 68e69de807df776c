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
    JournalPage,
    ModelAnswered,
    Moment,
    Recorded,
    Slept,
    ToolCallCommand,
    ToolContract,
    TurnStarted,
    as_written,
    digest_of,
    effect_digest,
    encode_page,
    read_command,
)
from windlass.kernel import Generation, Text, canonical


def test_a_claim_is_under_the_key_and_the_digest_of_its_envelope() -> None:
    whole = envelope(COMMANDS["sleep"])
    claimed = Claimed.of(whole, due_ms=5)
    assert claimed == Claimed(key="s/t/0/1/sleep/e", command=COMMANDS["sleep"], due_ms=5)
    assert digest_of(claimed) == whole.digest()


@pytest.mark.parametrize("moment", ["decide", "intent", "result", "presented"])
def test_a_digest_that_follows_from_key_and_command_is_not_written(moment: Moment) -> None:
    whole = envelope(COMMANDS["tool_call"], moment=moment)
    entry = Claimed(key=whole.key, command=whole.command)
    assert b"digest" not in canonical.encode(entry)
    assert digest_of(entry) == whole.digest()


def test_a_digest_that_does_not_follow_stands_as_it_is_written() -> None:
    entry = Claimed(key="s/t/0/1/sleep/e", digest="d", command=COMMANDS["sleep"])
    assert digest_of(entry) == "d"
    assert b'"digest":"d"' in canonical.encode(entry)


@pytest.mark.parametrize("kind", COMMANDS)
def test_a_command_is_encoded_once_for_its_digest_and_its_page(kind: str) -> None:
    """What stands for a command in a page that is written is its bytes, and reads as the command."""
    command, key = COMMANDS[kind], f"s/t/0/1/{kind}/e"
    body = canonical.encode(command)
    written = Claimed(key=key, command=as_written(body))
    data = encode_page((written,), 3)
    assert data == canonical.encode(
        JournalPage(format=2, generation=3, entries=(Claimed(key=key, command=command),))
    )
    (read,) = canonical.decode(data, JournalPage).entries
    assert isinstance(read, Claimed)
    assert read.command == command == read_command(written.command)
    assert digest_of(written) == digest_of(read) == effect_digest(key, body)
    assert read_command(command) is command
    assert read_command(None) is None


def test_null_among_the_bytes_of_a_command_is_no_trouble() -> None:
    body = canonical.encode(ToolCallCommand(call_id="c", name="add", args={"a": None}))
    entry = Claimed(key="s/t/0/1/tool_call/e/0/intent", command=as_written(body))
    assert body in encode_page((entry,), 1)


def test_what_an_entry_says_of_times_is_left_out_when_there_is_none() -> None:
    claimed = canonical.encode(Claimed(key="k", command=COMMANDS["sleep"]))
    recorded = canonical.encode(Recorded(key="k", outcome=RECORDS[Slept]))
    assert b"_ms" not in claimed.replace(b"duration_ms", b"")
    assert b"_ms" not in recorded.replace(b"due_ms", b"")
    assert b"attempts" not in recorded


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
    assert (digest_of(alone), digest_of(after)) == (whole.digest(), "")
    assert alone.outcome == after.outcome == outcome


def test_a_record_of_another_kind_than_its_key_is_refused() -> None:
    error = refused(lambda: Recorded.of(envelope(COMMANDS["sleep"]), RECORDS[ModelAnswered]))
    assert (error.found, error.wanted) == ("ModelAnswered", "Slept")


def test_a_stored_record_of_another_kind_is_refused_by_its_place() -> None:
    written = encode_page((Recorded.of(envelope(COMMANDS["sleep"]), RECORDS[Slept]),), 1)
    moved = written.replace(b"/sleep/e", b"/finalize/e")
    error = refused(lambda: canonical.decode(moved, JournalPage))
    assert error.field == "$.entries[0]"
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

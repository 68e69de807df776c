"""Moments: what may be recorded under a key, and what it used up."""

from __future__ import annotations

from typing import Any

import pytest

from tests.journal.builders import RECORDS, REPLY
from tests.kernel.refusals import refused
from windlass.journal import (
    MOMENT_OF,
    CallDecided,
    DirectAnswered,
    EventAwaited,
    JournalPage,
    ModelAnswered,
    Recorded,
    RecordedMoment,
    ReplyHooked,
    check_moment,
    encode_page,
    usage_of,
)
from windlass.kernel import Json, ModelFailure, ToolOutcome, Usage, canonical

# The end of a key, and the one class that may be recorded there.
WANTED = {
    "model_call/e": "ModelAnswered",
    "model_hooks/e": "ReplyHooked",
    "direct_call/e": "DirectAnswered",
    "tool_call/e/0/decide": "CallDecided",
    "tool_call/e/0/result": "CallReturned",
    "tool_call/e/0/presented": "CallPresented",
    "tool_call/e/0/asked/0": "CallAsked",
    "tool_hooks/e/0/decide": "CallDecided",
    "tool_hooks/e/0/presented": "CallPresented",
    "process/e": "ProcessAnswered",
    "run_code/e": "CodeRan",
    "checkpoint/e": "CheckpointGiven",
    "sync_environment/e": "EnvironmentBuilt",
    "finalize/e": "TurnFinalized",
    "sleep/e": "Slept",
    "await_event/e": "EventAwaited",
}
# Where nothing is ever recorded: the key is of no moment, or of one that has no outcome.
NOTHING = [
    "tool_call/e",
    "tool_call/e/0",
    "tool_call/e/0/intent",
    "tool_call/e/0/after",
    "tool_hooks/e",
    "tool_hooks/e/0/intent",
    "tool_hooks/e/0/result",
    "model_call/e/0/decide",
    "sleep/e/0/result",
]
EVERY = {kind.__name__: moment for kind, moment in RECORDS.items()}


@pytest.mark.parametrize("place", WANTED)
def test_a_key_takes_its_moment_and_refuses_every_other(place: str) -> None:
    key = f"s/t/0/1/{place}"
    for name, moment in EVERY.items():
        if name == WANTED[place]:
            check_moment(key, moment)
            assert read(key, moment).entries == (recorded(key, moment),)
        else:
            refuse(key, moment, WANTED[place])


@pytest.mark.parametrize("place", NOTHING)
def test_where_nothing_comes_back_nothing_is_recorded(place: str) -> None:
    for moment in EVERY.values():
        refuse(f"s/t/0/1/{place}", moment, "nothing")


def refuse(key: str, moment: RecordedMoment, wanted: str) -> None:
    error = refused(lambda: check_moment(key, moment))
    assert (error.field, error.wanted) == ("outcome", wanted)
    assert error.found == type(moment).__name__
    assert refused(lambda: read(key, moment)).field == "$.entries[0]"


def recorded(key: str, moment: RecordedMoment) -> Recorded:
    return Recorded(key=key, digest="d", outcome=moment)


def read(key: str, moment: RecordedMoment) -> JournalPage:
    """Return a page with this record as it is read; nothing was checked when it was written."""
    return canonical.decode(encode_page((recorded(key, moment),), 1), JournalPage)


def test_the_table_of_moments_is_this_one() -> None:
    spelled = {
        kind if moment is None else f"{kind}/{moment}": found.__name__
        for (kind, moment), found in MOMENT_OF.items()
    }
    assert spelled == {
        place.replace("/e", "").replace("/0", ""): name for place, name in WANTED.items()
    }
    assert set(EVERY) == set(WANTED.values())


def test_what_is_no_moment_is_refused_under_every_key() -> None:
    bad: Any = "slept"
    assert refused(lambda: check_moment("s/t/0/1/sleep/e", bad)).found == "str"


def test_what_is_no_key_takes_no_moment() -> None:
    assert refused(lambda: check_moment("s/t", EVERY["Slept"])).field == "key"


# --- decisions and answers -----------------------------------------------------------------------


@pytest.mark.parametrize("verdict", ["allow", "deny", "ask"])
def test_an_outcome_goes_with_a_short_circuit_only(verdict: Json) -> None:
    error = refused(lambda: CallDecided(verdict=verdict, outcome=ToolOutcome(value=1)))
    assert error.field == "CallDecided.outcome"
    assert CallDecided(verdict=verdict).outcome is None


def test_a_short_circuit_brings_its_outcome() -> None:
    assert refused(lambda: CallDecided(verdict="short_circuit")).field == "CallDecided.outcome"
    decided = CallDecided(verdict="short_circuit", outcome=ToolOutcome(value=1))
    assert decided.outcome == ToolOutcome(value=1)


def test_what_hooks_gave_is_a_frozen_copy() -> None:
    patches: dict[str, Any] = {"clock": {"n": [1]}}
    hooked = ReplyHooked(reply=REPLY, patches=patches)
    patches["clock"]["n"].append(2)
    assert hooked.patches == {"clock": {"n": [1]}}


@pytest.mark.parametrize("by", ["a\x00", "\ud800", 5])
def test_who_answered_is_named_in_clean_text(by: Json) -> None:
    assert refused(lambda: EventAwaited(status="answered", by=by)).field == "EventAwaited.by"
    assert EventAwaited(status="answered", by="ana").by == "ana"


# --- usage ---------------------------------------------------------------------------------------


def test_a_reply_used_what_it_says() -> None:
    used = Usage(input_tokens=3, output_tokens=2)
    assert usage_of(ModelAnswered(result=REPLY)) == used
    assert usage_of(DirectAnswered(result=REPLY)) == used


def test_a_failure_used_nothing_that_is_known() -> None:
    failure = ModelFailure(message="busy")
    assert usage_of(ModelAnswered(result=failure)) == Usage()
    assert usage_of(DirectAnswered(result=failure)) == Usage()


@pytest.mark.parametrize(
    "name", [name for name in EVERY if name not in ("ModelAnswered", "DirectAnswered")]
)
def test_nothing_else_uses_anything(name: str) -> None:
    """A hooked reply least of all: its usage is counted where the reply is."""
    assert usage_of(EVERY[name]) == Usage()

"""What a refusal means, by what many providers write: the tables are `refusal_cases.py` and `account_cases.py`."""

from __future__ import annotations

import pytest

from tests.models.account_cases import FILTERED, NOT_FILTERED, SPENT, THROTTLED, UNAVAILABLE
from tests.models.refusal_cases import NO_OVERFLOWS, OVERFLOWS, ROWS, Refusal
from windlass.errors import ProviderError, Rejected, Retry, Throttled, Unavailable
from windlass.models.provider_errors import from_error_object, from_status, reply_to_refusal


def error_of(case: Refusal) -> ProviderError:
    if case.status is None:
        return from_error_object(case.body, provider=case.provider)
    return from_status(case.status, case.text, case.headers, provider=case.provider)


def each(cases: list[Refusal]) -> pytest.MarkDecorator:
    """Name a test after who sent what, and where that was seen."""
    ids = [f"{case.provider} {case.status or 'in a stream'} {case.evidence}" for case in cases]
    return pytest.mark.parametrize("case", cases, ids=ids)


@each(OVERFLOWS)
def test_a_request_that_is_too_long_is_a_reply_that_says_so(case: Refusal) -> None:
    reply = reply_to_refusal(error_of(case))
    assert (reply.terminal, reply.parts) == ("context_overflow", ())
    assert case.provider in (reply.diagnostic or "")


def test_every_host_has_a_request_that_is_too_long() -> None:
    assert {case.provider for case in OVERFLOWS} == ROWS


@each(NO_OVERFLOWS)
def test_what_looks_like_an_overflow_is_none(case: Refusal) -> None:
    error = error_of(case)
    assert error.found != "context_overflow"
    with pytest.raises(ProviderError) as raised:
        reply_to_refusal(error)
    assert raised.value is error


@each(FILTERED)
def test_what_a_filter_stopped_is_a_reply_that_says_so(case: Refusal) -> None:
    reply = reply_to_refusal(error_of(case))
    assert (reply.terminal, reply.parts) == ("content_filter", ())
    assert case.provider in (reply.diagnostic or "")


@each(NOT_FILTERED)
def test_what_looks_like_a_filter_is_none(case: Refusal) -> None:
    error = error_of(case)
    assert (type(error), error.found) == (Rejected, None)


@each(SPENT)
def test_a_spent_account_is_rejected_whatever_its_status(case: Refusal) -> None:
    error = error_of(case)
    assert (type(error), error.found, error.retry) == (Rejected, "quota", Retry.NEVER)
    assert str(error).endswith("(the account's quota or credit is spent)")


@each(THROTTLED)
def test_too_many_requests_may_be_sent_later(case: Refusal) -> None:
    assert type(error_of(case)) is Throttled


@each(UNAVAILABLE)
def test_an_overloaded_provider_is_passing(case: Refusal) -> None:
    assert type(error_of(case)) is Unavailable


def test_a_limit_by_the_minute_below_the_request_itself_is_not_waited_for() -> None:
    (case,) = [case for case in NO_OVERFLOWS if case.status == 429 and "TPM" in case.text]
    assert type(error_of(case)) is Rejected


def test_the_filter_names_its_categories_and_never_the_input() -> None:
    told = [str(error_of(case)) for case in FILTERED]
    assert "filtered: violence" in told[0]
    (moderated,) = [each for each in told if "requires moderation" in each]
    assert moderated.endswith("flagged: violence")
    assert "how to" not in moderated


def test_how_long_to_wait_is_read_from_the_sentence_and_from_the_details() -> None:
    waits = [
        error.retry_after_s for case in THROTTLED if isinstance(error := error_of(case), Throttled)
    ]
    assert waits == [
        0.006, None, None, 34.0, None, None, 300.0, None, None, None, 4.0, None, None, None, None, 6.0, None,
    ]  # fmt: skip

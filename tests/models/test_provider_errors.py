"""What providers' refusals mean, with bodies as they write them."""

from __future__ import annotations

import json

import pytest

from windlass.errors import Malformed, ProviderError, Rejected, Retry, Throttled, Unavailable
from windlass.models.credentials import key_for
from windlass.models.provider_errors import (
    clip,
    cut_off,
    from_error_object,
    from_exception,
    from_status,
    malformed,
    overflow_reply,
    retry_after_s,
)

OPENAI_QUOTA = (
    '{"error":{"message":"You exceeded your current quota, please check your plan and billing details. For '
    'more information on this error, read the docs: https://platform.openai.com/docs/guides/error-codes.",'
    '"type":"insufficient_quota","param":null,"code":"insufficient_quota"}}'
)
ANTHROPIC_QUOTA = (
    '{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to '
    'access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."}}'
)
OPENROUTER_QUOTA = '{"error":{"message":"Insufficient credits","code":402}}'
GOOGLE_LIMIT = json.dumps(
    {
        "error": {
            "code": 429,
            "message": "You exceeded your current quota, please check your plan and billing details.",
            "status": "RESOURCE_EXHAUSTED",
            "details": [
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
            ],
        }
    }
)


def of(status: int, body: str = "", headers: dict[str, str] | None = None) -> ProviderError:
    return from_status(status, body, headers or {}, provider="acme")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (301, Rejected),
        (400, Rejected),
        (401, Rejected),
        (402, Rejected),
        (403, Rejected),
        (404, Rejected),
        (408, Unavailable),
        (409, Unavailable),
        (413, Rejected),
        (418, Rejected),
        (422, Rejected),
        (429, Throttled),
        (499, Unavailable),
        (500, Unavailable),
        (503, Unavailable),
        (529, Unavailable),
    ],
)
def test_a_status_has_its_class(status: int, kind: type[ProviderError]) -> None:
    assert type(of(status)) is kind


@pytest.mark.parametrize(
    ("status", "body"),
    [(429, OPENAI_QUOTA), (400, ANTHROPIC_QUOTA), (402, OPENROUTER_QUOTA)],
)
def test_a_spent_quota_is_rejected_whatever_its_status(status: int, body: str) -> None:
    error = of(status, body)
    assert type(error) is Rejected
    assert error.retry is Retry.NEVER
    assert str(error).endswith("(the account's quota or credit is spent)")


def test_a_limit_by_the_minute_is_no_spent_quota() -> None:
    error = of(429, GOOGLE_LIMIT)
    assert isinstance(error, Throttled)
    assert error.retry_after_s == 34.5


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "prompt is too long: 210021 tokens > 200000 maximum"),
        (400, "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000"),
        (
            400,
            "This model's maximum context length is 128000 tokens. However, you requested 130000",
        ),
        (400, "Your input exceeds the context window of this model."),
        (
            400,
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        ),
        (400, "the request exceeds the available context size, try increasing it"),
        (413, "Prompt is too long"),
    ],
)
def test_an_overflow_is_recognised(status: int, message: str) -> None:
    reply = overflow_reply(of(status, json.dumps({"error": {"message": message}})))
    assert (reply.terminal, reply.parts) == ("context_overflow", ())
    assert message[:20] in (reply.diagnostic or "")


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500])
def test_only_a_refused_request_is_an_overflow(status: int) -> None:
    for error in (
        of(status, '{"error":{"message":"prompt is too long"}}'),
        of(400, '{"error":{"message":"bad image"}}'),
    ):
        with pytest.raises(type(error)) as caught:
            overflow_reply(error)
        assert caught.value is error


def test_a_message_says_who_what_and_why() -> None:
    error = of(400, '{"error":{"type":"invalid_request_error","message":"bad\\n image"}}')
    assert str(error) == "acme: status 400: invalid_request_error: bad image"
    assert str(of(400, '[{"error":{"code":400,"message":"no","status":"INVALID"}}]')) == (
        "acme: status 400: INVALID: no"
    )
    assert str(of(500, '{"error":"model not loaded"}')) == "acme: status 500: model not loaded"
    assert str(of(500, "<html>oops</html>")) == "acme: status 500"


def test_a_long_reason_is_clipped_and_cleaned() -> None:
    key_for("openai", None, {}, "canary-errors-1")
    error = of(401, json.dumps({"error": {"message": "canary-errors-1 \x00" + "x" * 9000}}))
    assert "canary" not in str(error)
    assert "\x00" not in str(error)
    assert len(str(error)) < 350
    assert clip("a" * 299) == "a" * 299
    assert len(clip("a" * 301)) == 300


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "abc"}, None),
        ({"retry-after": "inf"}, 300.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "315360000"}, 300.0),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        (
            {
                "retry-after": "Wed, 21 Oct 2026 07:28:30 GMT",
                "date": "Wed, 21 Oct 2026 07:28:00 GMT",
            },
            30.0,
        ),
        (
            {
                "retry-after": "Wed, 21 Oct 2026 07:28:30 GMT",
                "date": "Wed, 21 Oct 2026 08:00:00 GMT",
            },
            None,
        ),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT"}, None),
        ({"retry-after": "Wed, 99 Foo 2026", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
    ],
)
def test_a_wish_to_wait_is_taken_within_reason(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after_s(headers) == seconds


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, Unavailable),
        ({"type": "rate_limit_error"}, Throttled),
        ({"code": "rate_limit_exceeded"}, Throttled),
        ({"code": "insufficient_quota", "message": "You exceeded"}, Rejected),
        ({"code": "server_error"}, Unavailable),
        ({"code": 503, "message": "busy"}, Unavailable),
        ({"status": "INVALID_ARGUMENT"}, Rejected),
        ({"type": "never seen"}, Unavailable),
        ("text", Unavailable),
        (None, Unavailable),
    ],
)
def test_an_error_in_a_stream_has_its_class(error: object, kind: type[ProviderError]) -> None:
    assert type(from_error_object(error, provider="acme")) is kind


class _FakeResponse:
    def __init__(self, status_code: int, text: str = "") -> None:
        self.status_code = status_code
        self.text = text
        self.headers = {"retry-after": "3"}


class _StatusError(Exception):
    def __init__(self, response: _FakeResponse, body: object = None) -> None:
        super().__init__("whatever the SDK says, with payloads")
        self.response = response
        self.body = body


class TransportError(Exception):
    """As HTTP clients call it."""


class ReadTimeout(TransportError, TimeoutError):
    """As HTTP clients call it."""


class DecodingError(TransportError):
    """As HTTP clients call it."""


def test_an_sdks_status_error_is_read_by_status_and_body() -> None:
    error = from_exception(_StatusError(_FakeResponse(429, '{"error":"x"}')), provider="acme")
    assert isinstance(error, Throttled)
    assert error.retry_after_s == 3.0
    told = from_exception(
        _StatusError(_FakeResponse(400), {"type": "bad", "message": "why"}), provider="acme"
    )
    assert str(told) == "acme: status 400: bad: why"


def test_an_error_event_behind_a_good_status_is_read_by_its_body() -> None:
    body = {"error": {"type": "overloaded_error", "message": "busy"}}
    error = from_exception(_StatusError(_FakeResponse(200), body), provider="acme")
    assert type(error) is Unavailable


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ReadTimeout(), Unavailable),
        (TransportError(), Unavailable),
        (ConnectionResetError(), Unavailable),
        (DecodingError(), Malformed),
        (ValueError("payload"), Malformed),
        (KeyError("payload"), Malformed),
    ],
)
def test_what_fails_below_http_has_its_class(error: Exception, kind: type[ProviderError]) -> None:
    found = from_exception(error, provider="acme")
    assert type(found) is kind
    assert "payload" not in str(found)


def test_a_windlass_error_is_itself() -> None:
    error = cut_off("acme")
    assert from_exception(error, provider="other") is error
    assert (error.retry, malformed("acme", "nonsense").retry) == (Retry.LATER, Retry.NEVER)

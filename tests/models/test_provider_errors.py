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
        (498, Unavailable),
        (499, Unavailable),
        (500, Unavailable),
        (503, Unavailable),
        (529, Unavailable),
    ],
)
def test_a_status_has_its_class(status: int, kind: type[ProviderError]) -> None:
    assert type(of(status)) is kind


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
    ("error", "kind"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, Unavailable),
        ({"type": "rate_limit_error"}, Throttled),
        ({"code": "rate_limit_exceeded"}, Throttled),
        ({"code": "insufficient_quota", "message": "You exceeded"}, Rejected),
        ({"code": "server_error"}, Unavailable),
        ({"code": 503, "message": "busy"}, Unavailable),
        ({"status": "INVALID_ARGUMENT"}, Rejected),
        ({"code": "429"}, Throttled),
        ({"code": "418"}, Rejected),
        ({"code": "3505"}, Unavailable),
        ({"code": ["a"], "type": {"b": 1}, "status": True}, Unavailable),
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


def test_the_body_counts_as_it_came_and_not_as_the_sdk_cut_it() -> None:
    # An SDK keeps `error` of a body, which here is a sentence, and drops what stands beside it.
    whole = _FakeResponse(403, '{"code":"content_filter","error":"No."}')
    assert from_exception(_StatusError(whole, "No."), provider="acme").found == "content_filter"


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

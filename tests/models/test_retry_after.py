"""How long a provider wants us to wait, as providers say it."""

from __future__ import annotations

import pytest

from windlass.models.provider_errors.retry_after import asks_to_wait, retry_after_s

NOW = "Wed, 21 Oct 2026 07:28:00 GMT"
LATER = "Wed, 21 Oct 2026 07:28:30 GMT"


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
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),  # OpenAI, Azure
        ({"retry-after": LATER, "date": NOW}, 30.0),
        ({"retry-after": LATER, "date": "Wed, 21 Oct 2026 08:00:00 GMT"}, None),
        ({"retry-after": LATER}, None),
        ({"retry-after": "Wed, 99 Foo 2026", "date": NOW}, None),
    ],
)
def test_a_wish_to_wait_is_taken_within_reason(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after_s(headers) == seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        # OpenAI, Azure and Groq write a duration, Cerebras a number of seconds.
        ({"x-ratelimit-reset-requests": "1s"}, 1.0),
        ({"X-RateLimit-Reset-Tokens": "6m0s"}, 300.0),
        ({"x-ratelimit-reset-tokens": "1m2s"}, 62.0),
        ({"x-ratelimit-reset-tokens": "17ms"}, 0.017),
        ({"x-ratelimit-reset-tokens": "2m"}, 120.0),
        ({"x-ratelimit-reset-tokens": "7.66s"}, 7.66),
        ({"x-ratelimit-reset-requests": "1h0m0s"}, 300.0),
        ({"x-ratelimit-reset-tokens-minute": "11.38"}, 11.38),
        # Only what is used up is waited for, and all of it.
        (
            {
                "x-ratelimit-remaining-requests": "12",
                "x-ratelimit-reset-requests": "2m59s",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "5s",
            },
            5.0,
        ),
        ({"x-ratelimit-reset-requests": "3s", "x-ratelimit-reset-tokens": "5s"}, 5.0),
        ({"x-ratelimit-reset-requests": "1s", "retry-after": "20"}, 20.0),
        # Anthropic names a time.
        ({"anthropic-ratelimit-tokens-reset": "2026-10-21T07:28:40Z", "date": NOW}, 40.0),
        (
            {
                "anthropic-ratelimit-input-tokens-reset": "2026-10-21T07:28:40Z",
                "anthropic-ratelimit-input-tokens-remaining": "1000",
                "anthropic-ratelimit-requests-reset": "2026-10-21T07:28:02Z",
                "anthropic-ratelimit-requests-remaining": "0",
                "date": NOW,
            },
            2.0,
        ),
        ({"anthropic-ratelimit-tokens-reset": "2026-10-21T07:28:40Z"}, None),
        ({"anthropic-ratelimit-tokens-reset": "2026-10-21T07:20:00Z", "date": NOW}, None),
        # These are no times, or times of another kind.
        ({"x-ratelimit-reset": "1792566480000"}, None),
        ({"x-ratelimit-reset-requests": ""}, None),
        ({"x-ratelimit-reset-requests": "-1s"}, None),
        ({"x-ratelimit-reset-requests": "soon"}, None),
        ({"anthropic-ratelimit-tokens-reset": "40", "date": NOW}, None),
        ({"anthropic-ratelimit-tokens-limit": "80000"}, None),
    ],
)
def test_a_limit_that_is_used_up_says_when_it_is_there_again(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after_s(headers) == seconds


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ('{"error": {"details": [{"retryDelay": "34.5s"}]}}', 34.5),
        ('{"error": {"details": [{"retryDelay": "999999s"}]}}', 300.0),
        ('{"error": {"details": [{"retryDelay": "soon"}]}}', None),
    ],
)
def test_google_says_it_in_the_details(body: str, seconds: float | None) -> None:
    assert retry_after_s({}, body) == seconds


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("Please try again in 6ms. Visit us.", 0.006),
        ("Please try again in 7m12.5s.", 300.0),
        ("Please retry in 11.665902715s.", 11.665902715),
        ("Please retry after 6 seconds.", 6.0),
        ("Please retry after 1 second.", 1.0),
        ("Please try again in a moment.", None),
        ("Please try again later.", None),
    ],
)
def test_others_say_it_in_the_sentence(words: str, seconds: float | None) -> None:
    assert retry_after_s({}, "", words) == seconds


def test_a_header_is_more_certain_than_a_sentence() -> None:
    assert retry_after_s({"retry-after": "2"}, "", "Please try again in 9s.") == 2.0


def test_only_the_header_asks_to_wait() -> None:
    assert asks_to_wait({"Retry-After": "x"})
    assert not asks_to_wait({"x-ratelimit-reset-tokens": "1s"})

"""The reason that a provider gave reaches the operator, whatever the shape of its body; keys and payloads do not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from windlass.errors import ProviderError
from windlass.models.credentials import key_for
from windlass.models.provider_errors import clip, from_error_object, from_status

REGISTERED = "canary-of-error-words-1"
SHAPED = (
    "sk-proj-Ab12Cd34Ef56Gh78",
    "sk-ant-api03-Zz9-Zz9_Zz9Zz9Zz9",
    "gsk_a1B2c3D4e5F6g7H8i9",
    "xai-AbCdEfGhIjKlMnOpQr",
    "AIzaSyA1234567890abcdefghij",
    "AKIAABCDEFGH12345678",
    "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl",
)


def told(body: object, status: int = 400) -> str:
    text = body if isinstance(body, str) else json.dumps(body)
    return str(from_status(status, text, {}, provider="acme"))


def in_raw(raw: object) -> dict[str, Any]:
    about = {"code": 429, "message": "Provider returned error"}
    return {"error": {**about, "metadata": {"provider_name": "Google", "raw": raw}}}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"detail": "Not allowed."}, "Not allowed."),
        (
            {
                "detail": [
                    {"loc": ["body", "model"], "msg": "field required", "type": "missing"},
                    {"loc": ["body", "messages", 0], "msg": "no role"},
                ]
            },
            "body.model: missing: field required; body.messages.0: no role",
        ),
        ({"detail": {"message": "Deeper."}}, "Deeper."),
        ({"detail": ["one", "two", "three", "four"]}, "one; two; three"),
        ({"message": "In plain sight."}, "In plain sight."),
        ({"Message": "As AWS writes it."}, "As AWS writes it."),
        ({"errors": [{"message": "a"}, {"message": "b", "code": "c"}]}, "a; c: b"),
        ({"errors": ["broken"]}, "broken"),
        ({"error": "model not loaded"}, "model not loaded"),
        ({"error": [{"message": "in a list"}]}, "in a list"),
        (
            {"error": "invalid_grant", "error_description": "Expired."},
            "invalid_grant: Expired.",
        ),
        ({"title": "Too early", "status": 400}, "Too early"),
        ('"A sentence in quotes."', "A sentence in quotes."),
        ("model 'x' is not loaded\n", "model 'x' is not loaded"),
        ([{"error": {"code": 400, "message": "no", "status": "BAD"}}], "BAD: no"),
        # As a proxy passes an error on.
        ({"error": {"message": '{"error": {"type": "bad", "message": "inner"}}'}}, "bad: inner"),
        (
            in_raw("acme/m:free is rate-limited upstream."),
            "Provider returned error: Google: acme/m:free is rate-limited upstream.",
        ),
        (
            in_raw('{"error": {"type": "bad", "message": "Too hot."}}'),
            "Provider returned error: Google: bad: Too hot.",
        ),
        (in_raw({"detail": "Busy."}), "Provider returned error: Google: Busy."),
        (in_raw("<html>Bad gateway</html>"), "Provider returned error"),
        (in_raw(None), "Provider returned error"),
    ],
)
def test_the_reason_is_found_where_the_provider_put_it(body: object, reason: str) -> None:
    assert told(body) == f"acme: status 400: {reason}"


@pytest.mark.parametrize(
    "body",
    [
        "",
        "<html>oops</html>",
        "  <!DOCTYPE html><p>oops",
        '{"error": {"message": "cut off in the',
        "[1, 2",
        "the whole prompt, word for word " * 30,
        "null",
        "7",
        "[]",
        "{}",
        '{"error": {}}',
        '{"error": 7}',
        '{"error": {"message": {"text": 1}}}',
        '{"error": {"message": "<html>oops</html>"}}',
        "[" * 5000,
    ],
    ids=lambda body: body[:20],
)
def test_where_there_is_no_reason_none_is_made_up(body: str) -> None:
    assert told(body) == "acme: status 400"


def test_errors_are_read_as_deep_as_hosts_nest_them() -> None:
    nested: Any = {"error": {"message": "at the bottom"}}
    for _ in range(2):
        nested = {"error": {"message": json.dumps(nested)}}
    assert told(nested) == "acme: status 400: at the bottom"
    for _ in range(3):
        nested = {"error": {"message": json.dumps(nested)}}
    assert told(nested) == "acme: status 400"


PLACES = [
    {"error": {"message": "{}"}},
    {"error": {"code": "{}", "message": "no"}},
    {"error": "{}"},
    {"message": "{}"},
    {"detail": "{}"},
    {"detail": [{"loc": ["body", "{}"], "msg": "no"}]},
    {"detail": [{"loc": ["body"], "msg": "{}"}]},
    {"errors": [{"message": "{}"}]},
    {"error": "x", "error_description": "{}"},
    in_raw("{}"),
    in_raw('{"message": "{}"}'),
    {"error": {"message": "x", "metadata": {"reasons": ["{}"]}}},
    {"error": {"message": "x", "innererror": {"content_filter_result": {"{}": {"filtered": True}}}}},
    "{}",
]  # fmt: skip


@pytest.mark.parametrize("key", [REGISTERED, *SHAPED])
@pytest.mark.parametrize("place", PLACES, ids=json.dumps)
def test_a_key_is_in_no_reason(place: object, key: str) -> None:
    key_for("openai", None, {}, REGISTERED)
    text = place if isinstance(place, str) else json.dumps(place)
    body = text.replace("{}", f"Not with {key}, please")
    for status in (400, 401, 429, 500):
        error = from_status(status, body, {"x-sent": key}, provider="acme")
        assert key not in f"{error} {error!r} {vars(error)}"
        assert "Not with [" in str(error)


def test_a_key_that_the_provider_masked_is_told() -> None:
    body = {"error": {"message": "Incorrect API key provided: sk-abc***********xyz."}}
    assert told(body, 401).endswith("sk-abc***********xyz.")


@pytest.mark.parametrize(
    "words", ["key-value-store-of-something", "risk-of-something-quite-large", "the sk-learn model"]
)
def test_words_with_hyphens_are_no_keys(words: str) -> None:
    assert clip(words) == words


SECRET = "the user's own words"


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "no", "failed_generation": SECRET, "param": SECRET}},
        {"error": {"message": "no", "metadata": {"flagged_input": SECRET, "patterns": [SECRET]}}},
        {"detail": [{"loc": ["body"], "msg": "no", "input": SECRET, "ctx": {"given": SECRET}}]},
        {"error": {"message": "no"}, "request": {"messages": [SECRET]}, "prompt": SECRET},
        {"error": {"message": "no", "details": [{"description": SECRET}]}},
        in_raw(json.dumps({"error": {"message": "no"}, "request": SECRET})),
        in_raw(json.dumps({"messages": [{"content": SECRET}]})),
        in_raw(f'{{"messages": "{SECRET}'),
        in_raw(f"{SECRET} " * 50),
        in_raw(["x", SECRET]),
        {"error": {"message": f'{{"prompt": "{SECRET}"}}'}},
        {"error": {"message": f'{{"prompt": "{SECRET}'}},
        f"{SECRET} " * 50,
        f'{{"prompt": "{SECRET}',
    ],
)
def test_what_was_sent_is_in_no_reason(body: object) -> None:
    text = body if isinstance(body, str) else json.dumps(body)
    errors: list[ProviderError] = [
        from_status(status, text, {}, provider="acme") for status in (400, 429, 500)
    ]
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        errors.append(from_error_object(body["error"], provider="acme"))
    for error in errors:
        assert SECRET not in f"{error} {error!r} {vars(error)}"


@pytest.mark.parametrize(
    "words",
    [
        "9" * 100_000,
        f"maximum context length is {'9' * 5000} tokens, {'8' * 5000} in the completion",
        "input token count " * 20_000,
        "retry after " + "1" * 100_000,
    ],
    ids=["digits", "counts", "words", "seconds"],
)
def test_endless_words_are_cut_before_they_are_read(words: str) -> None:
    for body in ({"error": {"code": words, "message": words}}, {"error": words}, words):
        for status in (400, 429, 500):
            assert len(told(body, status)) < 350


def test_a_sentence_in_a_stream_is_told() -> None:
    assert str(from_error_object("no room", provider="acme")) == "acme: status 500: no room"

"""What a provider's refusals and faults mean to windlass.

Law 1. The class says what to do next: wait (`Throttled`, `Unavailable`), change the request (`Rejected`),
    look at the provider (`Malformed`).
Law 2. A message says who, the status, and the provider's own short reason, without keys and clipped. What
    was sent, and what was answered, are never in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

import msgspec

from windlass.errors import (
    CallerError,
    Malformed,
    ProviderError,
    Rejected,
    Throttled,
    Unavailable,
)
from windlass.guards.text import clean_text
from windlass.kernel.model_call import ModelReply
from windlass.models.credentials import cleaned
from windlass.models.message_parts import text_at

MAX_WAIT_S = 300.0
OVERFLOW = "context_overflow"

_MAX_REASON = 300
_PASSING = frozenset({408, 409, 425, 499})
_QUOTA_STATUSES = frozenset({400, 402, 403, 429})
# Words for "pay first": waiting does not help, with any of the statuses they come with.
_QUOTA = re.compile(
    r"insufficient_quota|insufficient[ _]credits|credit balance is too low|billing_(hard|not)_\w+|"
    r"billing_error|exceeded your current quota, please check your plan and billing details\. for more "
    r"information on this error, read the docs: https://platform\.openai",
    re.IGNORECASE,
)
_OVERFLOW = re.compile(
    r"context_length_exceeded|prompt is too long|maximum context length|context window|"
    r"exceeds? the (maximum|available) (number of tokens|context size)|exceed_context_size|"
    r"input token count .{0,40}exceeds|input length and .{0,20}max_tokens.{0,20} exceed",
    re.IGNORECASE,
)
_CONNECTION = frozenset(
    {"TransportError", "APIConnectionError", "StreamError", "ClientConnectionError", "OSError"}
)
_DELAY = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)s")

# What providers call the trouble, in a body or in an event of a stream.
_KINDS = {
    400: "invalid_request_error invalid_prompt INVALID_ARGUMENT FAILED_PRECONDITION",
    401: "authentication_error UNAUTHENTICATED",
    402: "billing_error",
    403: "permission_error PERMISSION_DENIED",
    404: "not_found_error NOT_FOUND",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error rate_limit_exceeded insufficient_quota tokens requests RESOURCE_EXHAUSTED",
    500: "api_error server_error internal_error INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
    529: "overloaded_error",
}
_STATUS_OF_KIND = {kind: status for status, kinds in _KINDS.items() for kind in kinds.split()}


def from_status(
    status: int, body_text: str, headers: Mapping[str, str], *, provider: str
) -> ProviderError:
    """Return what an HTTP status and its body mean."""
    body = _json(body_text)
    reason = _reason(body)
    message = f"{provider}: status {status}" + (f": {reason}" if reason else "")
    told = f"{reason} {body_text[:4000]}"
    if _QUOTA.search(told) and status in _QUOTA_STATUSES:
        return Rejected(f"{message} (the account's quota or credit is spent)", found="quota")
    if status == 429:
        return Throttled(message, retry_after_s=retry_after_s(headers, body_text))
    if status in _PASSING or status >= 500:
        return Unavailable(message)
    if 300 <= status < 400:
        return Rejected(f"{provider}: status {status}: a redirect, which is not followed")
    is_overflow = status in (400, 413, 422) and _OVERFLOW.search(told)
    return Rejected(message, found=OVERFLOW if is_overflow else None)


def from_error_object(error: object, *, provider: str) -> ProviderError:
    """Return what an error in the middle of a stream means: `{"type": …, "message": …}` or alike."""
    found = error if isinstance(error, dict) else {}
    names = [found.get(field) for field in ("status", "code", "type")]
    statuses = [name for name in names if isinstance(name, int) and 400 <= name < 600]
    statuses += [_STATUS_OF_KIND[name] for name in names if name in _STATUS_OF_KIND]
    text = msgspec.json.encode({"error": _plain(found)}).decode()
    return from_status(statuses[0] if statuses else 500, text, {}, provider=provider)


def from_exception(error: Exception, *, provider: str) -> ProviderError:
    """Return what an exception of an SDK, or of the HTTP client below it, means."""
    if isinstance(error, ProviderError):
        return error
    if isinstance(error, CallerError):
        # windlass cannot keep something in the reply; the error's message names no payload.
        return malformed(provider, f"a reply that cannot be kept: {error}")
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None) or getattr(error, "status_code", None)
    if isinstance(status, int) and status >= 300:
        headers = getattr(response, "headers", None) or {}
        return from_status(status, _body_of(error, response), headers, provider=provider)
    body = getattr(error, "body", None)
    if isinstance(body, dict):
        return from_error_object(body.get("error", body), provider=provider)
    return _of_transport(error, provider)


def _of_transport(error: Exception, provider: str) -> ProviderError:
    """Tell by its name what went wrong below HTTP: each SDK has its own client, and none is imported here."""
    name = type(error).__name__
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if kinds & {"TimeoutException", "APITimeoutError", "TimeoutError"}:
        return Unavailable(f"{provider}: no answer in time")
    is_readable = not kinds & {"DecodingError", "TooManyRedirects", "UnsupportedProtocol"}
    if is_readable and kinds & _CONNECTION:
        return Unavailable(f"{provider}: the connection failed ({name})")
    return Malformed(f"{provider}: an answer that cannot be read ({name})")


def cut_off(provider: str) -> Unavailable:
    """Return the error of a stream that ended before it said that it was over."""
    return Unavailable(f"{provider}: the reply broke off before its end")


def malformed(provider: str, what: str) -> Malformed:
    """Return the error of an answer that breaks the provider's protocol; `what` must not hold a payload."""
    return Malformed(f"{provider}: {clip(what)}")


def wrong_kind(provider: str, field: str, found: object, wanted: str) -> Malformed:
    """Return the error of a field that holds another kind of value than the provider's protocol has there."""
    return malformed(provider, f"{field}: found {type(found).__name__}, wanted {wanted}")


def overflow_reply(error: ProviderError) -> ModelReply:
    """Return the reply that says `context_overflow`, if that is what the provider refused.

    It is a reply and not an error: a shorter request may succeed, and drivers and plugins know how to make one.

    Raises:
        ProviderError: the error itself, if it means anything else.
    """
    if isinstance(error, Rejected) and error.found == OVERFLOW:
        return ModelReply(terminal=OVERFLOW, diagnostic=str(error))
    raise error


def retry_after_s(headers: Mapping[str, str], body_text: str = "") -> float | None:
    """Return how long the provider wants us to wait, within reason; None if it says nothing sensible."""
    found = {str(name).lower(): str(value).strip() for name, value in headers.items()}
    wish = _number(found.get("retry-after-ms"), 0.001)
    if wish is None:
        wish = _number(found.get("retry-after"), 1.0)
    if wish is None:
        wish = _seconds_between(found.get("date"), found.get("retry-after"))
    if wish is None and "retryDelay" in body_text:
        said = _DELAY.search(body_text.partition("retryDelay")[2][:40])
        wish = float(said[1]) if said else None
    if wish is None or not wish >= 0:
        return None
    return min(wish, MAX_WAIT_S)


def _number(text: str | None, unit: float) -> float | None:
    try:
        return float(text) * unit if text else None
    except ValueError:
        return None


def _seconds_between(date: str | None, until: str | None) -> float | None:
    """Return how long it is from the provider's clock to the time it named; ours may be wrong."""
    if not date or not until:
        return None
    try:
        return (parsedate_to_datetime(until) - parsedate_to_datetime(date)).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return None


def clip(text: str) -> str:
    """Return foreign words as they may stand in a message: without keys, in one short line."""
    words = " ".join(clean_text(cleaned(text)).split())
    return words if len(words) <= _MAX_REASON else f"{words[: _MAX_REASON - 1]}…"


def _reason(body: object) -> str:
    """Return the provider's own words: its name for the trouble, and its sentence."""
    error = body
    if isinstance(error, list) and error:
        error = error[0]
    if isinstance(error, dict):
        error = error.get("error", error)
    if isinstance(error, str):
        return clip(error)
    names = [text_at(error, field) for field in ("code", "status", "type")]
    kind = next(filter(None, names), "")
    return clip(": ".join(filter(None, [kind, text_at(error, "message")])))


def _json(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def _body_of(error: Exception, response: object) -> str:
    """Return the text of an error's body, from wherever its SDK keeps it."""
    for owner, field in ((error, "body"), (error, "details"), (response, "text")):
        try:
            found = getattr(owner, field, None)
        except Exception:  # noqa: BLE001, S112 - a body that was streamed and not read
            continue
        if isinstance(found, str) and found:
            return found
        if isinstance(found, (dict, list)) and found:
            body = found if "error" in found or isinstance(found, list) else {"error": found}
            return msgspec.json.encode(_plain(body)).decode()
    return ""


def _plain(value: object) -> object:
    """Return what is JSON in a value; anything else becomes null."""
    try:
        return msgspec.to_builtins(value, enc_hook=lambda _: None)
    except (TypeError, RecursionError):
        return None

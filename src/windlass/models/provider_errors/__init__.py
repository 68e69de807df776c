"""What a provider's refusals and faults mean to windlass.

Law 1. The class says what to do next: wait (`Throttled`, `Unavailable`), change the request (`Rejected`),
    look at the provider (`Malformed`).
Law 2. A message says who, the status, and the provider's own short reason, without keys and clipped. What
    was sent, and what was answered, are never in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

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
from windlass.models.provider_errors.kinds import (
    FILTERED,
    OVERFLOW,
    QUOTA,
    STATUS_OF_KIND,
    is_too_large_ever,
    meaning_of,
)
from windlass.models.provider_errors.retry_after import asks_to_wait, retry_after_s
from windlass.models.provider_errors.words import Said, read_error, said_in

_MAX_REASON = 300
# 498: Groq has no room on its flexible tier.
_PASSING = frozenset({408, 409, 425, 498, 499})
_TERMINALS = frozenset({OVERFLOW, FILTERED})
_CONNECTION = frozenset(
    {"TransportError", "APIConnectionError", "StreamError", "ClientConnectionError", "OSError"}
)
# Keys that windlass was never given: a router or a proxy may show those of its own accounts.
_KEY_SHAPED = re.compile(
    r"\b(?:sk|gsk|csk|xai|nvapi|pplx|ghp|github_pat)[-_][\w-]{12,}|"
    r"\b(?:ak|rk|hf|fw|key|tgp)[-_](?=[\w-]*\d)[\w-]{12,}|"
    r"\bAIza[\w-]{16,}|\bAKIA[A-Z0-9]{12,}|\bya29\.[\w.-]{16,}|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*|"
    r"(?<=Bearer )[\w.~+/-]{12,}=*"
)


def from_status(
    status: int, body_text: str, headers: Mapping[str, str], *, provider: str
) -> ProviderError:
    """Return what an HTTP status and its body mean."""
    said = read_error(body_text)
    wait_s = retry_after_s(headers, body_text, said.words)
    # OpenRouter: what runs just now may give credit back.
    if status == 402 and asks_to_wait(headers):
        return Throttled(_message(provider, status, said), retry_after_s=wait_s)
    return _refusal(status, said, wait_s, provider)


def from_error_object(error: object, *, provider: str) -> ProviderError:
    """Return what an error in the middle of a stream means: `{"type": …, "message": …}`, or a sentence."""
    found = error if isinstance(error, dict) else {"message": error}
    statuses = [_status_named(found.get(field)) for field in ("status", "code", "type")]
    status = next(filter(None, statuses), None)
    body = {"error": _plain(found)}
    said = said_in(body)
    wait_s = retry_after_s({}, msgspec.json.encode(body).decode(), said.words)
    return _refusal(status, said, wait_s, provider)


def _status_named(name: object) -> int | None:
    """Return the status that a field names: a number, also as text, or a provider's word for it."""
    if isinstance(name, str):
        is_number = len(name) == 3 and name.isascii() and name.isdecimal()
        name = int(name) if is_number else STATUS_OF_KIND.get(name)
    return name if isinstance(name, int) and 400 <= name < 600 else None


def _refusal(status: int | None, said: Said, wait_s: float | None, provider: str) -> ProviderError:
    """Return the error of a refusal; one without a status may pass, unless its words say otherwise."""
    known = 500 if status is None else status
    message = _message(provider, known, said)
    meaning = QUOTA if known == 402 else meaning_of(status, said)
    if meaning == QUOTA:
        return Rejected(f"{message} (the account's quota or credit is spent)", found=QUOTA)
    if meaning is not None or (known == 429 and is_too_large_ever(said)):
        return Rejected(message, found=meaning)
    if known == 429:
        return Throttled(message, retry_after_s=wait_s)
    if known in _PASSING or known >= 500:
        return Unavailable(message)
    if 300 <= known < 400:
        message = f"{provider}: status {known}: a redirect, which is not followed"
    return Rejected(message)


def _message(provider: str, status: int, said: Said) -> str:
    reason = clip(said.words)
    return f"{provider}: status {status}" + (f": {reason}" if reason else "")


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


def list_at(owner: dict[str, Any], field: str, provider: str) -> list[Any]:
    """Return the list in a field; empty where there is none.

    Raises:
        Malformed: there is something else.
    """
    found = owner.get(field)
    if found is None:
        return []
    if not isinstance(found, list):
        raise wrong_kind(provider, field, found, "a list")
    return found


def object_at(owner: dict[str, Any], field: str, provider: str) -> dict[str, Any]:
    """Return the object in a field; empty where there is none. Raises as `list_at`."""
    found = owner.get(field)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise wrong_kind(provider, field, found, "an object")
    return found


def reply_to_refusal(error: ProviderError) -> ModelReply:
    """Return the reply that a refusal is, if it is one: `context_overflow` or `content_filter`.

    These are replies and not errors. A shorter request may succeed, and drivers and plugins know how to make one;
    what a filter stopped is an outcome to show, as when it stops a reply in the middle.

    Raises:
        ProviderError: the error itself, if it means anything else.
    """
    if isinstance(error, Rejected) and error.found in _TERMINALS:
        return ModelReply(terminal=error.found, diagnostic=str(error))
    raise error


def clip(text: str) -> str:
    """Return foreign words as they may stand in a message: without keys, in one short line."""
    words = " ".join(_KEY_SHAPED.sub("[key]", clean_text(cleaned(text))).split())
    return words if len(words) <= _MAX_REASON else f"{words[: _MAX_REASON - 1]}…"


def _body_of(error: Exception, response: object) -> str:
    """Return the text of an error's body, from wherever its SDK keeps it."""
    for owner, field in ((response, "text"), (error, "body"), (error, "details")):
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

"""What an error's body says: the provider's names for the trouble, and its sentence.

Law 1. Only fields that are there to be read are read. A body also echoes: the prompt that was refused, what the
    model wrote, the values that did not fit. Those are never looked at, neither to show them nor to decide by them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from windlass.models.message_parts import text_at

# A body in words is one short sentence. A longer one is a page, or an echo.
_MAX_PLAIN = 500
_MAX_WORDS = 4000
_MAX_NAME = 200
_MAX_LISTED = 3
# An error in an error in an error: a router's, its host's, the server's behind it.
_MAX_DEPTH = 3
_MARKUP = re.compile(r"<[a-zA-Z!?/]")
_NAMES = ("code", "status", "type")
_SENTENCES = ("message", "Message", "detail", "msg", "error_description", "title")


class Said(NamedTuple):
    """What a provider said. `names` are its own words for the kind of trouble, in every place where it has one."""

    names: tuple[str, ...] = ()
    words: str = ""


def read_error(body_text: str, depth: int = _MAX_DEPTH) -> Said:
    """Return what the body of a refusal says: JSON of many shapes, or one plain sentence."""
    text = body_text.strip()
    try:
        body = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return Said((), _plain_words(text))
    return said_in(body, depth)


def said_in(body: object, depth: int = _MAX_DEPTH) -> Said:
    """Return what a decoded body says; nothing if it is nested deeper than anybody nests errors."""
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, str):
        return Said((), _sentence(body, depth))
    if not isinstance(body, dict) or depth <= 0:
        return Said()
    error = body.get("error") or body
    if isinstance(error, str):
        told = [_sentence(error, depth), text_at(body, "error_description")]
        return Said(tuple(_own_names(body)), _joined(told))
    if not isinstance(error, dict):
        return said_in(error, depth - 1)
    upstream = _upstream(error, depth)
    names = (*_own_names(error), *_inner_names(error), *upstream.names)
    kind = next(iter(_own_names(error)), "")
    return Said(names, _joined([kind, _told(error, depth), upstream.words, _filtered(error)]))


def _own_names(owner: dict[str, Any]) -> list[str]:
    return [name[:_MAX_NAME] for field in _NAMES if (name := text_at(owner, field))]


def _inner_names(error: dict[str, Any]) -> list[str]:
    """Return the names that stand deeper: Azure's inner error, OpenRouter's type, Google's details."""
    metadata, details = error.get("metadata"), list(_dicts(error.get("details")))
    broken = [each for detail in details for each in _dicts(detail.get("violations"))]
    places = [
        (error.get("innererror"), "code"),
        (metadata, "error_type"),
        (metadata, "limit_source"),
        *((detail, "reason") for detail in details),
        *((violation, "quotaId") for violation in broken),
    ]
    return [name[:_MAX_NAME] for owner, field in places if (name := text_at(owner, field))]


def _told(error: dict[str, Any], depth: int) -> str:
    """Return the sentence, or the first ones of a list of them."""
    for field in _SENTENCES:
        found = error.get(field)
        if isinstance(found, str) and found:
            return _sentence(found, depth)
        if isinstance(found, dict):
            return said_in(found, depth - 1).words
        if isinstance(found, list) and found:
            return _listed(found, depth)
    errors = error.get("errors")
    return _listed(errors, depth) if isinstance(errors, list) else ""


def _listed(found: list[Any], depth: int) -> str:
    """Return what a list of faults says, each with its place: `body.model: field required`."""
    told = []
    for each in found[:_MAX_LISTED]:
        place = each.get("loc") if isinstance(each, dict) else None
        steps = place if isinstance(place, list) else ()
        path = ".".join(str(step) for step in steps if isinstance(step, (str, int)))
        told.append(_joined([path, said_in(each, depth - 1).words]))
    return "; ".join(filter(None, told))


def _upstream(error: dict[str, Any], depth: int) -> Said:
    """Return what the host behind a router said, and why a router's own moderation refused."""
    metadata = error.get("metadata")
    if not isinstance(metadata, dict):
        return Said()
    raw = metadata.get("raw")
    said = read_error(raw, depth - 1) if isinstance(raw, str) else said_in(raw, depth - 1)
    reasons = metadata.get("reasons")
    told = [each for each in reasons if isinstance(each, str)] if isinstance(reasons, list) else []
    flagged = f"flagged: {', '.join(told[:_MAX_LISTED])}" if told else ""
    who = text_at(metadata, "provider_name") if said.words else ""
    return Said(
        (*said.names, *(("moderation",) if told else ())), _joined([who, said.words, flagged])
    )


def _sentence(text: str, depth: int) -> str:
    """Return a sentence; one that is the body of another error is what that one says."""
    found = text.strip()
    if found.startswith("{"):
        return read_error(found, depth - 1).words
    return "" if _MARKUP.match(found) else found[:_MAX_WORDS]


def _filtered(error: dict[str, Any]) -> str:
    """Return the categories for which Azure's filter stopped something: `filtered: violence`."""
    results = error.get("innererror")
    found = results.get("content_filter_result") if isinstance(results, dict) else None
    if not isinstance(found, dict):
        return ""
    names = [
        name for name, each in found.items() if isinstance(each, dict) and each.get("filtered")
    ]
    return f"filtered: {', '.join(names)}" if names else ""


def _plain_words(text: str) -> str:
    """Return a body that is not JSON, if it can be a sentence: not markup, not broken JSON, not long."""
    is_sentence = len(text) <= _MAX_PLAIN and not text.startswith(("{", "["))
    return text if is_sentence and not _MARKUP.match(text) else ""


def _dicts(found: object) -> Iterator[dict[str, Any]]:
    return (
        (each for each in found if isinstance(each, dict)) if isinstance(found, list) else iter(())
    )


def _joined(parts: list[str]) -> str:
    return ": ".join(filter(None, parts))

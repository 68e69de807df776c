"""How long a provider wants us to wait: in a header, in an error's details, or in its sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime

MAX_WAIT_S = 300.0

_RETRY_DELAY = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)s")
_SENTENCE = re.compile(
    r"(?:try again|retry) (?:in|after) (\d[\d.]{0,12}(?:ms|s|m|h| seconds?)[\dhms.]{0,20})"
)
_DURATION = re.compile(
    r"(?:(?P<h>\d{1,6})h)?(?:(?P<m>\d{1,6})m(?!s))?(?:(?P<s>\d{1,9}(?:\.\d{1,9})?)(?P<unit>ms|s| seconds?|))?\.?"
)
_OPENAI, _ANTHROPIC = "x-ratelimit-reset-", "anthropic-ratelimit-"


def asks_to_wait(headers: Mapping[str, str]) -> bool:
    """Whether the provider says in so many words that the same request may be sent again."""
    return any(str(name).lower() == "retry-after" for name in headers)


def retry_after_s(headers: Mapping[str, str], body_text: str = "", words: str = "") -> float | None:
    """Return how long the provider wants us to wait, within reason; None if it says nothing sensible.

    `words` are its sentence, where the body has one.
    """
    found = {str(name).lower(): str(value).strip() for name, value in headers.items()}
    wishes = (wish for wish in _wishes(found, body_text, words) if wish is not None)
    wish = next(wishes, None)
    if wish is None or not wish >= 0:
        return None
    return min(wish, MAX_WAIT_S)


def _wishes(headers: Mapping[str, str], body_text: str, words: str) -> Iterator[float | None]:
    """Return what is said about it, the most certain first."""
    yield _number(headers.get("retry-after-ms"), 0.001)
    yield _number(headers.get("retry-after"), 1.0)
    yield _seconds_until(headers.get("retry-after"), headers.get("date"))
    if "retryDelay" in body_text:  # Google
        said = _RETRY_DELAY.search(body_text.partition("retryDelay")[2][:40])
        yield float(said[1]) if said else None
    sentence = _SENTENCE.search(words)
    yield _duration(sentence[1]) if sentence else None
    yield max(_resets(headers), default=None)


def _resets(headers: Mapping[str, str]) -> Iterator[float]:
    """Return when each limit that is used up is there again. One that has something left is not the cause."""
    for name, value in headers.items():
        if name.startswith(_OPENAI):
            left, wait = name.replace("reset", "remaining"), _duration(value)
        elif name.startswith(_ANTHROPIC) and name.endswith("-reset"):
            left = name.removesuffix("reset") + "remaining"
            wait = _seconds_until(value, headers.get("date"))
        else:
            continue
        if wait is not None and wait >= 0 and headers.get(left, "0") == "0":
            yield wait


def _number(text: str | None, unit: float) -> float | None:
    try:
        return float(text) * unit if text else None
    except ValueError:
        return None


def _duration(text: str) -> float | None:
    """Return the seconds of `6m0s`, `17ms`, `7.66s`, `20 seconds`, or of a number alone."""
    found = _DURATION.fullmatch(text)
    if found is None or not text:
        return None
    seconds = float(found["s"] or 0) * (0.001 if found["unit"] == "ms" else 1.0)
    return int(found["h"] or 0) * 3600.0 + int(found["m"] or 0) * 60.0 + seconds


def _seconds_until(until: str | None, date: str | None) -> float | None:
    """Return how long it is from the provider's clock to the time it named; ours may be wrong."""
    if not date or not until:
        return None
    try:
        return (_time(until) - parsedate_to_datetime(date)).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return None


def _time(text: str) -> datetime:
    """Return a time as HTTP writes it, or as RFC 3339 does."""
    return datetime.fromisoformat(text) if text[:1].isdigit() else parsedate_to_datetime(text)

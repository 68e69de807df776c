"""The lines of a stream of events, as the SDK below reads them: one for each event, and a blank one behind it.

The SDK takes its lines from `httpx2`, which also cuts at U+2028 and its like, in the middle of a text; it takes a
comment, or `data:` without a blank behind it, for an answer that is no JSON, and `"12"` or `true` for a count. It has
no limit, and reads a web page to its end without a word. A server other than Google's own sends all of these.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Protocol

from windlass.kernel import canonical
from windlass.models.provider_errors import malformed
from windlass.models.server_events import EventReader

_PROVIDER = "google"
_EVENTS = "text/event-stream"


class ByteSource(Protocol):
    """A response whose bytes come in pieces."""

    @property
    def headers(self) -> Mapping[str, str]:
        """What was said about them."""
        ...

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Return the pieces."""
        ...


async def event_lines(response: ByteSource) -> AsyncIterator[str]:
    """Yield each event of a response as one line that ends with a blank one.

    Raises:
        LimitExceeded: an event, or all of them, is larger than any provider means.
        Malformed: it is no stream of events, or one of them is none of Gemini's.
    """
    if not response.headers.get("content-type", "").startswith(_EVENTS):
        raise malformed(_PROVIDER, "an answer that is no stream of events")
    events = EventReader(_PROVIDER)
    async for piece in response.aiter_bytes():
        for data in events.feed(piece):
            if words := data.strip():
                _check(words)
                yield f"data: {words}"
                yield ""
    if not events.n_bytes:
        raise malformed(_PROVIDER, "found an empty body, wanted events")


def _check(data: str) -> None:
    """Refuse what the SDK would take for something else."""
    try:
        event = canonical.parse(data)
    except ValueError:
        raise malformed(_PROVIDER, "an event that is no JSON") from None
    if not isinstance(event, dict):
        raise malformed(_PROVIDER, "an event that is no object")
    usage = event.get("usageMetadata") or {}
    if not isinstance(usage, dict):
        raise malformed(_PROVIDER, "usageMetadata: found what is no object")
    for name, count in usage.items():
        if name.endswith("TokenCount") and type(count) not in (int, type(None)):
            raise malformed(_PROVIDER, f"{name}: found what is no count, wanted a number")

"""Server-sent events: bytes in, cut anywhere; the JSON objects in them out.

Read here and not by the SDK, whose reader takes any event with an `id:` or a `retry:` line for JSON and
has no limit: a server that sends one endless line would fill the memory.

Law 1. Where the bytes are cut changes nothing.
Law 2. An event counts once its blank line is there; what the end of the stream cuts off never was.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, suppress
from typing import Any, Protocol

from windlass.errors import LimitExceeded
from windlass.guards.limits import INPUT_LIMITS
from windlass.kernel import ModelReply, canonical
from windlass.models.provider_errors import malformed

# The Responses API repeats all tools and the whole reply in one event, so the table's limit is too narrow.
MAX_EVENT_BYTES = 8 * INPUT_LIMITS.server_event_bytes
MAX_STREAM_BYTES = 64 * INPUT_LIMITS.server_event_bytes
DONE = "[DONE]"

_LINE_END = re.compile(rb"[\r\n]")
_BOM = b"\xef\xbb\xbf"
# A stream that has said its last word is read to its end for so long, so that its connection can be used again.
_DRAIN_S = 0.05


class ByteSource(Protocol):
    """A response whose bytes come in pieces."""

    @property
    def headers(self) -> Mapping[str, str]:
        """What was said about them."""
        ...

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Return the pieces."""
        ...


class ReplyReader(Protocol):
    """Reads the events of one reply."""

    @property
    def is_over(self) -> bool:
        """Whether the provider has said that there is no more."""
        ...

    def take(self, event: dict[str, Any] | None) -> None:
        """Read one event; None is `[DONE]`."""
        ...

    def reply(self) -> ModelReply:
        """Return what was read, once it is whole."""
        ...


class EventReader:
    """Takes the bytes of a stream in any pieces and hands out the data of each whole event."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._line = bytearray()
        self._data: list[bytes] = []
        self._event_bytes = 0
        self._after_cr = False
        self._is_first_line = True
        self.n_bytes = 0

    def feed(self, piece: bytes) -> Iterator[str]:
        """Take some bytes; yield the data of the events that they complete.

        Raises:
            LimitExceeded: an event, or all of them, is larger than any provider means.
            Malformed: not UTF-8.
        """
        self.n_bytes += len(piece)
        if self.n_bytes > MAX_STREAM_BYTES:
            raise self._too_large("stream", self.n_bytes, MAX_STREAM_BYTES)
        start = 0
        for match in _LINE_END.finditer(piece):
            end = match.start()
            is_second_half = self._after_cr and end == start and piece[end] == 0x0A
            self._after_cr = piece[end] == 0x0D
            if not is_second_half:
                self._add(piece[start:end])
                data = self._end_line()
                if data is not None:
                    yield data
            start = end + 1
        if start < len(piece):
            self._after_cr = False
            self._add(piece[start:])

    def _add(self, piece: bytes) -> None:
        self._event_bytes += len(piece)
        if self._event_bytes > MAX_EVENT_BYTES:
            raise self._too_large("event", self._event_bytes, MAX_EVENT_BYTES)
        self._line += piece

    def _end_line(self) -> str | None:
        line = bytes(self._line)
        self._line.clear()
        if self._is_first_line:
            self._is_first_line = False
            line = line.removeprefix(_BOM)
        if line:
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
            else:  # a comment, or a field that says nothing about the reply
                self._event_bytes -= len(line)
            return None
        data, self._data, self._event_bytes = self._data, [], 0
        if not data:
            return None
        try:
            return b"\n".join(data).decode()
        except UnicodeDecodeError:
            raise malformed(self._provider, "found an event that is not UTF-8") from None

    def _too_large(self, what: str, found: int, wanted: int) -> LimitExceeded:
        told = f"{self._provider}: found an answer whose {what} has over {wanted:,} bytes"
        return LimitExceeded(told, field=what, found=found, wanted=wanted)


async def read_reply(response: ByteSource, reader: ReplyReader, provider: str) -> None:
    """Hand the events of a response to a reader, until the reply is whole.

    Raises:
        LimitExceeded, Malformed: as `json_events`; also for an answer that is not a stream of events.
    """
    check_is_stream(response.headers.get("content-type", ""), provider)
    pieces = response.aiter_bytes()
    async with aclosing(json_events(pieces, provider)) as events:
        async for event in events:
            reader.take(event)
            if reader.is_over:
                break
    with suppress(Exception):
        async with asyncio.timeout(_DRAIN_S):
            async for _ in pieces:
                pass


async def json_events(
    pieces: AsyncIterator[bytes], provider: str
) -> AsyncGenerator[dict[str, Any] | None, None]:
    """Yield the object in each event, and None for the `[DONE]` that ends some streams.

    Raises:
        LimitExceeded, Malformed: as `EventReader.feed`; also for an event that holds no JSON object, and
            for a stream of no bytes at all.
    """
    reader = EventReader(provider)
    async for piece in pieces:
        for data in reader.feed(piece):
            words = data.strip()
            if words:
                yield None if words == DONE else object_in(words, provider)
    if not reader.n_bytes:
        raise malformed(provider, "found an empty body, wanted events")


def object_in(text: str, provider: str) -> dict[str, Any]:
    """Return the JSON object that an event holds.

    Raises:
        Malformed: it holds something else.
    """
    try:
        found = canonical.parse(text)
    except ValueError:
        raise malformed(provider, "found an event that is not JSON, wanted an object") from None
    if not isinstance(found, dict):
        kind = type(found).__name__
        raise malformed(provider, f"found an event that is a {kind}, wanted an object")
    return found


def check_is_stream(content_type: str, provider: str) -> None:
    """Refuse an answer that is not a stream of events.

    Raises:
        Malformed: naming what it is.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind != "text/event-stream":
        raise malformed(provider, f"content-type: found {kind or 'none'}, wanted text/event-stream")

"""The bytes of a stream: cut at every place, they say the same; ended at every place, nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.models import openai_chat_cases, openai_response_cases
from windlass.errors import Malformed, Unavailable
from windlass.kernel import ModelReply
from windlass.models.openai_chat.dialects import DIALECTS
from windlass.models.openai_chat.reader import ChatReader
from windlass.models.openai_responses.reader import ResponseReader
from windlass.models.route import Route
from windlass.models.server_events import EventReader, ReplyReader, json_events
from windlass.ports.model import ModelEvent

ROUTE = Route("openai", "https://example.test/v1", "m")
CASES = {"responses": openai_response_cases.CASES, "chat": openai_chat_cases.CASES}
ALL = [
    (kind, name)
    for kind in CASES
    for name in ("text", "parallel_tools", "reasoning", "output_limit")
]


def reader_of(kind: str, shown: list[ModelEvent]) -> ReplyReader:
    if kind == "chat":
        return ChatReader(ROUTE, DIALECTS["openai"], shown.append)
    return ResponseReader(ROUTE, shown.append)


async def in_pieces(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def read(kind: str, *pieces: bytes) -> tuple[ModelReply, list[ModelEvent]]:
    shown: list[ModelEvent] = []
    sink = reader_of(kind, shown)
    async for event in json_events(in_pieces(*pieces), "openai"):
        sink.take(event)
    return sink.reply(), shown


@pytest.mark.parametrize(("kind", "name"), ALL)
async def test_where_the_bytes_are_cut_changes_nothing(kind: str, name: str) -> None:
    body = CASES[kind][name].answer.body
    wanted = await read(kind, body)
    assert wanted[0].parts
    step = max(1, len(body) // 200)
    for spelled in (body, body.replace(b"\n", b"\r\n"), body.replace(b"\n", b"\r")):
        for place in range(0, len(spelled), step):
            assert await read(kind, spelled[:place], spelled[place:]) == wanted, place
        assert await read(kind, *(spelled[at : at + 1] for at in range(len(spelled)))) == wanted


@pytest.mark.parametrize(("kind", "name"), ALL)
async def test_a_stream_that_ends_anywhere_before_its_end_says_nothing(
    kind: str, name: str
) -> None:
    body = CASES[kind][name].answer.body
    # Event by event, as the bytes come; the reply may be had behind the very last blank line, not before.
    shown: list[ModelEvent] = []
    sink = reader_of(kind, shown)
    events = EventReader("openai")
    for at in range(len(body)):
        with pytest.raises(Unavailable):
            sink.reply()
        async for event in json_events(_fed(events, body[at : at + 1]), "openai"):
            sink.take(event)
    assert sink.reply().parts


async def _fed(events: EventReader, piece: bytes) -> AsyncIterator[bytes]:
    """Yield the events that a piece completes, each as bytes of its own."""
    done = list(events.feed(piece))
    for data in done:
        yield f"data: {data}\n\n".encode()
    if not done:
        yield b":\n"


async def test_every_cut_of_a_small_stream_gives_the_same_data() -> None:
    lines = '\ufeffdata: 7\n\n: c\r\n\r\ndata: {"a":\r\ndata: "é😀"}\r\n\r\ndata:[DONE]\n\nid: 1\rdata: {}\r\r'
    body = lines.encode()
    wanted = ["7", '{"a":\n"é😀"}', "[DONE]", "{}"]
    for first in range(len(body) + 1):
        for second in range(first, len(body) + 1):
            reader = EventReader("openai")
            pieces = (body[:first], body[first:second], body[second:])
            assert [data for piece in pieces for data in reader.feed(piece)] == wanted


async def test_nothing_at_all_is_malformed() -> None:
    with pytest.raises(Malformed, match="empty body"):
        await read("chat")

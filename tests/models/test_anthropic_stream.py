"""Anthropic, through its SDK, event by event."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from tests.models import wire_anthropic as wire
from tests.models.anthropic_cases import (
    request,
)
from tests.models.behaviours import KEY, ask
from tests.models.wire_server import Played, WireServer, sse
from windlass.errors import LimitExceeded, Malformed, Throttled, Unavailable
from windlass.kernel import (
    ModelReply,
    Reasoning,
    Text,
    ToolCall,
    Usage,
)
from windlass.models.anthropic import AnthropicModel
from windlass.ports.model import ModelEvent, TextChunk


async def read(*events: tuple[str, Any]) -> tuple[ModelReply, tuple[ModelEvent, ...]]:
    """Return the reply that these events make, and what was shown."""
    return await read_bytes(sse(*events))


async def read_bytes(body: bytes) -> tuple[ModelReply, tuple[ModelEvent, ...]]:
    async with WireServer({"POST /v1/messages": Played(body)}) as server:
        model = AnthropicModel(wire.MODEL, base_url=server.url, api_key=KEY)
        try:
            return await ask(model, request())
        finally:
            await model.aclose()


async def test_another_model_that_answered_is_recorded() -> None:
    events = [wire.start(model="claude-haiku-4-5"), *wire.text(0, "Yes."), *wire.end()]
    found, _ = await read(*events)
    assert found.diagnostic == "answered by claude-haiku-4-5"


async def test_a_full_window_is_an_overflow() -> None:
    full = wire.answer(wire.text(0, "And"), reason="model_context_window_exceeded")
    found, _ = await read_bytes(full.body)
    assert found.terminal == "context_overflow"


@pytest.mark.parametrize("tokens", [-1, "12", 2**63, 1.5, True])
async def test_a_count_that_is_none_is_malformed(tokens: object) -> None:
    usage = {**wire.START_USAGE, "input_tokens": tokens}
    events = [wire.start(usage=usage), *wire.text(0, "Yes."), *wire.end()]
    with pytest.raises(Malformed):
        await read(*events)


async def test_usage_that_is_not_told_is_not_made_up() -> None:
    told = wire.event("message_delta", delta={"stop_reason": "end_turn"})
    start = wire.event("message_start", message={"model": wire.MODEL})
    events = [start, *wire.text(0, "Yes."), told, wire.event("message_stop")]
    found, _ = await read(*events)
    assert (found.usage, found.provider_usage) == (Usage(), None)


async def test_interleaved_blocks_stand_in_their_order() -> None:
    first, second = (
        wire.tool_use(at, f"toolu_{at}", "get_weather", '{"city": ', f'"C{at}"}}') for at in (3, 7)
    )
    mixed = [second[0], first[0], first[1], second[1], first[2], first[3], second[2], second[3]]
    events = [wire.start(), *mixed, *wire.end("tool_use")]
    found, _ = await read(*events)
    assert [part.args["city"] for part in found.parts if isinstance(part, ToolCall)] == [
        "C3",
        "C7",
    ]


@pytest.mark.parametrize(
    "events",
    [
        [wire.start(), wire.start(), *wire.end()],
        [wire.start(), *wire.text(0, "a"), *wire.text(0, "b"), *wire.end()],
        [wire.start(), *wire.text(0, "a")[:-1], *wire.end()],
        [wire.start(), *wire.text(0, "a")[1:], *wire.end()],
        [wire.start(), *wire.text(0, "a"), wire.event("message_stop")],
        [
            wire.start(),
            *wire.block(0, {"type": "text"}, {"type": "input_json_delta", "partial_json": "{}"}),
            *wire.end(),
        ],
        [wire.start(), *wire.block(0, {"type": "tool_use", "id": "x"}), *wire.end()],
    ],
    ids=[
        "two starts",
        "a block twice",
        "an open block",
        "no block",
        "no reason",
        "a mixed block",
        "a call without a name",
    ],
)
async def test_a_stream_that_contradicts_itself_is_malformed(events: list[tuple[str, Any]]) -> None:
    with pytest.raises(Malformed):
        await read(*events)


async def test_what_is_unknown_is_passed_over() -> None:
    events = [
        wire.event("message_hint", hint="new in 2027"),
        wire.start(),
        *wire.block(0, {"type": "server_thing", "id": "x"}, {"type": "thing_delta", "x": 1}),
        *wire.block(1, {"type": "text", "text": "Y"}, {"type": "citations_delta", "c": {}}),
        *wire.end(),
        *wire.text(2, "after the end"),
    ]
    comments = b": a comment\n\nid: 7\nretry: 10\n\n"
    found, shown = await read_bytes(comments + sse(*events))
    assert found.parts == (Text(text="Y"),)
    assert found.diagnostic == "left out of the reply: server_thing"
    assert shown == (TextChunk(text="Y"),)


async def test_lines_may_end_as_they_like() -> None:
    body = wire.answer(wire.text(0, "Hello!")).body
    for newline in (b"\r\n", b"\r"):
        found, _ = await read_bytes(body.replace(b"\n", newline))
        assert found.text == "Hello!"


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [("rate_limit_error", Throttled), ("api_error", Unavailable), ("new_error", Unavailable)],
)
async def test_an_error_event_has_its_class(kind: str, wanted: type[Exception]) -> None:
    event = wire.event("error", error={"type": kind, "message": f"No. {KEY}"})
    with pytest.raises(wanted, match=f"{kind}: No.") as raised:
        await read(wire.start(), event)
    assert KEY not in str(raised.value)


async def test_a_reply_without_end_is_not_read_for_ever() -> None:
    endless = (
        sse(wire.start(), wire.text(0, "")[0]) + b"event: content_block_delta\ndata: " + b"x" * 20
    )
    packed = zlib.compressobj(wbits=31)
    bomb = packed.compress(endless) + packed.compress(b"x" * 70_000_000) + packed.flush()
    assert len(bomb) < 100_000
    answer = Played(bomb, headers={"content-encoding": "gzip"})
    async with WireServer({"POST /v1/messages": answer}) as server:
        model = AnthropicModel(wire.MODEL, base_url=server.url, api_key=KEY)
        with pytest.raises(LimitExceeded):
            await ask(model, request())
        await model.aclose()


async def test_a_web_page_is_malformed() -> None:
    answer = Played(b"<html>", 200, {}, "text/html")
    async with WireServer({"POST /v1/messages": answer}) as server:
        model = AnthropicModel(wire.MODEL, base_url=server.url, api_key=KEY)
        with pytest.raises(Malformed, match="wanted text/event-stream"):
            await ask(model, request())
        await model.aclose()


async def test_arguments_that_come_at_once_are_taken_if_they_can_be_kept() -> None:
    """What cannot be kept as arguments stays as text: such a call is not run, and the model is told."""
    for given, kept in (
        ({"city": "Paris"}, {"args": {"city": "Paris"}}),
        ({"city": "a\0b"}, {"raw": '{"city": "a\\u0000b"}'}),
    ):
        start = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": given}
        found, _ = await read(wire.start(), *wire.block(0, start), *wire.end("tool_use"))
        assert found.parts == (ToolCall(call_id="toolu_1", name="get_weather", **kept),)


async def test_a_signed_thought_that_was_cut_inside_of_a_character_is_whole() -> None:
    body = wire.answer(wire.thinking(0, "a@", "#b")).body
    found, _ = await read_bytes(body.replace(b"@", b"\\ud83d").replace(b"#", b"\\ude00"))
    thought = found.parts[0]
    assert isinstance(thought, Reasoning)
    assert thought.text == "a😀b"
    assert isinstance(thought.replay, dict)
    assert "a😀b" in str(thought.replay)


async def test_a_thought_without_a_signature_is_kept_but_not_shown_again() -> None:
    unsigned = wire.answer(wire.thinking(0, "Hm.", signature=""), wire.text(1, "Yes."))
    found, _ = await read_bytes(unsigned.body)
    assert found.parts[0] == Reasoning(text="Hm.")


async def test_a_thought_that_no_store_takes_as_it_came_costs_no_words() -> None:
    found, _ = await read_bytes(wire.answer(wire.thinking(0, "a\0b"), wire.text(1, "Yes.")).body)
    assert found.parts == (Reasoning(text="a\ufffdb"), Text(text="Yes."))


async def test_a_closed_model_opens_again() -> None:
    async with WireServer({"POST /v1/messages": wire.answer(wire.text(0, "Hello!"))}) as server:
        model = AnthropicModel(wire.MODEL, base_url=server.url, api_key=KEY)
        for _ in range(2):
            found, _ = await ask(model, request())
            assert found.text == "Hello!"
            await model.aclose()

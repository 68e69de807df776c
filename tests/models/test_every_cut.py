"""Where the bytes of an answer are cut changes nothing: two pieces, cut at every single byte.

For each adapter two answers, as short as their protocol allows: one with thoughts, words, calls at once and characters
of several bytes, and one that ends in an error. They go through the real SDK, whose HTTP client is handed the pieces
without a socket. The cases of `behaviours.py` are cut, over sockets, at all places at once and at random ones: those
random places are a sample.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

import httpx2
import pytest

from tests.models.behaviours import KEY, ClosableModel, joined
from tests.models.wire_server import every_byte, in_random_pieces
from windlass.errors import ProviderError, Unavailable
from windlass.kernel import (
    Citation,
    ModelMessage,
    ModelReply,
    ModelRequest,
    Reasoning,
    Text,
    ToolCall,
)
from windlass.models.anthropic import AnthropicModel
from windlass.models.google import GoogleModel
from windlass.models.openai_chat import OpenAIChatModel
from windlass.models.openai_responses import OpenAIResponsesModel
from windlass.ports.model import CallChunk, ModelEvent, ReasoningChunk, TextChunk

HI = ModelRequest(model="m", messages=(ModelMessage(role="user", parts=(Text(text="Hi"),)),))
THOUGHT, WORDS = "Hm, „Zürich“…", "Grüße 🌍 und 漢字"
CITIES = ({"city": "Zürich"}, {"city": "東京"})


def wire(*events: dict[str, Any] | str, end: str = "\n\n") -> bytes:
    """Events without a blank too many; every other one is written in ASCII, as some servers do."""
    tight = (",", ":")
    lines = [
        each
        if isinstance(each, str)
        else json.dumps(each, ensure_ascii=at % 2 == 1, separators=tight)
        for at, each in enumerate(events)
    ]
    return "".join(f"data: {line}{end}" for line in lines).encode()


def written(args: dict[str, str]) -> str:
    return json.dumps(args, ensure_ascii=False)


# --- Anthropic ------------------------------------------------------------------------------------------


def block(at: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    begun = {"type": "content_block_start", "index": at, "content_block": start}
    carried = [{"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas]
    return [begun, *carried, {"type": "content_block_stop", "index": at}]


CLAUDE_CITED = {"type": "web_search_result_location", "url": "https://z.test", "title": "東京"}
CLAUDE_TEXT = block(
    1,
    {"type": "text", "text": ""},
    {"type": "citations_delta", "citation": CLAUDE_CITED},
    *({"type": "text_delta", "text": piece} for piece in (WORDS[:7], WORDS[7:])),
)
CLAUDE = wire(
    {"type": "message_start", "message": {"model": "m"}},
    *block(
        0,
        {"type": "thinking"},
        {"type": "thinking_delta", "thinking": THOUGHT},
    ),
    *CLAUDE_TEXT,
    *block(
        2,
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        {"type": "input_json_delta", "partial_json": '{"query":"Zür'},
        {"type": "input_json_delta", "partial_json": 'ich"}'},
    ),
    *block(
        3, {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"title": "東京"}]}
    ),
    *(
        event
        for at, args in enumerate(CITIES)
        for event in block(
            4 + at,
            {"type": "tool_use", "id": f"c{at}", "name": "see", "input": {}},
            {"type": "input_json_delta", "partial_json": written(args)[:9]},
            {"type": "input_json_delta", "partial_json": written(args)[9:]},
        )
    ),
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
    {"type": "message_stop"},
)
CLAUDE_ERROR = wire(
    {"type": "message_start", "message": {"model": "m"}},
    *CLAUDE_TEXT,
    {"type": "error", "error": {"type": "overloaded_error", "message": "Überlastet 🌍"}},
)


# --- Chat Completions -----------------------------------------------------------------------------------


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"delta": fields, "finish_reason": finish}]}


def called(at: int, **function: str) -> dict[str, Any]:
    name = {"id": f"c{at}"} if "name" in function else {}
    return delta(tool_calls=[{"index": at, **name, "function": function}])


CHAT_TEXT = (delta(content=WORDS[:7]), delta(content=WORDS[7:]))
CHAT = wire(
    # Thoughts as Mistral writes them, and as most do; sources as OpenRouter does.
    delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": THOUGHT[:5]}]}]),
    delta(reasoning=THOUGHT[5:]),
    *CHAT_TEXT,
    delta(annotations=[{"type": "url_citation", "url_citation": {"url": "https://ü.example"}}]),
    *(called(at, name="see", arguments=written(args)[:9]) for at, args in enumerate(CITIES)),
    *(called(at, arguments=written(args)[9:]) for at, args in enumerate(CITIES)),
    delta("tool_calls"),
    "[DONE]",
    end="\r\n\r\n",
)
CHAT_ERROR = wire(*CHAT_TEXT, {"error": {"type": "server_error", "message": "Überlastet 🌍"}})


# --- Responses ------------------------------------------------------------------------------------------


def item(at: int, found: dict[str, Any], *events: dict[str, Any]) -> list[dict[str, Any]]:
    carried = [{**event, "output_index": at} for event in events]
    return [*carried, {"type": "response.output_item.done", "output_index": at, "item": found}]


RESPONSE_TEXT = item(
    1,
    {"type": "message", "content": [{"type": "output_text", "text": WORDS}]},
    *({"type": "response.output_text.delta", "delta": piece} for piece in (WORDS[:7], WORDS[7:])),
)
RESPONSE = wire(
    *item(
        0,
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": THOUGHT}]},
        {"type": "response.reasoning_summary_text.delta", "delta": THOUGHT},
    ),
    *RESPONSE_TEXT,
    *(
        event
        for at, args in enumerate(CITIES)
        for event in item(
            2 + at,
            {
                "type": "function_call",
                "call_id": f"c{at}",
                "name": "see",
                "arguments": written(args),
            },
        )
    ),
    {"type": "response.completed", "response": {"status": "completed", "model": "m"}},
)
SEARCH = {"type": "web_search_call", "action": {"query": "Zürich 🌍"}}
SOURCE = {"type": "url_citation", "url": "https://ü.example", "title": "漢字", "start_index": 0}
ANSWER = {"type": "message", "phase": "final_answer", "content": []}
WITH_SOURCES = [{"type": "output_text", "text": WORDS, "annotations": [SOURCE]}]
RESPONSE_ITEMS = wire(
    {
        "type": "response.output_item.added",
        "output_index": 0,
        "item": {"type": "message", "phase": "commentary"},
    },
    *item(
        0,
        {"type": "message", "content": [{"type": "output_text", "text": THOUGHT}]},
        {"type": "response.output_text.delta", "delta": THOUGHT},
    ),
    *item(1, SEARCH),
    {"type": "response.output_item.added", "output_index": 2, "item": ANSWER},
    *item(
        2,
        {**ANSWER, "content": WITH_SOURCES},
        {"type": "response.output_text.delta", "delta": WORDS},
    ),
    {
        "type": "response.output_item.added",
        "output_index": 3,
        "item": {"type": "function_call", "call_id": "c0", "name": "see"},
    },
    *item(
        3,
        {"type": "function_call", "call_id": "c0", "name": "see", "arguments": written(CITIES[1])},
        {"type": "response.function_call_arguments.delta", "delta": written(CITIES[1])},
    ),
    {"type": "response.completed", "response": {"status": "completed", "model": "m"}},
)
RESPONSE_ERROR = wire(
    *RESPONSE_TEXT, {"type": "error", "code": "server_error", "message": "Überlastet 🌍"}
)


# --- Google ---------------------------------------------------------------------------------------------


def said(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, **fields}]}


GEMINI_TEXT = (said({"text": WORDS[:7]}), said({"text": WORDS[7:]}))
GEMINI = wire(
    said({"text": THOUGHT, "thought": True}),
    *GEMINI_TEXT,
    said({"executableCode": {"id": "x", "code": "print('東京')"}, "thoughtSignature": "c2ln"}),
    said({"codeExecutionResult": {"id": "x", "output": "東京"}}),
    said(
        *(
            {"functionCall": {"id": f"c{at}", "name": "see", "args": args}}
            for at, args in enumerate(CITIES)
        ),
        finishReason="STOP",
        groundingMetadata={
            "groundingChunks": [{"web": {"uri": "https://z.test", "title": "Zürich"}}],
            "groundingSupports": [
                {
                    "segment": {"startIndex": 8, "endIndex": 12, "text": "🌍"},
                    "groundingChunkIndices": [0],
                }
            ],
        },
    ),
    end="\r\n\r\n",
)
GEMINI_ERROR = wire(
    *GEMINI_TEXT,
    {"error": {"code": 503, "message": "Überlastet 🌍", "status": "UNAVAILABLE"}},
    end="\r\n\r\n",
)


# --- the cuts -------------------------------------------------------------------------------------------


class Pieces(httpx2.AsyncByteStream):
    """A body that comes in these pieces."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


class Playing(httpx2.AsyncBaseTransport):
    """Answers every request with `pieces`, without a socket."""

    pieces: list[bytes]

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(200, headers=headers, stream=Pieces(self.pieces), request=request)


SHOWN = [TextChunk(text=WORDS[:7]), TextChunk(text=WORDS[7:])]


def check_whole(found: Any, shown: list[ModelEvent]) -> None:  # noqa: ANN401 - as it came
    told = joined([event for event in shown if not isinstance(event, CallChunk)])
    assert told == joined([ReasoningChunk(text=THOUGHT), *SHOWN])
    assert [(type(part), getattr(part, "text", "")) for part in found.parts[:2]] == [
        (Reasoning, THOUGHT),
        (Text, WORDS),
    ]
    calls = [part for part in found.parts if isinstance(part, ToolCall)]
    assert [(call.call_id, call.name, call.args) for call in calls] == [
        ("c0", "see", CITIES[0]),
        ("c1", "see", CITIES[1]),
    ]
    assert found.terminal == "tool_use"


def check_chat(found: Any, shown: list[ModelEvent]) -> None:  # noqa: ANN401 - as it came
    check_whole(found, shown)
    previews = [
        "".join(e.text for e in shown if isinstance(e, CallChunk) and e.call_id == f"c{at}")
        for at in (0, 1)
    ]
    assert previews == [written(args) for args in CITIES]
    assert [each.url for each in found.parts[1].citations] == ["https://ü.example"]


def check_error(found: Any, shown: list[ModelEvent]) -> None:  # noqa: ANN401 - as it came
    kind, message = found
    assert shown == SHOWN
    assert kind is Unavailable
    assert "Überlastet 🌍" in message


class Adapter(NamedTuple):
    """A model on a given HTTP client, an answer with everything in it, and one that ends in an error."""

    make: Callable[[httpx2.AsyncClient], ClosableModel]
    whole: bytes
    error: bytes
    check: Callable[[Any, list[ModelEvent]], None] = check_whole


def check_items(found: Any, shown: list[ModelEvent]) -> None:  # noqa: ANN401 - as it came
    assert shown == [
        TextChunk(text=THOUGHT, phase="commentary"),
        TextChunk(text=WORDS, phase="final_answer"),
        CallChunk(call_id="c0", name="see", text=written(CITIES[1])),
    ]
    said, searched, answered, call = found.parts
    assert (said.text, said.phase) == (THOUGHT, "commentary")
    assert (searched.name, searched.text) == ("web_search", "Zürich 🌍")
    assert searched.replay["blob"] == SEARCH
    assert (answered.text, answered.phase) == (WORDS, "final_answer")
    assert answered.citations == (Citation(url="https://ü.example", title="漢字", start=0),)
    assert (call.args, found.text) == (CITIES[1], WORDS)


ADAPTERS = {
    "anthropic": Adapter(
        lambda client: AnthropicModel("m", api_key=KEY, http_client=client), CLAUDE, CLAUDE_ERROR
    ),
    "openai-chat": Adapter(
        lambda client: OpenAIChatModel("m", dialect="openrouter", api_key=KEY, http_client=client),
        CHAT,
        CHAT_ERROR,
        check=check_chat,
    ),
    "openai": Adapter(
        lambda client: OpenAIResponsesModel("m", api_key=KEY, http_client=client),
        RESPONSE,
        RESPONSE_ERROR,
    ),
    "openai, its own items": Adapter(
        lambda client: OpenAIResponsesModel("m", api_key=KEY, http_client=client),
        RESPONSE_ITEMS,
        RESPONSE_ERROR,
        check=check_items,
    ),
    "google": Adapter(
        lambda client: GoogleModel("m", api_key=KEY, http_client=client),
        GEMINI,
        GEMINI_ERROR,
    ),
}


async def outcome(
    model: ClosableModel,
) -> tuple[ModelReply | tuple[type[ProviderError], str], list[ModelEvent]]:
    shown: list[ModelEvent] = []
    try:
        return await model.complete(HI, shown.append), shown
    except ProviderError as error:
        return (type(error), str(error)), shown


@pytest.mark.parametrize("ends", ["well", "in an error"])
@pytest.mark.parametrize("name", ADAPTERS)
async def test_cut_at_every_byte_the_events_are_the_same(name: str, ends: str) -> None:
    adapter = ADAPTERS[name]
    body = adapter.whole if ends == "well" else adapter.error
    check = adapter.check if ends == "well" else check_error
    playing = Playing()
    async with httpx2.AsyncClient(transport=playing) as client:
        model = adapter.make(client)
        playing.pieces = [body]
        wanted = await outcome(model)
        check(*wanted)
        for place in range(1, len(body)):
            playing.pieces = [body[:place], body[place:]]
            assert await outcome(model) == wanted, place
        for cut in (every_byte, *map(in_random_pieces, range(20))):
            playing.pieces = cut(body)
            assert await outcome(model) == wanted
        await model.aclose()

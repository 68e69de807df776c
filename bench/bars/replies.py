"""Reading: a streamed reply through each adapter, beside the HTTP client alone.

The client gets the bytes without a socket, one event in each piece. The floor takes its lines and decodes the JSON in
them; what comes on top of that is the SDK and windlass's reader: parts, previews, and the screen for keys.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from time import process_time_ns
from typing import Any, NamedTuple, Protocol

import httpx2
import msgspec

from bench.progress import progress
from bench.samples import Figure, figure, ratio
from windlass.kernel import ModelMessage, ModelReply, ModelRequest, Text, ToolCall
from windlass.models.anthropic import AnthropicModel
from windlass.models.google import GoogleModel
from windlass.models.openai_chat import OpenAIChatModel
from windlass.models.openai_responses import OpenAIResponsesModel
from windlass.ports.model import EmitModelEvent

DELTAS = 1_000
KEY = "sk-bench-0123456789"
WORDS = "word "
ARGUMENT = "0123456789"
_TEXT = WORDS * DELTAS
_ARGUMENTS = json.dumps({"text": ARGUMENT * DELTAS})
_PIECES = ('{"text": "', *[ARGUMENT] * DELTAS, '"}')
HI = ModelRequest(model="m", messages=(ModelMessage(role="user", parts=(Text(text="Hi"),)),))

Event = dict[str, Any]


class ClosableModel(Protocol):
    """A model with a client to close."""

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        """Ask."""

    async def aclose(self) -> None:
        """Close it."""


class Stream(NamedTuple):
    """A reply as an adapter gets it."""

    name: str
    make: Callable[[httpx2.AsyncClient], ClosableModel]
    events: list[Event]
    ends_with_done: bool = False

    def pieces(self) -> list[bytes]:
        """Return its events as bytes."""
        lines = [json.dumps(event) for event in self.events]
        done = ["[DONE]"] if self.ends_with_done else []
        return [f"data: {line}\n\n".encode() for line in (*lines, *done)]


# --- the replies ----------------------------------------------------------------------------------------


def _claude(block: Event, deltas: list[Event], reason: str) -> list[Event]:
    carried = [{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas]
    return [
        {"type": "message_start", "message": {"model": "m"}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *carried,
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": reason}},
        {"type": "message_stop"},
    ]


def _response(item: Event, kind: str, deltas: list[str]) -> list[Event]:
    begun = {name: value for name, value in item.items() if name not in ("content", "arguments")}
    return [
        {"type": "response.output_item.added", "output_index": 0, "item": begun},
        *({"type": kind, "output_index": 0, "delta": delta} for delta in deltas),
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"status": "completed", "model": "m"}},
    ]


def _chat(deltas: list[Event], reason: str) -> list[Event]:
    ended = {"delta": {}, "finish_reason": reason}
    choices = [*({"delta": delta, "finish_reason": None} for delta in deltas), ended]
    return [{"choices": [choice]} for choice in choices]


def _gemini(parts: list[Event]) -> list[Event]:
    said = [{"candidates": [{"content": {"role": "model", "parts": [part]}}]} for part in parts]
    return [*said, {"candidates": [{"content": {}, "finishReason": "STOP"}]}]


def _called(at: int, piece: str) -> Event:
    begun = {"id": "c0"} if at == 0 else {}
    name = {"name": "see"} if at == 0 else {}
    call = {"index": 0, **begun, "function": {**name, "arguments": piece}}
    return {"tool_calls": [call]}


def _streams() -> list[Stream]:
    """Return words of every adapter, and arguments of those that send them in pieces."""

    def claude(client: httpx2.AsyncClient) -> ClosableModel:
        return AnthropicModel("m", api_key=KEY, http_client=client)

    def response(client: httpx2.AsyncClient) -> ClosableModel:
        return OpenAIResponsesModel("m", api_key=KEY, http_client=client)

    def chat(client: httpx2.AsyncClient) -> ClosableModel:
        return OpenAIChatModel("m", api_key=KEY, http_client=client)

    def gemini(client: httpx2.AsyncClient) -> ClosableModel:
        return GoogleModel("m", api_key=KEY, http_client=client)

    words = [WORDS] * DELTAS
    texts = [{"type": "text_delta", "text": word} for word in words]
    inputs = [{"type": "input_json_delta", "partial_json": piece} for piece in _PIECES]
    tool = {"type": "tool_use", "id": "c0", "name": "see", "input": {}}
    message = {"type": "message", "content": [{"type": "output_text", "text": _TEXT}]}
    call = {"type": "function_call", "call_id": "c0", "name": "see", "arguments": _ARGUMENTS}
    written = "response.function_call_arguments.delta"
    contents = [{"content": word} for word in words]
    calls = [_called(at, piece) for at, piece in enumerate(_PIECES)]
    return [
        Stream(
            "Anthropic, words", claude, _claude({"type": "text", "text": ""}, texts, "end_turn")
        ),
        Stream("Anthropic, arguments", claude, _claude(tool, inputs, "tool_use")),
        Stream(
            "Responses, words", response, _response(message, "response.output_text.delta", words)
        ),
        Stream("Responses, arguments", response, _response(call, written, list(_PIECES))),
        Stream("Chat, words", chat, _chat(contents, "stop"), ends_with_done=True),
        Stream("Chat, arguments", chat, _chat(calls, "tool_calls"), ends_with_done=True),
        Stream("Google, words", gemini, _gemini([{"text": word} for word in words])),
    ]


# --- the clock ------------------------------------------------------------------------------------------


class _Pieces(httpx2.AsyncByteStream):
    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


class _Playing(httpx2.AsyncBaseTransport):
    """Answers every request with the same pieces."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(200, headers=headers, stream=_Pieces(self._pieces), request=request)


def measure_replies(rounds: int) -> list[Figure]:
    """Read each reply once a round, in turn; a first one, not counted, imports the SDKs."""
    return asyncio.run(_measure(rounds))


async def _measure(rounds: int) -> list[Figure]:
    streams = _streams()
    async with AsyncExitStack() as stack:
        models, clients = [], []
        for stream in streams:
            client = httpx2.AsyncClient(transport=_Playing(stream.pieces()))
            model = stream.make(await stack.enter_async_context(client))
            clients.append(client)
            stack.push_async_callback(model.aclose)
            _check(await model.complete(HI, lambda _event: None))
            models.append(model)
        read: list[list[float]] = [[] for _ in streams]
        floors: list[list[float]] = [[] for _ in streams]
        for _ in progress("replies", rounds):
            for at, model in enumerate(models):
                read[at].append(await _read_ms(model))
                floors[at].append(await _floor_ms(clients[at]))
    lines = []
    for stream, taken, floor in zip(streams, read, floors, strict=True):
        lines.append(figure(f"1,000 deltas: {stream.name}", "CPU ms", taken))
        name = "  / its lines and their JSON alone"
        lines.append(ratio(name, [[each] for each in taken], [[each] for each in floor]))
    return lines


def _check(reply: ModelReply) -> None:
    """Check that all of it was read: a reader that skips things is fast."""
    calls = [part for part in reply.parts if isinstance(part, ToolCall)]
    found = [call.args["text"] for call in calls] or [reply.text]
    if found not in ([_TEXT], [ARGUMENT * DELTAS]):
        raise AssertionError("the reply was not read whole")


async def _read_ms(model: ClosableModel) -> float:
    before = process_time_ns()
    await model.complete(HI, lambda _event: None)
    return (process_time_ns() - before) / 1e6


async def _floor_ms(client: httpx2.AsyncClient) -> float:
    """Return what the same bytes cost without any reader: the client's lines, and the JSON in each."""
    before = process_time_ns()
    async with client.stream("POST", "http://bench.test/") as response:
        async for line in response.aiter_lines():
            if line and not line.endswith("[DONE]"):
                msgspec.json.decode(line[len("data: ") :])
    return (process_time_ns() - before) / 1e6

"""The adapters, and how each provider would echo a key: in words, thoughts, arguments, blobs and refusals."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.models import google_cases, wire_anthropic, wire_google
from tests.models import wire_openai_chat as wire_chat
from tests.models import wire_openai_responses as wire_responses
from tests.models.behaviours import KEY, ClosableModel
from tests.models.wire_server import sse
from windlass.models.anthropic import AnthropicModel
from windlass.models.google import GoogleModel
from windlass.models.openai_chat import OpenAIChatModel
from windlass.models.openai_responses import OpenAIResponsesModel


class Echo(NamedTuple):
    """One provider. `text`, `thought` and `arguments` make a reply of these pieces; `blob` one of a thought
    (`What now?`) whose blob has this text in it; `refusal` one in which the model refuses, where there is such.
    `name` is what its model is called, `variable` the one that says where it lives.
    """

    name: str
    variable: str
    path: str
    endpoint: str
    make: Callable[[str], ClosableModel]
    text: Callable[..., bytes]
    thought: Callable[..., bytes]
    arguments: Callable[..., bytes]
    blob: Callable[[str], bytes]
    refusal: Callable[..., bytes] | None = None


# --- Anthropic ------------------------------------------------------------------------------------------


def claude(*blocks: list[tuple[str, Any]], reason: str = "end_turn") -> bytes:
    return wire_anthropic.answer(*blocks, reason=reason).body


def claude_arguments(*pieces: str) -> bytes:
    return claude(wire_anthropic.tool_use(0, "toolu_1", "note", *pieces), reason="tool_use")


# --- OpenAI ---------------------------------------------------------------------------------------------


def in_pieces(item: tuple[Any, list[Any]], pieces: tuple[str, ...]) -> tuple[Any, list[Any]]:
    """An item whose one delta comes in these pieces."""
    whole, events = item
    at = next(at for at, event in enumerate(events) if "delta" in event)
    deltas = [{**events[at], "delta": piece} for piece in pieces]
    return whole, [*events[:at], *deltas, *events[at + 1 :]]


def responses_thought(*pieces: str) -> bytes:
    thought = wire_responses.reasoning(("".join(pieces),), None)
    return wire_responses.completed(in_pieces(thought, pieces))


def responses_arguments(*pieces: str) -> bytes:
    return wire_responses.completed(wire_responses.call("note", pieces))


def responses_refusal(*pieces: str) -> bytes:
    refused = wire_responses.refusal("".join(pieces))
    return wire_responses.completed(in_pieces(refused, pieces))


def chat_deltas(field: str, *pieces: str) -> bytes:
    return wire_chat.whole(*(wire_chat.chunk({field: piece}) for piece in pieces))


def chat_arguments(*pieces: str) -> bytes:
    begun = wire_chat.calls(wire_chat.piece(0, "call_1", "note", ""))
    rest = [wire_chat.calls(wire_chat.piece(0, arguments=piece)) for piece in pieces]
    return wire_chat.whole(begun, *rest, finish="tool_calls")


def chat_blob(said: str) -> bytes:
    detail = {"type": "reasoning.encrypted", "data": said, "index": 0}
    return wire_chat.whole(
        wire_chat.chunk({"reasoning": "What now?", "reasoning_details": [detail]})
    )


# --- Google ---------------------------------------------------------------------------------------------


def gemini(*parts: dict[str, Any]) -> bytes:
    return sse(*(wire_google.said(part) for part in parts), wire_google.ended())


def gemini_arguments(*pieces: str) -> bytes:
    return gemini(wire_google.call("note", args=json.loads("".join(pieces))))


def gemini_blob(said: str) -> bytes:
    signature = base64.b64encode(said.encode()).decode()
    return gemini({"text": "What now?", "thought": True, "thoughtSignature": signature})


ECHOES = {
    "anthropic": Echo(
        name=f"anthropic:{wire_anthropic.MODEL}",
        variable="ANTHROPIC_BASE_URL",
        path="",
        endpoint="POST /v1/messages",
        make=lambda url: AnthropicModel(wire_anthropic.MODEL, base_url=url, api_key=KEY),
        text=lambda *pieces: claude(wire_anthropic.text(0, *pieces)),
        thought=lambda *pieces: claude(wire_anthropic.thinking(0, *pieces)),
        arguments=claude_arguments,
        blob=lambda said: claude(wire_anthropic.thinking(0, "What now?", signature=said)),
    ),
    "openai": Echo(
        name="openai:gpt-5",
        variable="OPENAI_BASE_URL",
        path="/v1",
        endpoint="POST /v1/responses",
        make=lambda url: OpenAIResponsesModel("gpt-5", base_url=f"{url}/v1", api_key=KEY),
        text=lambda *pieces: wire_responses.completed(
            wire_responses.message("".join(pieces), cuts=pieces)
        ),
        thought=responses_thought,
        arguments=responses_arguments,
        blob=lambda said: wire_responses.completed(wire_responses.reasoning(("What now?",), said)),
        refusal=responses_refusal,
    ),
    "openai-chat": Echo(
        name="openai-chat:gpt-5",
        variable="OPENAI_BASE_URL",
        path="/v1",
        endpoint="POST /v1/chat/completions",
        make=lambda url: OpenAIChatModel(
            "gpt-5", dialect="openrouter", base_url=f"{url}/v1", api_key=KEY
        ),
        text=lambda *pieces: chat_deltas("content", *pieces),
        thought=lambda *pieces: chat_deltas("reasoning", *pieces),
        arguments=chat_arguments,
        blob=chat_blob,
        refusal=lambda *pieces: chat_deltas("refusal", *pieces),
    ),
    "google": Echo(
        name=f"google:{wire_google.MODEL}",
        variable="GOOGLE_GEMINI_BASE_URL",
        path="",
        endpoint=google_cases.Google.endpoint,
        make=lambda url: GoogleModel(wire_google.MODEL, base_url=url, api_key=KEY),
        text=lambda *pieces: gemini(*({"text": piece} for piece in pieces)),
        thought=lambda *pieces: gemini(*({"text": piece, "thought": True} for piece in pieces)),
        arguments=gemini_arguments,
        blob=gemini_blob,
    ),
}

"""Anthropic's stream, event by event, as its documentation shows it and as it was seen on the wire."""

from __future__ import annotations

from typing import Any

from tests.models.wire_server import Played, sse

MODEL = "claude-sonnet-4-5"
SIGNATURE = "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds=="
REDACTED = (
    "EmwKAhgBEgy3va3pzix/LafPsn4aDFIT2Xlxh0L5L8rLVyIwxtE3rAFBa8cr3qpPkNRj2YfWXGmKDxH4mPnZ5sQ7vB=="
)

START_USAGE = {
    "input_tokens": 25,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "output_tokens": 1,
}


def event(kind: str, **fields: Any) -> tuple[str, dict[str, Any]]:
    return kind, {"type": kind, **fields}


def start(model: str = MODEL, usage: object = None) -> tuple[str, dict[str, Any]]:
    message = {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": model,
        "stop_reason": None,
        "stop_sequence": None,
        "usage": START_USAGE if usage is None else usage,
    }
    return event("message_start", message=message)


def block(at: int, first: dict[str, Any], *deltas: dict[str, Any]) -> list[tuple[str, Any]]:
    return [
        event("content_block_start", index=at, content_block=first),
        *(event("content_block_delta", index=at, delta=delta) for delta in deltas),
        event("content_block_stop", index=at),
    ]


def text(at: int, *pieces: str) -> list[tuple[str, Any]]:
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    return block(at, {"type": "text", "text": ""}, *deltas)


def thinking(at: int, *pieces: str, signature: str = SIGNATURE) -> list[tuple[str, Any]]:
    deltas: list[dict[str, Any]] = [
        {"type": "thinking_delta", "thinking": piece} for piece in pieces
    ]
    deltas.append({"type": "signature_delta", "signature": signature})
    return block(at, {"type": "thinking", "thinking": "", "signature": ""}, *deltas)


def tool_use(at: int, call_id: str, name: str, *pieces: str) -> list[tuple[str, Any]]:
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return block(at, {"type": "tool_use", "id": call_id, "name": name, "input": {}}, *deltas)


def server_use(
    at: int, call_id: str, name: str, *pieces: str, kind: str = "server_tool_use", **more: Any
) -> list[tuple[str, Any]]:
    """A tool that the provider runs; its input comes in pieces, the first of them empty."""
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *pieces)]
    start = {"type": kind, "id": call_id, "name": name, "input": {}, **more}
    return block(at, start, *deltas)


def server_result(at: int, call_id: str, kind: str, content: object, **more: Any) -> list[Any]:
    """What came of it, in one piece."""
    start = {"type": f"{kind}_tool_result", "tool_use_id": call_id, "content": content, **more}
    return block(at, start)


def page(url: str, title: str) -> dict[str, Any]:
    """A page that a search found."""
    sealed = f"EvkS{title}Cio=="
    return {
        "type": "web_search_result",
        "title": title,
        "url": url,
        "encrypted_content": sealed,
        "page_age": None,
    }


def citation(url: str, title: str, quote: str) -> dict[str, Any]:
    """A citation of such a page."""
    return {
        "type": "web_search_result_location",
        "cited_text": quote,
        "url": url,
        "title": title,
        "encrypted_index": f"Eo8B{title}==",
    }


def cited(at: int, text: str, *citations: dict[str, Any]) -> list[tuple[str, Any]]:
    """Words with citations, which come before them."""
    deltas = [{"type": "citations_delta", "citation": each} for each in citations]
    words = {"type": "text_delta", "text": text}
    return block(at, {"citations": [], "type": "text", "text": ""}, *deltas, words)


def end(reason: str = "end_turn", tokens: int = 15, **more: Any) -> list[tuple[str, Any]]:
    delta = {"stop_reason": reason, "stop_sequence": None, **more}
    return [
        event("message_delta", delta=delta, usage={"output_tokens": tokens}),
        event("message_stop"),
    ]


def answer(*blocks: list[tuple[str, Any]], reason: str = "end_turn", **more: Any) -> Played:
    """A whole reply, with a ping in it as there always is."""
    events = [start(), event("ping")]
    for each in blocks:
        events += each
    return Played(sse(*events, *end(reason, **more)))

"""Bytes of Chat Completions, as OpenAI's reference documents them and as other servers send them."""

from __future__ import annotations

from typing import Any

from tests.models.wire_server import sse

Chunk = dict[str, Any]

SERVED = "gpt-4o-2024-08-06"
DONE = "[DONE]"
USAGE: Chunk = {
    "prompt_tokens": 19,
    "completion_tokens": 10,
    "total_tokens": 29,
    "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
    "completion_tokens_details": {
        "reasoning_tokens": 0,
        "audio_tokens": 0,
        "accepted_prediction_tokens": 0,
        "rejected_prediction_tokens": 0,
    },
}


def chunk(delta: Chunk | None = None, finish: str | None = None, **fields: Any) -> Chunk:
    """One chunk with one choice."""
    return {
        "id": "chatcmpl-123",
        "object": "chat.completion.chunk",
        "created": 1694268190,
        "model": SERVED,
        "service_tier": "default",
        "system_fingerprint": "fp_44709d6fcb",
        "choices": [
            {"index": 0, "delta": delta or {}, "logprobs": None, "finish_reason": finish},
        ],
        "usage": None,
        **fields,
    }


def usage(counts: Chunk | None = None) -> Chunk:
    """The chunk behind the last one, which has no choice."""
    return chunk(choices=[], usage=USAGE if counts is None else counts)


def words(*cuts: str) -> list[Chunk]:
    """A beginning and some words."""
    begin = chunk({"role": "assistant", "content": "", "refusal": None})
    return [begin, *(chunk({"content": cut}) for cut in cuts)]


def piece(
    index: int | None = 0,
    call_id: str | None = None,
    name: str | None = None,
    arguments: object = None,
) -> Chunk:
    """A piece of one tool call; what is None is not sent."""
    function = {
        key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None
    }
    fields: list[tuple[str, Any]] = [("index", index), ("id", call_id), ("function", function)]
    kind = {"type": "function"} if name is not None else {}
    return {**{key: value for key, value in fields if value is not None}, **kind}


def calls(*pieces: Chunk) -> Chunk:
    """A chunk with pieces of calls."""
    return chunk({"tool_calls": list(pieces)})


def body(*chunks: Chunk | str) -> bytes:
    """Chunks on the wire."""
    return sse(*chunks)


def whole(*chunks: Chunk, finish: str = "stop", counts: Chunk | None = None) -> bytes:
    """A completion that ended well: reason, usage, [DONE]."""
    return body(*chunks, chunk({}, finish), usage(counts), DONE)


OVERFLOW = (
    b'{"error": {"message": "This model\'s maximum context length is 128000 tokens. However, your messages '
    b'resulted in 130045 tokens. Please reduce the length of the messages.", "type": '
    b'"invalid_request_error", "param": "messages", "code": "context_length_exceeded"}}'
)
OVERLOADED = (
    b'data: {"error": {"message": "The server is overloaded.", "type": "server_error", "param": null, '
    b'"code": null}}\n\n'
)
# OpenRouter: the error stands beside a choice that says so, too.
OPENROUTER_ERROR = (
    b'data: {"id":"gen-1","object":"chat.completion.chunk","created":1,"model":"m","provider":"x",'
    b'"error":{"code":"server_error","message":"Provider disconnected unexpectedly"},'
    b'"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}\n\n'
)
OPENROUTER_NO_CREDIT = (
    b'{"error":{"message":"Insufficient credits. Add more using https://openrouter.ai/credits",'
    b'"code":402}}'
)
OLLAMA_NO_MODEL = (
    b'{"error":{"message":"model \\"nope\\" not found, try pulling it first","type":"not_found_error",'
    b'"param":null,"code":null}}'
)
LLAMACPP_OVERFLOW = (
    b'{"error":{"code":400,"message":"the request exceeds the available context size. try increasing the '
    b'context size or enable context shift","type":"exceed_context_size_error","n_prompt_tokens":9000,'
    b'"n_ctx":4096}}'
)
VLLM_OVERFLOW = (
    b'{"error":{"message":"This model\'s maximum context length is 4096 tokens. However, you requested 5000 '
    b'tokens.","type":"BadRequestError","param":null,"code":400}}'
)

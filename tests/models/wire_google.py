"""What Gemini says on the wire, by hand after its documentation and recorded streams.

https://ai.google.dev/api/generate-content, https://ai.google.dev/gemini-api/docs/thought-signatures. Only the
order of keys is ours: the event that ends a stream begins with its finish reason, so that tests find it.
"""

from __future__ import annotations

import json
from typing import Any

from tests.models.wire_server import Played, sse

MODEL = "gemini-2.5-flash"
USAGE = {
    "promptTokenCount": 11,
    "candidatesTokenCount": 3,
    "totalTokenCount": 14,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 11}],
}
TERMINAL = b'data: {"candidates": [{"finishReason"'


def said(*parts: dict[str, Any], usage: dict[str, Any] | None = None) -> dict[str, Any]:
    """A chunk in the middle of a reply."""
    chunk: dict[str, Any] = {
        "candidates": [{"content": {"parts": list(parts), "role": "model"}, "index": 0}],
        "usageMetadata": usage or {"promptTokenCount": 11, "totalTokenCount": 11},
        "modelVersion": MODEL,
        "responseId": "tTCwacuEBMvnitYP06qsgQY",
    }
    return chunk


def ended(
    *parts: dict[str, Any], reason: str = "STOP", usage: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The chunk that ends a reply."""
    content = {"content": {"parts": list(parts), "role": "model"}} if parts else {}
    return {
        "candidates": [{"finishReason": reason, **content, "index": 0}],
        "usageMetadata": usage or USAGE,
        "modelVersion": MODEL,
        "responseId": "tTCwacuEBMvnitYP06qsgQY",
    }


def stream(*chunks: dict[str, Any]) -> Played:
    """A reply, as it is streamed: CRLF, as Google ends its lines."""
    return Played(sse(*chunks).replace(b"\n", b"\r\n"))


def call(name: str, signature: str | None = None, **rest: Any) -> dict[str, Any]:
    """A part that calls; `rest` are its `args` and `id`."""
    part: dict[str, Any] = {"functionCall": {"name": name, **rest}}
    return part if signature is None else {**part, "thoughtSignature": signature}


def refusal(code: int, status: str, message: str, *details: dict[str, Any]) -> bytes:
    """The body of an error."""
    error: dict[str, Any] = {"code": code, "message": message, "status": status}
    if details:
        error["details"] = list(details)
    return json.dumps({"error": error}, indent=2).encode()


STATUS_NAMES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}

OVERFLOW = refusal(
    400,
    "INVALID_ARGUMENT",
    "The input token count (1200041) exceeds the maximum number of tokens allowed (1048576).",
)
OVERLOADED = b'data: {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}\r\n\r\n'
BAD_KEY = refusal(
    400,
    "INVALID_ARGUMENT",
    "API key not valid. Please pass a valid API key.",
    {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "API_KEY_INVALID",
        "domain": "googleapis.com",
        "metadata": {"service": "generativelanguage.googleapis.com"},
    },
)


def exhausted(delay: str) -> bytes:
    """Too many requests, with the delay that Google wants."""
    return refusal(
        429,
        "RESOURCE_EXHAUSTED",
        "You exceeded your current quota, please check your plan and billing details. For more information on "
        "this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits.",
        {
            "@type": "type.googleapis.com/google.rpc.QuotaFailure",
            "violations": [
                {
                    "quotaMetric": "generativelanguage.googleapis.com/generate_content_free_tier_requests",
                    "quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier",
                    "quotaDimensions": {"location": "global", "model": MODEL},
                    "quotaValue": "10",
                }
            ],
        },
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay},
    )

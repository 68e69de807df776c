"""The adapters as the table of faults knows them: one row each, and what cannot occur on a wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.models import (
    anthropic_cases,
    google_cases,
    openai_chat_cases,
    openai_response_cases,
    wire_anthropic,
    wire_google,
    wire_openai_chat,
)
from tests.models import wire_openai_responses as wire_responses
from tests.models.behaviours import KEY, ClosableModel
from tests.models.wire_server import sse
from windlass.kernel import ModelRequest
from windlass.models.anthropic import AnthropicModel
from windlass.models.google import GoogleModel
from windlass.models.openai_chat import OpenAIChatModel
from windlass.models.openai_responses import OpenAIResponsesModel


class Adapter(NamedTuple):
    """What a fault is made from: `text` is a whole reply of these words, `call` one of a call whose arguments
    come in these pieces, `used` one with these counts, by the model `served`; `sent_key` is the name its sent
    tokens are under.
    """

    endpoint: str
    make: Callable[[str], ClosableModel]
    request: ModelRequest
    text: Callable[..., bytes]
    call: Callable[..., bytes]
    used: Callable[[Any], bytes]
    sent_key: str
    served: str


# A server that writes only ASCII may cut a character in two; these stand for its halves.
HIGH, LOW = "\ue000", "\ue001"


def halved(body: bytes) -> bytes:
    return body.replace(HIGH.encode(), b"\\ud83d").replace(LOW.encode(), b"\\ude00")


# --- OpenAI ---------------------------------------------------------------------------------------------


def responses_call(*pieces: str) -> bytes:
    return wire_responses.completed(wire_responses.call("get_weather", pieces))


def responses_text(*pieces: str) -> bytes:
    words = wire_responses.message("".join(pieces), cuts=pieces)
    return halved(wire_responses.completed(words))


def chat_call(*pieces: str) -> bytes:
    wire = wire_openai_chat
    begun = wire.calls(wire.piece(0, "call_1", "get_weather", ""))
    rest = [wire.calls(wire.piece(0, arguments=piece)) for piece in pieces]
    return wire.whole(begun, *rest, finish="tool_calls")


def chat_text(*pieces: str) -> bytes:
    return halved(wire_openai_chat.whole(*wire_openai_chat.words(*pieces)))


# --- Anthropic ------------------------------------------------------------------------------------------

CLAUDE_SERVED = f"{wire_anthropic.MODEL}-20250929"


def anthropic_text(*pieces: str) -> bytes:
    return halved(wire_anthropic.answer(wire_anthropic.text(0, *pieces)).body)


def anthropic_call(*pieces: str) -> bytes:
    used = wire_anthropic.tool_use(0, "toolu_1", "get_weather", *pieces)
    return wire_anthropic.answer(used, reason="tool_use").body


def anthropic_used(counts: object) -> bytes:
    wire = wire_anthropic
    over = wire.event("message_delta", delta={"stop_reason": "end_turn"})
    begun = wire.start(CLAUDE_SERVED, counts)
    return sse(begun, *wire.text(0, "Hi."), over, wire.event("message_stop"))


# --- Google ---------------------------------------------------------------------------------------------

GEMINI_SERVED = "gemini-2.5-flash-preview-09-2025"


def google_text(*pieces: str) -> bytes:
    said = [wire_google.said({"text": piece}) for piece in pieces]
    return halved(sse(*said, wire_google.ended()))


def google_call(*pieces: str) -> bytes:
    raise AssertionError(f"Gemini sends no text of arguments such as {pieces}: see LEFT_OUT")


def google_used(counts: object) -> bytes:
    ended = wire_google.ended({"text": "Hi."})
    return sse({**ended, "usageMetadata": counts, "modelVersion": GEMINI_SERVED})


ADAPTERS = {
    "openai": Adapter(
        endpoint="POST /v1/responses",
        make=lambda url: OpenAIResponsesModel("gpt-5", base_url=f"{url}/v1", api_key=KEY),
        request=openai_response_cases.asked(tools=(openai_response_cases.WEATHER,)),
        text=responses_text,
        call=responses_call,
        used=lambda counts: wire_responses.completed(wire_responses.message("Hi."), usage=counts),
        sent_key="input_tokens",
        served=wire_responses.SERVED,
    ),
    "openai-chat": Adapter(
        endpoint="POST /v1/chat/completions",
        make=lambda url: OpenAIChatModel("gpt-4o", base_url=f"{url}/v1", api_key=KEY),
        request=openai_chat_cases.asked(tools=(openai_chat_cases.WEATHER,)),
        text=chat_text,
        call=chat_call,
        used=lambda counts: wire_openai_chat.whole(*wire_openai_chat.words("Hi."), counts=counts),
        sent_key="prompt_tokens",
        served=wire_openai_chat.SERVED,
    ),
    "anthropic": Adapter(
        endpoint="POST /v1/messages",
        make=lambda url: AnthropicModel(wire_anthropic.MODEL, base_url=url, api_key=KEY),
        request=anthropic_cases.request(tools=(anthropic_cases.WEATHER,)),
        text=anthropic_text,
        call=anthropic_call,
        used=anthropic_used,
        sent_key="input_tokens",
        served=CLAUDE_SERVED,
    ),
    "google": Adapter(
        endpoint=google_cases.Google.endpoint,
        make=lambda url: GoogleModel(wire_google.MODEL, base_url=url, api_key=KEY),
        request=google_cases.request(tools=(google_cases.ADD,)),
        text=google_text,
        call=google_call,
        used=google_used,
        sent_key="promptTokenCount",
        served=GEMINI_SERVED,
    ),
}

_NO_LAST_EVENT = (
    "older models say STOP in every event, so the reply is over only where the stream is"
)
_NO_ARGUMENTS_TEXT = "arguments are an object within one event: there is no text of them to cut"

_NO_JSON = "an answer with status 200 that is no stream is not in this protocol"
_FILTERED_IN_FIELDS = "what a filter stops in the middle has a `finishReason` of its own"

LEFT_OUT: dict[str, dict[str, str]] = {
    "anthropic": {"test_an_error_instead_of_a_stream_is_read_as_one": _NO_JSON},
    "google": {
        "test_an_error_instead_of_a_stream_is_read_as_one": _NO_JSON,
        "test_a_filter_that_stops_a_reply_in_the_middle_is_a_reply": _FILTERED_IN_FIELDS,
        "test_45_what_comes_after_the_end_is_not_read": _NO_LAST_EVENT,
        "test_45_who_hangs_after_the_end_is_not_waited_for": _NO_LAST_EVENT,
        "test_46_arguments_cut_inside_of_an_escape_are_whole": _NO_ARGUMENTS_TEXT,
        "test_46_arguments_that_do_not_parse_are_kept_as_they_were_written": _NO_ARGUMENTS_TEXT,
    },
}
"""By adapter: the tests whose case its wire does not have, and why."""

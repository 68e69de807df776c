"""Calls that are recorded for the tests, by the recorder itself: answers of every provider with canaries planted in them.

`python -m tests.models.recorded_scenes` writes tests/models/recordings anew. What a recording says that windlass
reads is looked at by a person before it is committed, and in short form by `test_recordings.py`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.models import wire_anthropic as claude
from tests.models import wire_google as gemini
from tests.models import wire_openai_chat as chat
from tests.models import wire_openai_responses as responses
from tests.models.wire_server import Played, WireServer, in_random_pieces, sse
from windlass.guards.secret import Secret
from windlass.kernel import Generation, ModelMessage, ModelRequest, Text, ToolSpec
from windlass.models.anthropic import AnthropicModel
from windlass.models.google import GoogleModel
from windlass.models.openai_chat import OpenAIChatModel
from windlass.models.openai_responses import OpenAIResponsesModel
from windlass.models.sdk_model import SdkModel
from windlass.testing import Recording, record_exchange, write_recording

FOLDER = Path(__file__).with_name("recordings")

KEY = "sk-ant-canary-7Hq2Lw9ZxT4vB8nM1cR5"
OTHER_KEY = "AIzaSyCanaryCanaryCanaryCanary012345678"
MAIL = "ada.canary@example.org"
CARD = "4111 1111 1111 1111"
PHONE = "+49 170 5550123"
ORGANIZATION = "org-Canary4tE5tq2LxKq0Zt"
REQUEST_ID = "req_011CanaryQwErTz"
SIGNATURE = "Q2FuYXJ5U2lnbmF0dXJlQ2FuYXJ5U2lnbmF0dXJlQ2FuYXJ5U2lnbmF0dXJl"
MESSAGE_ID = "msg_01CanaryXyZ0987654321"
CANARIES = (KEY, OTHER_KEY, MAIL, CARD, PHONE, ORGANIZATION, REQUEST_ID, SIGNATURE, MESSAGE_ID)

WEATHER = ToolSpec(
    name="weather",
    description="Tell the weather of a city.",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
)
HEADERS = {
    "request-id": REQUEST_ID,
    "x-request-id": REQUEST_ID,
    "anthropic-organization-id": ORGANIZATION,
    "openai-organization": ORGANIZATION,
    "set-cookie": f"session={KEY}",
}


def asked(words: str, **options: Any) -> ModelRequest:
    said = ModelMessage(role="user", parts=(Text(text=words),))
    return ModelRequest(model="m", messages=(said,), **options)


class Scene(NamedTuple):
    """One call: who is asked at which path, what, and what comes back."""

    endpoint: str
    make: Callable[[str], SdkModel[Any]]
    request: ModelRequest
    answer: Played


def _claude(url: str) -> SdkModel[Any]:
    return AnthropicModel(claude.MODEL, base_url=url, api_key=KEY)


def _gpt(url: str) -> SdkModel[Any]:
    return OpenAIResponsesModel("gpt-5", base_url=f"{url}/v1", api_key=KEY)


def _chat(url: str) -> SdkModel[Any]:
    return OpenAIChatModel("gpt-4o", base_url=f"{url}/v1", api_key=KEY)


def _gemini(url: str) -> SdkModel[Any]:
    return GoogleModel(gemini.MODEL, base_url=url, api_key=KEY)


def _played(body: bytes, **more: Any) -> Played:
    # Cut in pieces, so that the recording has places where they end.
    return Played(body, headers=HEADERS, cut=in_random_pieces(7), **more)


def _claude_answer(*blocks: list[tuple[str, Any]], reason: str = "end_turn") -> Played:
    body = claude.answer(*blocks, reason=reason).body
    return _played(body.replace(b"msg_01", MESSAGE_ID.encode()))


THROTTLED = json.dumps(
    {
        "type": "error",
        "error": {
            "type": "rate_limit_error",
            "message": f"This request would exceed the rate limit of your organization ({ORGANIZATION}).",
        },
        "request_id": REQUEST_ID,
    }
).encode()

SCENES = {
    "anthropic-text": Scene(
        "POST /v1/messages",
        _claude,
        asked(f"My address is {MAIL}, my card {CARD}. Which key do I use?"),
        _claude_answer(
            claude.text(0, "You use ", KEY[:6], KEY[6:], ", and your address is ada.can", MAIL[7:])
        ),
    ),
    "anthropic-thinking-and-tools": Scene(
        "POST /v1/messages",
        _claude,
        asked(
            "What is the weather in Oslo?", tools=(WEATHER,), generation=Generation(variant="low")
        ),
        _claude_answer(
            claude.thinking(0, "The user wants ", "the weather.", signature=SIGNATURE),
            claude.text(1, "Let me look."),
            claude.tool_use(2, "toolu_1", "weather", '{"city": ', '"Oslo"}'),
            reason="tool_use",
        ),
    ),
    "anthropic-throttled": Scene(
        "POST /v1/messages",
        _claude,
        asked("Hello!"),
        Played(THROTTLED, 429, {**HEADERS, "retry-after": "21"}, "application/json"),
    ),
    "openai-thinking": Scene(
        "POST /v1/responses",
        _gpt,
        asked(f"Call me at {PHONE}."),
        _played(
            responses.completed(
                responses.reasoning(("I cannot call.",), SIGNATURE, at=0),
                responses.message("I cannot call you.", at=1, cuts=("I cannot ", "call you.")),
            )
        ),
    ),
    "openai-tools": Scene(
        "POST /v1/responses",
        _gpt,
        asked("What is the weather in Oslo?", tools=(WEATHER,)),
        _played(responses.completed(responses.call("weather", ('{"city":', '"Oslo"}')))),
    ),
    "openai-chat-tools": Scene(
        "POST /v1/chat/completions",
        _chat,
        asked("What is the weather in Oslo and in Rome?", tools=(WEATHER,)),
        _played(
            chat.whole(
                *chat.words("I look ", f"it up for {MAIL}."),
                chat.calls(chat.piece(0, "call_1", "weather", "")),
                chat.calls(chat.piece(0, arguments='{"city": "Os')),
                chat.calls(chat.piece(0, arguments='lo"}')),
                chat.calls(chat.piece(1, "call_2", "weather", '{"city": "Rome"}')),
                finish="tool_calls",
            )
        ),
    ),
    "openai-chat-cut": Scene(
        "POST /v1/chat/completions",
        _chat,
        asked("Count to ten."),
        _played(
            sse(*chat.words("One, ", "two, ", f"{KEY[:14]}"))
            + b'data: {"choices": [{"delta": {"con',
            then="abort",
        ),
    ),
    "google-thinking-and-tools": Scene(
        f"POST /v1/models/{gemini.MODEL}:streamGenerateContent",
        _gemini,
        asked("What is the weather in Oslo?", tools=(WEATHER,)),
        _played(
            gemini.stream(
                gemini.said({"text": f"The key {OTHER_KEY} is not needed.", "thought": True}),
                gemini.said(gemini.call("weather", SIGNATURE, args={"city": "Oslo"})),
                gemini.ended(),
            ).body
        ),
    ),
}


async def recorded(scene: Scene) -> tuple[Recording, WireServer]:
    """Record a scene, with all that can be taken out taken out; return also the server that saw it."""
    async with WireServer({scene.endpoint: scene.answer}) as server:
        model = scene.make(server.url)
        return await record_exchange(model, scene.request, personal=True), server


def main() -> None:
    """Write all recordings anew."""
    FOLDER.mkdir(exist_ok=True)
    for name, scene in SCENES.items():
        made, _ = asyncio.run(recorded(scene))
        known = (Secret(KEY, name="KEY"), Secret(OTHER_KEY, name="OTHER_KEY"))
        file = FOLDER / f"{name}.json"
        write_recording(made, file, secrets=known, force=True)
        file.chmod(0o644)


if __name__ == "__main__":
    main()

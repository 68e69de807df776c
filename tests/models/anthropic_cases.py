"""The table of behaviours, filled for Anthropic.

Length: a table reads best whole.
"""

from __future__ import annotations

from typing import Any

from tests.models import wire_anthropic as wire
from tests.models.behaviours import Case
from tests.models.wire_server import Played, sse
from windlass.kernel import (
    Attachment,
    Generation,
    ModelMessage,
    ModelReply,
    ModelRequest,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
)
from windlass.kernel.messages import ToolStatus
from windlass.ports.model import CallChunk, ReasoningChunk, TextChunk

NAME = f"anthropic:{wire.MODEL}"
USAGE = Usage(input_tokens=25, output_tokens=15)
WEATHER = ToolSpec(
    name="get_weather",
    description="Say how the weather is.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}},
)
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
MARK = {"type": "ephemeral"}
PNG = Attachment(ref="blob-png", media_type="image/png", name="cat.png")
PDF = Attachment(ref="blob-pdf", media_type="application/pdf", name="plan.pdf")
NOTE = Attachment(ref="blob-txt", media_type="text/plain", name="note.txt")
BLOBS = {"blob-png": b"\x89PNG", "blob-pdf": b"%PDF-1.7", "blob-txt": "grüß Gott".encode()}


def system(text: str) -> ModelMessage:
    return ModelMessage(role="system", parts=(Text(text=text),))


def user(*parts: Any) -> ModelMessage:
    given = [Text(text=part) if isinstance(part, str) else part for part in parts]
    return ModelMessage(role="user", parts=tuple(given))


def assistant(*parts: Any) -> ModelMessage:
    given = [Text(text=part) if isinstance(part, str) else part for part in parts]
    return ModelMessage(role="assistant", parts=tuple(given))


def request(*messages: ModelMessage, **fields: Any) -> ModelRequest:
    return ModelRequest(model=NAME, messages=messages or (user("Hello"),), **fields)


def call(call_id: str, city: str, raw: str) -> ToolCall:
    return ToolCall(call_id=call_id, name="get_weather", args={"city": city}, raw=raw)


def shown_call(call_id: str, text: str) -> CallChunk:
    return CallChunk(call_id=call_id, name="get_weather", text=text)


def result(call_id: str, *parts: Any, status: ToolStatus = "ok") -> ToolResult:
    given = tuple(Text(text=part) if isinstance(part, str) else part for part in parts)
    return ToolResult(call_id=call_id, name="get_weather", content=given, status=status)


def reply(*parts: Any, **fields: Any) -> ModelReply:
    given = [Text(text=part) if isinstance(part, str) else part for part in parts]
    return ModelReply(parts=tuple(given), **{"usage": USAGE, **fields})


def marked(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text, "cache_control": MARK}


def sent_text(body: dict[str, Any]) -> None:
    assert body == {
        "model": wire.MODEL,
        "max_tokens": 32_000,
        "stream": True,
        "system": [marked("Be brief.")],
        "messages": [{"role": "user", "content": [marked("Hello")]}],
    }


def sent_tools(body: dict[str, Any]) -> None:
    assert body["tools"] == [
        {
            "name": "get_weather",
            "description": "Say how the weather is.",
            "input_schema": WEATHER.parameters,
            "cache_control": MARK,
        }
    ]
    assert "tool_choice" not in body


def sent_required(body: dict[str, Any]) -> None:
    assert body["tool_choice"] == {"type": "any"}
    assert "thinking" not in body


def sent_variant(body: dict[str, Any]) -> None:
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 8192}


def sent_thoughts(body: dict[str, Any]) -> None:
    assert body["messages"] == [
        {"role": "user", "content": [marked("Weather in Paris?")]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Paris.", "signature": wire.SIGNATURE},
                {"type": "redacted_thinking", "data": wire.REDACTED},
                {
                    "type": "tool_use",
                    "id": "toolu_1",
                    "name": "get_weather",
                    "input": {"city": "Paris"},
                },
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "content": [{"type": "text", "text": "sunny"}],
                    "cache_control": MARK,
                }
            ],
        },
    ]


def sent_images(body: dict[str, Any]) -> None:
    [message] = body["messages"]
    assert message["content"][1] == {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="},
        "cache_control": MARK,
    }


def sent_files(body: dict[str, Any]) -> None:
    [message] = body["messages"]
    assert message["content"][1:] == [
        {
            "type": "document",
            "title": "plan.pdf",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjc="},
        },
        {
            "type": "document",
            "title": "note.txt",
            "source": {"type": "text", "media_type": "text/plain", "data": "grüß Gott"},
            "cache_control": MARK,
        },
    ]


def sent_result_image(body: dict[str, Any]) -> None:
    assert body["messages"][2]["content"] == [
        {
            "type": "tool_result",
            "tool_use_id": "toolu_1",
            "is_error": True,
            "content": [
                {"type": "text", "text": "half a picture"},
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="},
                },
                {"type": "text", "text": "[attachment note.txt]"},
            ],
            "cache_control": MARK,
        }
    ]


def sent_schema(body: dict[str, Any]) -> None:
    closed = {**CITY, "additionalProperties": False}
    assert body["output_config"] == {"format": {"type": "json_schema", "schema": closed}}


def sent_generation(body: dict[str, Any]) -> None:
    assert body["max_tokens"] == 77
    assert body["stop_sequences"] == ["END"]
    # The API has no sampling parameters any more.
    assert not {"temperature", "top_p", "seed"} & set(body)


ROUTE = "anthropic|{url}|" + wire.MODEL
THOUGHT = {"type": "thinking", "thinking": "Paris.", "signature": wire.SIGNATURE}
HIDDEN = {"type": "redacted_thinking", "data": wire.REDACTED}
# A fixed address, so that blobs can be written down before the server has one.
ENDPOINT = "http://127.0.0.1:18231"


def kept(blob: object) -> dict[str, Any]:
    return {"route": ROUTE.format(url=ENDPOINT), "blob": blob}


CASES: dict[str, Case] = {
    "text": Case(
        request(system("Be brief."), user("Hello")),
        wire.answer(wire.text(0, "Hello", "!")),
        reply("Hello!"),
        (TextChunk(text="Hello!"),),
        sent_text,
    ),
    "streaming": Case(
        request(),
        wire.answer(wire.thinking(0, "Hm", "m."), wire.text(1, "Grü", "ß 👋"), wire.text(2, "!")),
        reply(
            Reasoning(
                text="Hmm.",
                replay=kept({"type": "thinking", "thinking": "Hmm.", "signature": wire.SIGNATURE}),
            ),
            "Grüß 👋",
            "!",
        ),
        (ReasoningChunk(text="Hmm."), TextChunk(text="Grüß 👋!")),
    ),
    "tools": Case(
        request(tools=(WEATHER,)),
        wire.answer(
            wire.text(0, "Let me see."),
            wire.tool_use(1, "toolu_1", "get_weather", '{"ci', 'ty": "Zür', 'ich \\u2600"}'),
            reason="tool_use",
        ),
        reply(
            "Let me see.",
            call("toolu_1", "Zürich ☀", '{"city": "Zürich \\u2600"}'),
            terminal="tool_use",
        ),
        (
            TextChunk(text="Let me see."),
            *(shown_call("toolu_1", piece) for piece in ('{"ci', 'ty": "Zür', 'ich \\u2600"}')),
        ),
        sent_tools,
    ),
    "parallel_tools": Case(
        request(tools=(WEATHER,)),
        wire.answer(
            wire.tool_use(0, "toolu_1", "get_weather", '{"city": "Paris"}'),
            wire.tool_use(1, "toolu_2", "get_weather", "", '{"city": "Rome"}'),
            reason="tool_use",
        ),
        reply(
            call("toolu_1", "Paris", '{"city": "Paris"}'),
            call("toolu_2", "Rome", '{"city": "Rome"}'),
            terminal="tool_use",
        ),
        (shown_call("toolu_1", '{"city": "Paris"}'), shown_call("toolu_2", '{"city": "Rome"}')),
    ),
    "required_tool": Case(
        request(tools=(WEATHER,), tool_choice="required", variant="high"),
        wire.answer(wire.tool_use(0, "toolu_1", "get_weather"), reason="tool_use"),
        reply(ToolCall(call_id="toolu_1", name="get_weather"), terminal="tool_use"),
        (),
        sent_required,
    ),
    "reasoning": Case(
        request(variant="medium"),
        wire.answer(
            wire.thinking(0, "Paris."),
            wire.block(1, HIDDEN),
            wire.text(2, "Paris"),
        ),
        reply(
            Reasoning(text="Paris.", replay=kept(THOUGHT)),
            Reasoning(replay=kept(HIDDEN)),
            "Paris",
        ),
        (ReasoningChunk(text="Paris."), TextChunk(text="Paris")),
        sent_variant,
    ),
    "reasoning_replay": Case(
        request(
            user("Weather in Paris?"),
            assistant(
                Reasoning(text="Paris.", replay=kept(THOUGHT)),
                Reasoning(replay=kept(HIDDEN)),
                Reasoning(text="Not signed."),
                call("toolu_1", "Paris", ""),
            ),
            user(result("toolu_1", "sunny")),
            tools=(WEATHER,),
            variant="low",
        ),
        wire.answer(wire.text(0, "Sunny.")),
        reply("Sunny."),
        sent=sent_thoughts,
    ),
    "images": Case(
        request(user("What is it?", PNG)),
        wire.answer(wire.text(0, "A cat.")),
        reply("A cat."),
        sent=sent_images,
        blobs=BLOBS,
    ),
    "files": Case(
        request(user("What is it?", PDF, NOTE)),
        wire.answer(wire.text(0, "A plan.")),
        reply("A plan."),
        sent=sent_files,
        blobs=BLOBS,
    ),
    "tool_result_image": Case(
        request(
            user("Look."),
            assistant(call("toolu_1", "Paris", "")),
            user(result("toolu_1", "half a picture", PNG, NOTE, status="error")),
        ),
        wire.answer(wire.text(0, "A cat.")),
        reply("A cat."),
        sent=sent_result_image,
        blobs=BLOBS,
    ),
    "structured_output": Case(
        request(output=CITY),
        wire.answer(wire.text(0, '{"city": "Paris"}')),
        reply('{"city": "Paris"}'),
        sent=sent_schema,
    ),
    "usage": Case(
        request(),
        Played(
            sse(
                wire.start(
                    usage={
                        "input_tokens": 3,
                        "cache_creation_input_tokens": 500,
                        "cache_read_input_tokens": 7000,
                        "output_tokens": 1,
                        "service_tier": "standard",
                    }
                ),
                *wire.text(0, "Yes."),
                wire.event(
                    "message_delta",
                    delta={"stop_reason": "end_turn"},
                    usage={
                        "output_tokens": 42,
                        "output_tokens_details": {"thinking_tokens": 30},
                    },
                ),
                wire.event("message_stop"),
            )
        ),
        reply(
            "Yes.",
            usage=Usage(
                input_tokens=3,
                output_tokens=42,
                cached_input_tokens=7000,
                cache_write_tokens=500,
                reasoning_tokens=30,
            ),
            provider_usage={
                "input_tokens": 3,
                "cache_creation_input_tokens": 500,
                "cache_read_input_tokens": 7000,
                "output_tokens": 42,
                "service_tier": "standard",
                "output_tokens_details": {"thinking_tokens": 30},
            },
        ),
    ),
    "generation": Case(
        request(
            generation=Generation(
                max_output_tokens=77, temperature=0.5, top_p=0.9, seed=1, stop=("END",)
            )
        ),
        wire.answer(wire.text(0, "Yes.")),
        reply("Yes."),
        sent=sent_generation,
    ),
    "stop": Case(
        request(),
        wire.answer(wire.text(0, "Yes"), reason="stop_sequence", stop_sequence="END"),
        reply("Yes", terminal="stop"),
    ),
    "tool_use": Case(
        request(tools=(WEATHER,)),
        wire.answer(wire.tool_use(0, "toolu_1", "get_weather", '{"city":'), reason="tool_use"),
        reply(
            ToolCall(call_id="toolu_1", name="get_weather", raw='{"city":'),
            terminal="tool_use",
        ),
    ),
    "output_limit": Case(
        request(),
        wire.answer(wire.text(0, "And so"), reason="max_tokens"),
        reply("And so", terminal="output_limit"),
    ),
    "content_filter": Case(
        request(),
        wire.answer(
            reason="refusal",
            stop_details={"type": "refusal", "category": "bio", "explanation": "Not this."},
        ),
        reply(terminal="content_filter", diagnostic="Not this."),
    ),
    "unknown_terminal": Case(
        request(),
        wire.answer(wire.text(0, "Wait"), reason="new_in_2027"),
        reply("Wait", terminal="new_in_2027"),
    ),
}

"""The table of behaviours, filled for Chat Completions."""

from __future__ import annotations

from typing import Any

from tests.models import wire_openai_chat as wire
from tests.models.behaviours import Case
from tests.models.wire_server import Played
from windlass.kernel import ModelMessage, ModelReply, ModelRequest, ToolSpec
from windlass.kernel.messages import Attachment, Reasoning, Text, ToolCall, ToolResult
from windlass.kernel.model_call import Generation, Usage
from windlass.ports.model import CallChunk, TextChunk

Sent = dict[str, Any]
MODEL = "gpt-4o"
USED = Usage(input_tokens=19, output_tokens=10)
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}
WEATHER = ToolSpec(name="get_weather", description="The weather.", parameters=SCHEMA)
PNG = b"\x89PNG\r\n\x1a\n"
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "default": 0}},
    "required": ["name"],
}


def said(role: str, *parts: Any) -> ModelMessage:
    return ModelMessage(role=role, parts=parts)  # type: ignore[arg-type]


def asked(*messages: ModelMessage, **fields: Any) -> ModelRequest:
    user = said("user", Text(text="What is the weather in Paris?"))
    return ModelRequest(model=f"openai-chat:{MODEL}", messages=messages or (user,), **fields)


def text_of(text: str, **fields: Any) -> ModelReply:
    return ModelReply(parts=(Text(text=text),), usage=USED, **fields)


def weather(city: str, call_id: str) -> ToolCall:
    raw = f'{{"city":"{city}"}}'
    return ToolCall(call_id=call_id, name="get_weather", args={"city": city}, raw=raw)


def whole_call(city: str, index: int | None = 0, call_id: str | None = "call_1") -> wire.Chunk:
    return wire.piece(index, call_id, "get_weather", f'{{"city":"{city}"}}')


PARIS = (
    wire.calls(wire.piece(0, "call_1", "get_weather", "")),
    wire.calls(wire.piece(0, arguments='{"ci')),
    wire.calls(wire.piece(0, arguments='ty":"P')),
    wire.calls(wire.piece(0, arguments='aris"}')),
)
ROME = (
    wire.calls(wire.piece(1, "call_2", "get_weather", "")),
    wire.calls(wire.piece(1, arguments='{"city":')),
    wire.calls(wire.piece(1, arguments='"Rome"}')),
)
TALK = (
    said("system", Text(text="Be brief.")),
    said("user", Text(text="What is the weather in Paris?")),
    said("assistant", Text(text="Looking."), weather("Paris", "call_1")),
)


def sent_text(body: Sent) -> None:
    assert body == {
        "model": "gpt-4o",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hi"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        # The beginning of SHA-256("session-1").
        "prompt_cache_key": "84097828fc31a8c8d29210df48901a85",
    }


def sent_tools(body: Sent) -> None:
    function = {"name": "get_weather", "description": "The weather.", "parameters": SCHEMA}
    assert body["tools"] == [{"type": "function", "function": function}]
    assert body["tool_choice"] == "auto"
    assert body["parallel_tool_calls"] is True


def sent_required(body: Sent) -> None:
    assert body["tool_choice"] == "required"


def sent_image(body: Sent) -> None:
    assert body["messages"][0]["content"] == [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
    ]


def sent_file(body: Sent) -> None:
    assert body["messages"][0]["content"] == [
        {
            "type": "file",
            "file": {"filename": "plan.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
        },
        {"type": "text", "text": "[attachment tool.bin]"},
        {"type": "text", "text": "[attachment notes.md]\nBuy bread."},
    ]


def sent_result_image(body: Sent) -> None:
    # A result is words alone, and follows its call at once; the picture stands behind, with the user.
    assert body["messages"][2:] == [
        {
            "role": "assistant",
            "content": "Looking.",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'},
                }
            ],
        },
        {
            "role": "tool",
            "tool_call_id": "call_1",
            "content": "A picture:\n[attachment a.png]\n[attachment all of it]",
        },
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "[attachment a.png] of the result of get_weather:"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
            ],
        },
    ]


def sent_schema(body: Sent) -> None:
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {
            "name": "output",
            "strict": True,
            "schema": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
                "required": ["name", "age"],
                "additionalProperties": False,
            },
        },
    }


def sent_generation(body: Sent) -> None:
    assert body["max_completion_tokens"] == 50
    assert "max_tokens" not in body
    assert (body["temperature"], body["top_p"], body["seed"]) == (0.5, 0.9, 1)
    assert body["stop"] == ["END"]


def check_messages(body: Sent, wanted: list[dict[str, Any]]) -> None:
    assert body["messages"] == wanted


CASES: dict[str, Case] = {
    "text": Case(
        asked(
            said("system", Text(text="Be brief.")),
            said("user", Text(text="Hi")),
            session_id="session-1",
        ),
        Played(wire.whole(*wire.words("Hel", "lo 🌍", "!"))),
        text_of("Hello 🌍!", provider_usage={**wire.USAGE, "served_model": wire.SERVED}),
        shown=(TextChunk(text="Hello 🌍!"),),
        sent=sent_text,
    ),
    "streaming": Case(
        asked(),
        Played(wire.whole(*wire.words("Let me", " look.", " Done."))),
        text_of("Let me look. Done."),
        shown=(TextChunk(text="Let me look. Done."),),
    ),
    "tools": Case(
        asked(tools=(WEATHER,)),
        Played(wire.whole(*wire.words("Looking."), *PARIS, finish="tool_calls")),
        ModelReply(
            parts=(Text(text="Looking."), weather("Paris", "call_1")),
            usage=USED,
            terminal="tool_use",
        ),
        shown=(
            TextChunk(text="Looking."),
            CallChunk(call_id="call_1", name="get_weather", text='{"city":"Paris"}'),
        ),
        sent=sent_tools,
    ),
    "parallel_tools": Case(
        asked(tools=(WEATHER,)),
        Played(wire.whole(*wire.words(), *PARIS, *ROME, finish="tool_calls")),
        ModelReply(
            parts=(weather("Paris", "call_1"), weather("Rome", "call_2")),
            usage=USED,
            terminal="tool_use",
        ),
        shown=(
            CallChunk(call_id="call_1", name="get_weather", text='{"city":"Paris"}'),
            CallChunk(call_id="call_2", name="get_weather", text='{"city":"Rome"}'),
        ),
    ),
    "required_tool": Case(
        asked(tools=(WEATHER,), tool_choice="required"),
        Played(wire.whole(*PARIS, finish="tool_calls")),
        ModelReply(parts=(weather("Paris", "call_1"),), usage=USED, terminal="tool_use"),
        sent=sent_required,
    ),
    # OpenAI's own server keeps its thoughts to itself here; other dialects are tested by themselves.
    "reasoning": Case(
        asked(),
        Played(
            wire.whole(
                *wire.words("Sunny."),
                counts={
                    "prompt_tokens": 19,
                    "completion_tokens": 74,
                    "completion_tokens_details": {"reasoning_tokens": 64},
                },
            )
        ),
        ModelReply(
            parts=(Text(text="Sunny."),),
            usage=Usage(input_tokens=19, output_tokens=74, reasoning_tokens=64),
        ),
    ),
    "reasoning_replay": Case(
        asked(
            said("user", Text(text="Hi")),
            said(
                "assistant",
                Reasoning(text="Hm.", replay={"route": "anthropic|x|y", "blob": {"a": 1}}),
                Text(text="Hello."),
            ),
            said("user", Text(text="Again")),
        ),
        Played(wire.whole(*wire.words("Hello."))),
        text_of("Hello."),
        sent=lambda body: check_messages(
            body,
            [
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": "Hello."},
                {"role": "user", "content": "Again"},
            ],
        ),
    ),
    "images": Case(
        asked(
            said(
                "user",
                Text(text="What is this?"),
                Attachment(ref="png", media_type="image/png", name="a.png"),
            )
        ),
        Played(wire.whole(*wire.words("A picture."))),
        text_of("A picture."),
        sent=sent_image,
        blobs={"png": PNG},
    ),
    "files": Case(
        asked(
            said(
                "user",
                Attachment(ref="pdf", media_type="application/pdf", name="plan.pdf"),
                Attachment(ref="bin", name="tool.bin"),
                Attachment(ref="md", media_type="text/markdown", name="notes.md"),
            )
        ),
        Played(wire.whole(*wire.words("A plan."))),
        text_of("A plan."),
        sent=sent_file,
        blobs={"pdf": b"%PDF", "md": b"Buy bread."},
    ),
    "tool_result_image": Case(
        asked(
            *TALK,
            said(
                "user",
                ToolResult(
                    call_id="call_1",
                    name="get_weather",
                    content=(
                        Text(text="A picture:"),
                        Attachment(ref="png", media_type="image/png", name="a.png"),
                        Attachment(ref="txt", media_type="text/plain", name="all of it"),
                    ),
                ),
            ),
        ),
        Played(wire.whole(*wire.words("Sunny."))),
        text_of("Sunny."),
        sent=sent_result_image,
        blobs={"png": PNG},
    ),
    "structured_output": Case(
        asked(output=PERSON),
        Played(wire.whole(*wire.words('{"name":"Eva",', '"age":3}'))),
        text_of('{"name":"Eva","age":3}'),
        sent=sent_schema,
    ),
    "usage": Case(
        asked(),
        Played(
            wire.whole(
                *wire.words("Hi."),
                counts={
                    "prompt_tokens": 2000,
                    "completion_tokens": 700,
                    "total_tokens": 2700,
                    "prompt_tokens_details": {"cached_tokens": 1500, "cache_write_tokens": 200},
                    "completion_tokens_details": {"reasoning_tokens": 640},
                },
            )
        ),
        ModelReply(
            parts=(Text(text="Hi."),),
            usage=Usage(
                input_tokens=300,
                cached_input_tokens=1500,
                cache_write_tokens=200,
                output_tokens=700,
                reasoning_tokens=640,
            ),
        ),
    ),
    "generation": Case(
        asked(
            generation=Generation(
                max_output_tokens=50, temperature=0.5, top_p=0.9, seed=1, stop=("END",)
            ),
        ),
        Played(wire.whole(*wire.words("Hi."))),
        text_of("Hi."),
        sent=sent_generation,
    ),
    "stop": Case(asked(), Played(wire.whole(*wire.words("Hi."))), text_of("Hi.")),
    "tool_use": Case(
        asked(tools=(WEATHER,)),
        Played(wire.whole(*PARIS, finish="stop")),
        ModelReply(parts=(weather("Paris", "call_1"),), usage=USED, terminal="tool_use"),
    ),
    "output_limit": Case(
        asked(),
        Played(wire.whole(*wire.words("Once upon a"), *PARIS[:3], finish="length")),
        ModelReply(
            parts=(
                Text(text="Once upon a"),
                ToolCall(call_id="call_1", name="get_weather", raw='{"city":"P'),
            ),
            usage=USED,
            terminal="output_limit",
        ),
    ),
    "content_filter": Case(
        asked(),
        Played(wire.whole(*wire.words("First you"), finish="content_filter")),
        text_of("First you", terminal="content_filter"),
    ),
    "unknown_terminal": Case(
        asked(),
        Played(wire.whole(*wire.words("First you"), finish="moon_phase")),
        text_of("First you", terminal="unknown", diagnostic="finish_reason: moon_phase"),
    ),
}

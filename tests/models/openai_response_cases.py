"""The table of behaviours, filled for OpenAI's Responses API."""

from __future__ import annotations

from typing import Any

from tests.models import wire_openai_responses as wire
from tests.models.behaviours import Case
from tests.models.wire_server import Played
from windlass.kernel import ModelMessage, ModelReply, ModelRequest, ToolSpec
from windlass.kernel.messages import Attachment, Reasoning, Text, ToolCall, ToolResult
from windlass.kernel.model_call import Generation, Usage
from windlass.ports.model import CallChunk, ReasoningChunk, TextChunk

Sent = dict[str, Any]
MODEL = "gpt-5"
USED = Usage(input_tokens=36, output_tokens=87)
WEATHER = ToolSpec(
    name="get_weather",
    description="The weather in a city.",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
)
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
    return ModelRequest(model=f"openai:{MODEL}", messages=messages or (user,), **fields)


def text_of(text: str, **fields: Any) -> ModelReply:
    return ModelReply(parts=(Text(text=text),), usage=USED, **fields)


def paris(call_id: str = "call_7tRz") -> ToolCall:
    return ToolCall(
        call_id=call_id, name="get_weather", args={"city": "Paris"}, raw='{"city":"Paris"}'
    )


WRITTEN = CallChunk(call_id="call_7tRz", name="get_weather", text='{"city":"Paris"}')
PARIS = ('{"ci', 'ty":"P', 'aris"}')


def sent_tools(body: Sent) -> None:
    assert body["tools"] == [
        {
            "type": "function",
            "name": "get_weather",
            "description": "The weather in a city.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
            "strict": False,
        }
    ]
    assert body["tool_choice"] == "auto"
    assert body["parallel_tool_calls"] is True


def sent_text(body: Sent) -> None:
    assert body == {
        "model": "gpt-5",
        "input": [
            {"role": "system", "content": [{"type": "input_text", "text": "Be brief."}]},
            {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        ],
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
        # The beginning of SHA-256("session-1").
        "prompt_cache_key": "84097828fc31a8c8d29210df48901a85",
    }


def sent_required(body: Sent) -> None:
    assert body["tool_choice"] == "required"


THOUGHT = {
    "type": "reasoning",
    "summary": [
        {"type": "summary_text", "text": "Look it up."},
        {"type": "summary_text", "text": "Then say."},
    ],
    "encrypted_content": "gAAAAABo-whole",
}
BLOB = {"id": "rs_0", **THOUGHT}


def thought(route: str) -> Reasoning:
    return Reasoning(text="Look it up.\n\nThen say.", replay={"route": route, "blob": BLOB})


def sent_replay(body: Sent) -> None:
    # The thought of this very route goes back, without its id; that of another one stays behind.
    assert body["input"][1:] == [
        THOUGHT,
        {
            "type": "function_call",
            "call_id": "call_7tRz",
            "name": "get_weather",
            "arguments": '{"city":"Paris"}',
        },
        {"type": "function_call_output", "call_id": "call_7tRz", "output": "Sunny"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "It is sunny."}],
        },
        {"role": "user", "content": [{"type": "input_text", "text": "And now?"}]},
    ]


def sent_image(body: Sent) -> None:
    assert body["input"][0]["content"] == [
        {"type": "input_text", "text": "What is this?"},
        {
            "type": "input_image",
            "image_url": "data:image/png;base64,iVBORw0KGgo=",
            "detail": "auto",
        },
    ]


def sent_file(body: Sent) -> None:
    assert body["input"][0]["content"] == [
        {
            "type": "input_file",
            "filename": "plan.pdf",
            "file_data": "data:application/pdf;base64,JVBERg==",
        },
        {"type": "input_text", "text": "[attachment tool.bin]"},
        {"type": "input_text", "text": "[attachment notes.md]\nBuy bread."},
    ]


def sent_result_image(body: Sent) -> None:
    assert body["input"][-1] == {
        "type": "function_call_output",
        "call_id": "call_7tRz",
        "output": [
            {"type": "input_text", "text": "A picture:"},
            {
                "type": "input_image",
                "image_url": "data:image/png;base64,iVBORw0KGgo=",
                "detail": "auto",
            },
            {"type": "input_text", "text": "[attachment all of it]"},
        ],
    }


def sent_schema(body: Sent) -> None:
    assert body["text"] == {
        "format": {
            "type": "json_schema",
            "name": "output",
            "strict": True,
            "schema": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
                "required": ["name", "age"],
                "additionalProperties": False,
            },
        }
    }


def sent_generation(body: Sent) -> None:
    assert body["max_output_tokens"] == 50
    assert body["reasoning"] == {"effort": "low"}
    # gpt-5 refuses them; the Responses API has no seed and no stop sequences.
    assert not {"temperature", "top_p", "seed", "stop"} & set(body)


TALK = (said("user", Text(text="What is the weather in Paris?")), said("assistant", paris()))


CASES: dict[str, Case] = {
    "text": Case(
        asked(
            said("system", Text(text="Be brief.")),
            said("user", Text(text="Hi")),
            session_id="session-1",
        ),
        Played(wire.completed(wire.message("Hello 🌍!", cuts=("Hel", "lo 🌍", "!")))),
        text_of("Hello 🌍!", provider_usage={**wire.USAGE, "served_model": wire.SERVED}),
        shown=(TextChunk(text="Hello 🌍!"),),
        sent=sent_text,
    ),
    "streaming": Case(
        asked(),
        Played(
            wire.completed(
                wire.message("Let me look.", 0, ("Let me", " look.")),
                wire.message(" Done.", 1),
            )
        ),
        ModelReply(parts=(Text(text="Let me look."), Text(text=" Done.")), usage=USED),
        shown=(TextChunk(text="Let me look. Done."),),
    ),
    "tools": Case(
        asked(tools=(WEATHER,)),
        Played(wire.completed(wire.message("Looking."), wire.call("get_weather", PARIS, 1))),
        ModelReply(parts=(Text(text="Looking."), paris()), usage=USED, terminal="tool_use"),
        shown=(TextChunk(text="Looking."), WRITTEN),
        sent=sent_tools,
    ),
    "parallel_tools": Case(
        asked(tools=(WEATHER,)),
        Played(
            wire.completed(
                wire.call("get_weather", PARIS, 0, "call_a"),
                wire.call("get_weather", ('{"city":"Rom"}',), 1, "call_b"),
            )
        ),
        ModelReply(
            parts=(
                paris("call_a"),
                ToolCall(
                    call_id="call_b",
                    name="get_weather",
                    args={"city": "Rom"},
                    raw='{"city":"Rom"}',
                ),
            ),
            usage=USED,
            terminal="tool_use",
        ),
    ),
    "required_tool": Case(
        asked(tools=(WEATHER,), tool_choice="required"),
        Played(wire.completed(wire.call("get_weather", PARIS))),
        ModelReply(parts=(paris(),), usage=USED, terminal="tool_use"),
        sent=sent_required,
    ),
    "reasoning": Case(
        asked(),
        Played(
            wire.completed(wire.reasoning(("Think.", "Again."), None), wire.message("Sunny.", 1))
        ),
        ModelReply(parts=(Reasoning(text="Think.\n\nAgain."), Text(text="Sunny.")), usage=USED),
        shown=(ReasoningChunk(text="Think.\n\nAgain."), TextChunk(text="Sunny.")),
    ),
    "reasoning_replay": Case(
        asked(
            said("user", Text(text="What is the weather in Paris?")),
            said(
                "assistant",
                thought("openai|http://example.test/v1|gpt-5"),
                thought("openai|https://api.openai.com/v1|gpt-5"),
                thought("openai|http://example.test/v1|gpt-5-mini"),
                thought("anthropic|http://example.test/v1|gpt-5"),
                Reasoning(text="signed by nobody"),
                paris(),
            ),
            said(
                "user",
                ToolResult(call_id="call_7tRz", name="get_weather", content=(Text(text="Sunny"),)),
            ),
            said("assistant", Text(text="It is sunny.")),
            said("user", Text(text="And now?")),
        ),
        Played(wire.completed(wire.message("Still."))),
        text_of("Still."),
    ),
    "images": Case(
        asked(
            said(
                "user",
                Text(text="What is this?"),
                Attachment(ref="png", media_type="image/png", name="a.png"),
            )
        ),
        Played(wire.completed(wire.message("A picture."))),
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
        Played(wire.completed(wire.message("A plan."))),
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
                    call_id="call_7tRz",
                    name="get_weather",
                    content=(
                        Text(text="A picture:"),
                        Attachment(ref="png", media_type="image/png"),
                        Attachment(ref="txt", media_type="text/plain", name="all of it"),
                    ),
                ),
            ),
        ),
        Played(wire.completed(wire.message("Sunny."))),
        text_of("Sunny."),
        sent=sent_result_image,
        blobs={"png": PNG},
    ),
    "structured_output": Case(
        asked(output=PERSON),
        Played(wire.completed(wire.message('{"name":"Eva","age":3}'))),
        text_of('{"name":"Eva","age":3}'),
        sent=sent_schema,
    ),
    "usage": Case(
        asked(),
        Played(
            wire.completed(
                wire.message("Hi."),
                usage={
                    "input_tokens": 2000,
                    "input_tokens_details": {"cached_tokens": 1500, "cache_write_tokens": 200},
                    "output_tokens": 700,
                    "output_tokens_details": {"reasoning_tokens": 640},
                    "total_tokens": 2700,
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
            variant="low",
            generation=Generation(
                max_output_tokens=50, temperature=0.5, top_p=0.9, seed=1, stop=("END",)
            ),
        ),
        Played(wire.completed(wire.message("Hi."))),
        text_of("Hi."),
        sent=sent_generation,
    ),
    "stop": Case(asked(), Played(wire.completed(wire.message("Hi."))), text_of("Hi.")),
    "tool_use": Case(
        asked(tools=(WEATHER,)),
        Played(wire.completed(wire.call("get_weather", ("{}",)))),
        ModelReply(
            parts=(ToolCall(call_id="call_7tRz", name="get_weather", raw="{}"),),
            usage=USED,
            terminal="tool_use",
        ),
    ),
    "output_limit": Case(
        asked(),
        Played(wire.incomplete("max_output_tokens", wire.message("Once upon a"))),
        text_of("Once upon a", terminal="output_limit"),
    ),
    "content_filter": Case(
        asked(),
        Played(wire.incomplete("content_filter", wire.message("First you"))),
        text_of("First you", terminal="content_filter"),
    ),
    "unknown_terminal": Case(
        asked(),
        Played(wire.incomplete("moon_phase", wire.message("First you"))),
        text_of("First you", terminal="unknown", diagnostic="incomplete: moon_phase"),
    ),
}

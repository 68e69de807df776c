"""The table of behaviours, filled for Gemini: requests, the bytes that answer them, and what must come of it."""

from __future__ import annotations

import base64
from typing import Any, ClassVar, TypeAlias

import msgspec

from tests.models import wire_google as wire
from tests.models.behaviours import KEY, Behaviours, Case, ClosableModel
from tests.models.wire_google import call, ended, said, stream
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
from windlass.models.google import GoogleModel
from windlass.models.route import Route, replay_blob
from windlass.ports.model import CallChunk, ReasoningChunk, TextChunk

Body: TypeAlias = dict[str, Any]

USED = Usage(input_tokens=11, output_tokens=3)
SIGNATURE = base64.b64encode(b"signed by gemini").decode()
NOT_MINE = base64.b64encode(b"skip_thought_signature_validator").decode()

ADD = ToolSpec(
    name="add",
    description="Add two numbers.",
    parameters={
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
)
NOW = ToolSpec(name="now", description="The time.", parameters={"type": "object", "properties": {}})
SHAPE = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def user(*parts: Any) -> ModelMessage:
    return ModelMessage(
        role="user", parts=tuple(Text(text=p) if isinstance(p, str) else p for p in parts)
    )


def assistant(*parts: Any) -> ModelMessage:
    return ModelMessage(role="assistant", parts=parts)


def request(*messages: ModelMessage, **rest: Any) -> ModelRequest:
    return ModelRequest(model="google:gemini-2.5-flash", messages=messages or (user("Hi"),), **rest)


def route(url: str, model: str = wire.MODEL) -> Route:
    return Route("google", url, model)


def minted(asked: ModelRequest, at: int) -> str:
    digest = asked.messages.chain_digest()  # type: ignore[attr-defined] # kept as a chain
    return f"call_{digest[:16]}_{at}"


def args(**given: Any) -> dict[str, Any]:
    """The arguments of a call as value and as text."""
    return {"args": given, "raw": msgspec.json.encode(given, order="sorted").decode()}


def one(parts: list[dict[str, Any]], name: str) -> list[Any]:
    return [part[name] for part in parts if name in part]


# --- what was sent -------------------------------------------------------------------------------


def sent_text(body: Body) -> None:
    assert body["contents"] == [{"role": "user", "parts": [{"text": "Hi"}]}]
    assert body["systemInstruction"]["parts"] == [{"text": "Be short."}]
    assert "tools" not in body


def sent_tools(body: Body) -> None:
    [tool] = body["tools"]
    add, now = tool["functionDeclarations"]
    assert add == {
        "name": "add",
        "description": "Add two numbers.",
        "parametersJsonSchema": ADD.parameters,
    }
    assert now == {"name": "now", "description": "The time."}
    assert "toolConfig" not in body


def sent_results(body: Body) -> None:
    asked, called, answered = body["contents"]
    assert [content["role"] for content in body["contents"]] == ["user", "model", "user"]
    assert asked["parts"] == [{"text": "1+2 and the time?"}]
    assert called["parts"] == [
        {"text": "Let me see."},
        {
            "functionCall": {"id": "c1", "name": "add", "args": {"a": 1, "b": 2}},
            "thoughtSignature": NOT_MINE,
        },
        {"functionCall": {"id": "c2", "name": "now", "args": {}}},
    ]
    assert answered["parts"] == [
        {"functionResponse": {"id": "c1", "name": "add", "response": {"output": "3"}}},
        {
            "functionResponse": {
                "id": "c2",
                "name": "now",
                "response": {"error": "no clock\n[attachment all.txt]"},
            }
        },
        {"text": "Hurry."},
    ]


def sent_required(body: Body) -> None:
    mode = body["toolConfig"]["functionCallingConfig"]["mode"]
    assert mode == "ANY"


def sent_images(body: Body) -> None:
    words, image, unknown = body["contents"][0]["parts"]
    assert words == {"text": "What is this?"}
    assert image == {"inlineData": {"mimeType": "image/png", "data": "iVBOR/8="}}
    assert unknown == {"text": "[attachment film.mp4]"}


def sent_files(body: Body) -> None:
    file, note = body["contents"][0]["parts"]
    assert base64.b64decode(file["inlineData"]["data"]) == b"%PDF-1.7"
    assert note == {"text": "[attachment note.md]\n# Grüße"}


def sent_result_image(body: Body) -> None:
    result, image = body["contents"][-1]["parts"]
    assert result["functionResponse"]["response"] == {"output": "Here:\n[attachment chart.png]"}
    assert base64.b64decode(image["inlineData"]["data"]) == b"\x89PNG\xff"


def sent_schema(body: Body) -> None:
    config = body["generationConfig"]
    assert config["responseMimeType"] == "application/json"
    assert config["responseJsonSchema"] == SHAPE


def sent_generation(body: Body) -> None:
    config = body["generationConfig"]
    thinking = config.pop("thinkingConfig")
    assert thinking == {"includeThoughts": True, "thinkingBudget": 8192}
    assert config == {
        "temperature": 0.5,
        "topP": 0.9,
        "seed": 7,
        "stopSequences": ["END"],
        "maxOutputTokens": 100,
    }


PNG = Attachment(ref="png", media_type="image/png", name="chart.png")
BLOBS = {"png": b"\x89PNG\xff", "pdf": b"%PDF-1.7", "md": "# Grüße".encode(), "mp4": b"film"}
WHOLE = Attachment(ref="whole", media_type="text/plain", name="all.txt")
CALLED = (
    user("1+2 and the time?"),
    assistant(
        Text(text="Let me see."),
        ToolCall(call_id="c1", name="add", args={"a": 1, "b": 2}),
        ToolCall(call_id="c2", name="now"),
    ),
    user(
        ToolResult(call_id="c1", name="add", content=(Text(text="3"),)),
        ToolResult(
            call_id="c2", name="now", content=(Text(text="no clock"), WHOLE), status="error"
        ),
    ),
    user("Hurry."),
)
TEXT = Case(
    request=request(ModelMessage(role="system", parts=(Text(text="Be short."),)), user("Hi")),
    answer=stream(said({"text": "Hello"}), said({"text": ", Wörld"}), ended({"text": " 😀"})),
    reply=ModelReply(text="Hello, Wörld 😀", usage=USED),
    shown=(TextChunk(text="Hello, Wörld 😀"),),
    sent=sent_text,
)
TOOLS = Case(
    request=request(user("1+2?"), tools=(ADD, NOW)),
    answer=stream(
        said({"text": "I add."}), said(call("add", args={"a": 1, "b": 2}, id="call-7")), ended()
    ),
    reply=ModelReply(
        parts=(
            Text(text="I add."),
            ToolCall(call_id="call-7", name="add", **args(a=1, b=2)),
        ),
        usage=USED,
        terminal="tool_use",
    ),
    shown=(
        TextChunk(text="I add."),
        CallChunk(call_id="call-7", name="add", text='{"a":1,"b":2}'),
    ),
    sent=sent_tools,
)
THOUGHTS = {
    "promptTokenCount": 20,
    "cachedContentTokenCount": 12,
    "candidatesTokenCount": 3,
    "thoughtsTokenCount": 5,
    "toolUsePromptTokenCount": 2,
    "totalTokenCount": 30,
}


def finished(reason: str, terminal: str) -> Case:
    return Case(
        request=request(),
        answer=stream(said({"text": "Half a"}), ended(reason=reason)),
        reply=ModelReply(
            text="Half a",
            usage=USED,
            terminal=terminal,
            diagnostic=f"Gemini ended the reply with {reason}",
        ),
    )


def _is(found: object, wanted: object) -> None:
    assert found == wanted


class Google(Behaviours):
    """The table."""

    endpoint: ClassVar[str] = f"POST /v1/models/{wire.MODEL}:streamGenerateContent"
    terminal: ClassVar[bytes] = wire.TERMINAL
    overflow: ClassVar[tuple[int, bytes]] = (400, wire.OVERFLOW)
    mid_stream_error: ClassVar[bytes | None] = wire.OVERLOADED
    cases: ClassVar[dict[str, Case]] = {
        "text": TEXT,
        "streaming": TEXT,
        "tools": TOOLS,
        "parallel_tools": Case(
            request=request(*CALLED, tools=(ADD, NOW)),
            answer=stream(said(call("add", args={"a": 3, "b": 4})), said(call("now")), ended()),
            reply=ModelReply(
                parts=(
                    ToolCall(call_id=minted(request(*CALLED), 0), name="add", **args(a=3, b=4)),
                    ToolCall(call_id=minted(request(*CALLED), 1), name="now", **args()),
                ),
                usage=USED,
                terminal="tool_use",
            ),
            sent=sent_results,
        ),
        "required_tool": Case(
            request=request(user("1+2?"), tools=(ADD,), tool_choice="required"),
            answer=TOOLS.answer,
            reply=TOOLS.reply,
            sent=sent_required,
        ),
        "reasoning": Case(
            request=request(),
            answer=stream(
                said({"text": "**Greet", "thought": True}),
                said({"text": "ing**", "thought": True}),
                said({"text": "Hello"}),
                ended(usage=THOUGHTS),
            ),
            reply=ModelReply(
                parts=(Reasoning(text="**Greeting**"), Text(text="Hello")),
                usage=Usage(
                    input_tokens=10, cached_input_tokens=12, output_tokens=8, reasoning_tokens=5
                ),
            ),
            shown=(ReasoningChunk(text="**Greeting**"), TextChunk(text="Hello")),
            sent=lambda body: _is(
                body["generationConfig"]["thinkingConfig"], {"includeThoughts": True}
            ),
        ),
        # What is replayed depends on the server's address: see test_signatures_* below.
        "reasoning_replay": Case(
            request=request(
                user("Hi"),
                assistant(
                    Reasoning(
                        text="Elsewhere",
                        replay=replay_blob(
                            {"on": "thought", "signature": SIGNATURE}, route("https://other.test")
                        ),
                    ),
                    Text(text="Hello"),
                ),
                user("And?"),
            ),
            answer=TEXT.answer,
            reply=TEXT.reply,
            sent=lambda body: _is(
                body["contents"][1], {"role": "model", "parts": [{"text": "Hello"}]}
            ),
        ),
        "images": Case(
            request=request(
                user(
                    "What is this?",
                    PNG,
                    Attachment(ref="mp4", media_type="video/mp4", name="film.mp4"),
                )
            ),
            answer=TEXT.answer,
            reply=TEXT.reply,
            sent=sent_images,
            blobs=BLOBS,
        ),
        "files": Case(
            request=request(
                user(
                    Attachment(ref="pdf", media_type="application/pdf"),
                    Attachment(ref="md", media_type="text/markdown", name="note.md"),
                )
            ),
            answer=TEXT.answer,
            reply=TEXT.reply,
            sent=sent_files,
            blobs=BLOBS,
        ),
        "tool_result_image": Case(
            request=request(
                user("Draw"),
                assistant(ToolCall(call_id="c1", name="draw")),
                user(ToolResult(call_id="c1", name="draw", content=(Text(text="Here:"), PNG))),
            ),
            answer=TEXT.answer,
            reply=TEXT.reply,
            sent=sent_result_image,
            blobs=BLOBS,
        ),
        "structured_output": Case(
            request=request(user("Where?"), output=SHAPE),
            answer=stream(said({"text": '{"city": "Pa'}), ended({"text": 'ris"}'})),
            reply=ModelReply(text='{"city": "Paris"}', usage=USED),
            sent=sent_schema,
        ),
        "usage": Case(
            request=request(),
            answer=stream(
                said({"text": "Hello"}, usage={"trafficType": "ON_DEMAND"}), ended(usage=THOUGHTS)
            ),
            reply=ModelReply(
                text="Hello",
                usage=Usage(
                    input_tokens=10, cached_input_tokens=12, output_tokens=8, reasoning_tokens=5
                ),
                provider_usage={"trafficType": "ON_DEMAND", **THOUGHTS},
            ),
        ),
        "generation": Case(
            request=request(
                generation=Generation(
                    max_output_tokens=100, temperature=0.5, top_p=0.9, seed=7, stop=("END",)
                ),
                variant="medium",
            ),
            answer=TEXT.answer,
            reply=TEXT.reply,
            sent=sent_generation,
        ),
        "stop": TEXT,
        "tool_use": TOOLS,
        "output_limit": finished("MAX_TOKENS", "output_limit"),
        "content_filter": finished("SAFETY", "content_filter"),
        "unknown_terminal": finished("SOLAR_FLARE", "unknown"),
    }

    def model(self, base_url: str, **options: Any) -> ClosableModel:
        return GoogleModel(wire.MODEL, base_url=base_url, api_key=KEY, **options)

    def refusal(self, status: int, reason: str) -> bytes:
        return wire.refusal(status, wire.STATUS_NAMES.get(status, "UNKNOWN"), reason)

"""What is Gemini's alone: its finish reasons, signatures, calls without ids, refusals."""

from __future__ import annotations

from typing import Any

import httpx2
import msgspec
import pytest

from tests.models import wire_google as wire
from tests.models.behaviours import KEY, ask
from tests.models.google_cases import (
    ADD,
    BLOBS,
    NOT_MINE,
    NOW,
    PNG,
    SHAPE,
    SIGNATURE,
    TEXT,
    Google,
    args,
    assistant,
    finished,
    request,
    route,
    sent_schema,
    user,
)
from tests.models.wire_google import call, ended, said, stream
from tests.models.wire_server import Played, WireServer
from windlass.errors import InvalidInput, Malformed, Rejected, Throttled, Unavailable
from windlass.kernel import Generation, Reasoning, Text, ToolCall, ToolResult, Usage
from windlass.models.capabilities import capabilities_of
from windlass.models.google import GoogleModel
from windlass.models.route import Route, replay_blob
from windlass.ports.model import TextChunk

GOOGLE = Google()


# --- reasons to end -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "terminal"),
    [
        ("MAX_TOKENS", "output_limit"),
        ("CONTINUATION", "output_limit"),
        ("RECITATION", "content_filter"),
        ("BLOCKLIST", "content_filter"),
        ("PROHIBITED_CONTENT", "content_filter"),
        ("SPII", "content_filter"),
        ("IMAGE_SAFETY", "content_filter"),
        ("LANGUAGE", "provider_error"),
        ("OTHER", "provider_error"),
        ("MALFORMED_FUNCTION_CALL", "provider_error"),
        ("UNEXPECTED_TOOL_CALL", "provider_error"),
        ("TOO_MANY_TOOL_CALLS", "provider_error"),
    ],
)
async def test_a_finish_reason_has_its_terminal(reason: str, terminal: str) -> None:
    case = finished(reason, terminal)
    async with GOOGLE.playing(case.answer) as (_, model):
        reply, _ = await ask(model, case.request)
    assert (reply.terminal, reply.text) == (terminal, "Half a")
    assert reply.diagnostic == f"Gemini ended the reply with {reason}"


async def test_no_finish_reason_of_the_sdk_is_unknown_here() -> None:
    from google.genai.types import FinishReason  # noqa: PLC0415 - as late as the adapter does

    from windlass.models.google.stream import _TERMINALS, _UNSAID  # noqa: PLC0415

    assert {reason.value for reason in FinishReason} - set(_TERMINALS) == {_UNSAID}


async def test_a_blocked_prompt_is_a_content_filter_and_says_why() -> None:
    blocked = {
        "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
        "usageMetadata": {"promptTokenCount": 11, "totalTokenCount": 11},
    }
    async with GOOGLE.playing(stream(blocked)) as (_, model):
        reply, shown = await ask(model, request())
    assert (reply.terminal, reply.parts, shown) == ("content_filter", (), ())
    assert reply.diagnostic == "Gemini refused the prompt: PROHIBITED_CONTENT"
    assert reply.usage == Usage(input_tokens=11)


async def test_a_reason_with_every_chunk_does_not_end_the_reply_early() -> None:
    chunks = [ended({"text": word}) for word in ("one ", "two ")]
    answer = stream(*chunks, ended({"text": "three"}, reason="MAX_TOKENS"), ended())
    async with GOOGLE.playing(answer) as (_, model):
        reply, _ = await ask(model, request())
    assert (reply.text, reply.terminal) == ("one two three", "output_limit")


async def test_a_call_at_the_output_limit_is_whole() -> None:
    answer = stream(said(call("add", args={"a": 1, "b": 2})), ended(reason="MAX_TOKENS"))
    async with GOOGLE.playing(answer) as (_, model):
        reply, _ = await ask(model, request(tools=(ADD,)))
    [made] = reply.parts
    assert isinstance(made, ToolCall)
    assert (reply.terminal, made.raw) == ("output_limit", '{"a":1,"b":2}')


# --- signatures -----------------------------------------------------------------------------


async def test_signatures_come_back_on_the_parts_they_came_with() -> None:
    answer = stream(
        said({"text": "Hm.", "thought": True, "thoughtSignature": SIGNATURE}),
        said({"text": "So.", "thought": True}),
        said({"text": "Let me "}),
        said({"text": "add.", "thoughtSignature": SIGNATURE}),
        said({"text": " Now"}),
        said(call("add", SIGNATURE, args={"a": 1, "b": 2}, id="c1")),
        said(call("now", id="c2")),
        ended(),
    )
    async with GOOGLE.playing(answer) as (server, model):
        reply, _ = await ask(model, request(tools=(ADD, NOW)))
        home = route(server.url)
        of_text = replay_blob({"on": "text", "signature": SIGNATURE}, home)
        assert reply.parts[:5] == (
            Reasoning(
                text="Hm.",
                replay=replay_blob({"on": "thought", "signature": SIGNATURE}, home),
            ),
            Reasoning(text="So.", replay=of_text),
            Text(text="Let me add."),
            Text(text=" Now"),
            ToolCall(
                call_id="c1",
                name="add",
                **args(a=1, b=2),
                replay=replay_blob({"on": "call", "signature": SIGNATURE}, home),
            ),
        )
        await ask(model, request(user("Hi"), assistant(*reply.parts), user("Go on")))
    assert server.requests[1].json["contents"][1]["parts"] == [
        {"text": "Hm.", "thought": True, "thoughtSignature": SIGNATURE},
        {"text": "Let me add.", "thoughtSignature": SIGNATURE},
        {"text": " Now"},
        {
            "functionCall": {"id": "c1", "name": "add", "args": {"a": 1, "b": 2}},
            "thoughtSignature": SIGNATURE,
        },
        {"functionCall": {"id": "c2", "name": "now", "args": {}}},
    ]


async def test_a_signature_on_an_empty_last_part_is_of_the_words_before_it() -> None:
    answer = stream(said({"text": "Hello"}), ended({"text": "", "thoughtSignature": SIGNATURE}))
    async with GOOGLE.playing(answer) as (server, model):
        reply, shown = await ask(model, request())
        assert reply.parts == (
            Reasoning(
                replay=replay_blob({"on": "text", "signature": SIGNATURE}, route(server.url))
            ),
            Text(text="Hello"),
        )
        assert shown == (TextChunk(text="Hello"),)
        await ask(model, request(user("Hi"), assistant(*reply.parts), user("Go on")))
    assert server.requests[1].json["contents"][1]["parts"] == [
        {"text": "Hello", "thoughtSignature": SIGNATURE}
    ]


@pytest.mark.parametrize(
    "other",
    [
        Route("google", "https://other.test", wire.MODEL),
        Route("anthropic", "https://other.test", wire.MODEL),
        None,
    ],
    ids=["another host", "another provider", "another model"],
)
async def test_signatures_of_another_route_stay_behind(other: Route | None) -> None:
    async with GOOGLE.playing(TEXT.answer) as (server, model):
        made = other or route(server.url, "gemini-2.5-pro")
        said_then = assistant(
            Reasoning(
                text="Hm.", replay=replay_blob({"on": "thought", "signature": SIGNATURE}, made)
            ),
            Reasoning(replay=replay_blob({"on": "text", "signature": SIGNATURE}, made)),
            Text(text="Hello"),
            ToolCall(
                call_id="c1",
                name="now",
                replay=replay_blob({"on": "call", "signature": SIGNATURE}, made),
            ),
        )
        then = user(ToolResult(call_id="c1", name="now", content=(Text(text="noon"),)))
        await ask(model, request(user("Hi"), said_then, then))
    assert server.requests[0].json["contents"][1]["parts"] == [
        {"text": "Hello"},
        {
            "functionCall": {"id": "c1", "name": "now", "args": {}},
            "thoughtSignature": NOT_MINE,
        },
    ]


async def test_a_message_of_nothing_but_foreign_thoughts_is_left_out() -> None:
    foreign = Reasoning(text="Hm.", replay={"route": "elsewhere", "blob": "x"})
    async with GOOGLE.playing(TEXT.answer) as (server, model):
        await ask(model, request(user("One"), assistant(foreign), user("Two")))
    assert server.requests[0].json["contents"] == [
        {"role": "user", "parts": [{"text": "One"}, {"text": "Two"}]}
    ]


# --- calls ----------------------------------------------------------------------------------


async def test_calls_without_ids_get_the_same_ids_again_for_the_same_request() -> None:
    answer = stream(said(call("now")), said(call("now")), ended())
    async with GOOGLE.playing(answer) as (_, model):
        first, _ = await ask(model, request(user("Hi")))
        again, _ = await ask(model, request(user("Hi")))
        other, _ = await ask(model, request(user("Ho")))
    ids = [part.call_id for part in first.parts if isinstance(part, ToolCall)]
    assert len(set(ids)) == 2
    assert first.parts == again.parts
    assert {part.call_id for part in other.parts if isinstance(part, ToolCall)}.isdisjoint(ids)


@pytest.mark.parametrize(
    "part",
    [
        {"functionCall": {"args": {}}},
        {"functionCall": {"name": "add", "args": {"a": 1}, "willContinue": True}},
        {"functionCall": {"name": "add", "args": [1]}},
        {"functionCall": {"name": "add", "args": {"a": float("nan")}}},
    ],
    ids=["no name", "not whole", "no object", "no number"],
)
async def test_a_call_that_is_none_is_malformed(part: dict[str, Any]) -> None:
    assert type(await GOOGLE.fault(stream(said(part), ended()))) is Malformed


async def test_a_tool_choice_of_none_forbids_calls() -> None:
    async with GOOGLE.playing(TEXT.answer) as (server, model):
        await ask(model, request(tools=(ADD,), tool_choice="none"))
    config = server.requests[0].json["toolConfig"]["functionCallingConfig"]
    assert config == {"mode": "NONE"}


# --- the request ----------------------------------------------------------------------------


async def test_results_stand_right_behind_the_calls() -> None:
    made = assistant(ToolCall(call_id="c1", name="now"))
    answer = ToolResult(call_id="c1", name="now", content=(Text(text="noon"),))
    async with GOOGLE.playing(TEXT.answer) as (server, model):
        await ask(model, request(user("Hi"), made, user("Wait.", answer)))
    assert server.requests[0].json["contents"][-1]["parts"] == [
        {"functionResponse": {"id": "c1", "name": "now", "response": {"output": "noon"}}},
        {"text": "Wait."},
    ]


async def test_a_schema_beside_tools_is_told_in_words_where_both_do_not_go() -> None:
    async with GOOGLE.playing(TEXT.answer) as (server, model):
        await ask(model, request(tools=(ADD,), output=SHAPE))
    body = server.requests[0].json
    assert "responseJsonSchema" not in body["generationConfig"]
    assert '"city"' in body["systemInstruction"]["parts"][0]["text"]
    can = capabilities_of("google", "gemini-3-pro")
    async with GOOGLE.playing(TEXT.answer, capabilities=can) as (server, model):
        await ask(model, request(tools=(ADD,), output=SHAPE))
    sent_schema(server.requests[0].json)


async def test_a_variant_that_the_model_does_not_have_is_refused_before_any_call() -> None:
    async with GOOGLE.playing(TEXT.answer) as (server, model):
        with pytest.raises(InvalidInput, match="variant"):
            await ask(model, request(variant="extreme"))
    assert server.requests == []


async def test_without_thoughts_none_are_asked_for() -> None:
    async with GOOGLE.playing(TEXT.answer) as (server, model):
        await ask(model, request(variant="none"))
    thinking = server.requests[0].json["generationConfig"]["thinkingConfig"]
    assert thinking == {"include_thoughts": False, "thinking_budget": 0}


async def test_newer_models_are_told_a_level() -> None:
    async with WireServer(
        {"POST /v1/models/gemini-3-pro:streamGenerateContent": TEXT.answer}
    ) as server:
        model = GoogleModel("gemini-3-pro", base_url=server.url, api_key=KEY)
        await ask(model, request(variant="low"))
        await model.aclose()
    thinking = server.requests[0].json["generationConfig"]["thinkingConfig"]
    assert {k: str(v).lower() for k, v in thinking.items()} == {
        "include_thoughts": "true",
        "thinking_level": "low",
    }


async def test_what_a_model_cannot_is_not_asked_of_it() -> None:
    can = msgspec.structs.replace(
        capabilities_of("google", wire.MODEL), tools=False, sampling=False, images=False
    )
    wanted = request(user(PNG), tools=(ADD,), generation=Generation(temperature=1.0, seed=1))
    async with GOOGLE.playing(TEXT.answer, capabilities=can) as (server, model):
        await ask(model, wanted, BLOBS)
    body = server.requests[0].json
    assert "tools" not in body
    assert body["contents"][0]["parts"] == [{"text": "[attachment chart.png]"}]
    assert set(body["generationConfig"]) == {"seed", "thinkingConfig"}


# --- faults ---------------------------------------------------------------------------------


async def test_a_bad_key_is_a_400_and_rejected() -> None:
    error = await GOOGLE.fault(Played(wire.BAD_KEY, 400, {}, "application/json"))
    assert type(error) is Rejected
    assert "API key not valid" in str(error)


@pytest.mark.parametrize(
    ("delay", "seconds"), [("34.074824224s", 34.074824224), ("86400s", 300.0), ("soon", None)]
)
async def test_the_delay_in_the_body_is_the_wish_to_wait(delay: str, seconds: float | None) -> None:
    error = await GOOGLE.fault(Played(wire.exhausted(delay), 429, {}, "application/json"))
    assert isinstance(error, Throttled)
    assert error.retry_after_s == seconds


async def test_a_stream_that_ends_at_any_byte_is_passing() -> None:
    body = stream(said({"text": "a \\ \u00e9", "thought": True}), said({"text": "b"})).body
    cuts = [Played(body[:place]) for place in range(1, len(body), 3)]
    async with GOOGLE.playing(cuts) as (_, model):
        for _ in cuts:
            with pytest.raises(Unavailable, match="broke off"):
                await ask(model, request())


async def test_a_refusal_in_mid_stream_has_the_class_of_its_code() -> None:
    refused = b'data: {"error": {"code": 400, "message": "No.", "status": "INVALID_ARGUMENT"}}\n\n'
    error = await GOOGLE.fault(Played(stream(said({"text": "Hel"})).body + refused))
    assert type(error) is Rejected
    assert "No." in str(error)


async def test_an_error_without_a_code_is_malformed() -> None:
    error = await GOOGLE.fault(Played(b'data: {"error": {"message": "What?"}}\n\n'))
    assert type(error) is Malformed


@pytest.mark.parametrize("count", [-1, 2**63, "many", 1.5, [1]])
async def test_a_count_that_is_none_is_malformed(count: object) -> None:
    answer = stream(ended({"text": "Hi"}, usage={"promptTokenCount": count}))
    assert type(await GOOGLE.fault(answer)) is Malformed


async def test_counts_that_are_missing_are_unknown() -> None:
    chunk = ended({"text": "Hi"})
    del chunk["usageMetadata"]
    async with GOOGLE.playing(stream(chunk)) as (_, model):
        reply, _ = await ask(model, request())
    assert (reply.usage, reply.provider_usage) == (Usage(), None)


async def test_another_model_than_asked_for_is_recorded() -> None:
    chunk = {**ended({"text": "Hi"}), "modelVersion": "gemini-9"}
    async with GOOGLE.playing(stream(chunk)) as (_, model):
        reply, _ = await ask(model, request())
    assert reply.provider_usage["served_model"] == "gemini-9"


async def test_parts_that_nobody_asked_for_are_named_and_left_out() -> None:
    image = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    async with GOOGLE.playing(stream(said({"text": "Look"}, image), ended())) as (_, model):
        reply, _ = await ask(model, request())
    assert (reply.parts, reply.terminal) == ((Text(text="Look"),), "stop")
    assert reply.diagnostic == "left out of the reply: inline_data"


async def test_text_that_cannot_be_stored_is_repaired() -> None:
    body = stream(ended({"text": "a@b"})).body.replace(b"@", b"\\u0000\\ud800")
    async with GOOGLE.playing(Played(body)) as (_, model):
        reply, _ = await ask(model, request())
    assert reply.text == "a\ufffd\ufffdb"


async def test_a_client_of_ones_own_is_used_and_left_open() -> None:
    async with httpx2.AsyncClient(headers={"x-mine": "yes"}) as http:
        async with GOOGLE.playing(TEXT.answer, http_client=http) as (server, model):
            reply, _ = await ask(model, TEXT.request)
        assert reply.parts == TEXT.reply.parts
        assert server.requests[0].headers["x-mine"] == "yes"
        assert not http.is_closed

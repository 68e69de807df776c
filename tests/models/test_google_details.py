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
    PNG,
    SHAPE,
    TEXT,
    Google,
    assistant,
    finished,
    request,
    sent_schema,
    user,
)
from tests.models.wire_google import call, ended, said, stream
from tests.models.wire_server import Played, WireServer
from windlass.errors import InvalidInput, Malformed, Rejected, Throttled, Unavailable
from windlass.kernel import Generation, Text, ToolCall, ToolResult, Usage
from windlass.models.capabilities import capabilities_of
from windlass.models.google import GoogleModel

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
        ("MODEL_ARMOR", "content_filter"),
        ("LANGUAGE", "provider_error"),
        ("OTHER", "provider_error"),
        ("MALFORMED_FUNCTION_CALL", "provider_error"),
        ("UNEXPECTED_TOOL_CALL", "provider_error"),
        ("TOO_MANY_TOOL_CALLS", "provider_error"),
        ("MISSING_THOUGHT_SIGNATURE", "provider_error"),
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


async def test_a_finish_reason_is_told_with_geminis_own_words() -> None:
    chunk = ended(reason="MODEL_ARMOR")
    chunk["candidates"][0]["finishMessage"] = "The response violated a filter."
    async with GOOGLE.playing(stream(chunk)) as (_, model):
        reply, _ = await ask(model, request())
    assert (reply.terminal, reply.parts) == ("content_filter", ())
    told = "Gemini ended the reply with MODEL_ARMOR: The response violated a filter."
    assert reply.diagnostic == told


def blocked(reason: str, **feedback: str) -> dict[str, Any]:
    return {
        "promptFeedback": {"blockReason": reason, **feedback},
        "usageMetadata": {"promptTokenCount": 11, "totalTokenCount": 11},
    }


async def test_a_blocked_prompt_is_a_content_filter_and_says_why() -> None:
    from google.genai.types import BlockedReason  # noqa: PLC0415 - as late as the adapter does

    for reason in (*(each.value for each in BlockedReason), "REASON_OF_TOMORROW"):
        async with GOOGLE.playing(stream(blocked(reason))) as (_, model):
            reply, shown = await ask(model, request())
        assert (reply.terminal, reply.parts, shown) == ("content_filter", (), ())
        assert reply.diagnostic == f"Gemini refused the prompt: {reason}"
        assert reply.usage == Usage(input_tokens=11)


async def test_a_blocked_prompt_is_told_with_geminis_own_words() -> None:
    answer = stream(blocked("MODEL_ARMOR", blockReasonMessage="A filter was violated."))
    async with GOOGLE.playing(answer) as (_, model):
        reply, _ = await ask(model, request())
    assert reply.diagnostic == "Gemini refused the prompt: MODEL_ARMOR: A filter was violated."


async def test_an_empty_reply_says_that_it_is_empty() -> None:
    async with GOOGLE.playing(stream(ended())) as (_, model):
        reply, _ = await ask(model, request())
    assert (reply.parts, reply.terminal) == ((), "stop")
    assert reply.diagnostic == "Gemini ended the reply without a word"


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
    assert thinking == {"includeThoughts": False, "thinkingBudget": 0}


async def test_newer_models_are_told_a_level() -> None:
    async with WireServer(
        {"POST /v1/models/gemini-3-pro:streamGenerateContent": TEXT.answer}
    ) as server:
        model = GoogleModel("gemini-3-pro", base_url=server.url, api_key=KEY)
        await ask(model, request(variant="low"))
        await model.aclose()
    thinking = server.requests[0].json["generationConfig"]["thinkingConfig"]
    assert thinking == {"includeThoughts": True, "thinkingLevel": "LOW"}


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


async def test_an_error_without_a_code_is_passing() -> None:
    error = await GOOGLE.fault(Played(b'data: {"error": {"message": "What?"}}\n\n'))
    assert type(error) is Unavailable


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
    assert reply.diagnostic == "left out of the reply: inlineData"


async def test_what_is_left_out_is_named_also_where_the_reply_ends_early() -> None:
    image = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    answer = stream(said(image), ended(reason="MAX_TOKENS"))
    async with GOOGLE.playing(answer) as (_, model):
        reply, _ = await ask(model, request())
    assert reply.terminal == "output_limit"
    assert reply.diagnostic == (
        "Gemini ended the reply with MAX_TOKENS; left out of the reply: inlineData"
    )


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

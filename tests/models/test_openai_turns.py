"""Whole turns by Chat Completions, against servers that refuse what the real ones refuse."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.models import wire_openai_chat as wire
from tests.models.behaviours import KEY
from tests.models.wire_rules import mistral, openai_chat
from tests.models.wire_server import Played, Seen, WireServer
from windlass import Agent, Runtime, tool
from windlass.api.session import Session
from windlass.models.openai_chat import OpenAIChatModel

GEMINI = "google/gemini-3-pro-preview"
SIGNATURE = "c2lnbmVkLWJ5LWdvb2dsZQ"
# As long as OpenRouter's are for Gemini: `tool_`, the tool's name, 20 characters.
LONG_ID = "tool_weather_in_the_city_3ZiChYzj8xER8HixJe7W"


@tool(effect="pure")
async def weather_in_the_city(city: str) -> str:
    """Say how the weather is."""
    return f"Sunny in {city}."


def refused(message: str, **error: Any) -> Played:
    told = {"message": message, "type": "invalid_request_error", "param": None, **error}
    return Played(json.dumps({"error": told}).encode(), 400, {}, "application/json")


def calling(call_id: str | None, *before: wire.Chunk, city: str = "Paris") -> bytes:
    call = wire.piece(0, call_id, "weather_in_the_city", json.dumps({"city": city}))
    return wire.whole(*before, wire.calls(call), finish="tool_calls")


def saying(text: str) -> bytes:
    return wire.whole(*wire.words(text))


class Judge:
    """Answers with these bodies in their order, but refuses a request that breaks a rule."""

    def __init__(self, rule: Callable[[dict[str, Any]], Played | None], *bodies: bytes) -> None:
        self._rule = rule
        self._bodies = list(bodies)

    def __call__(self, seen: Seen) -> Played:
        assert openai_chat(seen.json) == []
        return self._rule(seen.json) or Played(self._bodies.pop(0))


@asynccontextmanager
async def session_with(
    dialect: str, model: str, judge: Judge | list[Played], **options: Any
) -> AsyncIterator[tuple[Session[Any], WireServer]]:
    async with WireServer({"POST /v1/chat/completions": judge}) as server:
        asked = OpenAIChatModel(
            model, dialect=dialect, base_url=f"{server.url}/v1", api_key=KEY, **options
        )
        agent = Agent("a", model=asked, tools=[weather_in_the_city])
        try:
            async with Runtime(agent, store="memory:") as runtime:
                yield runtime.session("s"), server
        finally:
            await asked.aclose()


# --- OpenRouter and Gemini 3: a call is found by the id in its details ---------------------------------


def signatures_needed(body: dict[str, Any]) -> Played | None:
    """Refuse calls whose signature cannot be found; OpenRouter finds it by the id that a detail names."""
    for message in body["messages"]:
        ids = [call["id"] for call in message.get("tool_calls", ())]
        details = message.get("reasoning_details", [])
        signed = [each["id"] for each in details if each["type"] == "reasoning.encrypted"]
        if ids and (ids[0] not in signed or set(signed) - set(ids)):
            return refused("Function call is missing a thought_signature in functionCall parts.")
    return None


def signed(call_id: str, city: str = "Paris") -> bytes:
    detail = {"type": "reasoning.encrypted", "data": SIGNATURE, "id": call_id, "index": 0}
    thought = {"type": "reasoning.text", "text": "Hm.", "format": "google-gemini-v1", "index": 0}
    return calling(
        call_id, wire.chunk({"reasoning_details": [thought]}),
        wire.chunk({"reasoning_details": [{**detail, "format": "google-gemini-v1"}]}), city=city,
    )  # fmt: skip


async def test_the_signature_of_a_call_with_a_long_id_is_found() -> None:
    judge = Judge(signatures_needed, signed(LONG_ID), saying("Sunny."))
    async with session_with("openrouter", GEMINI, judge) as (session, server):
        result = await session.run("How is the weather?")
    assert result.text == "Sunny."
    _, called, answered = server.requests[1].json["messages"]
    assert called["tool_calls"][0]["id"] == answered["tool_call_id"] == LONG_ID
    assert called["reasoning_details"][1] == {
        "type": "reasoning.encrypted",
        "data": SIGNATURE,
        "id": LONG_ID,
        "format": "google-gemini-v1",
        "index": 0,
    }


async def test_an_id_that_comes_again_is_rewritten_with_what_refers_to_it() -> None:
    bodies = [body for city in ("Rome", "Oslo") for body in (signed("same", city), saying(city))]
    judge = Judge(signatures_needed, *bodies)
    async with session_with("openrouter", GEMINI, judge) as (session, server):
        assert (await session.run("Rome?")).text == "Rome"
        assert (await session.run("Oslo?")).text == "Oslo"
    said = [each for each in server.requests[3].json["messages"] if each.get("tool_calls")]
    first, second = (each["tool_calls"][0]["id"] for each in said)
    assert first == "same"
    assert second.startswith("call_")
    assert said[1]["reasoning_details"][-1]["id"] == second


async def then_another(dialect: str, name: str, before: Judge, judge: Judge) -> list[Any]:
    """Run a turn with one model, the next with another; return the other's first messages."""
    async with (
        WireServer({"POST /v1/chat/completions": before}) as elsewhere,
        WireServer({"POST /v1/chat/completions": judge}) as server,
    ):
        url = f"{server.url}/v1"
        models = [
            OpenAIChatModel("m", dialect="vllm", base_url=f"{elsewhere.url}/v1"),
            OpenAIChatModel(name, dialect=dialect, base_url=url, api_key=KEY),
        ]
        agent = Agent("a", model=models[0], tools=[weather_in_the_city])
        try:
            async with Runtime(agent, store="memory:", models=models) as runtime:
                session = runtime.session("s")
                await session.run("How is the weather?")
                result = await session.run("And there?", model=f"{dialect}:{name}")
        finally:
            for model in models:
                await model.aclose()
    assert result.text == "Sunny."
    messages: list[Any] = server.requests[0].json["messages"]
    return messages


async def test_calls_that_another_model_made_are_excused_once_for_each_message() -> None:
    """As OpenRouter told the makers of a client to do; not recorded."""
    both = [wire.piece(at, f"c{at}", "weather_in_the_city", '{"city": "Oslo"}') for at in (0, 1)]
    before = Judge(lambda _: None, wire.whole(wire.calls(*both)), saying("Hi."))
    judge = Judge(signatures_needed, saying("Sunny."))
    called = (await then_another("openrouter", GEMINI, before, judge))[1]
    assert called["reasoning_details"] == [
        {
            "type": "reasoning.encrypted",
            "data": "skip_thought_signature_validator",
            "id": "c0",
            "format": "google-gemini-v1",
            "index": 0,
        }
    ]


# --- DeepSeek: thoughts come back with every call ------------------------------------------------------


def thoughts_needed(body: dict[str, Any]) -> Played | None:
    for message in body["messages"]:
        if message["role"] == "assistant" and "reasoning_content" not in message:
            return refused(
                "The `reasoning_content` in the thinking mode must be passed back to the API.",
                code="invalid_request_error",
            )
    if body.get("tool_choice") == "required":
        return refused("Thinking mode does not support this tool_choice")
    return None


async def test_deepseek_gets_its_thoughts_back_with_its_calls() -> None:
    thought = wire.chunk({"role": "assistant", "content": None, "reasoning_content": "I look."})
    judge = Judge(
        thoughts_needed, calling("call_00_a", thought), saying("Sunny."), saying("Welcome.")
    )
    async with session_with("deepseek", "deepseek-v4-pro", judge) as (session, server):
        assert (await session.run("How is the weather?")).text == "Sunny."
        assert (await session.run("Thanks")).text == "Welcome."
    thoughts = [
        each["reasoning_content"]
        for each in server.requests[2].json["messages"]
        if each["role"] == "assistant"
    ]
    assert thoughts == ["I look.", ""]


async def test_deepseek_takes_calls_that_another_model_made_with_empty_thoughts() -> None:
    """As several clients send them; DeepSeek documents only that the field has to be there."""
    thought = wire.chunk({"reasoning": "I look."})
    before = Judge(lambda _: None, calling("c1", thought), saying("Hi."))
    judge = Judge(thoughts_needed, saying("Sunny."))
    messages = await then_another("deepseek", "deepseek-v4-pro", before, judge)
    assert [each.get("reasoning_content") for each in messages] == [None, "", None, "", None]


# --- Mistral: its ids, its order -----------------------------------------------------------------------


async def test_mistral_gets_ids_and_an_order_that_it_takes() -> None:
    foreign = "call_21fae52a93760e4c_0_0"
    judge = Judge(
        lambda body: next((refused(each) for each in mistral(body)), None),
        calling(foreign), saying("Sunny."), saying("Welcome."),
    )  # fmt: skip
    async with session_with("mistral", "mistral-small-latest", judge) as (session, server):
        assert (await session.run("How is the weather?")).text == "Sunny."
        assert (await session.run("Thanks")).text == "Welcome."
    sent = [request.json["messages"] for request in server.requests]
    assert sent[1][1]["tool_calls"][0]["id"] == sent[1][2]["tool_call_id"] != foreign
    assert sent[2][1:3] == sent[1][1:3]


# --- Groq: a call that the server refused --------------------------------------------------------------

SCHEMA_WORDS = "Tool call validation failed: parameters for tool weather_in_the_city did not match"


def unfit(generation: str) -> dict[str, Any]:
    return {
        "message": SCHEMA_WORDS,
        "type": "invalid_request_error",
        "code": "tool_use_failed",
        "failed_generation": generation,
    }


def in_mid_stream(error: dict[str, Any], *before: wire.Chunk) -> Played:
    return Played(wire.body(*before) + b"event: error\n" + wire.body({"error": error}))


WRONG_ARGUMENTS = '{"name": "weather_in_the_city", "arguments": {"town": "Paris"}}'
ALMOST = '<function=weather_in_the_city{"city": "Paris"},-----'


@pytest.mark.parametrize(
    ("generation", "answer"),
    [
        (WRONG_ARGUMENTS, "args.city: found nothing, wanted a value"),
        (f"[{WRONG_ARGUMENTS}]", "args.city: found nothing, wanted a value"),
        (ALMOST, "Not run: the call was cut off or is not well formed"),
    ],
)
@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_call_that_groq_refused_is_answered_so_that_the_model_sees_its_mistake(
    generation: str, answer: str, is_streamed: bool
) -> None:
    error = unfit(generation)
    thought = wire.chunk({"reasoning": "Let me see.", "channel": "analysis"})
    failed = in_mid_stream(error, thought) if is_streamed else refused(**error)
    answers = [failed, Played(calling("fc_1")), Played(saying("Sunny."))]
    async with session_with("groq", "openai/gpt-oss-120b", answers) as (session, server):
        result = await session.run("How is the weather?")
    assert result.text == "Sunny."
    assert len(server.requests) == 3
    _, called, told = server.requests[1].json["messages"]
    assert called["tool_calls"][0]["function"]["name"] == "weather_in_the_city"
    assert told["content"].startswith(answer)
    assert openai_chat(server.requests[2].json) == []


async def test_words_where_groq_wanted_a_call_are_the_answer() -> None:
    error = {**unfit(""), "message": "Tool choice is required, but model did not call a tool"}
    streamed = in_mid_stream(error, *wire.words("may", "be"))
    whole = refused(**{**error, "failed_generation": "maybe"})
    for failed in (streamed, whole):
        async with session_with("groq", "openai/gpt-oss-120b", [failed]) as (session, _):
            assert (await session.run("How is the weather?")).text == "maybe"


async def test_what_groq_refused_and_nobody_can_read_is_asked_again() -> None:
    answers = [refused(**unfit("<function>")), Played(saying("Sunny."))]
    async with session_with("groq", "openai/gpt-oss-120b", answers) as (session, _):
        result = await session.run("How is the weather?", turn_id="t")
        assert [wait.kind for wait in result.waits] == ["provider"]
        while result.parked:
            await asyncio.sleep(0.05)
            result = await session.run("How is the weather?", turn_id="t")
    assert result.text == "Sunny."

"""Gemini's signatures: each goes back on the part that it came with, to the route that made it."""

from __future__ import annotations

import pytest

from tests.models import wire_google as wire
from tests.models.behaviours import ask
from tests.models.google_cases import (
    ADD,
    NOT_MINE,
    NOW,
    SIGNATURE,
    TEXT,
    Google,
    args,
    assistant,
    request,
    route,
    user,
)
from tests.models.wire_google import call, ended, said, stream
from windlass.errors import Malformed
from windlass.kernel import Reasoning, Text, ToolCall, ToolResult
from windlass.models.route import Route, replay_blob
from windlass.ports.model import TextChunk

GOOGLE = Google()


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
            Reasoning(text="So."),
            Text(text="Let me add.", replay=of_text),
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
        replay = replay_blob({"on": "text", "signature": SIGNATURE}, route(server.url))
        assert reply.parts == (Text(text="Hello", replay=replay),)
        assert shown == (TextChunk(text="Hello"),)
        await ask(model, request(user("Hi"), assistant(*reply.parts), user("Go on")))
    assert server.requests[1].json["contents"][1]["parts"] == [
        {"text": "Hello", "thoughtSignature": SIGNATURE}
    ]


async def test_a_signature_that_an_older_version_stored_on_a_thought_goes_to_the_words() -> None:
    async with GOOGLE.playing(TEXT.answer) as (server, model):
        replay = replay_blob({"on": "text", "signature": SIGNATURE}, route(server.url))
        stored = assistant(Reasoning(text="So.", replay=replay), Text(text="Hello"), Text(text="!"))
        await ask(model, request(user("Hi"), stored, user("Go on")))
    assert server.requests[0].json["contents"][1]["parts"] == [
        {"text": "Hello", "thoughtSignature": SIGNATURE},
        {"text": "!"},
    ]


async def test_a_signature_alone_is_of_the_words_before_it() -> None:
    answer = stream(said({"text": "Hello"}), ended({"thoughtSignature": SIGNATURE}))
    async with GOOGLE.playing(answer) as (server, model):
        reply, _ = await ask(model, request())
    replay = replay_blob({"on": "text", "signature": SIGNATURE}, route(server.url))
    assert reply.parts == (Text(text="Hello", replay=replay),)
    assert reply.diagnostic is None


@pytest.mark.parametrize("signature", [7, "no base64!", "\u0000"])
async def test_a_signature_that_is_none_is_malformed(signature: object) -> None:
    part = {"text": "Hello", "thoughtSignature": signature}
    assert type(await GOOGLE.fault(stream(ended(part)))) is Malformed


@pytest.mark.parametrize(
    "other",
    [
        Route("google", "https://other.test", wire.MODEL),
        Route("anthropic", "https://other.test", wire.MODEL),
        Route("vertex", "https://other.test", wire.MODEL),
        None,
    ],
    ids=["another host", "another provider", "Vertex", "another model"],
)
async def test_signatures_of_another_route_stay_behind(other: Route | None) -> None:
    async with GOOGLE.playing(TEXT.answer) as (server, model):
        made = other or route(server.url, "gemini-2.5-pro")
        said_then = assistant(
            Reasoning(
                text="Hm.", replay=replay_blob({"on": "thought", "signature": SIGNATURE}, made)
            ),
            Reasoning(replay=replay_blob({"on": "text", "signature": SIGNATURE}, made)),
            Text(text="Hello", replay=replay_blob({"on": "text", "signature": SIGNATURE}, made)),
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

"""The dialects of Chat Completions: what each server is sent, and what it may send."""

from __future__ import annotations

from typing import Any

import pytest

from tests.models import wire_openai_chat as wire
from tests.models.behaviours import KEY, ask
from tests.models.openai_chat_cases import (
    PARIS,
    PERSON,
    ROME,
    WEATHER,
    asked,
    said,
    whole_call,
)
from tests.models.wire_server import Played, WireServer
from windlass.errors import Malformed, Unavailable
from windlass.kernel import ModelReply, ModelRequest
from windlass.kernel.messages import Attachment, Reasoning, Text
from windlass.kernel.model_call import Generation
from windlass.models.capabilities import Capabilities
from windlass.models.openai_chat import OpenAIChatModel
from windlass.ports.model import ReasoningChunk, TextChunk


async def play(
    dialect: str, body: bytes, request: ModelRequest | None = None, **options: Any
) -> tuple[ModelReply, tuple[Any, ...], Any]:
    """Ask a server of a dialect; return the reply, what was shown, what was sent."""
    async with WireServer({"POST /v1/chat/completions": Played(body)}) as server:
        url = f"{server.url}/v1"
        model = OpenAIChatModel("some-model", dialect=dialect, base_url=url, **options)
        try:
            reply, shown = await ask(model, request or asked(tools=(WEATHER,)))
        finally:
            await model.aclose()
    return reply, shown, server.requests[0].json


def bare(*chunks: wire.Chunk, finish: str | None = "stop") -> bytes:
    """A completion without usage."""
    last = [wire.chunk({}, finish)] if finish else []
    return wire.body(*chunks, *last, wire.DONE)


MENU: list[tuple[str, tuple[wire.Chunk, ...], list[tuple[str, str]]]] = [
    ("pieces by number", (*PARIS, *ROME), [("call_1", "Paris"), ("call_2", "Rome")]),
    (
        "pieces of two calls in turn",
        (PARIS[0], ROME[0], PARIS[1], ROME[1], PARIS[2], PARIS[3], ROME[2]),
        [("call_1", "Paris"), ("call_2", "Rome")],
    ),
    (
        "the second number first",
        (*ROME, *PARIS),
        [("call_1", "Paris"), ("call_2", "Rome")],
    ),
    (
        "whole calls in one chunk",
        (wire.calls(whole_call("Paris", 0, "a"), whole_call("Rome", 1, "b")),),
        [("a", "Paris"), ("b", "Rome")],
    ),
    (
        "whole calls, one number for all",
        (wire.calls(whole_call("Paris", 0, "a")), wire.calls(whole_call("Rome", 0, "b"))),
        [("a", "Paris"), ("b", "Rome")],
    ),
    (
        "whole calls without ids, one number for all",
        (wire.calls(whole_call("Paris", 0, None)), wire.calls(whole_call("Rome", 0, None))),
        [("", "Paris"), ("", "Rome")],
    ),
    (
        "whole calls without numbers",
        (wire.calls(whole_call("Paris", None, "a"), whole_call("Rome", None, "b")),),
        [("a", "Paris"), ("b", "Rome")],
    ),
    (
        "whole calls without numbers and ids",
        (wire.calls(whole_call("Paris", None, None), whole_call("Rome", None, None)),),
        [("", "Paris"), ("", "Rome")],
    ),
    (
        "pieces without numbers and ids",
        (
            wire.calls(wire.piece(None, None, "get_weather", '{"city":')),
            wire.calls(wire.piece(None, None, None, '"Paris"}')),
        ),
        [("", "Paris")],
    ),
    (
        "pieces that repeat id and name",
        (
            wire.calls(wire.piece(0, "a", "get_weather", '{"city":')),
            wire.calls(wire.piece(0, "a", "get_weather", '"Paris"}')),
        ),
        [("a", "Paris")],
    ),
    (
        "arguments as an object",
        (wire.calls(wire.piece(0, "a", "get_weather", {"city": "Paris"})),),
        [("a", "Paris")],
    ),
    (
        "two calls of one id",
        (wire.calls(whole_call("Paris", 0, "a"), whole_call("Rome", 1, "a")),),
        [("a", "Paris"), ("a", "Rome")],
    ),
]


@pytest.mark.parametrize("dialect", ["openrouter", "ollama", "vllm", "llamacpp", "generic"])
@pytest.mark.parametrize(("chunks", "wanted"), [row[1:] for row in MENU], ids=[r[0] for r in MENU])
async def test_calls_are_read_however_they_are_sent(
    dialect: str, chunks: tuple[wire.Chunk, ...], wanted: list[tuple[str, str]]
) -> None:
    reply, _, _ = await play(dialect, bare(*chunks, finish="tool_calls"), api_key=KEY)
    found = [(part.call_id, part.args["city"]) for part in reply.parts]  # type: ignore[union-attr]
    assert found == wanted
    assert reply.terminal == "tool_use"


async def test_a_number_left_out_is_a_lost_call_where_calls_are_numbered() -> None:
    body = wire.whole(
        wire.calls(whole_call("Paris", 0, "a"), whole_call("Rome", 2, "b")), finish="tool_calls"
    )
    with pytest.raises(Malformed, match="gap"):
        await play("openai", body, api_key=KEY)
    reply, _, _ = await play("vllm", body)
    assert [part.call_id for part in reply.parts] == ["a", "b"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("finish", "has_call", "terminal"),
    [
        ("stop", False, "stop"),
        ("stop", True, "tool_use"),
        ("tool_calls", True, "tool_use"),
        ("tool_calls", False, "stop"),
        ("function_call", True, "tool_use"),
        ("length", True, "output_limit"),
        ("content_filter", True, "content_filter"),
        (None, False, "stop"),
        (None, True, "tool_use"),
        ("eos", False, "stop"),
        ("model_length", False, "output_limit"),
        # Documented by Z.ai, whose servers others run, too.
        ("sensitive", False, "content_filter"),
        ("model_context_window_exceeded", False, "context_overflow"),
        ("moon_phase", False, "unknown"),
    ],
)
async def test_reasons_to_end(finish: str | None, has_call: bool, terminal: str) -> None:
    call = [wire.calls(whole_call("Paris"))] if has_call else []
    for dialect in ("ollama", "vllm", "llamacpp", "generic"):
        reply, _, _ = await play(dialect, bare(*wire.words("Hm."), *call, finish=finish))
        assert reply.terminal == terminal, dialect


@pytest.mark.parametrize("reason", ["error", "abort", "insufficient_system_resource"])
async def test_a_server_that_gave_up_is_asked_again_later(reason: str) -> None:
    with pytest.raises(Unavailable):
        await play("vllm", bare(*wire.words("Hm."), finish=reason))


async def test_done_alone_says_nothing() -> None:
    with pytest.raises(Unavailable):
        await play("generic", wire.body(wire.DONE))


async def test_a_server_of_unknown_kind_need_not_say_done() -> None:
    body = wire.body(*wire.words("Hello."), wire.chunk({}, "stop"))
    reply, _, _ = await play("generic", body)
    assert reply.text == "Hello."
    with pytest.raises(Unavailable):
        await play("ollama", body)


@pytest.mark.parametrize(
    ("dialect", "field", "is_read"),
    [
        ("openai", "reasoning_content", False),
        ("openrouter", "reasoning", True),
        ("ollama", "reasoning", True),
        ("vllm", "reasoning", True),
        ("vllm", "reasoning_content", True),
        ("llamacpp", "reasoning_content", True),
        ("generic", "reasoning_content", True),
        ("generic", "reasoning", True),
    ],
)
async def test_thoughts_are_found_where_the_dialect_puts_them(
    dialect: str, field: str, is_read: bool
) -> None:
    body = wire.whole(
        wire.chunk({field: "Let "}), wire.chunk({field: "me see."}), *wire.words("Yes.")
    )
    reply, shown, _ = await play(dialect, body, api_key=KEY)
    thoughts = [part.text for part in reply.parts if isinstance(part, Reasoning)]
    assert thoughts == (["Let me see."] if is_read else [])
    assert (ReasoningChunk(text="Let me see.") in shown) is is_read


async def test_thoughts_in_two_fields_at_once_are_read_once() -> None:
    body = wire.whole(wire.chunk({"reasoning": "Hm.", "reasoning_content": "Hm."}))
    reply, _, _ = await play("vllm", body)
    assert reply.parts[0].text == "Hm."  # type: ignore[union-attr]


DETAILS = (
    {"type": "reasoning.text", "text": "Let ", "format": "anthropic-claude-v1", "index": 0},
    {"type": "reasoning.text", "text": "me see.", "format": "anthropic-claude-v1", "index": 0},
    {"type": "reasoning.text", "signature": "ErUBsig", "index": 0},
    {"type": "reasoning.encrypted", "data": "gAAAAA", "id": "rs_1", "index": 1},
)


@pytest.mark.parametrize(
    ("dialect", "chunks", "blob"),
    [
        (
            "openrouter",
            [{"reasoning": d.get("text", ""), "reasoning_details": [d]} for d in DETAILS],
            {
                "reasoning_details": [
                    {
                        "type": "reasoning.text",
                        "text": "Let me see.",
                        "format": "anthropic-claude-v1",
                        "index": 0,
                        "signature": "ErUBsig",
                    },
                    {"type": "reasoning.encrypted", "data": "gAAAAA", "id": "rs_1", "index": 1},
                ]
            },
        ),
        ("vllm", [{"reasoning": "Let me see."}], {"reasoning": "Let me see."}),
        ("llamacpp", [{"reasoning_content": "Let me see."}], {"reasoning_content": "Let me see."}),
    ],
)
async def test_thoughts_go_back_to_the_route_they_came_from(
    dialect: str, chunks: list[dict[str, Any]], blob: dict[str, Any]
) -> None:
    body = wire.whole(*(wire.chunk(delta) for delta in chunks), *PARIS, finish="tool_calls")
    async with WireServer({"POST /v1/chat/completions": Played(body)}) as server:
        url = f"{server.url}/v1"
        model = OpenAIChatModel("some-model", dialect=dialect, base_url=url, api_key=KEY)
        reply, _ = await ask(model, asked())
        thought = reply.parts[0]
        assert isinstance(thought, Reasoning)
        assert thought.replay == {"route": f"{dialect}|{url}|some-model", "blob": blob}
        user = said("user", Text(text="Hi"))
        await ask(model, asked(user, said("assistant", *reply.parts)))
        other = OpenAIChatModel("other-model", dialect=dialect, base_url=url, api_key=KEY)
        await ask(other, asked(user, said("assistant", *reply.parts)))
        await model.aclose()
        await other.aclose()
    back, elsewhere = (request.json["messages"][1] for request in server.requests[1:])
    assert {name: back[name] for name in blob} == blob
    assert set(elsewhere) == {"role", "content", "tool_calls"}


@pytest.mark.parametrize(
    ("dialect", "wanted"),
    [
        (
            "openrouter",
            {"max_tokens", "stream_options", "tools", "tool_choice", "parallel_tool_calls"},
        ),
        ("ollama", {"max_tokens", "stream_options", "tools"}),
        ("vllm", {"max_tokens", "stream_options", "tools", "tool_choice", "parallel_tool_calls"}),
        (
            "llamacpp",
            {"max_tokens", "stream_options", "tools", "tool_choice", "parallel_tool_calls"},
        ),
        ("generic", {"max_tokens", "tools"}),
    ],
)
async def test_a_dialect_is_sent_what_it_knows(dialect: str, wanted: set[str]) -> None:
    request = asked(
        tools=(WEATHER,),
        tool_choice="required",
        session_id="session-1",
        generation=Generation(max_output_tokens=9),
    )
    _, _, sent = await play(dialect, bare(*wire.words("Hi.")), request, api_key=KEY)
    assert set(sent) == wanted | {"model", "messages", "stream"}


async def test_who_cannot_be_told_to_leave_the_tools_is_not_shown_them() -> None:
    request = asked(tools=(WEATHER,), tool_choice="none")
    _, _, ollama = await play("ollama", bare(*wire.words("Hi.")), request)
    _, _, vllm = await play("vllm", bare(*wire.words("Hi.")), request)
    assert "tools" not in ollama
    assert (len(vllm["tools"]), vllm["tool_choice"]) == (1, "none")


async def test_a_schema_is_kept_by_the_server_or_asked_for_in_words() -> None:
    request = asked(output=PERSON)
    _, _, vllm = await play("vllm", bare(*wire.words("{}")), request)
    assert vllm["response_format"]["json_schema"] == {
        "name": "output",
        "schema": PERSON,
        "strict": True,
    }
    _, _, generic = await play("generic", bare(*wire.words("{}")), request)
    assert "response_format" not in generic
    assert "fit this JSON schema" in generic["messages"][-1]["content"]
    listing = asked(output={"type": "array", "items": {"type": "integer"}})
    _, _, sent = await play("openrouter", bare(*wire.words("[]")), listing, api_key=KEY)
    assert "response_format" not in sent
    assert '{"items":{"type":"integer"},"type":"array"}' in sent["messages"][-1]["content"]


async def test_a_schema_that_cannot_be_strict_is_asked_for_loosely() -> None:
    loose = {"type": "object", "additionalProperties": {"type": "integer"}}
    _, _, sent = await play(
        "openai", wire.whole(*wire.words("{}")), asked(output=loose), api_key=KEY
    )
    assert sent["response_format"]["json_schema"] == {
        "name": "output",
        "schema": loose,
        "strict": False,
    }


async def test_an_effort_goes_where_openrouter_wants_it() -> None:
    _, _, sent = await play(
        "openrouter", wire.whole(*wire.words("Hi.")), asked(variant="high"), api_key=KEY
    )
    assert sent["reasoning"] == {"effort": "high"}


async def test_comments_of_openrouter_are_no_events() -> None:
    noisy = b": OPENROUTER PROCESSING\n\n" * 3 + wire.whole(*wire.words("Hi.")).replace(
        b"data: ", b": OPENROUTER PROCESSING\n\ndata: "
    )
    reply, _, _ = await play("openrouter", noisy, api_key=KEY)
    assert reply.text == "Hi."


async def test_an_error_in_mid_stream_of_openrouter_is_passing() -> None:
    body = wire.body(*wire.words("Hel")) + wire.OPENROUTER_ERROR + b"data: [DONE]\n\n"
    with pytest.raises(Unavailable, match="Provider disconnected unexpectedly"):
        await play("openrouter", body, api_key=KEY)


async def test_content_in_parts_is_read() -> None:
    body = bare(
        wire.chunk({"content": [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]})
    )
    reply, shown, _ = await play("generic", body)
    assert (reply.text, shown) == ("Hello", (TextChunk(text="Hello"),))


@pytest.mark.parametrize(
    ("dialect", "answer"),
    [("llamacpp", wire.LLAMACPP_OVERFLOW), ("vllm", wire.VLLM_OVERFLOW)],
)
async def test_local_servers_say_in_their_words_that_a_request_is_too_long(
    dialect: str, answer: bytes
) -> None:
    played = Played(answer, 400, {}, "application/json")
    async with WireServer({"POST /v1/chat/completions": played}) as server:
        model = OpenAIChatModel("some-model", dialect=dialect, base_url=f"{server.url}/v1")
        reply, _ = await ask(model, asked())
        await model.aclose()
    assert reply.terminal == "context_overflow"


async def test_a_file_is_named_to_a_server_that_takes_none() -> None:
    pdf = Attachment(ref="pdf", media_type="application/pdf", name="plan.pdf")
    png = Attachment(ref="png", media_type="image/png", name="a.png")
    request = asked(said("user", Text(text="Look:"), pdf))
    able = Capabilities(images=False)
    _, _, sent = await play("ollama", bare(*wire.words("Hi.")), request, capabilities=able)
    assert sent["messages"] == [{"role": "user", "content": "Look:\n\n[attachment plan.pdf]"}]
    blind = asked(said("user", png))
    _, _, sent = await play("ollama", bare(*wire.words("Hi.")), blind, capabilities=able)
    assert sent["messages"] == [{"role": "user", "content": "[attachment a.png]"}]

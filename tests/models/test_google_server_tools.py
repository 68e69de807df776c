"""Tools that Gemini runs by itself: what they left behind is kept as it came, and goes back to the same route.

The shapes of code, its output, `toolCall` and `toolResponse`, and that Gemini takes them back as they came, are those of
recorded exchanges with Gemini 3.
"""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.models.behaviours import ask
from tests.models.google_cases import (
    ADD,
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
from windlass import Agent, Generation, WebSearch, tool
from windlass.kernel import ModelReply, Reasoning, ServerTool, ServerToolCall, Text, ToolCall
from windlass.models.capabilities import capabilities_of
from windlass.models.route import Route, replay_blob

GOOGLE = Google()
OTHER = base64.b64encode(b"\xff\xfe signed \xfb").decode()
CODE = {
    "executableCode": {"id": "x1", "language": "PYTHON", "code": "print(6 * 7)"},
    "thoughtSignature": SIGNATURE,
}
OUTPUT = {"codeExecutionResult": {"id": "x1", "outcome": "OUTCOME_OK", "output": "42\n"}}
SEARCH = {
    "toolCall": {
        "id": "s1",
        "toolType": "GOOGLE_SEARCH_WEB",
        "args": {"queries": ["Bern weather", "Bern today"]},
    },
    "thoughtSignature": SIGNATURE,
}
FOUND = {
    "toolResponse": {
        "id": "s1",
        "toolType": "GOOGLE_SEARCH_WEB",
        "response": {"search_suggestions": "<div>Bern</div>"},
        "fieldOfTomorrow": [1, {"deep": None}],
    },
    "thoughtSignature": OTHER,
}


def ran(name: str, text: str, home: Route, *parts: dict[str, Any]) -> ServerToolCall:
    replay = replay_blob({"on": "server", "parts": list(parts)}, home)
    return ServerToolCall(name=name, text=text, replay=replay)


async def sent_back(*chunks: dict[str, Any]) -> tuple[ModelReply, Route, list[Any]]:
    """A reply, its route, and its parts as they are sent with the next question."""
    async with GOOGLE.playing(stream(*chunks)) as (server, model):
        reply, _ = await ask(model, request())
        await ask(model, request(user("Hi"), assistant(*reply.parts), user("And?")))
    return reply, route(server.url), server.requests[1].json["contents"][1]["parts"]


async def test_code_that_gemini_ran_is_kept_in_its_place_and_goes_back_as_it_came() -> None:
    reply, home, parts = await sent_back(
        said({"text": "Let me see.", "thought": True}),
        said(CODE, {"text": ""}),
        said(OUTPUT),
        said({"text": "It is "}),
        said({"text": "42."}),
        ended({"text": "", "thoughtSignature": OTHER}),
    )
    assert reply.parts == (
        Reasoning(text="Let me see."),
        ran("code_execution", "print(6 * 7)", home, CODE, OUTPUT),
        Text(text="It is 42.", replay=replay_blob({"on": "text", "signature": OTHER}, home)),
    )
    told = "code_execution ran at the provider; its parts are kept and returned"
    assert (reply.text, reply.terminal, reply.diagnostic) == ("It is 42.", "stop", told)
    assert parts == [CODE, OUTPUT, {"text": "It is 42.", "thoughtSignature": OTHER}]


async def test_a_search_that_is_shown_goes_back_as_it_came_and_is_told_once() -> None:
    last = ended({"text": "Rain."})
    last["candidates"][0]["groundingMetadata"] = {"webSearchQueries": ["Bern weather"]}
    reply, home, parts = await sent_back(said(SEARCH), said(FOUND), last)
    assert reply.parts == (
        ran("web_search", "Bern weather\nBern today", home, SEARCH, FOUND),
        Text(text="Rain."),
    )
    assert parts == [SEARCH, FOUND, {"text": "Rain."}]


async def test_what_no_store_takes_costs_no_words() -> None:
    printed = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "a\0b"}}
    reply, _, parts = await sent_back(said(CODE, printed), ended({"text": "It is 42."}))
    assert reply.parts == (
        ServerToolCall(name="code_execution", text="print(6 * 7)"),
        Text(text="It is 42."),
    )
    assert reply.diagnostic == "code_execution ran at the provider"
    assert parts == [{"text": "It is 42."}]


async def test_what_came_in_another_order_goes_back_in_that_order() -> None:
    again = {"toolCall": {"id": "f1", "toolType": "FILE_SEARCH", "args": {}}}
    files = {"toolResponse": {"id": "f1", "toolType": "FILE_SEARCH"}}
    reply, _, parts = await sent_back(said(SEARCH, again, files, FOUND), ended({"text": "Rain."}))
    assert parts == [SEARCH, again, files, FOUND, {"text": "Rain."}]
    names = [part.name for part in reply.parts if isinstance(part, ServerToolCall)]
    assert names == ["web_search", "file_search", "web_search"]


async def test_once_shown_it_may_be_seen_again() -> None:
    # The Gemini API takes what a tool of its own said only where it may show it.
    async with GOOGLE.playing(stream(said(SEARCH, FOUND), ended({"text": "Rain."}))) as (
        server,
        model,
    ):
        reply, _ = await ask(model, request())
        await ask(model, request(user("Hi"), assistant(*reply.parts), user("And?")))
    asked, again = (seen.json for seen in server.requests)
    assert "toolConfig" not in asked
    assert again["toolConfig"] == {"includeServerSideToolInvocations": True}


@pytest.mark.parametrize(
    "other",
    [
        Route("google", "https://other.test", "gemini-2.5-flash"),
        Route("vertex", "https://other.test", "gemini-2.5-flash"),
        None,
    ],
    ids=["another host", "Vertex", "another model"],
)
async def test_what_another_route_ran_stays_behind(other: Route | None) -> None:
    async with GOOGLE.playing(TEXT.answer) as (server, model):
        made = other or route(server.url, "gemini-3-flash")
        alone = assistant(ran("web_search", "Bern", made, SEARCH, FOUND))
        both = assistant(ran("code_execution", "1", made, CODE, OUTPUT), Text(text="42."))
        await ask(model, request(user("Hi"), alone, user("Ho"), both, user("And?")))
    body = server.requests[0].json
    assert [content["parts"] for content in body["contents"]] == [
        [{"text": "Hi"}, {"text": "Ho"}],
        [{"text": "42."}],
        [{"text": "And?"}],
    ]
    assert "toolConfig" not in body


async def test_a_turn_searches_and_calls_at_once() -> None:
    @tool(effect="pure")
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    answers = [
        stream(
            said(call("add", SIGNATURE, args={"a": 1, "b": 2}, id="c1"), SEARCH, FOUND), ended()
        ),
        stream(ended({"text": "3, and rain."})),
    ]
    can = capabilities_of("google", "gemini-3-flash")
    async with GOOGLE.playing(answers, capabilities=can) as (server, model):
        agent = Agent(
            "adder",
            model=model,
            tools=[add],
            generation=Generation(server_tools=(WebSearch(),)),
        )
        result = await agent.run("1+2? Weather?")
    assert result.text == "3, and rain."
    _, called, answered = server.requests[1].json["contents"]
    made = {"name": "add", "args": {"a": 1, "b": 2}, "id": "c1"}
    assert called["parts"] == [
        {"functionCall": made, "thoughtSignature": SIGNATURE},
        SEARCH,
        FOUND,
    ]
    assert [part["functionResponse"]["id"] for part in answered["parts"]] == ["c1"]


async def test_a_call_and_a_search_are_a_call() -> None:
    answer = stream(said(call("add", args={"a": 1, "b": 2}, id="c1"), SEARCH, FOUND), ended())
    async with GOOGLE.playing(answer) as (server, model):
        reply, _ = await ask(model, request(tools=(ADD,)))
    assert reply.terminal == "tool_use"
    assert reply.parts == (
        ToolCall(call_id="c1", name="add", **args(a=1, b=2)),
        ran("web_search", "Bern weather\nBern today", route(server.url), SEARCH, FOUND),
    )


async def test_code_is_asked_for_in_geminis_words() -> None:
    code = ServerTool(provider="google", spec={"codeExecution": {}})
    async with GOOGLE.playing(TEXT.answer) as (server, model):
        await ask(model, request(generation=Generation(server_tools=(code,))))
    assert server.requests[0].json["tools"] == [{"codeExecution": {}}]

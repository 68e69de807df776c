"""Tools that OpenAI runs by itself: how they are asked for, what is kept of them, what goes back.

Seen in recorded exchanges: the items of web_search, file_search, code_interpreter, image_generation, mcp and tool_search,
and `filters.allowed_domains`. From the documentation alone: `max_tool_calls`, `filters.blocked_domains`, and the items that
wait for an answer, except for a tool_search of the client.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.models import wire_openai_responses as wire
from tests.models.behaviours import ask
from tests.models.openai_response_cases import PARIS, WEATHER, asked
from tests.models.test_openai_response_items import answered, blob, plain, playing, sent_after
from tests.models.wire_rules import openai_responses as rules
from windlass import Agent, Runtime
from windlass.errors import InvalidInput
from windlass.kernel import ModelReply, ServerTool, WebSearch
from windlass.kernel.messages import Citation, Reasoning, ServerToolCall, Text
from windlass.kernel.model_call import Generation

CODE = ServerTool(
    provider="openai", spec={"type": "code_interpreter", "container": {"type": "auto"}}
)


async def sent(*tools: WebSearch | ServerTool, model: str = "gpt-5", **fields: Any) -> Any:  # noqa: ANN401 - JSON
    async with playing(wire.message("Ok."), model=model) as (server, made):
        await ask(made, asked(generation=Generation(server_tools=tools), **fields))
    return server.requests[0].json


# --- asking -------------------------------------------------------------------------------------------------


async def test_a_search_stands_among_the_tools() -> None:
    body = await sent(WebSearch())
    assert body["tools"] == [{"type": "web_search"}]
    assert not {"tool_choice", "parallel_tool_calls", "max_tool_calls"} & set(body)


async def test_a_search_says_which_domains_and_how_often() -> None:
    body = await sent(WebSearch(max_uses=3, allowed_domains=("a.example", "b.example")))
    assert body["tools"] == [
        {"type": "web_search", "filters": {"allowed_domains": ["a.example", "b.example"]}}
    ]
    assert body["max_tool_calls"] == 3
    body = await sent(WebSearch(blocked_domains=("c.example",)))
    assert body["tools"][0]["filters"] == {"blocked_domains": ["c.example"]}


async def test_own_tools_come_first_and_are_chosen_as_before() -> None:
    body = await sent(WebSearch(), CODE, tools=(WEATHER,))
    assert [tool["type"] for tool in body["tools"]] == [
        "function",
        "web_search",
        "code_interpreter",
    ]
    assert body["tools"][2] == {"type": "code_interpreter", "container": {"type": "auto"}}
    assert (body["tool_choice"], body["parallel_tool_calls"]) == ("auto", True)


@pytest.mark.parametrize(
    ("tools", "model", "named"),
    [
        ((WebSearch(max_uses=2), CODE), "gpt-5", "WebSearch.max_uses"),
        ((WebSearch(),), "gpt-4.1-nano", "server_tools"),
        ((WebSearch(),), "gpt-3.5-turbo", "server_tools"),
        ((ServerTool(provider="google", spec={"url_context": {}}),), "gpt-5", "server_tools"),
    ],
)
async def test_what_cannot_be_said_is_refused_before_anything_is_sent(
    tools: tuple[WebSearch | ServerTool, ...], model: str, named: str
) -> None:
    async with playing(wire.message("Ok."), model=model) as (server, made):
        with pytest.raises(InvalidInput, match=named):
            await ask(made, asked(generation=Generation(server_tools=tools)))
    assert server.requests == []


# --- what came ----------------------------------------------------------------------------------------------

FOUND = wire.message(
    "Sunny (a page).",
    3,
    phase="final_answer",
    annotations=(wire.cited("https://a.example/x", "A page", 6, 14),),
)
SEARCHED = (
    wire.reasoning(("Look.",), "gAAAA-0"),
    wire.search("weather Paris", 1),
    wire.reasoning((), "gAAAA-1", 2),
    FOUND,
)


BOX = {
    "id": "ci_1",
    "type": "code_interpreter_call",
    "code": "6 * 7",
    "container_id": "cntr_1",
    "outputs": None,
    "status": "completed",
}


IMAGE = {
    "id": "ig_1",
    "type": "image_generation_call",
    "result": "aGVsbG8=" * 1000,
    "revised_prompt": "an otter",
    "status": "completed",
}


async def test_a_search_is_a_part_of_the_reply_and_its_pages_are_cited() -> None:
    async with playing(*SEARCHED) as (server, model):
        reply, _ = await ask(model, asked())
    assert reply.parts[1] == ServerToolCall(
        name="web_search", text="weather Paris", replay=blob(server, SEARCHED[1][0])
    )
    assert isinstance(reply.parts[3], Text)
    assert reply.parts[3].citations == (
        Citation(url="https://a.example/x", title="A page", start=6, end=14),
    )
    assert (reply.text, reply.terminal, reply.diagnostic) == ("Sunny (a page).", "stop", None)


async def test_a_search_goes_back_between_its_thoughts_without_ids() -> None:
    look = {"type": "summary_text", "text": "Look."}
    action = {"type": "search", "query": "weather Paris", "queries": ["weather Paris"]}
    annotation = wire.cited("https://a.example/x", "A page", 6, 14)
    part = {"type": "output_text", "text": "Sunny (a page).", "annotations": [annotation]}
    assert await sent_after(*SEARCHED) == [
        {"type": "reasoning", "summary": [look], "encrypted_content": "gAAAA-0"},
        {"type": "web_search_call", "status": "completed", "action": action},
        {"type": "reasoning", "summary": [], "encrypted_content": "gAAAA-1"},
        {"type": "message", "role": "assistant", "content": [part], "phase": "final_answer"},
    ]


async def test_a_call_goes_back_with_the_namespace_that_its_function_was_found_in() -> None:
    item, events = wire.call("weather", ("{}",))
    found = ({**item, "namespace": "maps"}, events)
    assert (await sent_after(found))[0] == {
        "type": "function_call",
        "call_id": "call_7tRz",
        "name": "weather",
        "arguments": "{}",
        "namespace": "maps",
    }


async def test_a_session_keeps_a_search_in_its_history_and_sends_it_again() -> None:
    items = (*SEARCHED[:3], wire.ran(IMAGE, 3), wire.message("Sunny.", 4, phase="final_answer"))
    search = Generation(server_tools=(WebSearch(),))
    async with playing(*items) as (server, model):
        agent = Agent("a", model=model, generation=search)
        async with Runtime(agent, store="memory:", models=[model]) as runtime:
            session = runtime.session("s")
            for _ in range(2):
                result = await session.run("What is the weather?")
    assert result.text == "Sunny."
    body = server.requests[1].json
    assert rules(body) == []
    kinds = [item.get("type") or item["role"] for item in body["input"]]
    assert kinds == ["user", "reasoning", "web_search_call", "message", "user"]
    assert body["input"][3] == plain("Sunny.", phase="final_answer")


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ({"type": "search", "query": "a", "queries": ["a", "b", 7]}, "a; b"),
        ({"type": "open_page", "url": "https://a.example"}, "https://a.example"),
        ({"type": "find_in_page", "pattern": "p", "url": "https://a.example"}, "p in https://a.example"),
        ({"type": "search", "query": 7}, ""),
        (None, ""),
        ("search", ""),
    ],
)  # fmt: skip
async def test_a_search_is_told_in_words(action: object, words: str) -> None:
    item = {"id": "ws_0", "type": "web_search_call", "status": "completed", "action": action}
    reply = await answered(wire.ran(item), wire.message("Ok.", 1))
    assert [part.text for part in reply.parts if isinstance(part, ServerToolCall)] == [words]


MCP = {
    "id": "mcp_1",
    "type": "mcp_call",
    "server_label": "wiki",
    "name": "ask",
    "arguments": '{"q":1}',
    "output": "42",
    "error": None,
    "status": "completed",
    "approval_request_id": None,
}
RETURNED = [
    (BOX, "code_interpreter", "6 * 7"),
    ({"id": "fs_1", "type": "file_search_call", "queries": ["plan"], "results": None}, "file_search", "plan"),
    ({"id": "mcpl_1", "type": "mcp_list_tools", "server_label": "wiki", "tools": []}, "mcp_list_tools", "wiki"),
    (MCP, "mcp", "wiki ask"),
    (
        {"id": "tsc_1", "type": "tool_search_call", "execution": "server", "call_id": None, "arguments": {"queries": ["x"]}},
        "tool_search",
        "x",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("item", "name", "words"), RETURNED)
async def test_what_the_provider_ran_is_kept_told_and_returned(
    item: dict[str, Any], name: str, words: str
) -> None:
    items = (wire.reasoning((), "gAAAA"), wire.ran(item, 1), wire.message("Ok.", 2))
    reply = await answered(*items)
    assert [(part.name, part.text) for part in reply.parts if isinstance(part, ServerToolCall)] == [
        (name, words)
    ]
    assert reply.diagnostic == f"{name} ran at the provider; its item is kept and returned"
    assert (await sent_after(*items))[1:] == [
        {field: value for field, value in item.items() if field != "id"},
        plain("Ok."),
    ]


@pytest.mark.parametrize(
    ("item", "part", "told"),
    [
        (
            IMAGE,
            ServerToolCall(name="image_generation", text="an otter"),
            "image_generation ran at the provider; the image is left out of the reply",
        ),
    ],
)
async def test_what_the_provider_would_not_know_again_is_shown_and_not_sent(
    item: dict[str, Any], part: ServerToolCall, told: str
) -> None:
    items = (wire.reasoning(("Hm.",), "gAAAA"), wire.ran(item, 1), wire.message("42.", 2))
    reply = await answered(*items)
    # The thought led to what is not sent: it stays behind, too.
    assert reply.parts == (Reasoning(text="Hm."), part, Text(text="42."))
    assert reply.diagnostic == told
    assert await sent_after(*items) == [plain("42.")]


@pytest.mark.parametrize(
    "item",
    [
        {"type": "computer_call", "call_id": "c", "action": {"type": "click"}},
        {"type": "local_shell_call", "call_id": "c", "action": {"type": "exec"}},
        {"type": "custom_tool_call", "call_id": "c", "name": "x", "input": "y"},
        {"type": "mcp_approval_request", "server_label": "wiki", "name": "ask", "arguments": "{}"},
        {"type": "tool_search_call", "execution": "client", "call_id": "c", "arguments": {}},
    ],
)
async def test_what_waits_for_an_answer_is_left_out_and_named(item: dict[str, Any]) -> None:
    items = (wire.reasoning((), "gAAAA"), wire.ran({"id": "x_1", **item}, 1))
    reply = await answered(*items)
    kind = item["type"]
    assert (reply.parts, reply.terminal) == ((Reasoning(),), "stop")
    assert reply.diagnostic == (
        f"left out of the reply: {kind} (it waits for an answer that windlass cannot give); "
        f"ended with reasoning, {kind} only, status completed"
    )


async def test_items_of_unknown_kinds_are_named() -> None:
    items = (
        wire.reasoning((), "gAAAA"),
        wire.ran({"id": "a", "type": "telepathy_call"}, 1),
        wire.ran({"id": "b", "type": "telepathy_call"}, 2),
        wire.message("Ok.", 3),
    )
    reply = await answered(*items)
    assert (reply.text, reply.diagnostic) == ("Ok.", "left out of the reply: telepathy_call")
    assert await sent_after(*items) == [plain("Ok.")]


async def test_a_search_that_was_cut_off_is_left_out() -> None:
    item, events = wire.search("weather", 1)
    last = wire.response("incomplete", [], incomplete_details={"reason": "content_filter"})
    begun = wire.begun(wire.message("Ok."), (item, events))[:-1]  # all but the event that ends it
    body = wire.numbered([*begun, {"type": "response.incomplete", "response": last}])
    async with playing(body=body) as (_, model):
        reply, _ = await ask(model, asked())
    assert reply.parts == (Text(text="Ok."),)
    assert reply.diagnostic == "incomplete: content_filter; left out of the reply: web_search_call"


async def test_content_of_unknown_kinds_is_named() -> None:
    item, events = wire.message("Ok.")
    item["content"] += [{"type": "hologram", "data": "x"}, 7]
    reply = await answered((item, events))
    assert reply.diagnostic == (
        "left out of the reply: content of the kind hologram, content of the kind unknown"
    )


async def test_an_item_that_cannot_be_stored_costs_no_words() -> None:
    item = {"id": "mcp_1", "type": "mcp_call", "name": "ask", "output": "a\x00b"}
    reply = await answered(
        wire.reasoning(("Hm.",), "gAAAA"), wire.ran(item, 1), wire.message("Ok.", 2)
    )
    assert reply.parts == (
        Reasoning(text="Hm."),
        ServerToolCall(name="mcp", text="ask"),
        Text(text="Ok."),
    )
    assert reply.diagnostic == "mcp ran at the provider; its item is not sent back"


@pytest.mark.parametrize("kind", [7, None, [], {}, ""])
async def test_an_item_of_no_kind_is_named(kind: object) -> None:
    reply = await answered(({"id": "x", "type": kind}, []), wire.message("Ok.", 1))
    assert (reply.text, reply.diagnostic) == ("Ok.", "left out of the reply: an item of no kind")


# --- replies without words ----------------------------------------------------------------------------------


async def empty(status: str, *items: Any, **fields: object) -> ModelReply:
    last = wire.response(status, [item for item, _ in items], usage=wire.USAGE, **fields)
    body = wire.numbered([*wire.begun(*items), {"type": f"response.{status}", "response": last}])
    async with playing(body=body) as (_, model):
        reply, _ = await ask(model, asked())
    return reply


async def test_a_reply_without_words_says_why() -> None:
    thought = wire.reasoning(("Hm.",), "gAAAA")
    reply = await empty("completed", thought)
    assert reply.diagnostic == "ended with reasoning only, status completed"
    # Nothing followed it, so it does not go back.
    assert await sent_after(thought) == []
    reply = await empty("incomplete", thought, incomplete_details={"reason": "max_output_tokens"})
    assert reply.diagnostic == (
        "incomplete: max_output_tokens; ended with reasoning only, status incomplete"
    )
    assert (await empty("completed")).diagnostic == "ended with nothing, status completed"
    reply = await empty("completed", wire.ran(IMAGE), wire.message("", 1))  # as it was recorded
    assert reply.diagnostic == (
        "image_generation ran at the provider; the image is left out of the reply; "
        "ended with image_generation_call, an empty message only, status completed"
    )


async def test_a_reply_of_calls_alone_needs_no_reason() -> None:
    reply = await empty("completed", wire.call("get_weather", PARIS))
    assert reply.diagnostic is None

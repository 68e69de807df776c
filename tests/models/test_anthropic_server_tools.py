"""Tools that Anthropic runs by itself: how they are asked for and read.

The shapes and orders are those of recorded streams, except where a test says that it rests on the documentation.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.models import wire_anthropic as wire
from tests.models.anthropic_cases import CITY, MARK, WEATHER, assistant, kept, request, user
from tests.models.anthropic_search import (
    CITED,
    SEARCH_PART,
    SEARCHED,
    SEARCHING,
    SENT,
    asked,
    sent,
    used,
    words,
)
from windlass.errors import InvalidInput
from windlass.kernel import Generation, Text, WebSearch
from windlass.kernel.messages import Citation, ServerToolCall
from windlass.kernel.model_call import ServerTool
from windlass.models.capabilities import Capabilities
from windlass.ports.model import TextChunk

# --- asking -----------------------------------------------------------------------------------------


async def test_a_search_is_offered_behind_the_tools_and_carries_the_mark() -> None:
    limits = WebSearch(max_uses=3, blocked_domains=("spam.example",))
    asking = request(tools=(WEATHER,), generation=Generation(server_tools=(limits,)))
    _, _, [seen] = await asked(asking)
    tools = seen.json["tools"]
    assert tools[0]["name"] == "get_weather"
    assert tools[1:] == [
        {
            "type": "web_search_20250305",
            "name": "web_search",
            "max_uses": 3,
            "blocked_domains": ["spam.example"],
            "cache_control": MARK,
        }
    ]
    assert "cache_control" not in tools[0]
    assert "tool_choice" not in seen.json


async def test_without_being_asked_for_nothing_is_searched() -> None:
    _, _, [seen] = await asked(request())
    assert "tools" not in seen.json


async def test_a_tool_in_the_providers_own_words_is_passed_on_as_it_is() -> None:
    fetch = {"type": "web_fetch_20250910", "name": "web_fetch", "citations": {"enabled": True}}
    own = ServerTool(provider="anthropic", spec=fetch)
    _, _, [seen] = await asked(request(generation=Generation(server_tools=(own, WebSearch()))))
    assert seen.json["tools"] == [
        fetch,
        {"type": "web_search_20250305", "name": "web_search", "cache_control": MARK},
    ]
    assert "anthropic-beta" not in seen.headers


async def test_a_mark_of_the_users_own_and_a_deferred_tool_are_respected() -> None:
    """By the documentation: a tool that is loaded later takes no mark."""
    late = {"type": "web_fetch_20250910", "name": "web_fetch", "defer_loading": True}
    marked = {"type": "code_execution_20250825", "name": "code_execution", "cache_control": MARK}
    cases: list[tuple[list[dict[str, Any]], str]] = [
        ([late], "get_weather"),
        ([marked, late], "code_execution"),
    ]
    for specs, where in cases:
        tools = tuple(ServerTool(provider="anthropic", spec=spec) for spec in specs)
        asking = request(tools=(WEATHER,), generation=Generation(server_tools=tools))
        _, _, [seen] = await asked(asking)
        found_at = [tool["name"] for tool in seen.json["tools"] if "cache_control" in tool]
        assert found_at == [where]


async def test_a_tool_in_trial_has_its_header() -> None:
    """By the documentation, and by the SDK's list of what is in trial."""
    advisor = {"type": "advisor_20260301", "name": "advisor", "model": "claude-opus-4-8"}
    own = ServerTool(provider="anthropic", spec=advisor)
    _, _, [seen] = await asked(request(generation=Generation(server_tools=(own,))))
    assert seen.headers["anthropic-beta"] == "advisor-tool-2026-03-01"


@pytest.mark.parametrize(
    ("tool", "model", "said"),
    [
        (WebSearch(), "claude-3-haiku-20240307", "WebSearch for"),
        (ServerTool(provider="openai", spec={"type": "x"}), wire.MODEL, "a tool of openai"),
    ],
)
async def test_what_the_model_cannot_is_refused_before_it_is_asked(
    tool: WebSearch | ServerTool, model: str, said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        await asked(request(generation=Generation(server_tools=(tool,))), model=model)


async def test_a_tool_with_the_name_of_the_search_is_refused() -> None:
    twin = type(WEATHER)(name="web_search", description="Mine.", parameters=WEATHER.parameters)
    with pytest.raises(InvalidInput, match="a tool named web_search"):
        await asked(request(tools=(twin,), generation=SEARCHING))


async def test_a_required_call_is_one_of_the_requests_own() -> None:
    for tools, choice in (((WEATHER,), {"type": "any"}), ((), None)):
        asking = request(tools=tools, tool_choice="required", generation=SEARCHING)
        _, _, [seen] = await asked(asking)
        assert seen.json.get("tool_choice") == choice


async def test_a_shape_that_is_asked_for_by_a_tool_leaves_room_to_search() -> None:
    answered = wire.answer(
        *SEARCHED[:2],
        wire.tool_use(2, "toolu_1", "final_answer", '{"city": "Zürich"}'),
        reason="tool_use",
    )
    forced = Capabilities(structured_output="tool", web_search=True)
    asking = request(output=CITY, generation=SEARCHING)
    reply, shown, [seen] = await asked(asking, answered, capabilities=forced)
    assert seen.json["tool_choice"] == {"type": "any"}
    assert reply.parts == (SEARCH_PART, Text(text='{"city":"Zürich"}'))
    assert shown == ()


# --- reading ----------------------------------------------------------------------------------------


async def test_a_search_and_its_citations_are_read() -> None:
    reply, shown, _ = await asked(request(generation=SEARCHING), wire.answer(*SEARCHED))
    assert reply.parts == (SEARCH_PART, Text(text="It says: "), CITED, Text(text="."))
    assert reply.text == "It says: rain until noon."
    assert shown == (TextChunk(text="It says: rain until noon."),)
    assert reply.diagnostic is None


async def test_citations_of_documents_are_read() -> None:
    """By the documentation: the four other kinds."""
    where = {"cited_text": "Grass is green.", "document_index": 0, "document_title": "Notes"}
    kinds = [
        {"type": "char_location", **where, "start_char_index": 0, "end_char_index": 15},
        {"type": "page_location", **where, "start_page_number": 1, "end_page_number": 2},
        {"type": "content_block_location", **where, "start_block_index": 0, "end_block_index": 1},
        {
            "type": "search_result_location",
            "cited_text": "Grass is green.",
            "source": "https://notes.example",
            "title": "Notes",
            "search_result_index": 0,
        },
    ]
    reply, _, _ = await asked(request(), wire.answer(wire.cited(0, "Green", *kinds)))
    [text] = reply.parts
    assert isinstance(text, Text)
    quoted = Citation(title="Notes", quote="Grass is green.", start=0, end=5)
    with_url = Citation(
        url="https://notes.example", title="Notes", quote="Grass is green.", start=0, end=5
    )
    assert text.citations == (quoted, quoted, quoted, with_url)
    assert text.replay == kept({"citations": kinds})


SIDE_BY_SIDE = [
    {**used("srv_1", "a"), "name": "text_editor_code_execution", "input": {"command": "create"}},
    {**used("srv_2", "b"), "name": "bash_code_execution", "input": {"command": "ls"}},
    {"type": "text_editor_code_execution_tool_result", "tool_use_id": "srv_1", "content": {"a": 1}},
    {"type": "bash_code_execution_tool_result", "tool_use_id": "srv_2", "content": {"stdout": ""}},
]
NESTED_CALLER = {"caller": {"type": "code_execution_20260120", "tool_id": "srv_1"}}
NESTED = [
    {**used("srv_1", ""), "name": "code_execution", "input": {"code": "await web_fetch()"}},
    {**used("srv_2", ""), "name": "web_fetch", "input": {"url": "https://a.example"}},
    {"type": "web_fetch_tool_result", "tool_use_id": "srv_2", "content": {}, **NESTED_CALLER},
    {"type": "code_execution_tool_result", "tool_use_id": "srv_1", "content": {"return_code": 0}},
]
MCP = [
    {
        "type": "mcp_tool_use",
        "id": "mcp_1",
        "name": "ask_question",
        "input": {"question": "Why?"},
        "server_name": "docs",
    },
    {"type": "mcp_tool_result", "tool_use_id": "mcp_1", "content": [], "is_error": False},
    {"type": "container_upload", "file_id": "file_1"},
]


def played(blocks: list[dict[str, Any]]) -> list[list[tuple[str, Any]]]:
    """Blocks as a stream brings them: the input of a call in pieces."""
    return [
        wire.server_use(
            at,
            block["id"],
            block["name"],
            json.dumps(block["input"]),
            kind=block["type"],
            **{
                key: value
                for key, value in block.items()
                if key not in ("type", "id", "name", "input")
            },
        )
        if "input" in block
        else wire.block(at, block)
        for at, block in enumerate(blocks)
    ]


@pytest.mark.parametrize(
    ("blocks", "names"),
    [
        (SIDE_BY_SIDE, ["text_editor_code_execution: create", "bash_code_execution: ls"]),
        (NESTED, ["code_execution: await web_fetch()", "web_fetch: https://a.example"]),
        (MCP, ["ask_question: Why?", "container_upload: "]),
    ],
    ids=["side by side", "one inside of another", "mcp"],
)
async def test_blocks_go_back_to_the_letter_in_their_order(
    blocks: list[dict[str, Any]], names: list[str]
) -> None:
    said = wire.answer(*played(blocks), wire.text(len(blocks), "Done."))
    reply, _, _ = await asked(request(), said)
    ran = [part for part in reply.parts if isinstance(part, ServerToolCall)]
    assert [f"{part.name}: {part.text}" for part in ran] == names
    told = [f"{part.name} ran at the provider" for part in ran if part.replay is not None]
    assert told
    assert all(each in str(reply.diagnostic) for each in told)
    talk = await sent(user("Go."), assistant(*reply.parts), user("And now?"))
    assert talk[1] == ("assistant", [*blocks, words("Done.")])


async def test_words_between_a_call_and_its_result_stay_there() -> None:
    said = wire.answer(SEARCHED[0], wire.text(1, "Hm."), wire.block(2, SENT[1]))
    reply, _, _ = await asked(request(), said)
    assert [type(part) for part in reply.parts] == [ServerToolCall, Text, ServerToolCall]
    talk = await sent(user("Go."), assistant(*reply.parts), user("And now?"))
    assert talk[1][1] == [SENT[0], words("Hm."), SENT[1]]


async def test_a_result_that_no_store_takes_is_left_behind_with_its_call() -> None:
    """What a program printed may hold a NUL."""
    ran = wire.server_use(0, "srv_1", "bash_code_execution", '{"command": "cat"}')
    printed = wire.server_result(1, "srv_1", "bash_code_execution", {"stdout": "a\0b"})
    reply, _, _ = await asked(request(), wire.answer(ran, printed, wire.text(2, "Done.")))
    assert reply.parts == (
        ServerToolCall(name="bash_code_execution", text="cat"),
        Text(text="Done."),
    )


async def test_an_unknown_block_is_named() -> None:
    said = wire.answer(wire.block(0, {"type": "hologram", "data": "x"}), wire.text(1, "Yes."))
    reply, _, _ = await asked(request(), said)
    assert (reply.text, reply.diagnostic) == ("Yes.", "left out of the reply: hologram")


@pytest.mark.parametrize("reason", ["end_turn", "max_tokens"])
async def test_an_empty_reply_says_why_it_ended(reason: str) -> None:
    reply, _, _ = await asked(request(), wire.answer(reason=reason))
    assert reply.parts == ()
    assert reply.diagnostic == f"an empty reply, which ended with {reason}"


async def test_a_search_that_is_cut_off_is_told_and_not_sent_back() -> None:
    """By the documentation: a limit may end a reply anywhere."""
    cut = wire.server_use(1, "srv_1", "web_search", '{"query": "wea')
    said = wire.answer(wire.text(0, "Let me see."), cut, reason="max_tokens")
    reply, _, _ = await asked(request(), said)
    assert reply.parts == (Text(text="Let me see."), ServerToolCall(name="web_search"))
    assert reply.terminal == "output_limit"

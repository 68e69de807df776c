"""OpenRouter: its search, its marks for a cache, files, and thoughts that name the calls they belong to."""

from __future__ import annotations

import pytest

from tests.models import wire_openai_chat as wire
from tests.models.behaviours import KEY, ask
from tests.models.openai_chat_cases import WEATHER, asked, said
from tests.models.test_openai_hosts import HI, play
from tests.models.wire_server import Played, WireServer
from windlass.errors import InvalidInput
from windlass.kernel.messages import (
    Attachment,
    Reasoning,
    Text,
    ToolCall,
)
from windlass.kernel.model_call import Generation, ServerTool, WebSearch
from windlass.models.openai_chat import OpenAIChatModel


async def test_openrouter_searches_by_its_own_tool() -> None:
    """Recorded: the request, and the annotations that answer it."""
    search = WebSearch(max_uses=2, blocked_domains=("b.example",))
    request = asked(tools=(WEATHER,), generation=Generation(server_tools=(search,)))
    _, sent = await play("openrouter", HI, request)
    assert [tool["type"] for tool in sent["tools"]] == ["function", "openrouter:web_search"]
    assert sent["tools"][1]["parameters"] == {"max_uses": 2, "excluded_domains": ["b.example"]}
    alone = asked(generation=Generation(server_tools=(WebSearch(allowed_domains=("a.example",)),)))
    _, sent = await play("openrouter", HI, alone)
    parameters = {"allowed_domains": ["a.example"]}
    assert sent["tools"] == [{"type": "openrouter:web_search", "parameters": parameters}]
    assert "tool_choice" not in sent


async def test_openrouter_tells_the_cache_of_claude_what_stays() -> None:
    """Recorded: marks on parts of messages and on tools are taken."""
    talk = (
        said("system", Text(text="Be brief.")),
        said("user", Text(text="One.")),
        said("assistant", Text(text="Yes.")),
        said("user", Text(text="Two.")),
        said("assistant", Text(text="Yes.")),
        said("user", Text(text="Three.")),
    )
    mark = {"cache_control": {"type": "ephemeral"}}
    _, sent = await play(
        "openrouter", HI, asked(*talk, tools=(WEATHER,)), model="anthropic/claude-sonnet-4.5"
    )
    assert [message["content"] for message in sent["messages"]] == [
        [{"type": "text", "text": "Be brief.", **mark}],
        "One.",
        "Yes.",
        [{"type": "text", "text": "Two.", **mark}],
        "Yes.",
        [{"type": "text", "text": "Three.", **mark}],
    ]
    assert sent["tools"][-1]["cache_control"] == {"type": "ephemeral"}
    searching = Generation(server_tools=(WebSearch(),))
    _, sent = await play(
        "openrouter",
        HI,
        asked(*talk, tools=(WEATHER,), generation=searching),
        model="anthropic/claude-sonnet-4.5",
    )
    assert ["cache_control" in tool for tool in sent["tools"]] == [True, False]
    _, sent = await play("openrouter", HI, asked(*talk, tools=(WEATHER,)), model="openai/gpt-5")
    assert "cache_control" not in str(sent)


async def test_commentary_of_another_host_is_not_glued_to_the_answer() -> None:
    parts = (
        Text(text="I look.", phase="commentary"),
        Text(text="It ", phase="final_answer"),
        Text(text="rains.", phase="final_answer"),
    )
    _, sent = await play(
        "groq", HI, asked(said("user", Text(text="Hi")), said("assistant", *parts))
    )
    assert sent["messages"][1]["content"] == "I look.\n\nIt rains."


async def test_a_tool_in_the_hosts_own_words_is_sent_as_it_is() -> None:
    spec = {"type": "browser_search"}
    own = asked(generation=Generation(server_tools=(ServerTool(provider="groq", spec=spec),)))
    _, sent = await play("groq", HI, own)
    assert sent["tools"] == [spec]
    with pytest.raises(InvalidInput, match="a tool of groq for mistral"):
        await play("mistral", HI, own)


async def test_openrouter_takes_files() -> None:
    pdf = Attachment(ref="pdf", media_type="application/pdf", name="plan.pdf")
    _, sent = await play("openrouter", HI, asked(said("user", pdf)), blobs={"pdf": b"%PDF"})
    assert sent["messages"][0]["content"] == [
        {
            "type": "file",
            "file": {"filename": "plan.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
        }
    ]


async def test_encrypted_thoughts_of_two_calls_are_not_joined() -> None:
    details = [
        {"type": "reasoning.encrypted", "data": f"DATA{name}", "id": name, "index": 0}
        for name in ("a", "b")
    ]
    more = {"type": "reasoning.encrypted", "data": "+", "id": None, "index": 0}
    body = wire.whole(*(wire.chunk({"reasoning_details": [each]}) for each in [*details, more]))
    reply, _ = await play("openrouter", body, asked())
    (thought,) = reply.parts
    assert isinstance(thought, Reasoning)
    kept = thought.replay["blob"]["reasoning_details"]
    assert [(each["id"], each["data"]) for each in kept] == [("a", "DATAa"), ("b", "DATAb+")]


async def test_a_thought_that_no_store_takes_as_it_came_costs_no_words() -> None:
    details = [{"type": "reasoning.text", "text": "a\0b", "index": 0}]
    body = wire.whole(wire.chunk({"reasoning_details": details}), *wire.words("Yes."))
    reply, _ = await play("openrouter", body, asked())
    assert reply.parts == (Text(text="Yes."),)


async def test_two_calls_of_one_id_keep_their_own_details() -> None:
    details = [
        {"type": "reasoning.encrypted", "data": f"D{at}", "id": "same", "index": at}
        for at in (0, 1)
    ]
    both = [wire.piece(at, "same", "get_weather", "{}") for at in (0, 1)]
    body = wire.whole(wire.chunk({"reasoning_details": details}), wire.calls(*both))
    async with WireServer({"POST /v1/chat/completions": Played(body)}) as server:
        url = f"{server.url}/v1"
        model = OpenAIChatModel("google/gemini-3", dialect="openrouter", base_url=url, api_key=KEY)
        reply, _ = await ask(model, asked())
        thought, first, second = reply.parts
        assert isinstance(second, ToolCall)
        renamed = ToolCall(call_id="call_2", name="get_weather", replay=second.replay)
        await ask(model, asked(said("assistant", thought, first, renamed)))
        await model.aclose()
    sent = server.requests[1].json["messages"][0]
    assert [call["id"] for call in sent["tool_calls"]] == ["same", "call_2"]
    assert [(each["data"], each["id"]) for each in sent["reasoning_details"]] == [
        ("D0", "same"),
        ("D1", "call_2"),
    ]

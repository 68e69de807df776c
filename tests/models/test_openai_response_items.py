"""Items of OpenAI's Responses beside plain words and calls: phases, sources, tools that OpenAI ran by itself.

Seen in recorded exchanges: the phase in the first event of a message, commentary before a call, the items of web_search,
file_search, code_interpreter, image_generation, mcp and tool_search, url_citation, file_citation and
container_file_citation, a stateless request without ids. From the documentation alone: `max_tool_calls`,
`filters.blocked_domains`, computer_call, local_shell_call, custom_tool_call and mcp_approval_request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.models import wire_openai_responses as wire
from tests.models.behaviours import KEY, ask
from tests.models.openai_response_cases import (
    MODEL,
    PARIS,
    PERSON,
    WEATHER,
    asked,
    paris,
    said,
)
from tests.models.wire_rules import openai_responses as rules
from tests.models.wire_server import Played, WireServer
from windlass import Agent, Runtime
from windlass.kernel import ModelReply
from windlass.kernel.messages import Citation, Reasoning, ServerToolCall, Text, ToolCall, ToolResult
from windlass.models.openai_responses import OpenAIResponsesModel
from windlass.ports.model import CallChunk, TextChunk

Items = tuple[Any, ...]


@asynccontextmanager
async def playing(
    *items: Items, model: str = MODEL, body: bytes = b""
) -> AsyncIterator[tuple[WireServer, OpenAIResponsesModel]]:
    """A model whose provider answers with these items, or with this body, over and over."""
    played = Played(body or wire.completed(*items))
    async with WireServer({"POST /v1/responses": played}) as server:
        made = OpenAIResponsesModel(model, base_url=f"{server.url}/v1", api_key=KEY)
        yield server, made
        await made.aclose()


def blob(server: WireServer, found: object) -> dict[str, Any]:
    return {"route": f"openai|{server.url}/v1|{MODEL}", "blob": found}


async def answered(*items: Items) -> ModelReply:
    async with playing(*items) as (_, model):
        reply, _ = await ask(model, asked())
    return reply


async def sent_after(*items: Items) -> list[dict[str, Any]]:
    """Return what is sent of such a reply when the conversation goes on, results of its calls included."""
    async with playing(*items) as (server, model):
        reply, _ = await ask(model, asked())
        results: list[Any] = [
            ToolResult(call_id=part.call_id, name=part.name, content=(Text(text="Sunny"),))
            for part in reply.parts
            if isinstance(part, ToolCall)
        ]
        again = said("user", *(results or [Text(text="And now?")]))
        # As the projector does: without its blob such a part is not sent.
        told = [
            part
            for part in reply.parts
            if not isinstance(part, (Reasoning, ServerToolCall)) or part.replay is not None
        ]
        await ask(model, asked(*asked().messages, said("assistant", *told), again))
    body = server.requests[-1].json
    assert rules(body) == []
    sent: list[dict[str, Any]] = body["input"][1:-1]
    return sent


def plain(text: str, **fields: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text}]
    return {"type": "message", "role": "assistant", "content": content, **fields}


# --- phases -----------------------------------------------------------------------------------------------

CHECKING = wire.message("Checking.", 1, ("Chec", "king."), phase="commentary")


async def test_commentary_and_answer_are_two_texts_and_only_the_answer_is_the_replys_text() -> None:
    final = wire.message("Sunny.", 2, phase="final_answer")
    async with playing(wire.reasoning((), "gAAAA"), CHECKING, final) as (server, model):
        reply, shown = await ask(model, asked())
    assert reply.parts[1:] == (
        Text(text="Checking.", phase="commentary", replay=blob(server, {"phase": "commentary"})),
        Text(text="Sunny.", phase="final_answer", replay=blob(server, {"phase": "final_answer"})),
    )
    assert (reply.text, reply.terminal, reply.diagnostic) == ("Sunny.", "stop", None)
    assert shown == (
        TextChunk(text="Checking.", phase="commentary"),
        TextChunk(text="Sunny.", phase="final_answer"),
    )


async def test_two_messages_of_one_phase_stay_two_texts() -> None:
    reply = await answered(
        wire.message("One.", 0, phase="final_answer"), wire.message("Two.", 1, phase="final_answer")
    )
    assert [part.text for part in reply.parts if isinstance(part, Text)] == ["One.", "Two."]


async def test_a_call_after_commentary_goes_back_with_it() -> None:
    call = wire.call("get_weather", PARIS, 2)
    items = (wire.reasoning(("Hm.",), "gAAAA"), CHECKING, call)
    async with playing(*items) as (_, model):
        reply, shown = await ask(model, asked(tools=(WEATHER,)))
    assert (reply.text, reply.terminal, reply.parts[2]) == ("Checking.", "tool_use", paris())
    assert shown[1:] == (
        TextChunk(text="Checking.", phase="commentary"),
        CallChunk(call_id="call_7tRz", name="get_weather", text='{"city":"Paris"}'),
    )
    thought = {"type": "summary_text", "text": "Hm."}
    assert await sent_after(*items) == [
        {"type": "reasoning", "summary": [thought], "encrypted_content": "gAAAA"},
        plain("Checking.", phase="commentary"),
        {
            "type": "function_call",
            "call_id": "call_7tRz",
            "name": "get_weather",
            "arguments": '{"city":"Paris"}',
        },
    ]


async def test_a_thought_that_no_store_takes_as_it_came_costs_no_words() -> None:
    reply = await answered(wire.reasoning(("a\0b",), "gAAAA"), wire.message("Yes.", 1))
    assert reply.parts == (Reasoning(text="a\ufffdb"), Text(text="Yes."))


async def test_an_unknown_phase_is_kept_and_sent_back() -> None:
    assert await sent_after(wire.message("Hm.", phase="musing")) == [plain("Hm.", phase="musing")]


async def test_a_phase_goes_back_to_its_route_and_to_no_other() -> None:
    text = Text(text="Checking.", phase="commentary", replay={"route": "x", "blob": {"phase": "y"}})
    async with playing(wire.message("Ok.")) as (server, model):
        await ask(model, asked(*asked().messages, said("assistant", text), *asked().messages))
    assert server.requests[0].json["input"][1] == plain("Checking.")


async def test_commentary_is_no_part_of_a_typed_answer() -> None:
    final = wire.message('{"name":"Eva","age":3}', 2, phase="final_answer")
    async with playing(wire.reasoning((), "gAAAA"), CHECKING, final) as (_, model):
        reply, _ = await ask(model, asked(output=PERSON))
    assert reply.text == '{"name":"Eva","age":3}'


@dataclass
class Person:
    name: str
    age: int


async def test_an_agent_reads_its_typed_answer_behind_commentary() -> None:
    final = wire.message('{"name":"Eva","age":3}', 2, phase="final_answer")
    async with playing(wire.reasoning((), "gAAAA"), CHECKING, final) as (_, model):
        agent = Agent("a", model=model, output_type=Person)
        async with Runtime(agent, store="memory:", models=[model]) as runtime:
            result = await runtime.session("s").run("Who?")
    assert result.output == Person(name="Eva", age=3)


@pytest.mark.parametrize("phase", [7, None, True, ["commentary"], {"a": 1}, "", "x" * 65])
async def test_what_cannot_be_a_phase_is_passed_over(phase: str | None) -> None:
    reply = await answered(wire.message("Hi.", phase=phase))
    assert reply.parts == (Text(text="Hi."),)


async def test_a_message_that_was_cut_off_keeps_its_phase() -> None:
    item, events = wire.message("Chec", phase="commentary")
    last = wire.response(
        "incomplete", [], usage=wire.USAGE, incomplete_details={"reason": "max_output_tokens"}
    )
    begun = wire.begun((item, events), repeat_items=False)
    body = wire.numbered([*begun, {"type": "response.incomplete", "response": last}])
    async with playing(body=body) as (_, model):
        reply, _ = await ask(model, asked())
    assert [(part.text, part.phase) for part in reply.parts] == [("Chec", "commentary")]  # type: ignore[union-attr]


# --- what words rest on -------------------------------------------------------------------------------------

URL = wire.cited("https://a.example/x", "A page", 6, 12)
FILE = {"type": "file_citation", "file_id": "file-1", "filename": "plan.txt", "index": 11}
IN_BOX = {
    "type": "container_file_citation",
    "container_id": "cntr_1",
    "file_id": "cfile_1",
    "filename": "chart.png",
    "start_index": 0,
    "end_index": 5,
}


async def test_annotations_are_citations_and_go_back_as_they_came() -> None:
    message = wire.message("Sunny (a page).", annotations=(URL, FILE, IN_BOX))
    reply = await answered(message)
    assert isinstance(reply.parts[0], Text)
    assert reply.parts[0].citations == (
        Citation(url="https://a.example/x", title="A page", start=6, end=12),
        Citation(title="plan.txt", start=11, end=11),
        Citation(title="chart.png", start=0, end=5),
    )
    part = {
        "type": "output_text",
        "text": "Sunny (a page).",
        "annotations": [URL, FILE, IN_BOX],
    }
    assert await sent_after(message) == [
        {"type": "message", "role": "assistant", "content": [part]}
    ]


async def test_positions_count_from_the_beginning_of_the_message() -> None:
    item, events = wire.message("One. ")
    second = {"type": "output_text", "text": "Two.", "annotations": [wire.cited("u", "t", 0, 3)]}
    item["content"].append(second)
    reply = await answered((item, events))
    assert isinstance(reply.parts[0], Text)
    assert (reply.text, reply.parts[0].citations) == (
        "One. Two.",
        (Citation(url="u", title="t", start=5, end=8),),
    )


async def test_words_that_were_changed_go_back_without_the_annotations_of_others() -> None:
    found = {"content": [{"type": "output_text", "text": "Sunny.", "annotations": [URL]}]}
    async with playing(wire.message("Ok.")) as (server, model):
        text = Text(text="[hidden]", replay=blob(server, found))
        await ask(model, asked(*asked().messages, said("assistant", text), *asked().messages))
    assert server.requests[0].json["input"][1] == plain("[hidden]")


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (7, ()),
        ({"type": "url_citation"}, ()),
        (["x", None, 3], ()),
        ([{"type": "url_citation", "url": 7, "title": [], "start_index": "1", "end_index": -1}], (Citation(),)),
        ([wire.cited("a\x00b", "t", True, 2**70)], (Citation(url="a\ufffdb", title="t"),)),
    ],
)  # fmt: skip
async def test_odd_annotations_cost_no_words(found: object, wanted: tuple[Citation, ...]) -> None:
    item, events = wire.message("Hi.")
    item["content"][0]["annotations"] = found
    reply = await answered((item, events))
    assert isinstance(reply.parts[0], Text)
    assert (reply.text, reply.parts[0].citations) == ("Hi.", wanted)

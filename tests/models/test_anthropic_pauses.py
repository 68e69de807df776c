"""A turn that Anthropic pauses goes on inside of one call: `stop_reason: "pause_turn"`.

As recorded: the paused reply ends in a call of the provider's own tool, and the next one begins with its result.
"""

from __future__ import annotations

import pytest

from tests.models import wire_anthropic as wire
from tests.models.anthropic_cases import THOUGHT, assistant, kept, request, user
from tests.models.anthropic_search import (
    CITED,
    RAIN,
    RAIN_CITED,
    SEARCHING,
    asked,
    found,
    used,
    words,
)
from tests.models.behaviours import KEY, ask
from tests.models.wire_server import Played, WireServer, sse
from windlass import Agent, Generation, Runtime, WebSearch
from windlass.errors import Malformed, ProviderError, Rejected, Unavailable
from windlass.kernel import Reasoning, Text, Usage
from windlass.kernel.messages import ServerToolCall
from windlass.models.anthropic import AnthropicModel

PAUSED = wire.answer(
    wire.thinking(0, "Paris."),
    wire.text(1, "Let me see."),
    wire.text(2, "\n"),
    wire.server_use(3, "srv_1", "web_search", '{"query": "rain"}'),
    reason="pause_turn",
)
RESUMED = wire.answer(
    wire.server_result(0, "srv_1", "web_search", [RAIN]),
    wire.cited(1, "rain until noon", RAIN_CITED),
)
PAUSED_BLOCKS = [THOUGHT, words("Let me see."), used("srv_1", "rain")]


def overloaded(status: int = 529) -> Played:
    body = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
    return Played(body, status, {}, "application/json")


async def test_a_paused_turn_goes_on_as_one_reply() -> None:
    reply, shown, seen = await asked(request(generation=SEARCHING), PAUSED, RESUMED)
    pair = [used("srv_1", "rain"), found("srv_1", RAIN)]
    assert reply.parts == (
        Reasoning(text="Paris.", replay=kept(THOUGHT)),
        Text(text="Let me see."),
        Text(text="\n"),
        ServerToolCall(name="web_search", text="rain", replay=kept(pair)),
        CITED,
    )
    assert reply.terminal == "stop"
    assert reply.usage == Usage(input_tokens=50, output_tokens=30)
    assert isinstance(reply.provider_usage, dict)
    assert reply.provider_usage["output_tokens"] == 30
    assert "".join(getattr(event, "text", "") for event in shown) == (
        "Paris.Let me see.\nrain until noon"
    )
    first, second = (each.json for each in seen)
    assert second["messages"][:-1] == first["messages"]
    assert second["messages"][-1] == {"role": "assistant", "content": PAUSED_BLOCKS}
    assert {**second, "messages": None} == {**first, "messages": None}


async def test_each_pause_takes_all_that_was_said_before() -> None:
    middle = wire.answer(
        wire.server_result(0, "srv_1", "web_search", [RAIN]),
        wire.server_use(1, "srv_2", "web_search", '{"query": "sun"}'),
        reason="pause_turn",
    )
    last = wire.answer(wire.server_result(0, "srv_2", "web_search", []), wire.text(1, "Done."))
    reply, _, seen = await asked(request(generation=SEARCHING), PAUSED, middle, last)
    assert [type(part) for part in reply.parts[3:]] == [ServerToolCall, ServerToolCall, Text]
    assert reply.usage == Usage(input_tokens=75, output_tokens=45)
    assert [len(each.json["messages"]) for each in seen] == [1, 2, 2]
    assert seen[2].json["messages"][1]["content"] == [
        *PAUSED_BLOCKS,
        found("srv_1", RAIN),
        used("srv_2", "sun"),
    ]


async def test_code_goes_on_in_its_container() -> None:
    """Recorded: the last event names the container. That a paused turn goes on in it rests on what other clients send."""
    container = {"id": "container_1", "expires_at": "2026-04-24T11:13:36Z"}
    paused = wire.answer(
        wire.server_use(0, "srv_1", "bash_code_execution", '{"command": "make"}'),
        reason="pause_turn",
        container=container,
    )
    over = wire.answer(wire.server_result(0, "srv_1", "bash_code_execution", {}), wire.text(1, "!"))
    _, _, seen = await asked(request(), paused, over)
    assert [each.json.get("container") for each in seen] == [None, "container_1"]


async def test_a_provider_that_pauses_for_ever_is_left() -> None:
    reply, _, seen = await asked(request(generation=SEARCHING), PAUSED)
    assert len(seen) == 9
    assert reply.terminal == "pause_turn"
    assert reply.usage == Usage(input_tokens=9 * 25, output_tokens=9 * 15)


async def test_a_pause_before_anything_was_said_is_not_gone_on_with() -> None:
    empty = wire.answer(wire.thinking(0, "Hm."), reason="pause_turn")
    reply, _, seen = await asked(request(), empty)
    assert (len(seen), reply.terminal) == (1, "pause_turn")


@pytest.mark.parametrize(
    ("second", "kind"),
    [
        (overloaded(), Unavailable),
        (overloaded(400), Rejected),
        (
            RESUMED._replace(body=RESUMED.body[: RESUMED.body.index(b"event: message_stop")]),
            Unavailable,
        ),
        (Played(sse(wire.start(), wire.event("error", error={"type": "api_error"}))), Unavailable),
        (Played(b"<html>", 200, {}, "text/html"), Malformed),
        (Played(status=0), Unavailable),
    ],
    ids=["overloaded", "refused", "cut off", "an error event", "a web page", "dropped"],
)
async def test_a_second_round_that_fails_gives_no_reply(
    second: Played, kind: type[ProviderError]
) -> None:
    """What was said before the pause is no reply; the whole call may be made again."""
    async with WireServer({"POST /v1/messages": [PAUSED, second, RESUMED]}) as server:
        model = AnthropicModel(wire.MODEL, base_url=server.url, api_key=KEY)
        with pytest.raises(kind):
            await ask(model, request(generation=SEARCHING))
        again, _ = await ask(model, request(generation=SEARCHING))
        await model.aclose()
    assert len(server.requests) == 3
    assert again.text == "rain until noon"


async def test_a_turn_searches_pauses_and_remembers_what_it_found() -> None:
    """Through the runtime: the next turn sends the search back."""
    answers = [PAUSED, RESUMED, wire.answer(wire.text(0, "Sun."))]
    async with WireServer({"POST /v1/messages": answers}) as server:
        model = AnthropicModel(wire.MODEL, base_url=server.url, api_key=KEY)
        searching = Generation(server_tools=(WebSearch(max_uses=2),))
        agent = Agent("a", model=model, generation=searching)
        async with Runtime(agent, store="memory:") as runtime:
            session = runtime.session("s")
            for asking, said in (("Weather?", "Let me see.\nrain until noon"), ("Then?", "Sun.")):
                assert (await session.run(asking)).text == said
        await model.aclose()
    assert server.requests[2].json["messages"][1]["content"] == [
        words("Let me see."),
        used("srv_1", "rain"),
        found("srv_1", RAIN),
        {**words("rain until noon"), "citations": [RAIN_CITED]},
    ]


async def test_what_was_left_open_does_not_spoil_the_next_request() -> None:
    reply, _, _ = await asked(request(generation=SEARCHING), PAUSED)
    talk = request(user("Weather?"), assistant(*reply.parts), user("Well?"), generation=SEARCHING)
    _, _, [seen] = await asked(talk)
    assert "server_tool_use" not in str(seen.json["messages"])

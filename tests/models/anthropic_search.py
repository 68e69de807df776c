"""A search of Anthropic's, with what it found and what rests on it: for the tests of server tools."""

from __future__ import annotations

from typing import Any

from tests.models import wire_anthropic as wire
from tests.models.anthropic_cases import ENDPOINT, kept, request
from tests.models.behaviours import KEY, ask
from tests.models.wire_rules import RULES
from tests.models.wire_server import Played, Seen, WireServer
from windlass.kernel import Generation, ModelReply, ModelRequest, Text, WebSearch
from windlass.kernel.messages import Citation, ServerToolCall
from windlass.models.anthropic import AnthropicModel
from windlass.ports.model import ModelEvent

SEARCHING = Generation(server_tools=(WebSearch(),))
RAIN = wire.page("https://weather.example/rain", "Rain")
SUN = wire.page("https://weather.example/sun", "Sun")
RAIN_CITED = wire.citation(RAIN["url"], "Rain", "Rain until noon. ")
DIRECT = {"caller": {"type": "direct"}}


def used(call_id: str, query: str, **more: Any) -> dict[str, Any]:
    given = {"query": query}
    return {"type": "server_tool_use", "id": call_id, "name": "web_search", "input": given, **more}


def found(call_id: str, *pages: dict[str, Any], **more: Any) -> dict[str, Any]:
    what = {"tool_use_id": call_id, "content": list(pages)}
    return {"type": "web_search_tool_result", **what, **more}


SEARCHED = (
    wire.server_use(0, "srv_1", "web_search", '{"que', 'ry": "weather ', 'Zürich"}'),
    wire.server_result(1, "srv_1", "web_search", [RAIN, SUN], **DIRECT),
    wire.text(2, "It says: "),
    wire.cited(3, "rain until noon", RAIN_CITED),
    wire.text(4, "."),
)
SENT = [used("srv_1", "weather Zürich"), found("srv_1", RAIN, SUN, **DIRECT)]
CITED = Text(
    text="rain until noon",
    citations=(
        Citation(url=RAIN["url"], title="Rain", quote="Rain until noon. ", start=0, end=15),
    ),
    replay=kept({"citations": [RAIN_CITED]}),
)
SEARCH_PART = ServerToolCall(name="web_search", text="weather Zürich", replay=kept(SENT))


async def asked(
    asking: ModelRequest, *answers: Played, model: str = wire.MODEL, **options: Any
) -> tuple[ModelReply, tuple[ModelEvent, ...], list[Seen]]:
    """Ask; return the reply, what was shown, and what the server saw."""
    plays = list(answers) or [wire.answer(wire.text(0, "Yes."))]
    async with WireServer({"POST /v1/messages": plays}) as server:
        made = AnthropicModel(model, base_url=server.url, api_key=KEY, **options)
        made.route = type(made.route)("anthropic", ENDPOINT, model)
        try:
            reply, shown = await ask(made, asking)
        finally:
            await made.aclose()
    return reply, shown, server.requests


async def sent(*talk: Any, **fields: Any) -> list[tuple[str, Any]]:
    """Return the messages that the server saw, without the marks for its cache."""
    _, _, seen = await asked(request(*talk, **fields))
    assert RULES["anthropic"](seen[0].json) == []
    messages = seen[0].json["messages"]
    for message in messages:
        for block in message["content"]:
            block.pop("cache_control", None)
    return [(message["role"], message["content"]) for message in messages]


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}

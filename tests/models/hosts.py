"""Every provider that is reached over a wire: its model, its address, and its answers in its own words.

What a host thinks and searches for is a canary: it may come back to that host and to no other.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from tests.models import wire_anthropic, wire_google, wire_openai_chat, wire_openai_responses
from tests.models.behaviours import KEY, ClosableModel
from tests.models.test_google_vertex import Static
from tests.models.wire_server import Played, sse
from windlass.models.anthropic import AnthropicBedrockModel, AnthropicModel, AnthropicVertexModel
from windlass.models.google import GoogleModel, VertexModel
from windlass.models.openai_chat import OpenAIChatModel
from windlass.models.openai_chat.dialects import DIALECTS
from windlass.models.openai_responses import AzureResponsesModel, OpenAIResponsesModel

PAGE, TITLE, CITED = "https://pages.example/rain", "Rain", "It rains."
ARGUMENTS = ('{"city": "Paris"}', '{"city": "Rome"}')
# Models that are served at these hosts; at the others any name will do.
MODELS = {
    "anthropic": "claude-opus-5",
    "vertex-anthropic": "claude-opus-5",
    "bedrock-anthropic": "anthropic.claude-opus-5",
    "openai": "gpt-5",
    "openai-chat": "gpt-5",
    "azure": "gpt-5",
    "azure-responses": "gpt-5",
    "google": "gemini-3-pro-preview",
    "vertex": "gemini-3-pro-preview",
    "openrouter": "google/gemini-3-pro-preview",
}


def thought_of(name: str) -> str:
    return f"thinking-as-{name}!"


def signature_of(name: str) -> str:
    return base64.b64encode(f"signed-by-{name}!!".encode()).decode().rstrip("=") + "A"


def query_of(name: str) -> str:
    return f"what-{name}-searched-for"


class Host(NamedTuple):
    """A host. `search` and `commentary` are None where there is no such thing; `quiet` answers with nothing.

    `cached` is an answer of which a part of the prompt came from the cache: 40 of 50 tokens.
    """

    name: str
    path: str
    make: Callable[[str], ClosableModel]
    says: Played
    calls: Callable[[int], Played]
    quiet: Played
    cached: Played
    search: Played | None
    commentary: Played | None
    rules: str
    has_thoughts: bool = True

    @property
    def model(self) -> str:
        """The model's name, as turns know it."""
        return f"{self.name}:{model_at(self.name)}"


def model_at(name: str) -> str:
    return MODELS.get(name, "some-model")


# --- Anthropic, and the clouds that serve it -------------------------------------------------------------


def anthropic(name: str, path: str, make: Callable[[str], ClosableModel]) -> Host:
    wire, sign = wire_anthropic, signature_of(name)
    found = wire.page(PAGE, TITLE)

    def calls(turn: int) -> Played:
        made = [
            wire.tool_use(at + 1, f"toolu_{name}_{turn}_{at}".replace("-", "_"), "weather", args)
            for at, args in enumerate(ARGUMENTS)
        ]
        thought = wire.thinking(0, thought_of(name), signature=sign)
        return wire.answer(thought, *made, reason="tool_use")

    searched = wire.answer(
        wire.server_use(0, f"srv_{name}", "web_search", f'{{"query": "{query_of(name)}"}}'),
        wire.server_result(1, f"srv_{name}", "web_search", [found]),
        wire.cited(2, CITED, wire.citation(PAGE, TITLE, sign)),
    )
    counts = {"input_tokens": 10, "cache_read_input_tokens": 40, "output_tokens": 2}
    return Host(
        name,
        path,
        make,
        says=wire.answer(wire.text(0, "Sunny.")),
        calls=calls,
        quiet=wire.answer(),
        cached=Played(sse(wire.start(usage=counts), *wire.text(0, "Sunny."), *wire.end(tokens=2))),
        search=searched,
        commentary=None,
        rules="anthropic",
    )


# --- OpenAI's Responses ------------------------------------------------------------------------------------


def responses(name: str, path: str, make: Callable[[str], ClosableModel]) -> Host:
    wire, sign = wire_openai_responses, signature_of(name)

    def calls(turn: int) -> Played:
        made = [
            wire.call("weather", (args,), at + 1, f"call_{name}_{turn}_{at}")
            for at, args in enumerate(ARGUMENTS)
        ]
        return Played(wire.completed(wire.reasoning((thought_of(name),), sign), *made))

    note = {**wire.cited(PAGE, TITLE, 0, 9), "secret": sign}
    searched = wire.completed(
        wire.search(query_of(name), 0), wire.message(CITED, at=1, annotations=(note,))
    )
    aside = wire.message("I look.", at=0, phase="commentary")
    counts = {"input_tokens": 50, "input_tokens_details": {"cached_tokens": 40}, "output_tokens": 2}
    return Host(
        name,
        path,
        make,
        says=Played(wire.completed(wire.message("Sunny."))),
        calls=calls,
        quiet=Played(wire.completed()),
        cached=Played(wire.completed(wire.message("Sunny."), usage=counts)),
        search=Played(searched),
        commentary=Played(
            wire.completed(aside, wire.message("Sunny.", at=1, phase="final_answer"))
        ),
        rules="openai",
    )


# --- Gemini ------------------------------------------------------------------------------------------------


def gemini(name: str, path: str, make: Callable[[str], ClosableModel]) -> Host:
    wire, sign = wire_google, signature_of(name)

    def calls(_turn: int) -> Played:
        cities = [{"city": "Paris"}, {"city": "Rome"}]
        return wire.stream(
            wire.said({"text": thought_of(name), "thought": True}),
            wire.said(wire.call("weather", sign, args=cities[0])),
            wire.said(wire.call("weather", args=cities[1])),
            wire.ended(),
        )

    grounded = wire.ended({"text": CITED})
    grounded["candidates"][0]["groundingMetadata"] = {
        "webSearchQueries": [query_of(name)],
        "groundingChunks": [{"web": {"uri": PAGE, "title": TITLE}}],
        "groundingSupports": [
            {"segment": {"endIndex": 9, "text": CITED}, "groundingChunkIndices": [0]}
        ],
    }
    counts = {"promptTokenCount": 50, "cachedContentTokenCount": 40, "candidatesTokenCount": 2}
    return Host(
        name,
        path,
        make,
        says=wire.stream(wire.ended({"text": "Sunny."})),
        calls=calls,
        quiet=wire.stream(wire.ended()),
        cached=wire.stream({**wire.ended({"text": "Sunny."}), "usageMetadata": counts}),
        search=wire.stream(grounded),
        commentary=None,
        rules="google",
    )


# --- Chat Completions, in every dialect ----------------------------------------------------------------------


def chat(dialect: str) -> Host:
    wire, row = wire_openai_chat, DIALECTS[dialect]
    name = row.provider
    thought = _thought(dialect, name)

    def calls(turn: int) -> Played:
        made = [
            # As long as OpenRouter's are, and as any: it is the adapter's to make them fit.
            wire.piece(at, f"call_{name}_{turn}_{at}_3ZiChYzj8xER8HixJe7W3ZiC", "weather", args)
            for at, args in enumerate(ARGUMENTS)
        ]
        before = [wire.chunk(_details(thought, turn, name))] if thought else []
        return Played(wire.whole(*before, wire.calls(*made), finish="tool_calls"))

    note = {"url": PAGE, "title": TITLE, "start_index": 0, "end_index": 9}
    annotation = {"type": "url_citation", "url_citation": note}
    searched = wire.whole(wire.chunk({"content": CITED, "annotations": [annotation]}))
    counts = {
        "prompt_tokens": 50,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 40},
    }
    inside: dict[str, Any] = {row.usage_inside: {"usage": counts}} if row.usage_inside else {}
    return Host(
        name,
        f"POST /{name}/v1/chat/completions",
        partial(_chat_model, dialect),
        says=Played(wire.whole(*wire.words("Sunny."))),
        calls=calls,
        quiet=Played(wire.whole()),
        cached=Played(wire.whole(*wire.words("Sunny."), wire.chunk({}, **inside), counts=counts)),
        search=Played(searched) if row.search_tool else None,
        commentary=None,
        rules=name if name in ("mistral", "deepseek", "openrouter") else "openai-chat",
        has_thoughts=bool(thought),
    )


def _chat_model(dialect: str, url: str) -> ClosableModel:
    name = DIALECTS[dialect].provider
    base = f"{url}/{name}/v1"
    return OpenAIChatModel(model_at(name), dialect=dialect, base_url=base, api_key=KEY)


def _thought(dialect: str, name: str) -> dict[str, Any]:
    row = DIALECTS[dialect]
    if row.replay_field == "content":
        inner = [{"type": "text", "text": thought_of(name)}]
        return {"content": [{"type": "thinking", "thinking": inner}]}
    return {row.reasoning_fields[0]: thought_of(name)} if row.reasoning_fields else {}


def _details(thought: dict[str, Any], turn: int, name: str) -> dict[str, Any]:
    if name != "openrouter":
        return thought
    call_id = f"call_{name}_{turn}_0_3ZiChYzj8xER8HixJe7W3ZiC"
    detail = {"type": "reasoning.encrypted", "data": signature_of(name), "id": call_id, "index": 0}
    return {**thought, "reasoning_details": [detail]}


# --- all of them ---------------------------------------------------------------------------------------------


_PLACE = "projects/p/locations/europe-west4"
_GEMINI_3 = MODELS["google"]


def _at_home() -> list[Host]:
    """Return the three protocols at their own providers."""
    return [
        anthropic(
            "anthropic",
            "POST /anthropic/v1/messages",
            lambda url: AnthropicModel(
                MODELS["anthropic"], base_url=f"{url}/anthropic", api_key=KEY
            ),
        ),
        responses(
            "openai",
            "POST /openai/v1/responses",
            lambda url: OpenAIResponsesModel(
                MODELS["openai"], base_url=f"{url}/openai/v1", api_key=KEY
            ),
        ),
        gemini(
            "google",
            f"POST /google/v1/models/{_GEMINI_3}:streamGenerateContent",
            lambda url: GoogleModel(_GEMINI_3, base_url=f"{url}/google", api_key=KEY),
        ),
    ]


def _in_clouds() -> list[Host]:
    """Return the same protocols in the clouds that serve them."""
    cloud: dict[str, Any] = {"project": "p", "location": "europe-west4", "credentials": Static()}
    return [
        anthropic(
            "vertex-anthropic",
            f"POST /va/v1/{_PLACE}/publishers/anthropic/models/claude-opus-5:streamRawPredict",
            lambda url: AnthropicVertexModel(
                MODELS["vertex-anthropic"], base_url=f"{url}/va/v1", **cloud
            ),
        ),
        anthropic(
            "bedrock-anthropic",
            "POST /bedrock/v1/messages",
            lambda url: AnthropicBedrockModel(
                MODELS["bedrock-anthropic"],
                base_url=f"{url}/bedrock",
                region="eu-west-1",
                api_key=KEY,
            ),
        ),
        responses(
            "azure-responses",
            "POST /azure-r/openai/v1/responses",
            lambda url: AzureResponsesModel(
                MODELS["azure-responses"], base_url=f"{url}/azure-r/openai/v1", api_key=KEY
            ),
        ),
        gemini(
            "vertex",
            f"POST /vertex/v1beta1/{_PLACE}/publishers/google/models/{_GEMINI_3}:streamGenerateContent",
            lambda url: VertexModel(_GEMINI_3, base_url=f"{url}/vertex", **cloud),
        ),
    ]


_ALL = [*_at_home(), *_in_clouds(), *[chat(dialect) for dialect in DIALECTS]]
HOSTS = {host.name: host for host in _ALL}

"""The hosts that speak Chat Completions: what each row sends, and what it reads of their answers.

A host's `source` says what its row rests on: recorded answers of the host itself, or its documentation alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from tests.models import wire_openai_chat as wire
from tests.models.behaviours import KEY, ask
from tests.models.openai_chat_cases import PARIS, PERSON, PNG, TALK, WEATHER, asked, said
from tests.models.wire_rules import mistral
from tests.models.wire_server import Played, WireServer
from windlass.errors import Unavailable
from windlass.kernel import ModelReply, ModelRequest
from windlass.kernel.messages import (
    Attachment,
    Reasoning,
    ServerToolCall,
    Text,
    ToolResult,
)
from windlass.kernel.model_call import Generation, Usage
from windlass.models.openai_chat import OpenAIChatModel
from windlass.models.openai_chat.dialects import DIALECTS
from windlass.models.openai_responses import AzureResponsesModel

HI = wire.whole(*wire.words("Hi."))


class Host(NamedTuple):
    """What a row sends for a request that asks for everything, and how it asks for a shape."""

    source: str
    limit: str
    seed: str = "seed"
    usage: bool = True
    required: str | None = "required"
    parallel: bool = True
    shape: str = "json_schema"
    cache: bool = False
    strict: bool = False


HOSTS = {
    "openai": Host("recorded", "max_completion_tokens", cache=True, strict=True),
    "azure": Host("recorded", "max_completion_tokens", cache=True, strict=True),
    "openrouter": Host("recorded", "max_tokens", strict=True),
    "deepseek": Host("recorded", "max_tokens", required=None, parallel=False, shape="json_object"),
    "groq": Host("recorded", "max_completion_tokens", usage=False, shape="words"),
    "mistral": Host(
        "recorded",
        "max_tokens",
        "random_seed",
        usage=False,
        required="any",
        cache=True,
        strict=True,
    ),
    "xai": Host("documented", "max_completion_tokens", strict=True),
    "together": Host("documented", "max_tokens", parallel=False),
    "fireworks": Host("documented", "max_tokens", parallel=False),
    "lmstudio": Host("documented", "max_tokens", parallel=False),
    "vllm": Host("documented", "max_tokens"),
    "llamacpp": Host("documented", "max_tokens"),
}


async def play(
    dialect: str,
    body: bytes,
    request: ModelRequest,
    *,
    model: str = "some-model",
    blobs: dict[str, bytes] | None = None,
) -> tuple[ModelReply, Any]:
    """Ask a host; return the reply and what was sent."""
    async with WireServer({"POST /v1/chat/completions": Played(body)}) as server:
        asking = OpenAIChatModel(model, dialect=dialect, base_url=f"{server.url}/v1", api_key=KEY)
        try:
            reply, _ = await ask(asking, request, blobs or {})
        finally:
            await asking.aclose()
    return reply, server.requests[0].json


def test_every_row_is_here_or_in_the_other_file() -> None:
    assert set(DIALECTS) - set(HOSTS) == {"ollama", "generic"}


@pytest.mark.parametrize("name", HOSTS)
async def test_a_host_is_sent_what_it_knows(name: str) -> None:
    host = HOSTS[name]
    request = asked(
        tools=(WEATHER,),
        tool_choice="required",
        session_id="session-1",
        generation=Generation(max_output_tokens=9, seed=7),
    )
    _, sent = await play(name, HI, request)
    wanted: dict[str, Any] = {host.limit: 9, host.seed: 7}
    if host.usage:
        wanted["stream_options"] = {"include_usage": True}
    if host.required:
        wanted["tool_choice"] = host.required
    if host.parallel:
        wanted["parallel_tool_calls"] = True
    if host.cache:
        wanted["prompt_cache_key"] = "84097828fc31a8c8d29210df48901a85"
    common = {"model", "messages", "stream", "tools"}
    assert {key: value for key, value in sent.items() if key not in common} == wanted


@pytest.mark.parametrize("name", HOSTS)
async def test_a_shape_is_asked_for_as_the_host_takes_it(name: str) -> None:
    host = HOSTS[name]
    _, sent = await play(name, wire.whole(*wire.words("{}")), asked(output=PERSON))
    form = sent.get("response_format", {"type": "words"})
    assert form["type"] == host.shape
    in_words = "fit this JSON schema" in str(sent["messages"][-1]["content"])
    assert in_words is (host.shape != "json_schema")
    if host.shape == "json_schema":
        is_closed = form["json_schema"]["schema"].get("additionalProperties") is False
        assert is_closed is host.strict


# --- Mistral -------------------------------------------------------------------------------------------


def thinking(*texts: str) -> wire.Chunk:
    parts = [{"type": "text", "text": text} for text in texts]
    return wire.chunk({"content": [{"type": "thinking", "thinking": parts}]})


async def test_mistral_thinks_among_the_parts_of_its_content_and_gets_that_back() -> None:
    """Recorded: the answer, and such a request that was taken."""
    body = wire.whole(
        thinking("Let ", "me "),
        thinking("see."),
        wire.chunk({"content": [{"type": "text", "text": "Loo"}, {"type": "reference"}]}),
        wire.chunk({"content": "king."}),
        *PARIS,
        finish="tool_calls",
    )
    async with WireServer({"POST /v1/chat/completions": Played(body)}) as server:
        url = f"{server.url}/v1"
        model = OpenAIChatModel("magistral", dialect="mistral", base_url=url, api_key=KEY)
        reply, _ = await ask(model, asked())
        thought, words, call = reply.parts
        assert isinstance(thought, Reasoning)
        assert (thought.text, reply.text) == ("Let me see.", "Looking.")
        assert reply.diagnostic == "left out of the reply: content (reference)"
        await ask(model, asked(TALK[1], said("assistant", thought, words, call)))
        await ask(model, asked(TALK[1], said("assistant", thought, call)))
        await model.aclose()
    back, wordless = (request.json["messages"][1] for request in server.requests[1:])
    kept = {"type": "thinking", "thinking": [{"type": "text", "text": "Let me see."}]}
    assert back["content"] == [kept, {"type": "text", "text": "Looking."}]
    assert wordless["content"] == [kept]


async def test_mistral_gets_an_order_that_it_takes() -> None:
    """Recorded: an answer between results and a user's words. The rest is documented by its refusals."""
    picture = Attachment(ref="png", media_type="image/png", name="a.png")
    result = ToolResult(call_id="call_1", name="get_weather", content=(picture,))
    listing = {"type": "array", "items": {"type": "integer"}}
    request = asked(*TALK, said("user", result), said("user", Text(text="And?")), output=listing)
    _, sent = await play("mistral", wire.whole(*wire.words("[]")), request, blobs={"png": PNG})
    assert mistral(sent) == []
    roles = [each["role"] for each in sent["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user", "user", "user"]


# --- Groq, DeepSeek, Together: what they count and run -------------------------------------------------


@pytest.mark.parametrize(
    ("dialect", "last", "usage"),
    [
        (
            "groq",  # recorded
            {"x_groq": {"id": "req_1", "usage": {"prompt_tokens": 21, "completion_tokens": 9}}},
            Usage(input_tokens=21, output_tokens=9),
        ),
        (
            "mistral",  # recorded: in the chunk with the reason, and also as `num_cached_tokens`
            {"usage": {"prompt_tokens": 10, "completion_tokens": 2, "num_cached_tokens": 4}},
            Usage(input_tokens=6, cached_input_tokens=4, output_tokens=2),
        ),
        (
            "deepseek",  # recorded
            {
                "usage": {
                    "prompt_tokens": 300,
                    "completion_tokens": 5,
                    "prompt_cache_hit_tokens": 256,
                    "prompt_cache_miss_tokens": 44,
                }
            },
            Usage(input_tokens=44, cached_input_tokens=256, output_tokens=5),
        ),
        (
            "together",  # recorded behind another host
            {"usage": {"prompt_tokens": 9, "completion_tokens": 1, "cached_tokens": 8}},
            Usage(input_tokens=1, cached_input_tokens=8, output_tokens=1),
        ),
    ],
)
async def test_tokens_are_counted_where_the_host_tells_them(
    dialect: str, last: dict[str, Any], usage: Usage
) -> None:
    body = wire.body(*wire.words("Hi."), wire.chunk({}, "stop", **last), wire.DONE)
    reply, _ = await play(dialect, body, asked())
    assert reply.usage == usage


async def test_groq_is_asked_for_thoughts_apart_from_the_words() -> None:
    for model, sent_format in (("qwen/qwen3-32b", "parsed"), ("llama-3.3-70b-versatile", None)):
        _, sent = await play("groq", HI, asked(), model=model)
        assert sent.get("reasoning_format") == sent_format


async def test_tools_that_groq_ran_are_told() -> None:
    """Recorded: the tool comes twice, first without what it found."""
    ran = {"index": 0, "type": "search", "arguments": '{"query": "Weather in Oslo?"}'}
    body = wire.whole(
        wire.chunk({"executed_tools": [ran]}),
        wire.chunk({"executed_tools": [{**ran, "output": "Title: Weather"}]}),
        *wire.words("Sunny."),
    )
    reply, _ = await play("groq", body, asked())
    assert reply.parts == (
        ServerToolCall(name="search", text="Weather in Oslo?"),
        Text(text="Sunny."),
    )


async def test_deepseek_that_ran_out_of_room_is_asked_again() -> None:
    with pytest.raises(Unavailable):
        await play("deepseek", wire.whole(finish="insufficient_system_resource"), asked())


@pytest.mark.parametrize(
    ("dialect", "model", "variant", "sent_as"),
    [
        ("deepseek", "deepseek-v4-pro", "max", "max"),
        ("groq", "openai/gpt-oss-120b", "low", "low"),
        ("groq", "qwen/qwen3-32b", "high", "default"),
        ("mistral", "mistral-small-latest", "none", "none"),
        ("xai", "grok-3-mini", "high", "high"),
        ("together", "openai/gpt-oss-20b", "medium", "medium"),
        ("fireworks", "accounts/fireworks/models/deepseek-v4-pro", "low", "low"),
    ],
)
async def test_an_effort_is_sent_in_the_hosts_words(
    dialect: str, model: str, variant: str, sent_as: str
) -> None:
    _, sent = await play(dialect, HI, asked(variant=variant), model=model)
    assert sent["reasoning_effort"] == sent_as


@pytest.mark.parametrize(
    ("dialect", "field", "is_sent_back"),
    [
        ("deepseek", "reasoning_content", True),
        ("fireworks", "reasoning_content", True),
        ("groq", "reasoning", False),
        ("together", "reasoning", False),
        ("xai", "reasoning_content", False),
        ("lmstudio", "reasoning_content", False),
    ],
)
async def test_thoughts_of_a_host_are_read_and_go_back_where_it_takes_them(
    dialect: str, field: str, is_sent_back: bool
) -> None:
    body = wire.whole(wire.chunk({field: "Hm."}), *wire.words("Yes."))
    async with WireServer({"POST /v1/chat/completions": Played(body)}) as server:
        url = f"{server.url}/v1"
        model = OpenAIChatModel("m", dialect=dialect, base_url=url, api_key=KEY)
        reply, _ = await ask(model, asked())
        await ask(model, asked(said("assistant", *reply.parts), said("user", Text(text="?"))))
        await model.aclose()
    thought = reply.parts[0]
    assert isinstance(thought, Reasoning)
    assert thought.text == "Hm."
    back = server.requests[1].json["messages"][0]
    assert back.get(field) == ("Hm." if is_sent_back else None)


# --- Azure ---------------------------------------------------------------------------------------------


async def test_azure_is_asked_at_the_host_that_the_environment_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = "POST /openai/v1/chat/completions"
    async with WireServer({path: Played(HI)}) as server:
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", f"{server.url}/")
        monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
        monkeypatch.delenv("AZURE_OPENAI_BASE_URL", raising=False)
        model = OpenAIChatModel("my-deployment", dialect="azure")
        reply, _ = await ask(model, asked())
        await model.aclose()
        by_responses = AzureResponsesModel("my-deployment")
    assert reply.text == "Hi."
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    # Blobs of the one protocol are not sent by the other.
    assert model.route.endpoint == by_responses.route.endpoint
    assert model.route != by_responses.route

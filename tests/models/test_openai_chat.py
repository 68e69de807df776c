"""Chat Completions through the real SDK, against the documented bytes."""

from __future__ import annotations

from typing import Any, ClassVar

import httpx2
import pytest

from tests.models import wire_openai_chat as wire
from tests.models import wire_openai_responses as wire_responses
from tests.models.behaviours import KEY, Behaviours, Case, ClosableModel, ask
from tests.models.openai_chat_cases import CASES, MODEL, PERSON, USED, WEATHER, asked, whole_call
from tests.models.wire_server import Played, WireServer
from windlass.errors import ConfigError, InvalidInput, Malformed, Unavailable
from windlass.kernel.messages import Citation, Text
from windlass.kernel.model_call import Generation, Usage, WebSearch
from windlass.models.capabilities import Capabilities
from windlass.models.openai_chat import OpenAIChatModel
from windlass.ports.model import TextChunk


class TestChat(Behaviours):
    endpoint = "POST /v1/chat/completions"
    terminal = b"data: [DONE]"
    overflow = (400, wire.OVERFLOW)
    quota_429 = wire_responses.QUOTA_429
    quota_400 = wire_responses.QUOTA_400
    mid_stream_error = wire.OVERLOADED

    cases: ClassVar[dict[str, Case]] = CASES

    def model(self, base_url: str, **options: Any) -> ClosableModel:
        return OpenAIChatModel(MODEL, base_url=f"{base_url}/v1", api_key=KEY, **options)

    # --- what only this protocol has ------------------------------------------------------------------

    async def test_a_refusal_is_the_answer_where_words_were_asked_for(self) -> None:
        answer = Played(
            wire.whole(wire.chunk({"refusal": "I can"}), wire.chunk({"refusal": "not."}))
        )
        async with self.playing(answer) as (_, model):
            reply, shown = await ask(model, asked())
            valued, _ = await ask(model, asked(output=PERSON))
        assert (reply.text, reply.terminal) == ("I cannot.", "stop")
        assert shown == (TextChunk(text="I cannot."),)
        assert (valued.text, valued.terminal) == ("I cannot.", "content_filter")

    async def test_what_comes_after_the_end_is_not_part_of_the_reply(self) -> None:
        body = wire.body(
            *wire.words("Hello."),
            wire.chunk({}, "stop"),
            wire.chunk({"content": " And more."}),
            wire.calls(whole_call("Paris")),
            wire.chunk({}, "tool_calls"),
            wire.usage(),
            wire.DONE,
            wire.chunk({"content": "After the end."}),
        )
        async with self.playing(Played(body)) as (_, model):
            reply, shown = await ask(model, asked(tools=(WEATHER,)))
        assert (reply.parts, reply.terminal) == ((Text(text="Hello."),), "stop")
        assert (shown, reply.usage) == ((TextChunk(text="Hello."),), USED)

    async def test_openai_always_says_done_and_why(self) -> None:
        for body in (
            wire.body(*wire.words("Hello."), wire.chunk({}, "stop"), wire.usage()),
            wire.body(*wire.words("Hello."), wire.usage(), wire.DONE),
        ):
            assert isinstance(await self.fault(Played(body)), Unavailable)

    async def test_usage_that_nobody_told_is_unknown(self) -> None:
        body = wire.body(
            wire.chunk({"content": "Hi."}, model=MODEL),
            wire.chunk({}, "stop", model=MODEL),
            wire.DONE,
        )
        async with self.playing(Played(body)) as (_, model):
            reply, _ = await ask(model, asked())
        assert (reply.usage, reply.provider_usage) == (Usage(), None)

    async def test_an_effort_is_asked_for_by_its_word(self) -> None:
        able = Capabilities(reasoning="effort", variants={"deep": "high"}, sampling=False)
        async with self.playing(self.cases["text"].answer, capabilities=able) as (server, model):
            await ask(
                model, asked(variant="deep", generation=Generation(temperature=1.0, stop=("x",)))
            )
        body = server.requests[0].json
        assert body["reasoning_effort"] == "high"
        assert not {"temperature", "stop"} & set(body)

    async def test_what_is_left_out_of_a_reply_is_named(self) -> None:
        body = wire.whole(
            wire.chunk(
                {"audio": {"id": "audio_1", "data": "UklGRg"}, "function_call": {"name": ""}}
            ),
            wire.chunk({"images": [{"type": "image_url"}], "reasoning_content": "Hm."}),
            wire.chunk({"content": [{"type": "image_url"}, {"type": "text", "text": "Look."}]}),
            wire.chunk({"annotations": [{"type": "file", "file": {"hash": "x"}}]}),
        )
        async with self.playing(Played(body)) as (_, model):
            reply, _ = await ask(model, asked())
        assert (reply.text, reply.terminal) == ("Look.", "stop")
        assert reply.diagnostic == (
            "left out of the reply: audio, images, reasoning_content, content (image_url), annotations (file)"
        )

    async def test_a_reply_that_says_nothing_says_why(self) -> None:
        quiet = wire.chunk({"role": "assistant", "content": ""})
        native = {"index": 0, "delta": {}, "finish_reason": "stop", "native_finish_reason": "OTHER"}
        for body, told in (
            (wire.whole(quiet), "no words and no calls; finish_reason: stop"),
            (
                wire.body(quiet, wire.chunk(choices=[native]), wire.DONE),
                "no words and no calls; finish_reason: stop; native_finish_reason: OTHER",
            ),
        ):
            async with self.playing(Played(body)) as (_, model):
                reply, _ = await ask(model, asked())
            assert (reply.parts, reply.diagnostic) == ((), told)

    async def test_sources_of_the_words_are_citations(self) -> None:
        place = {"url": "https://a.example/1", "title": "One", "start_index": 0, "end_index": 5}
        nowhere = {"url": "https://b.example", "title": "Two", "start_index": 0, "end_index": 0}
        beyond = {"url": "https://c.example", "title": "Three", "start_index": 3, "end_index": 99}
        cited = [
            {"type": "url_citation", "url_citation": each}
            for each in (place, {**nowhere, "content": "Words of it."}, beyond, place)
        ]
        body = wire.whole(
            *wire.words("Sunny."),
            wire.chunk({"annotations": cited[:1]}),
            wire.chunk({"content": "", "annotations": cited[1:]}),
        )
        async with self.playing(Played(body)) as (_, model):
            reply, _ = await ask(model, asked())
        (said,) = reply.parts
        assert isinstance(said, Text)
        assert said.citations == (
            Citation(url="https://a.example/1", title="One", start=0, end=5),
            Citation(url="https://b.example", title="Two", quote="Words of it."),
            Citation(url="https://c.example", title="Three"),
        )
        assert reply.diagnostic is None

    async def test_a_list_of_sources_beside_the_words_is_one_of_citations(self) -> None:
        """Documented of xAI and of Perplexity; not recorded."""
        urls = ["https://a.example", "https://b.example"]
        body = wire.whole(
            wire.chunk({"content": "Sun"}, citations=urls[:1]),
            wire.chunk({"content": "ny."}, citations=urls),
        )
        async with self.playing(Played(body)) as (_, model):
            reply, _ = await ask(model, asked())
        assert reply.parts == (
            Text(text="Sunny.", citations=tuple(Citation(url=each) for each in urls)),
        )

    async def test_a_search_is_not_asked_of_who_cannot_search(self) -> None:
        async with self.playing(self.cases["text"].answer) as (server, model):
            with pytest.raises(InvalidInput, match="WebSearch for openai-chat:gpt-4o"):
                await ask(model, asked(generation=Generation(server_tools=(WebSearch(),))))
        assert server.requests == []

    @pytest.mark.parametrize(
        "delta",
        [
            {"tool_calls": {"index": 0}},
            {"tool_calls": ["call me"]},
            {"tool_calls": [{"index": 0, "id": "a", "function": "f"}]},
            {"tool_calls": [{"index": 0, "id": 7, "function": {"name": "f"}}]},
            {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": 7}}]},
            {"tool_calls": [{"index": 0, "id": "a", "function": {"arguments": "{}"}}]},
            {"content": 7},
        ],
    )
    async def test_a_delta_that_is_not_in_the_protocol_is_malformed(
        self, delta: dict[str, Any]
    ) -> None:
        body = wire.whole(wire.chunk(delta), finish="tool_calls")
        assert isinstance(await self.fault(Played(body)), Malformed)

    async def test_usage_with_text_that_cannot_be_stored_is_malformed(self) -> None:
        body = wire.whole(*wire.words("Hi."), counts={"prompt_tokens": 1, "note": "a\x00b"})
        assert isinstance(await self.fault(Played(body)), Malformed)

    async def test_an_error_that_came_with_status_200_is_told_as_one(self) -> None:
        answer = Played(wire.OPENROUTER_NO_CREDIT, 200, {}, "application/json")
        assert "Insufficient credits" in str(await self.fault(answer))


async def test_a_client_that_was_given_is_left_open() -> None:
    async with (
        httpx2.AsyncClient() as client,
        WireServer({"POST /v1/chat/completions": Played(wire.whole(*wire.words("Hi.")))}) as server,
    ):
        url = f"{server.url}/v1"
        model = OpenAIChatModel("m", dialect="generic", base_url=url, http_client=client)
        await ask(model, asked())
        await model.aclose()
        assert not client.is_closed


@pytest.mark.parametrize(
    ("dialect", "address"),
    [
        ("ollama", "http://localhost:11434/v1"),
        ("vllm", "http://localhost:8000/v1"),
        ("llamacpp", "http://localhost:8080/v1"),
        ("lmstudio", "http://localhost:1234/v1"),
    ],
)
def test_servers_on_this_machine_need_no_key(
    dialect: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (f"{dialect.upper()}_API_KEY", f"{dialect.upper()}_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    model = OpenAIChatModel("llama3", dialect=dialect)
    assert model.name == f"{dialect}:llama3"
    assert model.route.key == f"{dialect}|{address}|llama3"


def test_what_cannot_be_reached_is_refused_when_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="OPENROUTER_API_KEY"):
        OpenAIChatModel("m", dialect="openrouter")
    with pytest.raises(ConfigError, match="base_url"):
        OpenAIChatModel("m", dialect="generic")
    with pytest.raises(ConfigError, match="wanted one of openai, azure, openrouter, deepseek"):
        OpenAIChatModel("m", dialect="klingon")

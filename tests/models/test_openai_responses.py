"""OpenAI's Responses API through the real SDK, against the documented bytes."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import pytest

from tests.limits import HANGS_S
from tests.models import wire_openai_responses as wire
from tests.models.behaviours import KEY, Behaviours, Case, ClosableModel, ask
from tests.models.openai_response_cases import (
    CASES,
    MODEL,
    PARIS,
    PERSON,
    WEATHER,
    asked,
    paris,
    said,
    sent_replay,
    thought,
)
from tests.models.wire_server import Played, WireServer, sse
from windlass.errors import ConfigError, InvalidInput, Malformed, Rejected, Throttled, Unavailable
from windlass.kernel.messages import Reasoning, Text, ToolCall
from windlass.kernel.model_call import Generation
from windlass.models.capabilities import Capabilities
from windlass.models.openai_responses import OpenAIResponsesModel
from windlass.ports.model import TextChunk


class TestResponses(Behaviours):
    endpoint = "POST /v1/responses"
    terminal = b"event: response.completed"
    overflow = (400, wire.OVERFLOW)
    quota_429 = wire.QUOTA_429
    quota_400 = wire.QUOTA_400
    mid_stream_error = wire.OVERLOADED

    cases: ClassVar[dict[str, Case]] = CASES

    def model(self, base_url: str, **options: Any) -> ClosableModel:
        return OpenAIResponsesModel(MODEL, base_url=f"{base_url}/v1", api_key=KEY, **options)

    # --- what only this protocol has ------------------------------------------------------------------

    async def test_a_thought_goes_back_to_the_route_that_signed_it_and_to_no_other(self) -> None:
        case = self.cases["reasoning_replay"]
        async with WireServer({self.endpoint: case.answer}) as server:
            model = self.model(server.url)
            first, *rest = case.request.messages
            second = rest[0]
            own = thought(f"openai|{server.url}/v1|gpt-5")
            mine = said("assistant", own, *second.parts[1:])
            await ask(model, asked(first, mine, *rest[1:]))
            await ask(model, case.request)
            await model.aclose()
        sent_replay(server.requests[0].json)
        kinds = [item.get("type") for item in server.requests[1].json["input"]]
        assert "reasoning" not in kinds

    async def test_a_thought_is_stored_with_its_route_and_all_the_provider_needs(self) -> None:
        answer = Played(
            wire.completed(
                wire.reasoning(("Look it up.", "Then say."), "gAAAAABo-whole"),
                wire.message("Ok.", 1),
            )
        )
        async with self.playing(answer) as (server, model):
            reply, _ = await ask(model, asked())
        assert reply.parts[0] == thought(f"openai|{server.url}/v1|gpt-5")

    async def test_a_refusal_is_the_answer_where_words_were_asked_for(self) -> None:
        answer = Played(wire.completed(wire.refusal("I cannot help with that.")))
        async with self.playing(answer) as (_, model):
            reply, shown = await ask(model, asked())
            valued, _ = await ask(model, asked(output=PERSON))
        assert (reply.text, reply.terminal) == ("I cannot help with that.", "stop")
        assert shown == (TextChunk(text="I cannot help with that."),)
        assert (valued.text, valued.terminal) == ("I cannot help with that.", "content_filter")

    async def test_a_call_that_was_cut_off_keeps_what_was_written(self) -> None:
        item, events = wire.call("get_weather", ('{"city":', '"Par'))
        last = wire.response(
            "incomplete", [], usage=wire.USAGE, incomplete_details={"reason": "max_output_tokens"}
        )
        body = wire.numbered(
            [
                *wire.begun((item, events[:-1]), repeat_items=False),
                {"type": "response.incomplete", "response": last},
            ]
        )
        async with self.playing(Played(body)) as (_, model):
            reply, _ = await ask(model, asked(tools=(WEATHER,)))
        assert reply.terminal == "output_limit"
        assert reply.parts == (
            ToolCall(call_id="call_7tRz", name="get_weather", raw='{"city":"Par'),
        )

    async def test_an_item_that_never_ended_in_a_whole_response_is_malformed(self) -> None:
        item, events = wire.call("get_weather", PARIS)
        last = wire.response("completed", [], usage=wire.USAGE)
        body = wire.numbered(
            [
                *wire.begun((item, events), repeat_items=False),
                {"type": "response.completed", "response": last},
            ]
        )
        assert isinstance(await self.fault(Played(body)), Malformed)

    async def test_items_that_only_the_last_event_has_are_taken_from_it(self) -> None:
        item, _ = wire.message("Hello.")
        last = wire.response("completed", [item], usage=wire.USAGE)
        body = wire.numbered([*wire.begun(), {"type": "response.completed", "response": last}])
        async with self.playing(Played(body)) as (_, model):
            reply, shown = await ask(model, asked())
        assert (reply.text, shown) == ("Hello.", ())

    async def test_events_without_places_and_numbers_are_read_by_their_ids(self) -> None:
        bare = []
        for numbered in [
            *wire.begun(
                wire.reasoning(("Hm.",), None),
                wire.message("Looking.", 1),
                wire.call("get_weather", PARIS, 2),
            ),
            {
                "type": "response.completed",
                "response": wire.response("completed", [], usage=wire.USAGE),
            },
        ]:
            event = {name: value for name, value in numbered.items() if name != "output_index"}
            bare.append((event["type"], event))
        async with self.playing(Played(sse(*bare))) as (_, model):
            reply, _ = await ask(model, asked(tools=(WEATHER,)))
        assert reply.parts == (Reasoning(text="Hm."), Text(text="Looking."), paris())

    async def test_an_event_sent_twice_counts_once(self) -> None:
        whole = wire.completed(wire.message("Hello.", cuts=("Hel", "lo.")))
        events = whole.split(b"\n\n")
        doubled = b"\n\n".join([each for event in events[:-1] for each in (event, event)]) + b"\n\n"
        async with self.playing(Played(doubled)) as (_, model):
            reply, shown = await ask(model, asked())
        assert (reply.text, shown) == ("Hello.", (TextChunk(text="Hello."),))

    async def test_events_of_unknown_kinds_are_passed_over(self) -> None:
        new = sse(("response.telepathy.delta", {"type": "response.telepathy.delta", "delta": 7}))
        body = wire.completed(wire.message("Hello.")).replace(
            b"event: response.output_item.done", new + b"event: response.output_item.done"
        )
        async with self.playing(Played(body)) as (_, model):
            reply, _ = await ask(model, asked())
        assert reply.text == "Hello."

    @pytest.mark.parametrize(
        ("code", "kind"),
        [
            ("server_error", Unavailable),
            ("rate_limit_exceeded", Throttled),
            ("insufficient_quota", Rejected),
            ("invalid_prompt", Rejected),
            ("invalid_image", Rejected),
            ("image_too_large", Rejected),
            ("vector_store_timeout", Unavailable),
            ("never_heard_of", Unavailable),
        ],
    )
    async def test_a_failed_response_has_its_class(self, code: str, kind: type[Exception]) -> None:
        body = wire.failed(code, "In the provider's words.", wire.message("Hel"))
        error = await self.fault(Played(body))
        assert type(error) is kind
        assert "In the provider's words." in str(error)

    @pytest.mark.parametrize("code", ["bio_policy", "misalignment_policy_violation"])
    async def test_a_response_that_policy_stopped_is_filtered(self, code: str) -> None:
        body = wire.failed(code, "Not this.", wire.message("Hel"))
        async with self.playing(Played(body)) as (_, model):
            reply, _ = await ask(model, asked())
        assert (reply.text, reply.terminal, reply.diagnostic) == (
            "Hel",
            "content_filter",
            "Not this.",
        )

    async def test_a_request_found_too_long_in_mid_stream_is_a_reply_that_says_so(self) -> None:
        body = wire.failed("context_length_exceeded", "Your input exceeds the context window.")
        async with self.playing(Played(body)) as (_, model):
            reply, _ = await ask(model, asked())
        assert reply.terminal == "context_overflow"

    async def test_thoughts_are_summed_up_for_who_asks(self) -> None:
        async with self.playing(self.cases["text"].answer, reasoning_summary="auto") as (
            server,
            model,
        ):
            await ask(model, asked())
            await ask(model, asked(variant="high"))
        assert server.requests[0].json["reasoning"] == {"summary": "auto"}
        assert server.requests[1].json["reasoning"] == {"effort": "high", "summary": "auto"}

    async def test_a_variant_that_the_model_has_not_is_refused_before_anything_is_sent(
        self,
    ) -> None:
        async with self.playing(self.cases["text"].answer) as (server, model):
            with pytest.raises(InvalidInput):
                await ask(model, asked(variant="enormous"))
        assert server.requests == []

    async def test_a_plain_model_is_not_asked_for_thoughts(self) -> None:
        plain = Capabilities(parallel_tools=False, structured_output="none")
        async with self.playing(self.cases["text"].answer, capabilities=plain) as (server, model):
            request = asked(
                tools=(WEATHER,),
                output=PERSON,
                generation=Generation(temperature=0.5, top_p=0.9),
            )
            await ask(model, request)
        body = server.requests[0].json
        assert not {"include", "reasoning", "text"} & set(body)
        assert (body["temperature"], body["top_p"]) == (0.5, 0.9)
        assert body["parallel_tool_calls"] is False
        assert '"properties":{"age"' in body["input"][-1]["content"]


async def test_the_environments_key_goes_to_openai_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(ConfigError, match=r"OPENAI_API_KEY is for https://api\.openai\.com"):
        OpenAIResponsesModel(MODEL, base_url="https://example.test/v1")
    assert OpenAIResponsesModel(MODEL).route.key == "openai|https://api.openai.com/v1|gpt-5"
    assert OpenAIResponsesModel(MODEL).name == "openai:gpt-5"


async def test_no_setting_of_openai_in_the_environment_reaches_another_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID", "WEBHOOK_SECRET"):
        monkeypatch.setenv(f"OPENAI_{name}", f"canary-{name}-8f14e45f")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Canary: canary-header-8f14e45f")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    async with WireServer({TestResponses.endpoint: TestResponses.cases["text"].answer}) as server:
        model = OpenAIResponsesModel(MODEL, base_url=f"{server.url}/v1", api_key=KEY)
        await ask(model, asked())
        await model.aclose()
        without = OpenAIResponsesModel(MODEL, base_url=f"{server.url}/v1")
        await ask(without, asked())
        await without.aclose()
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert "authorization" not in server.requests[1].headers
    for request in server.requests:
        assert "canary-" not in str(request.headers).replace(KEY, "")


async def test_who_never_says_a_word_is_not_waited_for_as_long_as_who_thinks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("windlass.models.sdk_model.CONNECT_S", 0.2)
    left = asyncio.Event()

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        left.set()
        writer.close()

    async with await asyncio.start_server(mute, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        url = f"https://127.0.0.1:{port}/v1"
        model = OpenAIResponsesModel(MODEL, base_url=url, api_key=KEY, timeout=600)
        with pytest.raises(Unavailable, match="no answer in time"):
            await asyncio.wait_for(ask(model, asked()), HANGS_S)
        await model.aclose()
        await asyncio.wait_for(left.wait(), HANGS_S)

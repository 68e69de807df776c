"""Anthropic, through its SDK, against its documented bytes."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.models import wire_anthropic as wire
from tests.models.anthropic_cases import (
    BLOBS,
    CASES,
    CITY,
    ENDPOINT,
    MARK,
    THOUGHT,
    WEATHER,
    assistant,
    call,
    kept,
    request,
    result,
    system,
    user,
)
from tests.models.behaviours import KEY, Behaviours, ask
from tests.models.wire_server import WireServer, sse
from windlass.errors import InvalidInput
from windlass.kernel import (
    Attachment,
    Generation,
    ModelRequest,
    Reasoning,
    Text,
)
from windlass.models.anthropic import AnthropicModel
from windlass.models.capabilities import Capabilities


class TestAnthropic(Behaviours):
    endpoint = "POST /v1/messages"
    terminal = b"event: message_stop"
    mid_stream_error = sse(
        wire.event("error", error={"type": "overloaded_error", "message": "Overloaded"})
    )
    overflow = (
        400,
        b'{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210021 tokens > 200000 maximum"}}',
    )
    quota_400 = (
        b'{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too '
        b'low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."}}'
    )
    cases = CASES

    def model(self, base_url: str, **options: Any) -> AnthropicModel:
        made = AnthropicModel(wire.MODEL, base_url=base_url, api_key=KEY, **options)
        # Blobs are bound to an address, and the server's is another each time.
        made.route = type(made.route)("anthropic", ENDPOINT, wire.MODEL)
        return made

    def refusal(self, status: int, reason: str) -> bytes:
        error = {"type": "invalid_request_error", "message": reason}
        return json.dumps({"type": "error", "error": error, "request_id": "req_1"}).encode()

    # --- what is Anthropic's own -----------------------------------------------------------------

    async def body(
        self, asked: ModelRequest, model: str = wire.MODEL, **options: Any
    ) -> dict[str, Any]:
        """Return what the server saw of a request."""
        async with WireServer({self.endpoint: wire.answer(wire.text(0, "Yes."))}) as server:
            made = AnthropicModel(model, base_url=server.url, api_key=KEY, **options)
            await ask(made, asked, BLOBS)
            await made.aclose()
        return dict(server.requests[0].json)

    async def test_neighbours_of_one_role_are_sent_as_one(self) -> None:
        foreign = Reasoning(text="Hm.", replay={"route": "openai|x|y", "blob": "secret"})
        body = await self.body(request(user("One."), assistant(foreign), user("Two.")))
        assert [message["role"] for message in body["messages"]] == ["user"]
        assert [block["text"] for block in body["messages"][0]["content"]] == ["One.", "Two."]

    async def test_at_most_four_places_are_marked_for_the_cache(self) -> None:
        talk = [user("1"), assistant("2"), user("3"), assistant("4"), user("5")]
        body = await self.body(request(system("S"), *talk, tools=(WEATHER,)))
        marks = [message["content"][-1].get("cache_control") for message in body["messages"]]
        assert marks == [None, None, MARK, None, MARK]
        assert json.dumps(body).count("cache_control") == 4

    async def test_thoughts_stay_behind_where_thinking_is_off(self) -> None:
        thought = Reasoning(text="Paris.", replay=kept(THOUGHT))
        asked = request(user("Hi"), assistant(thought, "Hello"), user("And now?"))
        async with self.playing(wire.answer(wire.text(0, "Yes."))) as (server, model):
            await ask(model, asked)
        content = server.requests[0].json["messages"][1]["content"]
        assert content == [{"type": "text", "text": "Hello"}]

    async def test_a_message_does_not_end_in_a_thought(self) -> None:
        thought = Reasoning(text="Paris.", replay=kept(THOUGHT))
        asked = request(
            user("Hi"),
            assistant(thought, "Hello", thought),
            user("And?"),
            assistant(thought),
            user("Now?"),
            variant="low",
        )
        async with self.playing(wire.answer(wire.text(0, "Yes."))) as (server, model):
            await ask(model, asked)
        first, second, third = server.requests[0].json["messages"]
        assert [block["type"] for block in second["content"]] == ["thinking", "text"]
        assert [block["text"] for block in third["content"]] == ["And?", "Now?"]
        assert first["role"] == "user"

    async def test_a_call_without_its_thought_turns_thinking_off_until_the_user_speaks(
        self,
    ) -> None:
        loop = [user("W?"), assistant(call("c1", "Paris", "")), user(result("c1", "sunny"))]
        assert "thinking" not in await self.body(request(*loop, tools=(WEATHER,), variant="high"))
        later = [*loop, assistant("Sunny."), user("Thanks.")]
        body = await self.body(request(*later, tools=(WEATHER,), variant="high"))
        assert body["thinking"] == {"type": "enabled", "budget_tokens": 24_576}

    async def test_words_beside_results_do_not_bring_thinking_back(self) -> None:
        """The API asks for the thought before the last set of calls and results, whatever stands beside them."""
        begun = [user("W?"), assistant(call("c1", "Paris", ""))]
        results = result("c1", "sunny")
        for behind in ([user(results, "Be quick.")], [user(results), user("Be quick.")]):
            asked = request(*begun, *behind, tools=(WEATHER,), variant="high")
            assert "thinking" not in await self.body(asked)

    async def test_newer_models_are_told_how_hard_to_try(self) -> None:
        body = await self.body(request(variant="low", output=CITY), model="claude-opus-5")
        assert body["thinking"] == {"type": "adaptive", "display": "summarized"}
        assert body["output_config"]["effort"] == "low"
        assert body["output_config"]["format"]["type"] == "json_schema"

    async def test_a_budget_is_less_than_what_may_be_written(self) -> None:
        small = Generation(max_output_tokens=2000)
        body = await self.body(request(variant="high", generation=small))
        assert (body["max_tokens"], body["thinking"]["budget_tokens"]) == (2000, 1999)
        tiny = Generation(max_output_tokens=500)
        assert "thinking" not in await self.body(request(variant="high", generation=tiny))

    async def test_a_variant_that_there_is_not_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="has: low, medium, high"):
            await self.body(request(variant="absurd"))

    async def test_an_attachment_that_the_model_cannot_take_is_named(self) -> None:
        film = Attachment(ref="blob-mp4", media_type="video/mp4", name="film.mp4")
        body = await self.body(request(user("See.", film)))
        assert body["messages"][0]["content"][1]["text"] == "[attachment film.mp4]"

    async def test_a_shape_that_the_api_cannot_hold_is_asked_for_by_a_tool(self) -> None:
        table = {"type": "object", "additionalProperties": {"type": "integer"}}
        said = wire.answer(
            wire.tool_use(0, "toolu_1", "final_answer", '{"b": 2, "a": 1}'), reason="tool_use"
        )
        async with self.playing(said) as (server, model):
            found, _ = await ask(model, request(output=table))
        assert (found.text, found.terminal) == ('{"a":1,"b":2}', "stop")
        body = server.requests[0].json
        assert body["tools"][0]["input_schema"] == table
        assert body["tool_choice"] == {"type": "tool", "name": "final_answer"}
        assert "output_config" not in body

    async def test_an_answer_that_is_no_object_is_wrapped_and_unwrapped(self) -> None:
        forced = Capabilities(structured_output="tool")
        said = wire.answer(
            wire.tool_use(0, "toolu_1", "final_answer", '{"answer": [1, 2]}'), reason="tool_use"
        )
        async with self.playing(said, capabilities=forced) as (server, model):
            found, _ = await ask(model, request(output={"type": "array"}, tools=(WEATHER,)))
        assert (found.parts, found.terminal) == ((Text(text="[1,2]"),), "stop")
        body = server.requests[0].json
        assert body["tool_choice"] == {"type": "any"}
        assert body["tools"][1]["input_schema"]["properties"] == {"answer": {"type": "array"}}

    async def test_an_answer_beside_a_call_waits_for_the_call(self) -> None:
        forced = Capabilities(structured_output="tool")
        said = wire.answer(
            wire.tool_use(0, "toolu_1", "get_weather", '{"city": "Rome"}'),
            wire.tool_use(1, "toolu_2", "final_answer", '{"city": "Rome"}'),
            reason="tool_use",
        )
        async with self.playing(said, capabilities=forced) as (_, model):
            found, _ = await ask(model, request(output=CITY, tools=(WEATHER,)))
        assert found.parts == (call("toolu_1", "Rome", '{"city": "Rome"}'),)
        assert found.terminal == "tool_use"


def test_the_sdk_is_not_imported_before_the_first_call() -> None:
    code = (
        "import sys\n"
        "from windlass.models.anthropic import AnthropicModel\n"
        "AnthropicModel('claude-x', api_key='some-key-123')\n"
        "print('anthropic' in sys.modules, 'httpx2' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["False", "False"]

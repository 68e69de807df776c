"""A session that changes its model in mid-conversation stays valid, in each of the twelve directions.

Each provider thinks, calls two tools, and answers. What it thought is signed; the signatures are canaries.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import permutations
from typing import Any, NamedTuple

import pytest

from tests.models import wire_anthropic, wire_google, wire_openai_chat, wire_openai_responses
from tests.models.behaviours import KEY, ClosableModel, ask
from tests.models.wire_rules import RULES
from tests.models.wire_server import Played, Seen, WireServer
from windlass import Agent, Runtime, tool
from windlass.kernel import (
    ModelMessage,
    ModelRequest,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from windlass.models.anthropic import AnthropicModel
from windlass.models.google import GoogleModel
from windlass.models.openai_chat import OpenAIChatModel
from windlass.models.openai_responses import OpenAIResponsesModel
from windlass.testing.provider_rules import broken_rules

NAMES = ("anthropic", "openai", "openrouter", "google")
PAIRS = list(permutations(NAMES, 2))
PATHS = {
    "anthropic": "POST /v1/messages",
    "openai": "POST /v1/responses",
    "openrouter": "POST /v1/chat/completions",
    "google": f"POST /v1/models/{wire_google.MODEL}:streamGenerateContent",
}
MODELS = {
    "anthropic": "anthropic:claude-opus-5",
    "openai": "openai:gpt-5",
    "openrouter": "openrouter:some/model",
    "google": f"google:{wire_google.MODEL}",
}
CANARIES = {name: f"signed-by-{name}" for name in NAMES}
CANARIES["google"] = base64.b64encode(b"signed-by-google!").decode()
CITIES = ('{"city": "Paris"}', '{"city": "Rome"}')
WEATHER = ToolSpec(
    name="weather",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)


@tool(effect="pure")
async def weather(city: str) -> str:
    """Say how the weather is."""
    return f"Sunny in {city}."


def thinking_of(name: str) -> str:
    return f"Thinking aloud as {name}."


def anthropic_calls(turn: int) -> Played:
    return wire_anthropic.answer(
        wire_anthropic.thinking(0, thinking_of("anthropic"), signature=CANARIES["anthropic"]),
        wire_anthropic.block(
            1, {"type": "redacted_thinking", "data": f"hidden-{CANARIES['anthropic']}"}
        ),
        wire_anthropic.text(2, "Let me see."),
        *(
            wire_anthropic.tool_use(at + 3, f"toolu_{turn}_{at}", "weather", args)
            for at, args in enumerate(CITIES)
        ),
        reason="tool_use",
    )


def openai_calls(turn: int) -> Played:
    return Played(
        wire_openai_responses.completed(
            wire_openai_responses.reasoning((thinking_of("openai"),), CANARIES["openai"]),
            *(
                wire_openai_responses.call("weather", (args,), at + 1, f"call_{turn}_{at}")
                for at, args in enumerate(CITIES)
            ),
        )
    )


def openrouter_calls(turn: int) -> Played:
    detail = {"type": "reasoning.encrypted", "data": CANARIES["openrouter"], "index": 0}
    pieces = [
        wire_openai_chat.piece(at, f"call_{turn}_{at}", "weather", args)
        for at, args in enumerate(CITIES)
    ]
    return Played(
        wire_openai_chat.whole(
            wire_openai_chat.chunk(
                {"reasoning": thinking_of("openrouter"), "reasoning_details": [detail]}
            ),
            wire_openai_chat.calls(*pieces),
            finish="tool_calls",
        )
    )


def google_calls(_turn: int) -> Played:
    # Gemini gives its calls no ids, and signs the first of them.
    return wire_google.stream(
        wire_google.said({"text": thinking_of("google"), "thought": True}),
        wire_google.said(wire_google.call("weather", CANARIES["google"], args={"city": "Paris"})),
        wire_google.said(wire_google.call("weather", args={"city": "Rome"})),
        wire_google.ended(),
    )


CALLS = {
    "anthropic": anthropic_calls,
    "openai": openai_calls,
    "openrouter": openrouter_calls,
    "google": google_calls,
}
SAYS = {
    "anthropic": wire_anthropic.answer(wire_anthropic.text(0, "Sunny.")),
    "openai": Played(wire_openai_responses.completed(wire_openai_responses.message("Sunny."))),
    "openrouter": Played(wire_openai_chat.whole(*wire_openai_chat.words("Sunny."))),
    "google": wire_google.stream(wire_google.ended({"text": "Sunny."})),
}


class Playing(NamedTuple):
    """A server that is all four providers, and a model of each."""

    server: WireServer
    models: dict[str, ClosableModel]

    def seen(self) -> Iterator[tuple[str, Seen]]:
        """Each request with the provider that it was sent to."""
        names = {path.partition(" ")[2]: name for name, path in PATHS.items()}
        for request in self.server.requests:
            yield names[request.path.partition("?")[0]], request


@asynccontextmanager
async def playing() -> AsyncIterator[Playing]:
    """Play turns of two calls and an answer at each provider's address."""
    answers = {
        PATHS[name]: [played for turn in range(3) for played in (CALLS[name](turn), SAYS[name])]
        for name in NAMES
    }
    async with WireServer(answers) as server:
        models: dict[str, Any] = {
            "anthropic": AnthropicModel("claude-opus-5", base_url=server.url, api_key=KEY),
            "openai": OpenAIResponsesModel("gpt-5", base_url=f"{server.url}/v1", api_key=KEY),
            "openrouter": OpenAIChatModel(
                "some/model", dialect="openrouter", base_url=f"{server.url}/v1", api_key=KEY
            ),
            "google": GoogleModel(wire_google.MODEL, base_url=server.url, api_key=KEY),
        }
        try:
            yield Playing(server, models)
        finally:
            for model in models.values():
                await model.aclose()


def check_nothing_foreign(name: str, request: Seen) -> None:
    """No signature, and no thought, of any other provider."""
    for other in set(NAMES) - {name}:
        assert CANARIES[other].encode() not in request.body
        assert thinking_of(other).encode() not in request.body


@pytest.mark.parametrize(("first", "second"), PAIRS)
async def test_a_session_changes_its_model_and_back(first: str, second: str) -> None:
    async with playing() as (server, models):
        agent = Agent("a", model=models[first], tools=[weather], instructions="Be brief.")
        runtime = Runtime(agent, store="memory:", models=list(models.values()))
        async with runtime:
            session = runtime.session("s")
            for name in (first, second, first):
                result = await session.run(f"Ask {name}.", model=MODELS[name])
                assert result.text == "Sunny."
        seen = list(Playing(server, models).seen())
    assert [name for name, _ in seen] == [first, first, second, second, first, first]
    for name, request in seen:
        assert RULES[name](request.json) == []
        check_nothing_foreign(name, request)
    # What it signed itself goes back to it: at once, and after the other one had its turn.
    assert all(CANARIES[first].encode() in seen[at][1].body for at in (1, 4, 5))
    assert CANARIES[second].encode() in seen[3][1].body


@pytest.mark.parametrize(("first", "second"), PAIRS)
async def test_another_model_goes_on_with_calls_that_it_did_not_make(
    first: str, second: str
) -> None:
    async with playing() as (server, models):
        asked = ModelMessage(role="user", parts=(Text(text="How is the weather?"),))
        begun = ModelRequest(model=MODELS[first], messages=[asked], tools=(WEATHER,))
        reply, _ = await ask(models[first], begun)
        results = tuple(
            ToolResult(call_id=part.call_id, name=part.name, content=(Text(text="Sunny."),))
            for part in reply.parts
            if isinstance(part, ToolCall)
        )
        assert len(results) == 2
        # Thoughts that nobody signed are not shown again, by any projector.
        kept = [
            part
            for part in reply.parts
            if not isinstance(part, Reasoning) or part.replay is not None
        ]
        talk = [
            asked,
            ModelMessage(role="assistant", parts=tuple(kept)),
            ModelMessage(role="user", parts=results),
        ]
        going_on = ModelRequest(
            model=MODELS[second], messages=talk, tools=(WEATHER,), variant="high"
        )
        assert broken_rules(going_on) == []
        await ask(models[second], going_on)
        [_, (name, request)] = Playing(server, models).seen()
    assert name == second
    assert RULES[second](request.json) == []
    check_nothing_foreign(second, request)


async def test_a_model_that_wants_thoughts_before_calls_goes_on_without_thinking() -> None:
    async with playing() as (server, models):
        older = AnthropicModel("claude-sonnet-4-5", base_url=server.url, api_key=KEY)
        agent = Agent("a", model=models["openai"], tools=[weather])
        async with Runtime(agent, store="memory:", models=[models["openai"], older]) as runtime:
            session = runtime.session("s")
            for model in ("openai:gpt-5", "anthropic:claude-sonnet-4-5"):
                await session.run("Go.", model=model)
        await older.aclose()
        seen = list(Playing(server, models).seen())
    for name, request in seen:
        assert RULES[name](request.json) == []
        check_nothing_foreign(name, request)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("harm", ["a result is missing", "a result comes twice"])
async def test_the_rules_see_a_harmed_history(name: str, harm: str) -> None:
    """The rules above can fail: they are shown what every provider refuses."""
    async with playing() as (server, models):
        said = ModelMessage(role="user", parts=(Text(text="Hi"),))
        calls = [ToolCall(call_id=f"c{at}", name="weather", args={"city": "x"}) for at in range(2)]
        results = [
            ToolResult(call_id=f"c{at}", name="weather", content=(Text(text="y"),))
            for at in range(2)
        ]
        harmed = results[:1] if harm == "a result is missing" else [*results, results[0]]
        talk = [
            said,
            ModelMessage(role="assistant", parts=tuple(calls)),
            ModelMessage(role="user", parts=tuple(harmed)),
        ]
        await ask(models[name], ModelRequest(model=MODELS[name], messages=talk, tools=(WEATHER,)))
    assert RULES[name](server.requests[0].json) != []

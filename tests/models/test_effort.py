"""How hard a model should think, said by the agent or for one turn, as each provider wants to hear it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.models.behaviours import ask
from tests.models.echo_adapters import ECHOES
from tests.models.wire_server import Played, WireServer
from windlass import Agent, Generation, Runtime, Text
from windlass.errors import InvalidInput
from windlass.kernel import ModelMessage, ModelRequest, Stopped

ASKED: dict[str, tuple[Callable[[Any], object], object, object]] = {
    "anthropic": (lambda body: body["thinking"]["budget_tokens"], 24_576, 2_048),
    "openai": (lambda body: body["reasoning"]["effort"], "high", "low"),
    "openai-chat": (lambda body: body["reasoning"]["effort"], "high", "low"),
    "google": (
        lambda body: body["generationConfig"]["thinkingConfig"]["thinkingBudget"],
        24_576,
        2_048,
    ),
}
"""By adapter: where the effort stands, and what it is for `high` and `low`."""


@pytest.mark.parametrize("provider", ECHOES)
async def test_the_agent_says_it_and_a_turn_may_say_otherwise(provider: str) -> None:
    echo = ECHOES[provider]
    where, high, low = ASKED[provider]
    async with WireServer({echo.endpoint: Played(echo.text("Done."))}) as server:
        model = echo.make(server.url)
        agent = Agent("a", model=model, generation=Generation(variant="high"))
        async with Runtime(agent, store="memory:") as runtime:
            session = runtime.session("s")
            await session.run("Think.")
            await session.run("Think.", generation=Generation(variant="low"))
        await model.aclose()

    assert [where(seen.json) for seen in server.requests] == [high, low]


@pytest.mark.parametrize("provider", ECHOES)
async def test_a_variant_that_nobody_knows_is_refused_with_those_there_are(provider: str) -> None:
    echo = ECHOES[provider]
    async with WireServer({echo.endpoint: Played(echo.text("Done."))}) as server:
        model = echo.make(server.url)
        said = ModelMessage(role="user", parts=(Text(text="Think."),))
        frantic = Generation(variant="frantic")
        with pytest.raises(InvalidInput, match="low, medium, high") as refused:
            await ask(model, ModelRequest(model="m", messages=(said,), generation=frantic))
        result = await Agent("a", model=model, generation=frantic).run("Think.")
        await model.aclose()

    assert refused.value.field == "variant"
    assert isinstance(result.outcome, Stopped)
    assert "low, medium, high" in repr(result)
    assert server.requests == []

"""A runtime closes the models that it made of a name, and leaves those that it was given."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import pytest

from tests.limits import HANGS_S
from tests.models import wire_anthropic as wire
from tests.models.behaviours import KEY
from tests.models.wire_server import WireServer
from windlass import Agent, Runtime
from windlass.api import adapters
from windlass.api.adapters import KnownModels
from windlass.kernel import ModelReply, ModelRequest
from windlass.models.anthropic import AnthropicModel
from windlass.ports.model import EmitModelEvent, Model
from windlass.testing import ScriptedModel, say

NAME = f"anthropic:{wire.MODEL}"
HELLO = {"POST /v1/messages": wire.answer(wire.text(0, "Hello!"))}


async def hung_up(server: WireServer) -> None:
    """Wait until nobody is connected any more."""
    async with asyncio.timeout(HANGS_S):
        await server.idle.wait()
    assert server.n_open == 0


@pytest.fixture
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary-of-the-environment")


@pytest.mark.usefixtures("_key")
async def test_what_a_runtime_made_is_closed_when_it_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with WireServer(HELLO) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        runtime = Runtime(Agent("a", model=NAME), store="memory:")
        async with runtime:
            for turn in range(2):
                await runtime.session(f"s{turn}").run("Hi")
            assert (server.n_connections, server.n_open) == (1, 1)
        await hung_up(server)

        async with runtime:  # opened again, it connects again
            assert (await runtime.session("s").run("Hi")).text == "Hello!"
        await hung_up(server)
    del runtime
    gc.collect()  # what is not closed would warn here


@pytest.mark.usefixtures("_key")
async def test_what_a_turn_named_is_closed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async with WireServer(HELLO) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        agent = Agent("a", model=ScriptedModel([say("never")]))
        async with Runtime(agent, store="memory:") as runtime:
            assert (await runtime.session("s").run("Hi", model=NAME)).text == "Hello!"
        await hung_up(server)


@pytest.mark.usefixtures("_key")
async def test_a_run_without_a_runtime_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    async with WireServer(HELLO) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        assert (await Agent("a", model=NAME).run("Hi")).text == "Hello!"
        await hung_up(server)


async def test_what_a_runtime_was_given_stays_open() -> None:
    async with WireServer(HELLO) as server:
        mine, other, third = (
            AnthropicModel(model, base_url=server.url, api_key=KEY) for model in ("m1", "m2", "m3")
        )
        agent = Agent("a", model=mine)
        async with Runtime(agent, store="memory:", models=[other]) as runtime:
            await runtime.session("s").run("Hi")
            await runtime.session("s").run("Hi", model=other.name)
            await runtime.session("s").run("Hi", model=third)
        assert server.n_open == 3
        for model in (mine, other, third):
            await model.aclose()
        await hung_up(server)


class Stubborn:
    """A model that cannot be closed."""

    def __init__(self, name: str, closed: list[str]) -> None:
        self.name = name
        self._closed = closed

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        return say("done")

    async def aclose(self) -> None:
        self._closed.append(self.name)
        raise OSError(f"{self.name} does not close")


async def test_all_is_closed_also_where_closing_one_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    closed: list[str] = []
    monkeypatch.setattr(adapters, "find_model", lambda name: Stubborn(name, closed))
    store = f"sqlite:///{tmp_path / 'w.db'}"
    agents = [Agent(name, model=f"x:{name}") for name in ("a", "b")]

    with pytest.raises(OSError, match="x:a does not close"):
        async with Runtime(*agents, store=store):
            pass

    assert closed == ["x:b", "x:a"]
    async with Runtime(Agent("a", model=ScriptedModel([say("hi")])), store=store) as runtime:
        assert (await runtime.session("s").run("Hi")).text == "hi"


def test_a_name_is_one_model_of_a_runtime() -> None:
    known = KnownModels()
    first: Model | None = known.find("demo")

    assert first is not None
    assert known.find("demo") is first
    assert KnownModels().find("demo") is not first

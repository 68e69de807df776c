"""One small model, reached in four ways: in this process, and by the three wire formats of its server."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from tests.limits import HANGS_S
from tests.models.local_server import MODEL
from windlass import Agent, Generation, Runtime, TurnResult, tool
from windlass.models.anthropic import AnthropicModel
from windlass.models.capabilities import Capabilities
from windlass.models.local import LocalModel
from windlass.models.openai_chat import OpenAIChatModel
from windlass.models.openai_responses import OpenAIResponsesModel
from windlass.ports import Model

WIRES = ("chat", "responses", "messages")
STORY = "Tell me a long story about a ship."

_ABLE = Capabilities(images=False, files=False, result_images=False)


def model_of(way: str, address: str) -> Model:
    """Return the model by one of `WIRES`, or `local`: no key, for the server is on this machine."""
    match way:
        case "chat":
            return OpenAIChatModel(
                MODEL, dialect="llamacpp", base_url=f"{address}/v1", capabilities=_ABLE
            )
        case "responses":
            return OpenAIResponsesModel(MODEL, base_url=f"{address}/v1", capabilities=_ABLE)
        case "messages":
            return AnthropicModel(MODEL, base_url=address, capabilities=_ABLE)
        case _:
            return LocalModel(MODEL)


def teller(model: Model, words: int) -> Agent[None, str]:
    """Return an agent that says so many words, always the same."""
    return Agent("teller", model=model, generation=_greedy(words))


class Station:
    """What the tool was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []


def forecaster(model: Model, station: Station) -> Agent[None, str]:
    """Return an agent with a tool. The model is too small to think of it by itself, so it is told what to write."""

    @tool(effect="once")
    async def weather(city: Literal["Paris", "Rome"], days: int) -> str:
        """Tell the weather."""
        station.asked.append((city, days))
        return "sunny"

    return Agent(
        "forecaster",
        model=model,
        tools=[weather],
        instructions="Reply: <tool_call>",
        generation=_greedy(64),
    )


def _greedy(n_tokens: int) -> Generation:
    return Generation(max_output_tokens=n_tokens, temperature=0)


def runtime(folder: Path, *agents: Agent[Any, Any]) -> Runtime[Any]:
    """Return a runtime on one file."""
    return Runtime(*agents, store=f"sqlite:///{folder / 'a.db'}", durability="process")


async def answer(rt: Runtime[Any], session: str, text: str, **options: Any) -> TurnResult[Any]:
    """Run a turn to its end: a server that is busy is waited for, and the turn goes on by itself."""
    result = await rt.session(session).run(text, **options)
    if result.parked:
        handle = rt.turn(session, result.turn_id)
        result = await handle.result(through_parks=["provider"], timeout=HANGS_S)
    return result

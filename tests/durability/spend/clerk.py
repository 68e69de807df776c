"""An agent on a budget: what it buys is written down outside, before it is bought and when it came."""

from __future__ import annotations

import asyncio

from tests.durability.soak.ledger import Ledger
from windlass import Agent, tool
from windlass.kernel import ModelReply, ModelRequest, Text, ToolCall, Usage
from windlass.kernel.tokens import tokens_of_request
from windlass.plugins.spend_limits import Budget, SpendLimits
from windlass.testing import FunctionModel

N_SESSIONS = 6
N_TURNS = 6
N_CALLS = 3
MAX_OUTPUT = 400
# Enough for about half of what the sessions want.
LIMIT = 7_000


def sessions() -> list[str]:
    """Return the sessions of a round."""
    return [f"s{number}" for number in range(N_SESSIONS)]


def turns() -> list[str]:
    """Return the turns of a session, one after another."""
    return [f"t{number}" for number in range(N_TURNS)]


def task(session: str, turn: str) -> str:
    """Return what is asked in a turn."""
    return f"Work, {session} {turn}"


def limits() -> SpendLimits:
    """Return the plugin."""
    return SpendLimits(session=Budget(tokens=LIMIT), max_output=MAX_OUTPUT)


def clerk(ledger: Ledger) -> Agent[None, str]:
    """Return the agent: two calls of a tool, then words, in each turn."""

    async def sell(request: ModelRequest) -> ModelReply:
        session, turn, place = _place(request)
        word = ledger.mint()
        prompt, most = tokens_of_request(request), request.generation.max_output_tokens or 0
        # Each reply is nearly as long as it may be: what is not counted shows.
        usage = Usage(input_tokens=prompt, output_tokens=most - place)
        tokens = usage.prompt_tokens + usage.output_tokens
        ledger.write("model", session, turn, word=word, tokens=tokens, reserve=prompt + most)
        await asyncio.sleep(0.005 + 0.01 * (int(session[1:]) % 4))
        ledger.write("reply", session, turn, word=word)
        if place + 1 >= N_CALLS:
            return ModelReply(text=word, usage=usage)
        call = ToolCall(call_id=f"{turn}.{place}", name="look", args={})
        return ModelReply(parts=(Text(text=word), call), usage=usage, terminal="tool_use")

    @tool(effect="pure")
    async def look() -> str:
        """Look."""
        return "nothing"

    model = FunctionModel(sell, name="seller")
    return Agent("clerk", model=model, tools=[look], plugins=[limits()])


def _place(request: ModelRequest) -> tuple[str, str, int]:
    """Return the session and the turn, and how many replies the turn has."""
    replies = 0
    for message in reversed(request.messages):
        replies += message.role == "assistant"
        for part in message.parts:
            if type(part) is Text and part.text.startswith("Work, "):
                session, turn = part.text.removeprefix("Work, ").split()
                return session, turn, replies
    raise AssertionError("a request without a task")

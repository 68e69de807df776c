"""A request to be paid for, what was used before, and the turn in which it is asked."""

from __future__ import annotations

from tests.plugins.fake_turn import FakeHost, FakeTurn
from windlass.journal import UsageLine
from windlass.kernel import Generation, ModelMessage, ModelRequest, Text, Usage
from windlass.kernel.tokens import tokens_of_request
from windlass.plugins.spend_limits import Price

DEAR = Price(input=1_000, output=2_000)  # a thousandth and two thousandths for a token
CHEAP = Price(input=10, output=20)
PRICES = {"m": DEAR, "small": CHEAP}


def ask(model: str = "m", *, max_output: int | None = 100) -> ModelRequest:
    said = (ModelMessage(role="user", parts=(Text(text="How much is the fish?"),)),)
    generation = Generation(max_output_tokens=max_output)
    return ModelRequest(model=model, messages=said, generation=generation)


PROMPT = tokens_of_request(ask())


def used(tokens: int = 0, *, model: str = "m", calls: int = 1, **more: int) -> UsageLine:
    usage = Usage(input_tokens=tokens)
    return UsageLine(source="turn", model=model, calls=calls, usage=usage, **more)


def turn(*usage: UsageLine, session: tuple[UsageLine, ...] = ()) -> FakeTurn:
    host = FakeHost()
    host.usage, host.session_usage = usage, session
    return FakeTurn("spend_limits", host)

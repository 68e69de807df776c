"""What models cost: as you say, else as the package `genai-prices` knows it, in US dollars.

Law 1. What is not known is None. It is never 0, and never guessed from a model with a similar name.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING

from windlass.kernel.model_call import Usage
from windlass.ports.price import Price

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice, TieredPrices

# What the package calls the providers whose models it prices.
_PROVIDERS = {
    "anthropic": "anthropic",
    "openai": "openai",
    "openai-chat": "openai",
    "google": "google",
    "vertex": "google",
    "openrouter": "openrouter",
}
# What runs inside this very process.
_FREE = Price(input=0, output=0)
# Kinds of charges that tokens alone do not tell.
_NOT_BY_TOKEN = ("requests_kcount", "input_text_messages_kcount", "output_reasoning_mtok")


def cost_of(
    model_name: str,
    usage: Usage,
    overrides: Mapping[str, Price] | None = None,
    *,
    calls: int = 1,
) -> Decimal | None:
    """Return what tokens of a model cost; None if its price is unknown.

    Some models cost more for long prompts. `calls` says over how many calls the usage is summed, so that the price
    is that of a prompt of the usual length in it.
    """
    prompt_tokens = -(-usage.prompt_tokens // max(calls, 1))
    price = price_of(model_name, overrides, prompt_tokens=prompt_tokens)
    return None if price is None else price.cost(usage)


def price_of(
    model_name: str,
    overrides: Mapping[str, Price] | None = None,
    *,
    prompt_tokens: int = 0,
) -> Price | None:
    """Return the price of a model for prompts of this length; None if it is unknown."""
    if overrides is not None and model_name in overrides:
        return overrides[model_name]
    provider, _, model = model_name.partition(":")
    if model_name == "demo" or (provider == "local" and model):
        return _FREE
    known_as = _PROVIDERS.get(provider)
    if known_as is None or not model:
        return None
    found = _look_up(known_as, model.removeprefix("models/"))
    return None if found is None else _price(found, prompt_tokens)


def _look_up(provider: str, model: str) -> ModelPrice | None:
    """Return what the package knows, as of today; None without the package."""
    try:
        # It takes a third of a second, so it is imported when a price is first asked for.
        from genai_prices import Usage as NoUsage  # noqa: PLC0415
        from genai_prices import calc_price  # noqa: PLC0415
    except ImportError:
        return None
    try:
        return calc_price(NoUsage(), model, provider_id=provider).model_price
    except (LookupError, ValueError):
        return None


def _price(found: ModelPrice, prompt_tokens: int) -> Price | None:
    if any(getattr(found, charge, None) is not None for charge in _NOT_BY_TOKEN):
        return None
    given, written, read, kept = (
        _rate(getattr(found, f"{kind}_mtok", None), prompt_tokens)
        for kind in ("input", "output", "cache_read", "cache_write")
    )
    if given is None or written is None:
        # The package lists such a model, too, and would call it free.
        return None
    return Price(input=given, output=written, cached_input=read, cache_write=kept)


def _rate(listed: Decimal | TieredPrices | None, prompt_tokens: int) -> Decimal | None:
    """Return the price of a million tokens: that of the last step which the prompt is beyond."""
    if listed is None or isinstance(listed, Decimal):
        return listed
    rate = listed.base
    for step in listed.tiers:
        if prompt_tokens > step.start:
            rate = step.price
    return rate

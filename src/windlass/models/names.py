"""Models by name: `anthropic:claude-sonnet-4-5` is a provider and what it calls the model."""

from __future__ import annotations

import importlib
import importlib.util
from typing import cast

import msgspec

from windlass.errors import ConfigError
from windlass.ports.model import Model


class _Maker(msgspec.Struct, frozen=True, kw_only=True):
    """Where the class of a provider's models is, and the SDK it needs."""

    module: str
    class_name: str
    sdk: str
    extra: str
    dialect: str | None = None


def _chat(dialect: str) -> _Maker:
    return _Maker(
        module="windlass.models.openai_chat",
        class_name="OpenAIChatModel",
        sdk="openai",
        extra="openai",
        dialect=dialect,
    )


_MAKERS: dict[str, _Maker] = {
    "anthropic": _Maker(
        module="windlass.models.anthropic",
        class_name="AnthropicModel",
        sdk="anthropic",
        extra="anthropic",
    ),
    "openai": _Maker(
        module="windlass.models.openai_responses",
        class_name="OpenAIResponsesModel",
        sdk="openai",
        extra="openai",
    ),
    "openai-chat": _chat("openai"),
    "ollama": _chat("ollama"),
    "openrouter": _chat("openrouter"),
    "vllm": _chat("vllm"),
    "llamacpp": _chat("llamacpp"),
    "google": _Maker(
        module="windlass.models.google",
        class_name="GoogleModel",
        sdk="google.genai",
        extra="google",
    ),
    "local": _Maker(
        module="windlass.models.local",
        class_name="LocalModel",
        sdk="xllamacpp",
        extra="local",
    ),
}
PROVIDERS = tuple(_MAKERS)
"""What may stand before the colon."""


def model_named(name: str) -> Model | None:
    """Make the model of a name; None if the name has no provider in it.

    Raises:
        ConfigError: no such provider, its SDK is not installed, or it has no key.
    """
    provider, colon, model = name.partition(":")
    if not colon:
        return None
    maker = _MAKERS.get(provider)
    if maker is None:
        raise _unknown(provider)
    if not model:
        raise ConfigError(
            f"model: found {provider}: without a model, wanted {provider}:NAME",
            field="model",
            wanted=f"{provider}:NAME",
        )
    _check_installed(provider, maker)
    found = getattr(importlib.import_module(maker.module), maker.class_name)
    made = found(model) if maker.dialect is None else found(model, dialect=maker.dialect)
    return cast("Model", made)


def _check_installed(provider: str, maker: _Maker) -> None:
    """Look for the SDK without importing it.

    Raises:
        ConfigError: it is not there.
    """
    try:
        is_there = importlib.util.find_spec(maker.sdk) is not None
    except ModuleNotFoundError:  # of a package above it
        is_there = False
    if not is_there:
        raise ConfigError(
            f"model: {provider} needs a package that is not installed: "
            f"pip install 'windlass[{maker.extra}]'",
            field="model",
            wanted=f"windlass[{maker.extra}]",
        )


def _unknown(provider: str) -> ConfigError:
    from difflib import get_close_matches  # noqa: PLC0415 - only who mistyped needs it

    near = get_close_matches(provider, PROVIDERS, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]}?" if near else f"wanted one of {', '.join(PROVIDERS)}"
    return ConfigError(
        f"model: found the provider {provider[:40]!r}, which nobody knows; {hint}",
        field="model",
        found=provider[:40],
        wanted=near[0] if near else ", ".join(PROVIDERS),
    )

"""Models by name: `anthropic:claude-sonnet-4-5` is a provider and what it calls the model."""

from __future__ import annotations

import importlib
import importlib.util
from typing import NamedTuple, cast

from windlass.errors import ConfigError
from windlass.ports.model import Model
from windlass.release import DISTRIBUTION, install_hint


class _Maker(NamedTuple):
    """Where the class of a provider's models is, and the SDK it needs."""

    module: str
    class_name: str
    sdk: str
    extra: str
    dialect: str | None = None


_CHAT = _Maker("windlass.models.openai_chat", "OpenAIChatModel", "openai", "openai")
_HOSTS = (
    "openrouter", "azure", "deepseek", "fireworks", "groq", "mistral", "together", "xai",
    "llamacpp", "lmstudio", "ollama", "vllm",
)  # fmt: skip
_MAKERS: dict[str, _Maker] = {
    "anthropic": _Maker("windlass.models.anthropic", "AnthropicModel", "anthropic", "anthropic"),
    "openai": _Maker(
        "windlass.models.openai_responses", "OpenAIResponsesModel", "openai", "openai"
    ),
    "openai-chat": _CHAT._replace(dialect="openai"),
    "google": _Maker("windlass.models.google", "GoogleModel", "google.genai", "google"),
    "vertex": _Maker("windlass.models.google", "VertexModel", "google.genai", "google"),
    **{name: _CHAT._replace(dialect=name) for name in _HOSTS},
    "vertex-anthropic": _Maker(
        "windlass.models.anthropic", "AnthropicVertexModel", "google.auth", "vertex"
    ),
    "bedrock-anthropic": _Maker(
        "windlass.models.anthropic", "AnthropicBedrockModel", "anthropic", "anthropic"
    ),
    "azure-responses": _Maker(
        "windlass.models.openai_responses", "AzureResponsesModel", "openai", "openai"
    ),
    "local": _Maker("windlass.models.local", "LocalModel", "xllamacpp", "local"),
}
PROVIDERS = tuple(_MAKERS)
"""What may stand before the colon."""


def model_named(name: str, **settings: object) -> Model | None:
    """Make the model of a name, with these settings of its class; None if the name has no provider in it.

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
        raise ConfigError.at("model", f"{provider}: without a model", f"{provider}:NAME")
    check_installed(provider)
    found = getattr(importlib.import_module(maker.module), maker.class_name)
    if maker.dialect is not None:
        settings = {"dialect": maker.dialect, **settings}
    return cast("Model", found(model, **settings))


def extra_of(provider: str) -> str:
    """Return the extra that brings a provider's SDK."""
    return _MAKERS.get(provider, _CHAT).extra


def missing_extra(provider: str) -> str | None:
    """Return the extra that brings a provider's SDK, if the SDK is not installed; imports nothing of it.

    A server of another name is asked by OpenAI's SDK.
    """
    maker = _MAKERS.get(provider, _CHAT)
    try:
        is_there = importlib.util.find_spec(maker.sdk) is not None
    except ModuleNotFoundError:  # of a package above it
        is_there = False
    return None if is_there else maker.extra


def check_installed(provider: str) -> None:
    """Look for a provider's SDK.

    Raises:
        ConfigError: it is not there.
    """
    extra = missing_extra(provider)
    if extra is not None:
        told = f"model: {provider} needs a package that is not installed: {install_hint(extra)}"
        raise ConfigError(told, field="model", wanted=f"{DISTRIBUTION}[{extra}]")


def _unknown(provider: str) -> ConfigError:
    from difflib import get_close_matches  # noqa: PLC0415 - only a mistyped name needs it

    near = get_close_matches(provider, PROVIDERS, n=1, cutoff=0.4)
    wanted = near[0] if near else ", ".join(PROVIDERS)
    hint = f"did you mean {wanted}?" if near else f"wanted one of {wanted}"
    told = f"model: found the provider {provider[:40]!r}, which is unknown; {hint}"
    return ConfigError(told, field="model", found=provider[:40], wanted=wanted)

"""Models by name: the provider before the colon, what it calls the model behind it."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec

import pytest

from windlass.api.adapters import KnownModels, find_model
from windlass.errors import ConfigError
from windlass.models.anthropic import AnthropicModel
from windlass.models.credentials import KEY_SOURCES
from windlass.models.names import PROVIDERS, model_named
from windlass.models.openai_chat import OpenAIChatModel
from windlass.models.openai_chat.dialects import DIALECTS


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)


def test_a_name_makes_the_model_of_its_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary-names-1")
    model = model_named("anthropic:claude-sonnet-4-5")
    assert isinstance(model, AnthropicModel)
    assert model.name == "anthropic:claude-sonnet-4-5"
    assert isinstance(find_model("anthropic:claude-sonnet-4-5"), AnthropicModel)


def test_every_dialect_but_the_generic_one_has_a_name() -> None:
    assert {"openai", *PROVIDERS} >= set(DIALECTS) - {"generic"}


@pytest.mark.parametrize("provider", sorted(set(DIALECTS) - {"generic", "openai"}))
def test_a_host_makes_a_model_of_its_dialect(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = KEY_SOURCES[provider]
    monkeypatch.setenv(source.variables[0], "canary-names-2")
    if source.host_variable:
        monkeypatch.setenv(source.host_variable, "https://mine.example")
    model = model_named(f"{provider}:some-model")
    assert isinstance(model, OpenAIChatModel)
    assert (model.name, model.dialect) == (f"{provider}:some-model", DIALECTS[provider])


def test_a_name_without_a_provider_is_nobodys() -> None:
    assert model_named("gpt-5") is None


@pytest.mark.parametrize(
    ("typed", "meant"), [("antropic", "anthropic"), ("open-ai", "openai"), ("Google", "google")]
)
def test_an_unknown_provider_names_the_nearest(typed: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"did you mean {meant}"):
        model_named(f"{typed}:some-model")


def test_a_provider_like_no_other_names_them_all() -> None:
    with pytest.raises(ConfigError, match="wanted one of anthropic, openai"):
        model_named("zzzz:some-model")


def test_a_name_without_a_provider_names_them_all_and_what_is_built_in() -> None:
    with pytest.raises(ConfigError) as told:
        KnownModels().of("gpt-4o")

    assert str(told.value).endswith(
        "Providers: anthropic, openai, openai-chat, google, vertex, openrouter, azure, deepseek, fireworks, groq, "
        "mistral, together, xai, llamacpp, lmstudio, ollama, vllm, vertex-anthropic, bedrock-anthropic, azure-responses, local. "
        "Built in: demo"
    )


def test_a_provider_without_a_model_is_refused() -> None:
    with pytest.raises(ConfigError, match="anthropic:NAME"):
        model_named("anthropic:")


def test_a_missing_key_is_refused_when_the_model_is_named() -> None:
    with pytest.raises(ConfigError, match="ANTHROPIC_API_KEY"):
        model_named("anthropic:claude-x")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_missing_sdk_names_the_command_to_install_it(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(_name: str, _package: str | None = None) -> ModuleSpec | None:
        return None

    monkeypatch.setattr(importlib.util, "find_spec", nothing)
    with pytest.raises(ConfigError, match=r"pip install '\.\[[a-z]+\]' in a checkout") as told:
        model_named(f"{provider}:some-model")
    assert "windlass-runtime is not published yet" in str(told.value)

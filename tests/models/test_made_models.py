"""How models are made: what no call could ever be made with is refused at once, by name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from windlass.errors import ConfigError
from windlass.models.anthropic import AnthropicModel
from windlass.models.google import GoogleModel
from windlass.models.openai_chat import OpenAIChatModel
from windlass.models.openai_responses import OpenAIResponsesModel

MODELS = [AnthropicModel, GoogleModel, OpenAIChatModel, OpenAIResponsesModel]


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("timeout", [-1, 0, float("nan"), float("inf"), "30", None, True])
def test_a_timeout_is_a_time(make: Callable[..., object], timeout: object) -> None:
    with pytest.raises(ConfigError, match=r"timeout: found .*, wanted seconds above 0") as refused:
        make("some-model", api_key="a-key-of-some-length", timeout=timeout)

    assert refused.value.field == "timeout"


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("name", ["", " ", "a\nb", "two words", "\x00", 5, None])
def test_a_model_has_a_name(make: Callable[..., object], name: object) -> None:
    with pytest.raises(
        ConfigError, match=r"model: found .*, wanted the name of a model"
    ) as refused:
        make(name, api_key="a-key-of-some-length")

    assert refused.value.field == "model"


@pytest.mark.parametrize("name", ["claude-sonnet-4-5", "org/model:free", "Qwen2.5-7B@q4_K_M"])
def test_names_of_all_providers_are_names(name: str) -> None:
    assert OpenAIChatModel(name, api_key="a-key-of-some-length").name.endswith(f":{name}")

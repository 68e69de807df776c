"""What models can do is data: the longest beginning of a name counts."""

from __future__ import annotations

import pytest

from windlass.errors import InvalidInput
from windlass.models.capabilities import Capabilities, capabilities_of
from windlass.models.credentials import KEY_SOURCES
from windlass.models.names import PROVIDERS


def test_the_longest_beginning_of_a_name_counts() -> None:
    assert capabilities_of("anthropic", "claude-3-haiku-20240307").max_output_tokens == 4096
    assert capabilities_of("anthropic", "claude-3-opus-20240229").max_output_tokens == 8192
    assert capabilities_of("anthropic", "claude-sonnet-4-20250514").structured_output == "tool"
    assert capabilities_of("anthropic", "claude-sonnet-4-5-20250929").reasoning == "budget"
    assert capabilities_of("anthropic", "claude-sonnet-4-6").reasoning == "effort"
    assert capabilities_of("openai", "gpt-5-mini").sampling is False
    assert capabilities_of("openai", "gpt-5-chat-latest").sampling is True
    assert capabilities_of("google", "gemini-2.5-pro").structured_with_tools is False
    assert capabilities_of("google", "gemini-3-pro").structured_with_tools is True


@pytest.mark.parametrize("provider", [*PROVIDERS, "somebody-new"])
def test_every_provider_has_a_row_for_models_that_nobody_knows(provider: str) -> None:
    assert isinstance(capabilities_of(provider, "no-such-model"), Capabilities)


def test_every_provider_on_the_network_has_a_place() -> None:
    # The clouds have credentials of their own, and as many places as regions.
    assert set(PROVIDERS) - {"local", "vertex", "vertex-anthropic", "bedrock-anthropic"} <= set(
        KEY_SOURCES
    )


def test_a_variant_is_said_in_the_providers_words() -> None:
    can = Capabilities(reasoning="budget", variants={"low": 1024, "high": 9000})
    assert can.effort("high", model="m") == 9000
    assert can.effort(None, model="m") is None
    with pytest.raises(InvalidInput, match="found another one, wanted one that m has: low, high"):
        can.effort("absurd", model="m")
    with pytest.raises(InvalidInput, match="has: none at all"):
        Capabilities().effort("low", model="m")

"""Claude on Amazon Bedrock, at its endpoint for Anthropic's Messages API.

Law 1. A key of the environment, and credentials that AWS finds by itself, go to Bedrock's own hosts. An address given in
    code needs its key or profile given in code.
"""

from __future__ import annotations

import importlib.util
import re
from typing import Any, Unpack

from windlass.errors import ConfigError, ProviderError, Rejected
from windlass.guards.secret import Secret
from windlass.models.anthropic.model import AnthropicModel
from windlass.models.capabilities import Capabilities, capabilities_of
from windlass.models.credentials import environment
from windlass.models.sdk_model import Settings
from windlass.release import DISTRIBUTION, install_hint

_KEYS = ("AWS_BEARER_TOKEN_BEDROCK", "ANTHROPIC_AWS_API_KEY")
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
# It stands in an address: nothing in it may lead to another one.
_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-[0-9]+")


class AnthropicBedrockModel(AnthropicModel):
    """A model of Anthropic on Bedrock: `AnthropicBedrockModel("anthropic.claude-opus-4-8", region="eu-west-1")`.

    `region` is `AWS_REGION` by default. `api_key` is a key of Bedrock, by default `AWS_BEARER_TOKEN_BEDROCK`. Without
    one requests are signed with credentials of AWS, those of `profile` or those that `boto3` finds (the extra
    `bedrock`).
    """

    provider = "bedrock-anthropic"

    def __init__(
        self,
        model: str,
        *,
        region: str | None = None,
        profile: str | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        env = environment()
        self._region = _checked(region or next((env[v] for v in _REGIONS if env.get(v)), ""))
        self._profile = profile
        is_home = settings.get("base_url") is None
        if is_home:
            settings["base_url"] = f"https://bedrock-mantle.{self._region}.api.aws/anthropic"
        if settings.get("api_key") is None and is_home and profile is None:
            found = next((v for v in _KEYS if env.get(v)), None)
            settings["api_key"] = None if found is None else Secret(env[found].strip(), name=found)
        self._has_key = settings.get("api_key") is not None
        if self._has_key and profile is not None:
            raise ConfigError.at("profile", "an api_key beside it", "one of the two")
        if not is_home and not self._has_key and profile is None:
            wanted = "the key of this base_url, or a profile: those of the environment go to Bedrock alone"
            raise ConfigError.at("api_key", "none", wanted)
        settings["capabilities"] = settings.get("capabilities") or _capabilities_of(model)
        super().__init__(model, **settings)

    def _make_client(self) -> Any:  # noqa: ANN401 - posts as `AsyncAnthropic` does
        from anthropic.lib.bedrock import AsyncAnthropicBedrockMantle  # noqa: PLC0415 - as late as may be

        if not self._has_key and importlib.util.find_spec("botocore") is None:
            told = f"to sign requests with credentials of AWS: {install_hint('bedrock')}"
            raise ConfigError(
                f"api_key: found no key of Bedrock, and no boto3 {told}",
                field="api_key",
                wanted=f"{_KEYS[0]}, or {DISTRIBUTION}[bedrock]",
            )
        options = self._client_options()
        if not self._has_key:
            options["api_key"] = None
        return AsyncAnthropicBedrockMantle(
            aws_region=self._region, aws_profile=self._profile, **options
        )

    def _failure(self, error: Exception) -> ProviderError:
        kinds = {kind.__name__ for kind in type(error).__mro__}
        # The SDK raises a bare RuntimeError where it finds no credentials to sign with.
        if not self._has_key and ("BotoCoreError" in kinds or type(error) is RuntimeError):
            told = "log in to AWS, or set AWS_BEARER_TOKEN_BEDROCK"
            kind = type(error).__name__
            return Rejected(f"{self.provider}: found no credentials of AWS ({kind}); {told}")
        return super()._failure(error)


def _capabilities_of(model: str) -> Capabilities:
    """Return what a model can do, by what stands behind the region and the vendor in its name."""
    return capabilities_of("anthropic", model.rpartition("anthropic.")[2])


def _checked(region: str) -> str:
    if not isinstance(region, str) or not _REGION.fullmatch(region):
        found = "none" if region == "" else "another value"
        raise ConfigError.at("region", found, "a region of AWS such as eu-west-1, or AWS_REGION")
    return region

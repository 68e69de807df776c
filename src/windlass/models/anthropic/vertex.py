"""Claude on Vertex AI: in a project of Google Cloud, with its credentials instead of a key.

Law 1. A token is registered before it is sent: it is taken out of what the provider says, and out of turns.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Unpack

from msgspec.structs import replace

from windlass.errors import ConfigError, ProviderError
from windlass.guards.secret import Secret, register_secret
from windlass.kernel.model_call import ModelReply, ModelRequest
from windlass.models.anthropic.model import AnthropicModel
from windlass.models.anthropic.stream import StreamReader
from windlass.models.capabilities import Capabilities, capabilities_of
from windlass.models.credentials import redactor_of
from windlass.models.google_cloud import CloudProject, check_is_home, no_token
from windlass.models.names import check_installed
from windlass.models.sdk_model import Settings
from windlass.ports.model import EmitModelEvent

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from google.auth.credentials import Credentials

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


class AnthropicVertexModel(AnthropicModel):
    """A model of Anthropic in a project: `AnthropicVertexModel("claude-sonnet-4-6", project="my-project")`.

    `project` is `GOOGLE_CLOUD_PROJECT` by default, `location` is `GOOGLE_CLOUD_LOCATION` or `global`. `credentials` are
    of `google-auth`; by default the application default credentials, which the first call looks for. `api_key` is an
    access token instead of them.
    """

    provider = "vertex-anthropic"

    def __init__(
        self,
        model: str,
        *,
        project: str | None = None,
        location: str | None = None,
        credentials: Credentials | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        self._credentials = credentials
        self._has_token = settings.get("api_key") is not None
        self._project = CloudProject.named(project, location)
        settings["base_url"] = settings.get("base_url") or f"{self._project.address}/v1"
        settings["capabilities"] = settings.get("capabilities") or _capabilities_of(model)
        super().__init__(model, **settings)
        self._check_account()
        self.route = self._project.route(self.route)

    def _check_account(self) -> None:
        if self._has_token and self._credentials is not None:
            raise ConfigError.at("api_key", "credentials beside it", "one of the two")
        if not self._has_token and self._credentials is None:
            check_is_home(self._base_url)

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        """Answer a request, as `AnthropicModel` does; a token that has run out is renewed before."""
        if not self._has_token:
            await self._sign_in()
        return await super().complete(request, emit)

    async def _sign_in(self) -> None:
        self._check_installed()
        try:
            self._use(await asyncio.to_thread(self._fresh_token))
        except Exception as raised:  # noqa: BLE001 - google-auth's errors are many; each is mapped
            error = self._failure(raised)
        else:
            return
        # Out here, where it does not carry what the server said with it.
        raise error

    def _fresh_token(self) -> str:
        """Return a token that is good for this call. Blocks: it may ask a server for one."""
        import google.auth  # noqa: PLC0415 - only this provider needs it
        from google.auth.transport.requests import Request  # noqa: PLC0415

        if self._credentials is None:
            self._credentials, _ = google.auth.default(scopes=[_SCOPE])
        if not self._credentials.valid:
            self._credentials.refresh(Request())  # type: ignore[no-untyped-call] # it has no types
        return str(self._credentials.token)

    def _use(self, token: str) -> None:
        if token != self._key.reveal():
            self._key = register_secret(Secret(token, name="access token"))
            self._redactor = redactor_of(self._key)

    async def _read_round(
        self,
        client: AsyncAnthropic,
        body: dict[str, Any],
        headers: dict[str, str],
        reader: StreamReader,
    ) -> None:
        signed = {**headers, "Authorization": f"Bearer {self._key.reveal()}"}
        await super()._read_round(client, body, signed, reader)

    def _check_installed(self) -> None:
        check_installed("anthropic")
        check_installed(self.provider)

    def _make_client(self) -> Any:  # noqa: ANN401 - posts as `AsyncAnthropic` does
        from anthropic.lib.vertex import AsyncAnthropicVertex  # noqa: PLC0415 - as late as may be

        self._check_installed()
        options = self._client_options()
        del options["api_key"]
        name, location = self._project
        return AsyncAnthropicVertex(region=location, project_id=name, **options)

    def _failure(self, error: Exception) -> ProviderError:
        return no_token(error, provider=self.provider) or super()._failure(error)


def _capabilities_of(model: str) -> Capabilities:
    """Return what a model can do here. A schema is kept by a tool: projects do not allow the API's own way by default."""
    found = capabilities_of("anthropic", model.replace("@", "-"))
    return replace(found, structured_output="tool")

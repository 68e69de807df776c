"""Gemini on Vertex AI: in a project of Google Cloud, with its credentials instead of a key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from windlass.errors import ConfigError, ProviderError
from windlass.models.google.model import GoogleModel
from windlass.models.google.request import VERTEX
from windlass.models.google_cloud import CloudProject, check_is_home, no_token
from windlass.models.sdk_model import Settings

if TYPE_CHECKING:
    from google.auth.credentials import Credentials


class VertexModel(GoogleModel):
    """A Gemini model of a project: `VertexModel("gemini-2.5-flash", project="my-project", location="europe-west4")`.

    `project` is `GOOGLE_CLOUD_PROJECT` by default, `location` is `GOOGLE_CLOUD_LOCATION` or `global`. `credentials` are
    of `google-auth`; by default the application default credentials, which the first call looks for. An `api_key`
    (express mode) takes the place of project and credentials.
    """

    provider = VERTEX

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
        self._has_key = settings.get("api_key") is not None
        self._project = CloudProject.named(project, location, is_needed=not self._has_key)
        settings["base_url"] = settings.get("base_url") or self._project.address
        super().__init__(model, **settings)
        self._check_account()
        self.route = self._project.route(self.route)

    def _check_account(self) -> None:
        if self._has_key and (self._credentials is not None or self._project.name):
            wanted = "a key alone, or a project with credentials"
            raise ConfigError.at("api_key", "project or credentials beside it", wanted)
        if not self._has_key and self._credentials is None:
            check_is_home(self._base_url)

    def _account(self) -> dict[str, Any]:
        if self._has_key:
            return {"vertexai": True, "api_key": self._key.reveal()}
        return {
            "vertexai": True,
            "project": self._project.name,
            "location": self._project.location,
            "credentials": self._credentials,
        }

    def _failure(self, error: Exception) -> ProviderError:
        return no_token(error, provider=VERTEX) or super()._failure(error)

"""Projects of Google Cloud: where their models are, and what their credentials mean.

Law 1. Credentials that Google finds by itself go to Google's own hosts. An address given in code needs credentials given
    in code: so no setting elsewhere can send a token to a host that it was not meant for.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import urlsplit

from msgspec.structs import replace

from windlass.errors import ConfigError, ProviderError, Rejected, Unavailable
from windlass.models.credentials import environment
from windlass.models.route import Route

_HOME = "aiplatform.googleapis.com"
_REGIONS = frozenset({"us", "eu"})
# They stand in an address: nothing in them may lead to another one.
_FORMS = {
    "project": re.compile(r"[a-z0-9][a-z0-9.:-]*"),
    "location": re.compile(r"[a-z0-9][a-z0-9-]*"),
}


class CloudProject(NamedTuple):
    """A project, and the location where its models are; without a name, the place of who asks with a key alone."""

    name: str
    location: str

    @classmethod
    def named(
        cls, project: str | None, location: str | None, *, is_needed: bool = True
    ) -> CloudProject:
        """Return a project: as given, or as the environment says; in `global` if neither names a location.

        Raises:
            ConfigError: a project is needed and there is none, or a name cannot be one.
        """
        env = environment()
        found = location or env.get("GOOGLE_CLOUD_LOCATION") or "global"
        name = ""
        if project or is_needed:
            name = _checked("project", project or env.get("GOOGLE_CLOUD_PROJECT", ""))
        return cls(name, _checked("location", found))

    @property
    def address(self) -> str:
        """Where the models of the location are."""
        if self.location == "global":
            return f"https://{_HOME}"
        if self.location in _REGIONS:
            return f"https://aiplatform.{self.location}.rep.googleapis.com"
        return f"https://{self.location}-{_HOME}"

    def route(self, route: Route) -> Route:
        """Return a route as one of the project: another project is another account, and does not share signatures."""
        if not self.name:
            return route
        path = f"/projects/{self.name}/locations/{self.location}"
        return replace(route, endpoint=route.endpoint + path)


def _checked(field: str, value: str) -> str:
    if not isinstance(value, str) or not _FORMS[field].fullmatch(value):
        found = "none" if value == "" else "another value"
        wanted = f"its name in Google Cloud, or GOOGLE_CLOUD_{field.upper()}"
        raise ConfigError.at(field, found, wanted)
    return value


def check_is_home(base_url: str) -> None:
    """Refuse to send Google's own credentials to another host.

    Raises:
        ConfigError: it is one.
    """
    host = urlsplit(base_url).hostname or ""
    if not (base_url.startswith("https://") and host.endswith(".googleapis.com")):
        wanted = "the credentials of this base_url: those of Google Cloud go to Google alone"
        raise ConfigError.at("credentials", "none", wanted)


def no_token(error: Exception, *, provider: str) -> ProviderError | None:
    """Return what an error of `google-auth` means; None for any other. Told by its name: nothing is imported here.

    Its words may hold an answer of the server that gives out tokens, so they are not told.
    """
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "GoogleAuthError" not in kinds:
        return None
    if "DefaultCredentialsError" in kinds:
        told = "run `gcloud auth application-default login`, or give credentials"
        return Rejected(f"{provider}: found no credentials of Google Cloud; {told}")
    if "TransportError" in kinds or getattr(error, "retryable", False):
        return Unavailable(f"{provider}: no token: the connection failed")
    name = type(error).__name__
    return Rejected(f"{provider}: no token: the credentials are refused ({name})")

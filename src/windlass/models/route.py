"""The route of a model call: who serves it, where, under which name.

Law 1. A provider's own blobs (signed thoughts, encrypted reasoning) go back to the very route that made
    them and nowhere else. Another provider refuses them, and another host must not see them.
"""

from __future__ import annotations

import logging
from urllib.parse import urlsplit

import msgspec

from windlass.errors import CallerError, ConfigError
from windlass.kernel.value import Json, freeze, set_field

_log = logging.getLogger("windlass.models")
_PORTS = {"http": 80, "https": 443}


class Route(msgspec.Struct, frozen=True):
    """A provider, its endpoint and a model. Equal routes may share blobs; others may not."""

    provider: str
    endpoint: str
    model: str

    def __post_init__(self) -> None:
        """Spell the endpoint in one way; refuse one with a password in it, and a model without a name."""
        check_model_name(self.model)
        set_field(self, "endpoint", endpoint_of(self.endpoint))

    @property
    def key(self) -> str:
        """How the route is written into stored blobs."""
        return f"{self.provider}|{self.endpoint}|{self.model}"


def check_model_name(name: object) -> None:
    """Refuse what cannot be the name of a model.

    Raises:
        ConfigError: it is not text, is empty, or has spaces or control characters in it.
    """
    if not isinstance(name, str):
        found = type(name).__name__
    elif not name or not name.isprintable() or len(name.split()) != 1:
        found = f"{name[:80]!r}"
    else:
        return
    raise ConfigError.at("model", found, "the name of a model")


def endpoint_of(url: str) -> str:
    """Return an address in its one spelling: scheme, host, port if it is not the usual one, path.

    Raises:
        ConfigError: it is not an address, or carries a name or password that would be stored with it.
    """
    return address_of(url) if url else ""


def address_of(url: str) -> str:
    """Return an endpoint that has to be there. Raises as `endpoint_of`."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _not_an_address() from None
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        wanted = "an address alone; give the key as api_key"
        raise ConfigError.at("base_url", "a name or password in it", wanted)
    if parts.query or parts.fragment:
        raise ConfigError.at("base_url", "something behind ? or # in it", "an address alone")
    if parts.scheme not in _PORTS or not parts.hostname or not url.isprintable() or " " in url:
        raise _not_an_address()
    host = parts.hostname if ":" not in parts.hostname else f"[{parts.hostname}]"
    shown_port = "" if port in (None, _PORTS[parts.scheme]) else f":{port}"
    return f"{parts.scheme}://{host}{shown_port}{parts.path.rstrip('/')}"


def _not_an_address() -> ConfigError:
    return ConfigError.at("base_url", "no address", "http://… or https://…")


def replay_blob(blob: Json, route: Route) -> Json:
    """Return a provider's blob as it is stored: with the route that made it.

    None if no store takes it, as one with a NUL in it. What it belongs to was paid for and stays.
    """
    try:
        return {"route": route.key, "blob": freeze(blob)}
    except CallerError:
        return None


def own_blob(replay: Json, route: Route) -> Json | None:
    """Return the blob if this very route made it; None for one of another route, or none at all."""
    if not isinstance(replay, dict) or "blob" not in replay:
        return None
    if replay.get("route") == route.key:
        return replay["blob"]
    _log.debug("a replay blob of another route stays behind; this one is %s", route.key)
    return None

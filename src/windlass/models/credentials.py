"""Keys of providers: where they come from, and to which host they may go.

Law 1. A key from a provider's own environment variable goes to that provider's own host over TLS, or to an
    address that the environment names beside it. An address given in code needs its key given in code:
    so no setting elsewhere can send a key to a host that it was not meant for.
Law 2. Every key that is handed out is registered: it is taken out of what providers say, and out of turns.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from windlass.errors import ConfigError
from windlass.guards.secret import REGISTERED, Redactor, Secret, register_secret
from windlass.models.route import address_of, endpoint_of

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class KeySource(msgspec.Struct, frozen=True, kw_only=True):
    """Where a provider lives and which variables hold its key. `is_free`: it may need no key.

    `url_variable` may hold another address. `host_variable` may hold a host, whose address ends in `path`: the only
    home of a provider where every customer has a host.
    """

    base_url: str
    variables: tuple[str, ...] = ()
    url_variable: str | None = None
    host_variable: str | None = None
    path: str = ""
    is_free: bool = False

    def named(self, env: Mapping[str, str]) -> str:
        """Return the address that the environment names; empty if it names none."""
        url = env.get(self.url_variable, "") if self.url_variable else ""
        host = env.get(self.host_variable, "").rstrip("/") if self.host_variable else ""
        if url or not host:
            return url
        return host if host.endswith(self.path) else host + self.path


# Any other server: its address is given in code, and so is its key, if it wants one.
_SERVER = KeySource(base_url="", is_free=True)
KEY_SOURCES: dict[str, KeySource] = {
    "anthropic": KeySource(
        base_url="https://api.anthropic.com",
        variables=("ANTHROPIC_API_KEY",),
        url_variable="ANTHROPIC_BASE_URL",
    ),
    "openai": KeySource(
        base_url="https://api.openai.com/v1",
        variables=("OPENAI_API_KEY",),
        url_variable="OPENAI_BASE_URL",
    ),
    "google": KeySource(
        base_url="https://generativelanguage.googleapis.com",
        variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        url_variable="GOOGLE_GEMINI_BASE_URL",
    ),
    "azure": KeySource(
        base_url="",
        variables=("AZURE_OPENAI_API_KEY",),
        url_variable="AZURE_OPENAI_BASE_URL",
        host_variable="AZURE_OPENAI_ENDPOINT",
        path="/openai/v1",
    ),
    **{
        name: KeySource(base_url=address, variables=(f"{name.upper()}_API_KEY",))
        for name, address in (
            ("openrouter", "https://openrouter.ai/api/v1"),
            ("deepseek", "https://api.deepseek.com"),
            ("groq", "https://api.groq.com/openai/v1"),
            ("mistral", "https://api.mistral.ai/v1"),
            ("xai", "https://api.x.ai/v1"),
            ("together", "https://api.together.xyz/v1"),
            ("fireworks", "https://api.fireworks.ai/inference/v1"),
        )
    },
    **{
        name: KeySource(
            base_url=f"http://localhost:{port}/v1",
            variables=(f"{name.upper()}_API_KEY",),
            url_variable=f"{name.upper()}_BASE_URL",
            is_free=True,
        )
        for name, port in (
            ("ollama", 11434),
            ("vllm", 8000),
            ("llamacpp", 8080),
            ("lmstudio", 1234),
        )
    },
}
"""Every provider that is reached over the network."""
KEY_SOURCES["openai-chat"] = KEY_SOURCES["openai"]
KEY_SOURCES["azure-responses"] = KEY_SOURCES["azure"]

# SDKs insist on a key, also for a server that needs none.
_NO_KEY = "no-key-needed"
# No provider gives out shorter ones.
_MIN_KEY_CHARS = 12


def environment() -> Mapping[str, str]:
    """Return the process's environment: keys are read here and nowhere else."""
    return os.environ  # noqa: TID251 - the one door for keys


def base_url_for(
    provider: str, given: str | None = None, env: Mapping[str, str] | None = None
) -> str:
    """Return where a provider is asked: as given, as the environment says, or at home.

    Raises:
        ConfigError: that is not an address, or has a password in it; or there is none.
    """
    source = KEY_SOURCES.get(provider, _SERVER)
    env = environment() if env is None else env
    address = given if given is not None else source.named(env) or source.base_url
    if given is None and not address:
        wanted = f"the address of the {provider} server"
        names = list(filter(None, (source.host_variable, source.url_variable)))
        in_env = f", or the environment variable {' or '.join(names)}" if names else ""
        raise ConfigError.at("base_url", "none", wanted + in_env)
    return address_of(address)


def key_for(
    provider: str,
    base_url: str | None = None,
    env: Mapping[str, str] | None = None,
    given: str | Secret | None = None,
) -> Secret:
    """Return the key that may be sent to `base_url`, and register it.

    Raises:
        ConfigError: there is none, naming the variable to set; or it belongs to another host.
    """
    source = KEY_SOURCES.get(provider, _SERVER)
    env = environment() if env is None else env
    if given is not None:
        return _registered(given if isinstance(given, Secret) else _key(given, "api_key"))
    wanted = base_url_for(provider, base_url, env)
    variable = next((name for name in source.variables if env.get(name)), None)
    if variable is not None and _origin(wanted) in _own_origins(source, env):
        return _registered(_key(env[variable], variable))
    if source.is_free or _host(wanted) in _LOOPBACK:
        return Secret(_NO_KEY, name="no key")
    names = " or ".join(source.variables)
    if variable is not None:
        home, told = _home(source, env), f"the key of {_origin(wanted)} as api_key"
        raise ConfigError(
            f"api_key: {variable} is for {home} and is not sent to another address; give {told}",
            field="api_key",
            wanted=told,
        )
    told = f"api_key: found no key for {provider}; set the environment variable {names}"
    raise ConfigError(told, field="api_key", wanted=names)


def _key(value: str, name: str) -> Secret:
    """Return a key without the line break that a file left behind it.

    Raises:
        ConfigError: no header can carry it.
    """
    found = value.strip() if isinstance(value, str) else value
    if isinstance(found, str) and (" " in found or not (found.isascii() and found.isprintable())):
        raise ConfigError.at(name, "a character that no key has", "printable ASCII without spaces")
    return Secret(found, name=name)


def _own_origins(source: KeySource, env: Mapping[str, str]) -> set[str]:
    return {_origin(url) for url in (source.base_url, source.named(env)) if url}


def _home(source: KeySource, env: Mapping[str, str]) -> str:
    """Return where a provider's key belongs, in words."""
    home = source.base_url or source.named(env)
    return _origin(home) if home else "the address that the environment names"


def _origin(url: str) -> str:
    """Return the scheme, host and port of an address: http is another way than https, which others can read."""
    parts = urlsplit(endpoint_of(url))
    return f"{parts.scheme}://{parts.netloc}"


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


def _registered(key: Secret) -> Secret:
    # Words such as "ollama" are given to servers that need no key; they are no secret, and stand in many texts.
    return register_secret(key) if len(key.reveal()) >= _MIN_KEY_CHARS else key


def redactor_of(key: Secret | None) -> Redactor:
    """Return what takes a key out of what its provider says; the stand-in for no key is not secret."""
    return Redactor(() if key is None or key.reveal() == _NO_KEY else (key,))


def cleaned(text: str) -> str:
    """Return text of a provider without any secret that was ever registered."""
    return REGISTERED.clean(text)

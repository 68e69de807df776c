"""Which agent a command works with: the user's own, by `module:name`, or the default one."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from windlass import Agent
from windlass.cli.default_agent import default_agent, default_model
from windlass.cli.nearest import hint
from windlass.cli.settings import Settings
from windlass.errors import ConfigError, WindlassError


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """An agent, how to call its model, and one line that says what was chosen."""

    agent: Agent[Any, Any]
    model: str
    told: str
    override: str | None = None
    """The model that turns are to name, where it is not the agent's own."""


def choose(settings: Settings) -> Choice:
    """Return the agent of these settings.

    Raises:
        ConfigError: there is no such module, name or model, or what it names is no agent.
    """
    if settings.agent is None:
        name = settings.model or default_model()
        source = settings.sources.get("model", "nobody named one")
        return Choice(agent=default_agent(name), model=name, told=f"model {name} ({source})")
    agent = _as_agent(load(settings.agent, settings), settings.agent)
    own = agent.model if isinstance(agent.model, str) else agent.model.name
    # Only a flag is about this very run; a setting is about runs without an agent.
    override = settings.model if settings.sources.get("model") == "--model" else None
    name = override or own
    return Choice(
        agent=agent, model=name, told=f"agent {settings.agent}, model {name}", override=override
    )


def choose_deps(address: str | None, settings: Settings) -> Callable[..., Any] | None:
    """Return the function that gives turns what their tools need.

    Raises:
        ConfigError: there is none.
    """
    if address is None:
        return None
    found = load(address, settings, field="deps")
    if not callable(found):
        raise ConfigError(f"--deps: {address} is no function", field="deps")
    return found  # type: ignore[no-any-return]  # looked at above


def load(address: str, settings: Settings, field: str = "agent") -> Any:  # noqa: ANN401 - whatever the user wrote
    """Import what `module:name` names, from the folder that the user is in.

    Raises:
        ConfigError: it cannot be imported; the reason is in it, the traceback is its cause.
    """
    module_name, colon, name = address.partition(":")
    if not colon or not module_name or not name:
        raise ConfigError(
            f"{field}: found {address[:80]!r}, wanted module:name, such as app:support", field=field
        )
    for folder in reversed(settings.folders):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    try:
        found: Any = importlib.import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
    except AttributeError as error:
        known = [each for each in dir(found) if not each.startswith("_")]
        raise ConfigError(
            f"{field}: {module_name} has no {name[:80]!r}{hint(name, known)}", field=field
        ) from error
    except WindlassError as error:
        raise ConfigError(f"{field}: {module_name} cannot be used: {error}", field=field) from error
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"{field}: importing {module_name} failed: {type(error).__name__}: {error} "
            "(WINDLASS_DEBUG=1 shows where)",
            field=field,
        ) from error
    return found


def _as_agent(found: object, address: str) -> Agent[Any, Any]:
    if callable(found) and not isinstance(found, Agent):
        try:
            found = found()
        except WindlassError as error:
            raise ConfigError(f"agent: {address}(): {error}", field="agent") from error
        except (Exception, SystemExit) as error:
            raise ConfigError(
                f"agent: {address}() failed: {type(error).__name__}: {error}", field="agent"
            ) from error
    if not isinstance(found, Agent):
        raise ConfigError(
            f"agent: {address} is {type(found).__name__}, wanted an Agent or a function that makes one",
            field="agent",
        )
    return found

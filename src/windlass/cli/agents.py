"""Which agent a command runs: the user's own, by `module:name`, or the default one."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final

import msgspec

from windlass import Agent, Process, Schedule, Source
from windlass.api.trigger import Subscription
from windlass.cli.default_tools import calculate, clock, list_files, read_file
from windlass.cli.opening import Found
from windlass.cli.settings import Settings, hint
from windlass.errors import ConfigError, WindlassError
from windlass.models.local.weights import find_weights
from windlass.ports import Tool

_MISSING: Final = object()
_LOCAL: Final = "local:smollm2"
_PLAIN: Final = "You are a helpful assistant in a terminal. Answer briefly."
_INSTRUCTIONS: Final = (
    "You are a helpful assistant in a terminal. Answer briefly, in Markdown where it helps. "
    "Use the tools for the time, for arithmetic and for files in the user's folder; "
    "do not guess what a tool can tell you. You have no network."
)


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """An agent, and one line that says what was chosen."""

    agent: Agent[Any, Any]
    told: str
    override: str | None = None
    """The model that turns name in place of the agent's own."""


def choose(settings: Settings) -> Choice:
    """Return the agent of these settings.

    Raises:
        ConfigError: there is no such module, name or model, or it is not an agent.
    """
    if settings.agent is None:
        name, source = chosen_model(settings)
        return Choice(agent=default_agent(name), told=f"model {name} ({source})")
    agent = _as_agent(load(settings.agent, settings), settings.agent)
    own = agent.model if isinstance(agent.model, str) else agent.model.name
    # Only a flag is about this very run; a setting is about runs without an agent.
    override = settings.model if settings.sources.get("model") == "--model" else None
    told = f"agent {settings.agent}, model {override or own}"
    return Choice(agent=agent, told=told, override=override)


class Work(msgspec.Struct, frozen=True):
    """What a worker drives."""

    agents: list[Agent[Any, Any]] = []
    processes: list[Process[Any]] = []
    schedules: list[Schedule] = []
    triggers: list[Source[Any] | Subscription] = []

    def add(self, found: object) -> bool:
        """Add an object, once; False if a worker cannot drive such a thing."""
        # Schedules and subscribers are processes, too: the first kind that fits.
        kinds: tuple[tuple[Any, list[Any]], ...] = (
            (Schedule, self.schedules),
            ((Source, Subscription), self.triggers),
            (Process, self.processes),
            (Agent, self.agents),
        )
        for kind, mine in kinds:
            if isinstance(found, kind):
                if not any(found is one for one in mine):
                    mine.append(found)
                return True
        return False

    @property
    def sources(self) -> list[str]:
        """The names of the sources whose events it delivers."""
        sources = (one if isinstance(one, Source) else one.source for one in self.triggers)
        return list(dict.fromkeys(one.name for one in sources))


def choose_work(addresses: Sequence[str] | None, settings: Settings) -> Work:
    """Return what these addresses name: a thing, or a module with all that it has; without any, the settings' agent.

    Raises:
        ConfigError: none is named, or one cannot be imported, or is nothing that a worker drives.
    """
    named = addresses or [each for each in (settings.agent,) if each is not None]
    if not named:
        raise ConfigError.at("agent", "none", "at least one, such as -m app:support")
    work = Work()
    for address in named:
        found = load(address, settings, whole=True)
        if isinstance(found, ModuleType):
            public = [each for name, each in vars(found).items() if not name.startswith("_")]
            added = [work.add(each) for each in public]
            if not any(added):
                wanted = "an Agent, a process, a schedule, a Source or a function with @on in it"
                raise ConfigError.at("agent", f"the module {address}", wanted)
        elif not work.add(found):
            work.add(_as_agent(found, address))
    return work


def choose_source(address: str, settings: Settings) -> Source[Any] | Subscription:
    """Return the source that `module:name` names, alone or with a subscriber.

    Raises:
        ConfigError: it cannot be imported, or is neither.
    """
    found = load(address, settings, field="source")
    if not isinstance(found, (Source, Subscription)):
        kind = f"{address}, which is {type(found).__name__}"
        raise ConfigError.at("source", kind, "a Source, or a function with @on")
    return found


def choose_deps(address: str | None, settings: Settings) -> Callable[..., Any] | None:
    """Return the function that makes what tools need.

    Raises:
        ConfigError: it cannot be imported, or is not a function.
    """
    if address is None:
        return None
    found = load(address, settings, field="deps")
    if not callable(found):
        raise ConfigError.at("deps", f"{address}, which is {type(found).__name__}", "a function")
    return found  # type: ignore[no-any-return]  # checked above


def load(address: str, settings: Settings, field: str = "agent", *, whole: bool = False) -> Any:  # noqa: ANN401 - any object
    """Import what `module:name` names, or with `whole` a module; the current folder is searched first.

    Raises:
        ConfigError: it cannot be imported; the message has the reason, its cause the traceback.
    """
    module_name, colon, name = address.partition(":")
    if not module_name or bool(colon) != bool(name) or not (colon or whole):
        raise ConfigError.at(field, repr(address[:80]), "module:name, such as app:support")
    for folder in reversed(settings.folders):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    with _user_code(field, f"importing {module_name}"):
        found: Any = importlib.import_module(module_name)
    for part in name.split(".") if name else ():
        owner = found
        with _user_code(field, f"importing {module_name}"):
            found = getattr(owner, part, _MISSING)
        if found is _MISSING:
            known = [each for each in dir(owner) if not each.startswith("_")]
            reason = f"{module_name} has no {name[:80]!r}{hint(part, known)}"
            raise ConfigError(f"{field}: {reason}", field=field)
    return found


@contextmanager
def _user_code(field: str, doing: str) -> Iterator[None]:
    """Turn any exception of the user's code into a ConfigError with one line."""
    try:
        yield
    except WindlassError as error:
        raise ConfigError(f"{field}: {doing} failed: {error}", field=field) from error
    except (Exception, SystemExit) as error:
        reason = f"{doing} failed: {type(error).__name__}: {error} (WINDLASS_DEBUG=1 shows where)"
        raise ConfigError(f"{field}: {reason}", field=field) from error


def _as_agent(found: object, address: str) -> Agent[Any, Any]:
    if callable(found) and not isinstance(found, Agent):
        with _user_code("agent", f"{address}()"):
            found = found()
    if not isinstance(found, Agent):
        kind = f"{address}, which is {type(found).__name__}"
        raise ConfigError.at("agent", kind, "an Agent or a function that makes one")
    return found


def check_agent(found: Found | None, agent: Agent[Any, Any]) -> None:
    """Refuse a session whose unfinished turn belongs to another agent that no process is running.

    Raises:
        ConfigError: no process would drive that turn, so a new one would wait forever.
    """
    turn = None if found is None or found.is_owned else found.turn
    if turn is None or turn.agent in (agent.name, *agent.aliases):
        return
    raise ConfigError(
        f"agent: turn {turn.turn_id} of session {turn.session_id} is unfinished and belongs to agent "
        f"{turn.agent!r}, found {agent.name!r}; name that agent with -m module:name, "
        f"or cancel the turn: windlass cancel {turn.session_id}",
        field="agent",
    )


# ---------------------------------------------------------------------- the default agent


def default_agent(model: str) -> Agent[Any, Any]:
    """Return the agent for commands that name none.

    A local model is too small to choose between tools, so it gets none.
    """
    if model.startswith("local:"):
        return Agent("assistant", model=model, instructions=_PLAIN)
    tools: list[Tool] = [clock, calculate, read_file, list_files]
    return Agent("assistant", model=model, instructions=_INSTRUCTIONS, tools=tools)


def chosen_model(settings: Settings) -> tuple[str, str]:
    """Return the model of the default agent, and where its name comes from."""
    return settings.model or default_model(), settings.sources.get("model", "the default")


def default_model() -> str:
    """Return the model to use when the user names none: the small local one if it is installed."""
    return _LOCAL if has_local() else "demo"


def has_local() -> bool:
    """Whether the small local model is installed."""
    return find_spec("xllamacpp") is not None and find_weights() is not None

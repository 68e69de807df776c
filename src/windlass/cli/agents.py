"""Which agent a command runs: the user's own, by `module:name`, or the default one."""

from __future__ import annotations

import importlib
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import msgspec

from windlass import Agent, Process, Schedule, Source
from windlass.api.trigger import Subscription
from windlass.cli.opening import Found
from windlass.cli.settings import CODER, Settings, flags_again, hint
from windlass.errors import ConfigError, WindlassError
from windlass.guards.text import visible
from windlass.models.local.weights import find_weights
from windlass.ports import TurnView

_MISSING: Final = object()
_LOCAL: Final = "local:smollm2"
_FOLDER: Final = "folder"


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """An agent, and one line that says what was chosen."""

    agent: Agent[Any, Any]
    told: str
    override: str | None = None
    """The model that turns name in place of the agent's own."""
    is_own: bool = False
    """Whether it is windlass's own agent."""
    folder: str | None = None
    """The folder that its tools change, if it is windlass's own agent and has such tools."""

    @property
    def context(self) -> dict[str, str] | None:
        """What its turns record: what a person allows in one folder must not run in another."""
        return None if self.folder is None else {_FOLDER: self.folder}

    def only(self, session_id: str) -> str | None:
        """Return the one session to drive, if it is windlass's own agent: others began in other folders, or with other tools."""
        return session_id if self.is_own else None


def choose(settings: Settings, *, code: bool = False) -> Choice:
    """Return the agent of these settings.

    Args:
        settings: The settings.
        code: Whether the coder is wanted.

    Raises:
        ConfigError: there is no such module, name, model or tool, or it is not an agent.
    """
    if code or settings.agent is None:
        # With all tools of the toolkit: commands with an agent of the user's need none of it.
        from windlass.cli.own_agents import assistant, coder  # noqa: PLC0415

        _check_own(settings, code=code)
        name, source = chosen_model(settings)
        folder = Path.cwd()
        agent = (coder if code else assistant)(name, settings, folder)
        acts = any(one.effect in ("once", "keyed") for one in agent.toolbox)
        who = f"{agent.name}, " if code else ""
        named = f", tools {settings.tools}" if settings.sources.get("tools") == "--tools" else ""
        return Choice(
            agent=agent,
            told=f"{who}model {name} ({source}){named}",
            is_own=True,
            folder=str(folder) if acts else None,
        )
    if settings.sources.get("tools") == "--tools":
        told = f"--tools with agent {settings.agent}, which has tools of its own"
        raise ConfigError.at("tools", told, "one of the two")
    agent = _as_agent(load(settings.agent, settings), settings.agent)
    own = agent.model if isinstance(agent.model, str) else agent.model.name
    # Only a flag is about this very run; a setting is about runs without an agent.
    override = settings.model if settings.sources.get("model") == "--model" else None
    told = f"agent {settings.agent}, model {override or own}"
    return Choice(agent=agent, told=told, override=override)


def _check_own(settings: Settings, *, code: bool) -> None:
    if code and settings.sources.get("agent") == "--agent":
        raise ConfigError.at("code", "--code and --agent", "one of the two")


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


def check_agent(found: Found | None, choice: Choice, settings: Settings) -> None:
    """Refuse a session with an unfinished turn that this process cannot drive, or not where it began.

    Raises:
        ConfigError: the turn belongs to another agent that no process is running, so a new one would wait forever; or it
            began in another folder, or with other tools.
    """
    for turn in () if found is None or found.is_owned else found.turns:
        _check_turn(turn, choice, settings)


def _check_turn(turn: TurnView, choice: Choice, settings: Settings) -> None:
    agent = choice.agent
    cancel = f"windlass cancel {shlex.quote(turn.session_id)}{flags_again(settings, 'store')}"
    if turn.agent in (agent.name, *agent.aliases):
        if choice.is_own:
            _check_folder(turn, choice, cancel)
            _check_tools(turn, agent, cancel)
        return
    how = "add --code" if turn.agent == CODER else "name that agent with -m module:name"
    raise ConfigError(
        f"agent: turn {turn.turn_id} of session {turn.session_id} is unfinished and belongs to agent "
        f"{turn.agent!r}, found {agent.name!r}; {how}, "
        f"or cancel the turn: {cancel}",
        field="agent",
    )


def _check_folder(turn: TurnView, choice: Choice, cancel: str) -> None:
    """Refuse to drive a turn in another folder: a person allowed its calls where it began.

    Raises:
        ConfigError: it began in another one.
    """
    context = None if turn.request is None else turn.request.context
    began = context.get(_FOLDER) if isinstance(context, Mapping) else None
    if choice.folder is not None and isinstance(began, str) and began != choice.folder:
        raise ConfigError(
            f"folder: turn {turn.turn_id} of session {turn.session_id} is unfinished and began in {visible(began)}; "
            f"continue it there, or cancel it: {cancel}",
            field="folder",
        )


def _check_tools(turn: TurnView, agent: Agent[Any, Any], cancel: str) -> None:
    """Refuse an agent that lacks a tool whose call a person was asked to allow.

    Raises:
        ConfigError: the call would end as one of a tool that is not there, although it may be allowed already.
    """
    tools = {tool.spec.name for tool in agent.toolbox}
    asked = [view.wait.detail for view in turn.waits if view.wait.kind == "approval"]
    missing = [one["tool"] for one in asked if isinstance(one, dict) and one["tool"] not in tools]
    if missing:
        told = f"its unfinished turn calls {missing[0]}, which is not among these tools"
        raise ConfigError(
            f"tools: session {turn.session_id}: {told}; give the same --tools as before, "
            f"or cancel the turn: {cancel}",
            field="tools",
        )


# ---------------------------------------------------------------------- the model


def chosen_model(settings: Settings) -> tuple[str, str]:
    """Return the model of the default agent, and where its name comes from."""
    return settings.model or default_model(), settings.sources.get("model", "the default")


def default_model() -> str:
    """Return the model to use when the user names none: the small local one if it is installed."""
    return _LOCAL if has_local() else "demo"


def has_local() -> bool:
    """Whether the small local model is installed."""
    return find_spec("xllamacpp") is not None and find_weights() is not None

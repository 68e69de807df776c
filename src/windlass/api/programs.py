"""From what a runtime is given to the programs that it drives: agents, those that they call, background work; their deps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

from windlass.api.adapters import KnownModels
from windlass.api.agent import Agent, check
from windlass.errors import ConfigError
from windlass.ports import Model, Plugin, TurnInfo
from windlass.runtime.program import Program
from windlass.runtime.retention import Retention

if TYPE_CHECKING:
    # Loaded on first use: a runtime without background work does not need them.
    from windlass.api.schedule import Schedule
    from windlass.api.trigger import Delivering

D = TypeVar("D")
DepsFactory: TypeAlias = Callable[[TurnInfo], D | Awaitable[D] | AbstractAsyncContextManager[D]]
"""Makes what tools work with, once per drive: it returns it, or an awaitable or an async context manager of it."""
AnyDeps: TypeAlias = DepsFactory[Any] | Mapping[str, DepsFactory[Any]]


def with_called(agents: Sequence[Agent[Any, Any]]) -> tuple[Agent[Any, Any], ...]:
    """Return agents, and behind them those that are tools of theirs, each once.

    Raises:
        ConfigError: two agents among them have one name.
    """
    known: dict[str, Agent[Any, Any]] = {}
    for agent in agents:
        if isinstance(agent, Agent):  # else it is refused where it is compiled
            for name in (agent.name, *agent.aliases):
                known.setdefault(name, agent)
    found, waiting = list(agents), [one for one in agents if isinstance(one, Agent)]
    while waiting:
        for called in waiting.pop(0).called():
            names = (called.name, *called.aliases)
            if all(known.get(name) is called for name in names):
                continue
            clash = next((name for name in names if known.get(name, called) is not called), None)
            if clash is not None:
                raise ConfigError.at("agents", f"another agent called {clash}", "each name once")
            known.update(dict.fromkeys(names, called))
            found.append(called)
            waiting.append(called)
    return tuple(found)


def factories(deps: object, names: Sequence[str]) -> Mapping[str, DepsFactory[Any] | None]:
    """Return what makes the deps of each agent and process, by name."""
    if deps is None or callable(deps):
        return dict.fromkeys(names, deps)
    check("deps", isinstance(deps, Mapping), "a function of the turn, or one for each agent's name")
    by_name: Mapping[str, DepsFactory[Any]] = deps  # type: ignore[assignment]  # checked here
    for name, factory in by_name.items():
        if names:  # a runtime without agents drives nothing
            wanted = f"the name of an agent or a process: {', '.join(names)}"
            check(f"deps[{name!r}]", name in names, wanted)
        check(f"deps[{name!r}]", callable(factory), "a function of the turn")
    return {name: by_name.get(name) for name in names}


def compiled(
    agents: Sequence[Agent[Any, Any]],
    models: KnownModels,
    plugins: Sequence[Plugin],
    deps: Mapping[str, DepsFactory[Any] | None],
) -> dict[str, Program]:
    """Return agents as a runtime drives them, by their names and aliases, with what runs their background tools.

    Raises:
        ConfigError: an entry is not an agent, two have the same name, or a background tool lacks its deps.
    """
    from windlass.runtime.background import add_background  # noqa: PLC0415 - what only describes agents needs it not

    programs: dict[str, Program] = {}
    for agent in agents:
        if not isinstance(agent, Agent):
            raise ConfigError.at("agents", type(agent).__name__, "agents")
        program = agent.compiled(models, plugins, deps.get(agent.name))
        models.add(program.model)
        for name in (agent.name, *agent.aliases):
            if name in programs:
                raise ConfigError.at("agents", f"two agents called {name}", "each name once")
            programs[name] = program
    add_background(programs)
    return programs


# ---------------------------------------------------------------------- background work


class DeclaredWork(msgspec.Struct, frozen=True, kw_only=True):
    """The background work that a runtime is given, and the programs that drive it."""

    programs: Mapping[str, Program] = {}
    schedules: Mapping[str, Schedule] = {}
    delivering: Mapping[str, Delivering] = {}


def declared_work(
    known: Mapping[str, Sequence[object]],
    find_model: Callable[[str], Model | None],
    deps: Mapping[str, Callable[[TurnInfo], Any] | None],
    retention: Retention,
) -> DeclaredWork:
    """Return background work as a runtime drives it; `known` has its processes, schedules and triggers.

    Raises:
        ConfigError: an entry does not belong in its list, two have the same name, or one lacks its deps; or a source's
            `dedupe` is longer than triggers are kept.
    """
    if not any(known.values()):
        return DeclaredWork()
    from windlass.api.processes import compiled_processes  # noqa: PLC0415 - see above
    from windlass.api.schedule import checked_schedules, clocks_of  # noqa: PLC0415
    from windlass.api.trigger import grouped, subscriptions_in  # noqa: PLC0415

    processes = known["processes"]
    named, delivering = checked_schedules(known["schedules"]), grouped(known["triggers"])
    for name, one in delivering.items():
        if one.source.dedupe > retention.triggers:
            wanted = f"at least {one.source.dedupe}, the dedupe of the source {name}"
            raise ConfigError.at("Retention.triggers", str(retention.triggers), wanted)
    given = {
        "processes": processes,
        "schedules": (*named.values(), *clocks_of(processes)),
        "triggers": (*delivering.values(), *subscriptions_in(delivering)),
    }
    programs: dict[str, Program] = {}
    for name, some in given.items():
        programs |= compiled_processes(some, find_model, deps, field=f"Runtime.{name}")
    return DeclaredWork(programs=programs, schedules=named, delivering=delivering)

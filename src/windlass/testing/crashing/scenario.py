"""A scenario: a program with agents, and what has to be true when it is over."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from windlass.api.agent import Agent
from windlass.api.runtime import Runtime
from windlass.errors import ConfigError
from windlass.ports import Wait

Agents: TypeAlias = Agent[Any, Any] | Sequence[Agent[Any, Any]]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A program, as a process runs it from its start; after a crash it is started again from there.

    Attributes:
        agents: Makes the agents, with their models: called in each process, for objects die with it.
        run: The program. What it returns is shown to `check`. Give turns a `turn_id`: the program will be run again.
        deps: As `Runtime(deps=...)`.
        approve: As `Runtime(approve=...)`.
        answer: Answers a wait, as `lambda rt, wait: rt.approve(wait.key)`. Waits that it leaves alone run out, if
            they can.
        check: What must hold at the end, whatever died on the way. Raises, or returns False, if it does not. In a
            test this is called in the test's own event loop.
        allow_unknown: Whether a crash may leave it unknown if a tool acted, as the contract "once" says.
        settings: Further settings of the Runtime, such as `{"models": [...]}`.
    """

    agents: Callable[[], Agents]
    run: Callable[[Runtime[Any]], Awaitable[Any]]
    deps: Callable[..., Any] | None = None
    approve: Callable[[Wait], bool | Awaitable[bool]] | None = None
    answer: Callable[[Runtime[Any], Wait], object] | None = None
    check: Callable[[Any], object] | None = None
    allow_unknown: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what would outlive a crash, or could not be called."""
        if isinstance(self.agents, (Agent, list, tuple)):
            raise ConfigError(
                "Scenario.agents: found agents, wanted a function that makes them: "
                "a process that is started again has new ones",
                field="Scenario.agents",
            )
        for name in ("agents", "run"):
            if not callable(getattr(self, name)):
                found = type(getattr(self, name)).__name__
                raise ConfigError(
                    f"Scenario.{name}: found {found}, wanted a function", field=f"Scenario.{name}"
                )
        for name in ("store", "clock", "deps", "approve", "worker"):
            if name in self.settings:
                raise ConfigError(
                    f"Scenario.settings: found {name}, which the scenario itself gives",
                    field=f"Scenario.settings.{name}",
                )

    def made_agents(self) -> Sequence[Agent[Any, Any]]:
        """Return new agents."""
        made = self.agents()
        return (made,) if isinstance(made, Agent) else tuple(made)

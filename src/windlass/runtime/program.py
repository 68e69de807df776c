"""An agent as the runtime drives it: everything resolved, nothing left to look up by the turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from windlass.journal import ToolContract
from windlass.kernel import Json, canonical, freeze
from windlass.kernel.model_call import PROVIDER_CHOICE, Generation
from windlass.ports import Model, ToolPolicy, ToolProvider, TurnInfo
from windlass.ports.prompt import Contribution, Prompter
from windlass.release import RELEASE
from windlass.runtime.limits import TURN_LIMITS, Limits
from windlass.runtime.plugin_set import NO_PLUGINS, PluginSet
from windlass.tools import Toolbox

Steering: TypeAlias = Literal["all", "one"]
"""Whether all that waits enters a turn at a checkpoint, or the oldest alone."""
T = TypeVar("T")
Instructions: TypeAlias = str | Callable[[TurnInfo, Any], str | Awaitable[str]]


class Output(Protocol):
    """The shape that an answer is asked to have."""

    @property
    def schema(self) -> Json: ...

    def check(self, value: Json) -> object:
        """Return the value as its type.

        Raises:
            InvalidInput: naming the place, what was found and what was wanted.
        """
        ...


class Program(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One agent, compiled. `find_model` gives the model of a name that a turn may ask for."""

    name: str
    model: Model
    find_model: Callable[[str], Model | None]
    instructions: Instructions = ""
    toolbox: Toolbox
    providers: tuple[ToolProvider, ...] = ()
    policy: ToolPolicy | None = None
    limits: Limits = TURN_LIMITS
    generation: Generation = PROVIDER_CHOICE
    output: Output | None = None
    aliases: tuple[str, ...] = ()
    needs_deps: bool = False
    plugins: PluginSet = NO_PLUGINS
    steering: Steering = "all"
    pieces: tuple[Contribution, ...] = ()
    prompter: Prompter | None = None

    def once(self, name: str, make: Callable[[], T]) -> T:
        """Return something that follows from the agent alone: made when it is first asked for, then kept."""
        known: T | None = self.__dict__.get(name)
        if known is None:
            known = self.__dict__[name] = make()
        return known

    @property
    def tools_text(self) -> str:
        """The canonical text of its tool specs."""
        return self.once("tools", lambda: canonical.encode(self.toolbox.specs).decode())

    @property
    def contracts(self) -> tuple[ToolContract, ...]:
        """What a crash may do to its tools."""
        return self.once("contracts", self.toolbox.contracts)

    @property
    def build(self) -> str:
        """What tells this agent's code from another release of it: a short digest."""
        return self.once("build", self._build)

    def _build(self) -> str:
        plugins = [str(one) for one in self.plugins.versions]
        return canonical.digest([RELEASE, self.tools_text, plugins])[:12]

    @property
    def limits_record(self) -> dict[str, Any]:
        """Its limits as plain data."""
        return self.once("limits_record", lambda: limits_record(self.limits))


def limits_record(limits: Limits) -> dict[str, Any]:
    """Return limits as a start record keeps them: what is not the default."""
    plain: dict[str, Any] = msgspec.to_builtins(limits)
    plain.pop("type", None)
    frozen: dict[str, Any] = freeze(plain)
    return frozen

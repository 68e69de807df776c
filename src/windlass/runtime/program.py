"""An agent as the runtime drives it: everything resolved, nothing left to look up by the turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar, is_typeddict

import msgspec

from windlass.errors import ConfigError, InvalidInput
from windlass.journal import ToolContract
from windlass.kernel import Json, Message, canonical, freeze
from windlass.kernel.model_call import PROVIDER_CHOICE, Generation
from windlass.kernel.tool_call import is_tool_name
from windlass.ports import Model, ToolPolicy, ToolProvider, TurnInfo
from windlass.ports.prompt import Contribution, Prompter
from windlass.release import RELEASE
from windlass.runtime.limits import TURN_LIMITS, Limits
from windlass.runtime.plugin_set import NO_PLUGINS, PluginSet
from windlass.tools import Toolbox

if TYPE_CHECKING:
    from windlass.ports.process import ProcessSpec

Steering: TypeAlias = Literal["all", "one"]
"""Whether all that waits enters a turn at a checkpoint, or the oldest alone."""
Finish: TypeAlias = str | tuple[str, ...]
"""How a turn has to finish: `answer`, `value`, or by one of these tools."""
HandoffView: TypeAlias = Literal["all", "last"] | Callable[[Sequence[Message]], Iterable[Message]]
"""What an agent that takes over sees of the history from before: all, the last input, or what a function returns."""
T = TypeVar("T")
Instructions: TypeAlias = str | Callable[[TurnInfo, Any], str | Awaitable[str]]


def is_protocol(kind: type) -> bool:
    """Whether a class is a Protocol, which an object satisfies without being an instance of it."""
    return bool(getattr(kind, "_is_protocol", False))


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


class Code(msgspec.Struct, frozen=True, kw_only=True):
    """A function that a turn runs in place of a model's loop.

    `run` is given what stands behind its context. `runs_again`: after its worker was lost, it runs again on what is
    recorded. `may_park`: while it waits it need not stay in memory. `spec` is the process that it is of, if it is of one.
    `is_short`: it does nothing that takes time but wait, so all that it records until then is written together.
    """

    run: Callable[[Any], Awaitable[object]]
    runs_again: bool = True
    may_park: bool = True
    spec: ProcessSpec | None = None
    is_short: bool = False


class Program(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One agent, compiled; or one process, which is `code`. `find_model` gives the model of a name that a turn may ask for."""

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
    deps_type: object = None
    # Makes what its tools work with, once per drive; None: whoever runs a turn gives it.
    deps: Callable[[TurnInfo], Any] | None = None
    plugins: PluginSet = NO_PLUGINS
    steering: Steering = "all"
    finish: Finish = "answer"
    code: Code | None = None

    @property
    def needs_deps(self) -> bool:
        """Whether its tools work with something."""
        return self.deps_type is not None

    def check_deps(self, deps: object, *, field: str) -> None:
        """Refuse deps of another class than the agent's `deps_type`, where that is a class that can be asked.

        Raises:
            ConfigError: naming what was found and what was wanted.
        """
        if not self.takes_deps(deps):
            wish = f"{getattr(self.deps_type, '__name__', '')}, the deps_type of {self.name}"
            raise ConfigError.at(field, type(deps).__name__, wish)

    def takes_deps(self, deps: object) -> bool:
        """Whether deps are of the agent's `deps_type`, where that is a class that can be asked."""
        wanted = self.deps_type
        if not isinstance(wanted, type) or is_protocol(wanted) or is_typeddict(wanted):
            return True
        return isinstance(deps, wanted)

    pieces: tuple[Contribution, ...] = ()
    prompter: Prompter | None = None
    # The names of the tools that hand a session off, and what the agent sees of one that was handed off to it.
    handoffs: tuple[str, ...] = ()
    handoff_view: HandoffView = "all"

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


def read_finish(given: object, tools: Container[str] | None, *, field: str) -> Finish:
    """Return how a turn has to finish; `tools` are all there are, or None if more may be found later.

    A tool that is called `answer` or `value` is named in a list.

    Raises:
        InvalidInput: it names nothing, or a tool that is not there.
    """
    if given in ("answer", "value"):
        return str(given)
    names = (given,) if isinstance(given, str) else given
    if not isinstance(names, (list, tuple)) or not names or not all(map(is_tool_name, names)):
        found = (
            type(given).__name__ if not isinstance(given, (str, list, tuple)) else repr(given)[:80]
        )
        raise InvalidInput.at(field, found, "answer, value, a tool's name, or a list of such names")
    missing = [name for name in names if tools is not None and name not in tools]
    if missing:
        raise InvalidInput.at(
            field, f"{missing[0]!r}, which is not a tool here", "a tool of the agent"
        )
    return tuple(names)


def limits_record(limits: Limits) -> dict[str, Any]:
    """Return limits as a start record keeps them: what is not the default."""
    plain: dict[str, Any] = msgspec.to_builtins(limits)
    plain.pop("type", None)
    frozen: dict[str, Any] = freeze(plain)
    return frozen

"""Processes: durable background work, written as plain async Python. How one is declared."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Literal,
    TypeAlias,
    TypeVar,
    get_args,
    overload,
)

from windlass.api.process_context import ProcessContext
from windlass.api.process_step import Reader, as_plain
from windlass.errors import ArgsInvalid, ConfigError, InvalidInput, ToolFailed
from windlass.guards import is_id
from windlass.kernel import Json
from windlass.kernel.value import thaw
from windlass.ports import TurnInfo
from windlass.ports.process import PROGRAM, TOLD
from windlass.runtime.program import Code, Program
from windlass.tools.arguments import check_names, converted, frozen_args
from windlass.tools.signature import parameters_of

if TYPE_CHECKING:
    from windlass.ports import Model
    from windlass.runtime.process_host import ProcessHost

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Recovery: TypeAlias = Literal["rerun", "owner", "external"]
Body: TypeAlias = Callable[..., Awaitable[R]]
# After this many events an external process begins a new journal.
_MAX_TOLD = 500


class Process(Generic[R_co]):
    """A function that runs as a process. `@process` makes one; it never changes.

    Attributes:
        name: The name of the process.
        recovery: What happens to it when its worker is lost.
        signals: The types of its signals by name; None: it takes any signal.
        deps_type: The type of its deps; None if it needs none.
    """

    noun: ClassVar[str] = "process"
    is_short: ClassVar[bool] = False

    def __init__(
        self,
        fn: Callable[..., Awaitable[R_co]],
        *,
        name: str | None = None,
        recovery: Recovery = "rerun",
        signals: Mapping[str, Any] | None = None,
        deps_type: type[Any] | None = None,
    ) -> None:
        self.name = name if name is not None else getattr(fn, "__name__", "")
        if not is_id(self.name):
            raise ConfigError.at(f"{self.noun}.name", repr(self.name)[:40], "an id")
        field = f"{self.noun} {self.name}"
        if not inspect.iscoroutinefunction(fn):
            raise ConfigError.at(field, type(fn).__name__, "an async function")
        if recovery not in get_args(Recovery):
            wanted = "rerun, owner or external"
            raise ConfigError.at(f"{field}: recovery", repr(recovery)[:40], wanted)
        self._fn = fn
        self.recovery: Recovery = recovery
        self.deps_type = deps_type
        self.signals = None if signals is None else MappingProxyType(dict(signals))
        self._readers = _readers(signals or {}, field)
        if signals is not None and self.is_external:
            raise ConfigError.at(
                f"{field}: signals", "some", "none: an external process runs elsewhere"
            )
        self._parameters = parameters_of(fn, field=field, context_first=True)
        if self._parameters.context is None:
            raise ConfigError.at(field, "no parameters", "a ProcessContext as the first one")
        self._output = Reader.of_result(fn, field=f"{field}: result")

    def __repr__(self) -> str:
        return f"<{self.noun} {self.name}>"

    @property
    def is_external(self) -> bool:
        """Whether it runs elsewhere, and this store keeps only its events."""
        return self.recovery == "external"

    @property
    def program_name(self) -> str:
        """The name of the program that runs its turns."""
        return f"{PROGRAM}{self.name}"

    def check(self, args: Mapping[str, Any]) -> Mapping[str, Json]:
        """Return arguments as they are stored.

        Args:
            args: The arguments of the function, by their names.

        Raises:
            ArgsInvalid: naming the argument, what was found and what was wanted.
        """
        if not isinstance(args, Mapping):
            raise ArgsInvalid.at("args", type(args).__name__, "a mapping of names to values")
        try:
            given = frozen_args(
                {name: as_plain(value, f"args.{name}") for name, value in args.items()}
            )
        except InvalidInput as error:
            raise ArgsInvalid(str(error), field=error.field) from None
        required = frozenset(self._parameters.hints) - frozenset(self._parameters.defaults)
        check_names(given, self._parameters.hints, required)
        self._converted(given)
        return given

    def _converted(self, given: Mapping[str, Json]) -> dict[str, Any]:
        hints = self._parameters.hints
        check_names(given, hints, frozenset())
        return {name: converted(name, value, hints[name], {}) for name, value in given.items()}

    def check_signal(self, name: str, payload: object) -> Json:
        """Return the payload of a signal as it is stored.

        Args:
            name: The name of the signal.
            payload: Its payload, as the declared type or as JSON.

        Raises:
            InvalidInput: the process takes no signal of this name, or the payload does not fit.
        """
        if self.is_external:
            raise InvalidInput.at("signal", f"process {self.name}, which runs elsewhere", "another")
        plain = as_plain(payload, "payload")
        self.read_signal(name, plain)
        return plain

    def read_signal(self, name: str, payload: Json) -> Any:  # noqa: ANN401 - as it is declared
        """Return the payload of a signal as its declared type.

        Args:
            name: The name of the signal.
            payload: Its payload, as it is stored.

        Raises:
            InvalidInput: as for `check_signal`.
        """
        reader = self.reader_of(name)
        return thaw(payload) if reader is None else reader.read(payload)

    def reader_of(self, name: str) -> Reader | None:
        """Return the reader of a signal's payload; None if the process declares no signals.

        Raises:
            InvalidInput: the process declares signals, and this is not one of them.
        """
        if self.signals is None:
            return None
        if name not in self._readers:
            wanted = "one of: " + ", ".join(self._readers) if self._readers else "none"
            raise InvalidInput.at("signal", repr(name)[:40], wanted)
        return self._readers[name]

    def read_result(self, value: Json) -> R_co:
        """Return the value of the process, converted to the declared return type if that is possible.

        Args:
            value: The value, as it is stored.
        """
        return self._output.read(value)  # type: ignore[no-any-return]  # as the function declares

    def compiled(
        self,
        find_model: Callable[[str], Model | None],
        model: Model,
        deps: Callable[[TurnInfo], Any] | None,
    ) -> Program:
        """Return the process as a runtime drives it.

        Args:
            find_model: Finds a model by its name, for tools that ask one.
            model: A placeholder: a program needs a model, a process has none.
            deps: Makes the deps of the process, once per drive.
        """
        stays = self.recovery == "owner"
        code = Code(
            run=self._run,
            runs_again=not stays,
            may_park=not stays,
            spec=self,
            is_short=self.is_short,
        )
        return code_program(self.program_name, code, find_model, model, deps, self.deps_type)

    async def _run(self, host: ProcessHost) -> object:
        asked = host.turn.request.overrides
        ctx: ProcessContext[Any] = ProcessContext(host, str(asked.get("process_id", "")), self)
        if self.is_external:
            return await _follow(ctx)
        args = self.check(asked.get("args") or {})
        return await self._fn(ctx, **self._converted(args))


async def _follow(ctx: ProcessContext[Any]) -> object:
    """Record what an external process reports, until it reports its end."""
    for _ in range(_MAX_TOLD):
        told = await ctx.wait(TOLD)
        if "finish" in told:
            return told["finish"]
        if "fail" in told:
            raise ToolFailed(str(told["fail"]))
        await ctx.emit(str(told.get("emit", "event")), told.get("value"))
    return ctx.continue_as(**ctx.args)


def _readers(signals: Mapping[str, Any], field: str) -> dict[str, Reader]:
    if not isinstance(signals, Mapping):
        raise ConfigError.at(f"{field}: signals", type(signals).__name__, "types by names")
    for name in signals:
        if not is_id(name) or name == TOLD:
            raise ConfigError.at(f"{field}: signals", repr(name)[:40], f"ids other than {TOLD}")
    return {name: Reader(kind, field=f"{field}: signals.{name}") for name, kind in signals.items()}


def code_program(
    name: str,
    code: Code,
    find_model: Callable[[str], Model | None],
    model: Model,
    deps: Callable[[TurnInfo], Any] | None = None,
    deps_type: object = None,
) -> Program:
    """Return a function as a program that a runtime drives, under the name of its turns."""
    from windlass.tools import Toolbox  # noqa: PLC0415 - a program that only declares it needs none

    return Program(
        name=name,
        model=model,
        find_model=find_model,
        toolbox=Toolbox(()),
        deps=deps,
        deps_type=deps_type,
        code=code,
    )


@overload
def process(fn: Callable[..., Awaitable[R]], /) -> Process[R]: ...
@overload
def process(
    *,
    name: str | None = None,
    recovery: Recovery = "rerun",
    signals: Mapping[str, Any] | None = None,
    deps_type: type[Any] | None = None,
) -> Callable[[Callable[..., Awaitable[R]]], Process[R]]: ...
def process(
    fn: Callable[..., Awaitable[Any]] | None = None,
    /,
    *,
    name: str | None = None,
    recovery: Recovery = "rerun",
    signals: Mapping[str, Any] | None = None,
    deps_type: type[Any] | None = None,
) -> Process[Any] | Callable[[Callable[..., Awaitable[Any]]], Process[Any]]:
    """Turn an async function into a process; its first parameter is a `ProcessContext`.

    Args:
        fn: The async function that does the work.
        name: The name of the process; by default the function's name.
        recovery: `rerun` runs the function again after a crash and answers it from the journal. `owner` never runs it
            twice: if its worker is lost, the process fails. `external` never calls it: another program does the work and
            reports it with the handle's `emit`, `finish` and `fail`.
        signals: The types of its signals by name. Payloads are checked when they are sent and converted when they are
            received. Without it the process takes any name and any JSON.
        deps_type: The type of the deps that `Runtime(deps=...)` makes for it.
    """

    def make(given: Callable[..., Awaitable[Any]]) -> Process[Any]:
        return Process(given, name=name, recovery=recovery, signals=signals, deps_type=deps_type)

    return make if fn is None else make(fn)

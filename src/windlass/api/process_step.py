"""What goes into the journal of a process and comes out of it: steps as tools, and values as JSON."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import msgspec

from windlass.errors import ConfigError, InvalidInput
from windlass.kernel import Json, ToolOutcome, ToolSpec
from windlass.kernel.value import freeze, thaw
from windlass.ports.tool import ToolContext
from windlass.runtime.large_values import is_large
from windlass.runtime.process_steps import Kept, kept_value
from windlass.tools.arguments import build
from windlass.tools.declaration import DeclaredTool, ToolOptions
from windlass.tools.results import NotPlain, as_json
from windlass.tools.schema import schema_of_hint

_MAX_NAME = 64
_SHORT = frozenset({int, float, bool, type(None)})


def as_plain(value: object, field: str) -> Json:
    """Return a value as JSON that can be kept.

    Raises:
        InvalidInput: it has no JSON form.
    """
    try:
        return freeze(as_json(value), field=field)
    except NotPlain as error:
        raise InvalidInput.at(field, str(error), "something with a JSON form") from None


class Reader:
    """Reads JSON as a type; `Any` reads it as it is."""

    def __init__(self, kind: Any, *, field: str) -> None:  # noqa: ANN401 - a hint is any object
        if kind is not Any:
            schema_of_hint(kind, field=field)  # refuses what cannot be read from JSON
        self._kind = kind
        self._field = field

    @classmethod
    def of_result(cls, fn: Callable[..., Any], *, field: str) -> Reader:
        """Return what reads the result of a function: as its hint says, or as it is where that cannot be read."""
        try:
            hint = get_type_hints(inspect.unwrap(fn), include_extras=True).get("return", Any)
            return cls(hint, field=field)
        except Exception:  # noqa: BLE001 - a hint as text may raise anything
            return cls(Any, field=field)

    def read(self, value: Json) -> Any:  # noqa: ANN401 - as the type says
        """Return the value as the type.

        Raises:
            InvalidInput: naming what was found and what was wanted.
        """
        try:
            return msgspec.convert(thaw(value), self._kind, dec_hook=build, str_keys=True)
        except msgspec.ValidationError as error:
            cause = error.__cause__
            said = cause if isinstance(cause, InvalidInput) else error
            raise InvalidInput(f"{self._field}: {said}", field=self._field) from None


class Step(DeclaredTool):
    """A function that a process calls, as a tool."""

    def __init__(
        self,
        fn: Callable[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
        name: str | None,
        options: ToolOptions,
    ) -> None:
        super().__init__(ToolSpec(name=_step_name(fn, name), description=""), fn, options)
        self._args = args
        self._kwargs = kwargs
        # The value that the function has just returned, where it is long.
        self.kept: Kept | None = None
        self.recorded: dict[str, Any] = {}
        if args:
            self.recorded["args"] = as_plain(list(args), "args")
        if kwargs:
            self.recorded["kwargs"] = as_plain(kwargs, "kwargs")

    def check(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments: the function gets those that it was given, not what is recorded of them."""
        return args

    async def run(self, ctx: ToolContext[Any], args: Mapping[str, Any]) -> object:  # noqa: ARG002 - the port's shape
        """Call the function; its value is kept as it is, and as a file where it is long."""
        value = await self._body.call(*self._args, **self._kwargs)
        try:
            plain = as_json(value)
        except NotPlain as error:
            return ToolOutcome(status="error", value=f"It returned what cannot be kept: {error}")
        if type(plain) in _SHORT or not is_large(plain):
            return ToolOutcome(value=plain)
        attachment = await kept_value(ctx, plain)
        self.kept = Kept(thaw(plain))
        return ToolOutcome(content=(attachment,))


def _step_name(fn: Callable[..., object], name: str | None) -> str:
    if not callable(fn):
        raise ConfigError.at("step", type(fn).__name__, "a function")
    found = name if name is not None else getattr(fn, "__name__", type(fn).__name__)
    cleaned = "".join(one if one.isalnum() or one in "_-" else "_" for one in found)[:_MAX_NAME]
    if not cleaned:
        raise ConfigError.at("step: name", repr(name)[:40], "a name")
    return cleaned

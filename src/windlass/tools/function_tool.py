"""A function as a tool: still callable as it was, and described so that a model can call it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, Unpack, overload

from windlass.errors import ConfigError, InvalidInput, LimitExceeded
from windlass.kernel.tool_call import ToolSpec
from windlass.ports.tool import ToolContext
from windlass.tools import docstring
from windlass.tools.arguments import check_names, converted, frozen_args
from windlass.tools.body import Body
from windlass.tools.declaration import DeclaredTool, ToolOptions, own_copy
from windlass.tools.hints import own_description
from windlass.tools.schema import default_as_json, object_schema, schemas_of
from windlass.tools.signature import Parameters, innermost, parameters_of

P = ParamSpec("P")
R = TypeVar("R")


class FunctionToolOptions(ToolOptions, total=False):
    """What may be said about a function that is a tool."""

    name: str | None
    description: str | None


class FunctionTool(DeclaredTool, Generic[P, R]):
    """A function and what a model and a turn must know about it. Made by `tool`."""

    __name__: str
    __wrapped__: Callable[P, R]

    def __init__(
        self,
        fn: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        **options: Unpack[ToolOptions],
    ) -> None:
        label = _label(fn)
        self._parameters = parameters_of(fn, field=label)
        self._schemas = _schemas(fn, self._parameters, label)
        self._required = frozenset(self._parameters.hints) - frozenset(self._parameters.defaults)
        spec = _spec(fn, name, description, self._schemas, self._required)
        super().__init__(spec, options)
        self._body = Body(fn, name=f"tool {spec.name}")
        self._fn = fn
        functools.update_wrapper(self, innermost(fn), updated=())

    @property
    def is_async(self) -> bool:
        """Whether the function is awaited; else it runs in a thread."""
        return self._body.is_async

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._fn(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.name} of {_label(self._fn)}>"

    def check(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments as the function takes them, made anew for this call.

        Raises:
            ArgsInvalid: naming the argument, what was found and what was wanted.
        """
        given = frozen_args(args)
        hints = self._parameters.hints
        check_names(given, hints, self._required)
        return {
            name: converted(name, value, hints[name], self._schemas[name])
            for name, value in given.items()
        }

    async def run(self, ctx: ToolContext[Any], args: Mapping[str, Any]) -> object:
        """Call the function with checked arguments and return what it returns."""
        own = own_copy(args)
        parameters = self._parameters
        if parameters.context is None:
            return await self._body.call(**own)
        if parameters.context_by_name:
            return await self._body.call(**{parameters.context: ctx}, **own)
        return await self._body.call(ctx, **own)


class _Decorator(Protocol):
    """Turns a function into a tool and keeps its signature."""

    def __call__(self, fn: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(fn: Callable[P, R], /, **options: Unpack[FunctionToolOptions]) -> FunctionTool[P, R]: ...
@overload
def tool(**options: Unpack[FunctionToolOptions]) -> _Decorator: ...
def tool(
    fn: Callable[..., Any] | None = None, /, **options: Unpack[FunctionToolOptions]
) -> FunctionTool[..., Any] | _Decorator:
    """Make a tool of a function: `@tool`, `@tool(effect="pure")` or `tool(fn, name="add")`.

    `effect` says what a crash may do to a call that began and has no recorded result: "once" (the
    default) is never run again, "pure" and "idempotent" are, "keyed" is with the same
    `ctx.idempotency_key`; `reconcile=fn` asks `fn(ctx, args)`. `retries` on "once" needs
    `not_started_retries=True`: then only `ToolError(not_started=True)` is tried again.

    Name, description and parameters are read from the function: its hints, its docstring.

    Raises:
        ConfigError: naming the function, and the parameter or the option.
    """
    if fn is None:

        def decorate(fn: Callable[P, R], /) -> FunctionTool[P, R]:
            return _made(fn, options)

        return decorate
    return _made(fn, options)


def _made(fn: Callable[P, R], options: FunctionToolOptions) -> FunctionTool[P, R]:
    if isinstance(fn, FunctionTool):
        raise _refused(f"tool {fn.name}", "a tool already", "a function")
    if isinstance(fn, type) or not callable(fn):
        raise _refused(
            "tool", f"{'a class' if isinstance(fn, type) else type(fn).__name__}", "a function"
        )
    inner = innermost(fn)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise _refused(_label(fn), "a generator function", "one that returns its result")
    return FunctionTool(fn, **options)


def _label(fn: Callable[..., object]) -> str:
    inner = innermost(fn)
    return (
        f"{getattr(inner, '__module__', '?')}.{getattr(inner, '__qualname__', type(fn).__name__)}"
    )


def _schemas(
    fn: Callable[..., object], parameters: Parameters, label: str
) -> dict[str, dict[str, Any]]:
    """Return the schema of each parameter, with its description and its default."""
    said = docstring.parse(getattr(innermost(fn), "__doc__", None)).parameters
    schemas = schemas_of(parameters.hints, field=label)
    for name, schema in schemas.items():
        if name in said and said[name] and own_description(parameters.hints[name]) is None:
            schema["description"] = said[name]
        default = default_as_json(parameters.defaults.get(name))
        if default is not ...:
            schema["default"] = default
    return schemas


def _spec(
    fn: Callable[..., object],
    name: str | None,
    description: str | None,
    schemas: dict[str, dict[str, Any]],
    required: frozenset[str],
) -> ToolSpec:
    label, inner = _label(fn), innermost(fn)
    if description is None:
        description = docstring.parse(getattr(inner, "__doc__", None)).description
    if name is None:
        name = getattr(inner, "__name__", "")
    in_order = [each for each in schemas if each in required]
    parameters = object_schema(schemas, in_order, field=label)
    try:
        return ToolSpec(name=name, description=description, parameters=parameters)
    except (InvalidInput, LimitExceeded) as error:
        raise ConfigError(
            f"{label}: {error}", field=error.field, found=error.found, wanted=error.wanted
        ) from None


def _refused(field: str, found: str, wanted: str) -> ConfigError:
    return ConfigError(
        f"{field}: found {found}, wanted {wanted}", field=field, found=found, wanted=wanted
    )

"""A function as a tool: still callable as it was, and described so that a model can call it."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import (
    Any,
    Concatenate,
    Generic,
    NotRequired,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

import msgspec

from windlass.errors import ConfigError, InvalidInput, LimitExceeded
from windlass.kernel.tool_call import MAX_NAME_CHARS, HandOff, ToolOutcome, ToolSpec
from windlass.kernel.value import FrozenDict, thaw
from windlass.ports.tool import ToolContext
from windlass.tools import docstring
from windlass.tools.arguments import build, check_names, converted, frozen_args
from windlass.tools.declaration import DeclaredTool, ToolOptions, has_only_atoms, own_copy
from windlass.tools.schema import check_size, default_as_json, schema_of_hint
from windlass.tools.signature import Parameters, innermost, own_description, parameters_of

D = TypeVar("D")
D_contra = TypeVar("D_contra", contravariant=True)
P = ParamSpec("P")
R = TypeVar("R")


class FunctionToolOptions(ToolOptions, total=False):
    """The options of a tool that is a function."""

    name: str | None
    description: str | None


class FunctionTool(DeclaredTool, Generic[D_contra, P, R]):
    """A function and what a model and a turn must know about it. Made by `tool`.

    Generic in the deps of its context, so that type checkers see which agents it fits; `object` if it has none.
    """

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
        said = docstring.parse(getattr(innermost(fn), "__doc__", None))
        self._parameters = parameters_of(fn, field=label)
        self._schemas = _schemas(self._parameters, said.parameters, label)
        self._required = frozenset(self._parameters.hints) - frozenset(self._parameters.defaults)
        self._shape = _shape(self._parameters.hints, self._required)
        parameters = {
            "type": "object",
            "properties": self._schemas,
            "required": [each for each in self._schemas if each in self._required],
            "additionalProperties": False,
        }
        if name is None:
            name = getattr(innermost(fn), "__name__", "")
        try:
            spec = ToolSpec(
                name=name,
                description=said.description if description is None else description,
                parameters=check_size(parameters, field=label),
            )
        except (InvalidInput, LimitExceeded) as error:
            raise ConfigError(
                f"{label}: {error}", field=error.field, found=error.found, wanted=error.wanted
            ) from None
        super().__init__(spec, fn, options)
        self.defaults = self._parameters.defaults
        self._fn = fn
        functools.update_wrapper(self, innermost(fn), updated=())

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._fn(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.name} of {_label(self._fn)}>"

    def check(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments as the function takes them, made anew for this call.

        Raises:
            ArgsInvalid: naming the argument, what was found and what was wanted.
        """
        # Frozen arguments are known to be JSON, so one conversion does. Only a refusal has to name the place.
        if type(args) is FrozenDict:
            plain = args if has_only_atoms(args) else thaw(args)
            try:
                made = msgspec.convert(plain, self._shape, dec_hook=build, str_keys=True)
            except (msgspec.ValidationError, RecursionError):
                pass
            else:
                if len(made) == len(args):  # else some are unknown, and were left out
                    return made  # type: ignore[no-any-return]  # a dict of its own
        return self._checked_one_by_one(args)

    def _checked_one_by_one(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        given = frozen_args(args)
        hints = self._parameters.hints
        check_names(given, hints, self._required)
        return {
            name: converted(name, value, hints[name], self._schemas[name])
            for name, value in given.items()
        }

    async def run(self, ctx: ToolContext[D_contra], args: Mapping[str, Any]) -> object:
        """Call the function with checked arguments and return what it returns."""
        own = args if has_only_atoms(args) else own_copy(args)
        parameters = self._parameters
        if parameters.context is None:
            return await self._body.call(**own)
        if parameters.context_by_name:
            return await self._body.call(**{parameters.context: ctx}, **own)
        return await self._body.call(ctx, **own)


class ToolMaker(Protocol):
    """What `@tool(...)` with options returns: it makes a tool of the function below it."""

    @overload
    def __call__(
        self, fn: Callable[Concatenate[ToolContext[D], P], R], /
    ) -> FunctionTool[D, Concatenate[ToolContext[D], P], R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> FunctionTool[object, P, R]: ...


@overload
def tool(
    fn: Callable[Concatenate[ToolContext[D], P], R], /, **options: Unpack[FunctionToolOptions]
) -> FunctionTool[D, Concatenate[ToolContext[D], P], R]: ...
@overload
def tool(
    fn: Callable[P, R], /, **options: Unpack[FunctionToolOptions]
) -> FunctionTool[object, P, R]: ...
@overload
def tool(**options: Unpack[FunctionToolOptions]) -> ToolMaker: ...
def tool(
    fn: Callable[..., Any] | None = None, /, **options: Unpack[FunctionToolOptions]
) -> FunctionTool[Any, ..., Any] | ToolMaker:
    """Make a tool of a function: `@tool`, `@tool(effect="pure")` or `tool(fn, name="add")`.

    `effect` says what a crash may do to a call that began and has no recorded result: "once" (the
    default) is never run again, "pure" and "idempotent" are, "keyed" is with the same
    `ctx.idempotency_key`; `reconcile=fn` asks `fn(ctx, args)`. `retries` on "once" needs
    `not_started_retries=True`: then only `ToolError(not_started=True)` is tried again.

    Name, description and parameters are read from the function: its hints, its docstring.

    Args:
        fn: The function: sync or async, with a hint for each parameter.
        **options: `name` and `description` replace those of the function. `effect` is one of `once`, `pure`,
            `idempotent`, `keyed`. `approval` is `never`, `ask`, or a function of the arguments. `risk` (`low`) is shown
            to the person who is asked. `timeout` is seconds for one attempt. `retries` (0) is how often a failed
            attempt is repeated. `sequential` runs it alone among the calls of a reply. `output_limit` is bytes of the
            result that the model is shown. `expose` is `always`, `deferred` (found by search) or `hidden`. `background`
            starts the body as a process: the model goes on at once, and the result wakes the session when it is there.
            `reconcile` asks whether an earlier attempt acted. `preview` says what a call would do, for the person who
            is asked; a unified diff is drawn as one.

    Raises:
        ConfigError: naming the function, and the parameter or the option.
    """
    if fn is None:
        return functools.partial(_made, options=options)
    return _made(fn, options)


_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_-]")


def handoff_tool(target: str) -> FunctionTool[object, [str], ToolOutcome]:
    """Return the tool with which a model hands its session off to an agent."""

    def transfer(task: str) -> ToolOutcome:
        """Hand the conversation over to another agent.

        Args:
            task: What that agent has to do, in words. It goes on with the conversation from here.
        """
        return ToolOutcome(
            value=f"Handed off to {target}.", control=HandOff(target=target, task=task)
        )

    name = f"transfer_to_{_NOT_IN_NAME.sub('_', target)}"[:MAX_NAME_CHARS]
    said = f"Hand the conversation over to the agent {target}. Your part ends with this call."
    return FunctionTool(transfer, name=name, description=said, effect="pure")


def _made(fn: Callable[P, R], options: FunctionToolOptions) -> FunctionTool[Any, P, R]:
    if isinstance(fn, FunctionTool):
        raise ConfigError.at(f"tool {fn.name}", "a tool already", "a function")
    if isinstance(fn, type) or not callable(fn):
        found = "a class" if isinstance(fn, type) else type(fn).__name__
        raise ConfigError.at("tool", found, "a function")
    inner = innermost(fn)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise ConfigError.at(_label(fn), "a generator function", "one that returns its result")
    return FunctionTool(fn, **options)


def _label(fn: Callable[..., object]) -> str:
    inner = innermost(fn)
    name = getattr(inner, "__qualname__", type(fn).__name__)
    return f"{getattr(inner, '__module__', '?')}.{name}"


def _schemas(
    parameters: Parameters, said: Mapping[str, str], label: str
) -> dict[str, dict[str, Any]]:
    """Return the schema of each parameter, with its description and its default."""
    schemas = {}
    for name, hint in parameters.hints.items():
        schema = schemas[name] = schema_of_hint(hint, field=f"{label}({name})")
        if said.get(name) and own_description(hint) is None:
            schema["description"] = said[name]
        default = default_as_json(parameters.defaults.get(name))
        if default is not ...:
            schema["default"] = default
    return schemas


def _shape(hints: Mapping[str, Any], required: frozenset[str]) -> Any:  # noqa: ANN401 - a type
    """Return all the parameters as one type, whose values are dicts of what was given."""
    fields = {name: hint if name in required else NotRequired[hint] for name, hint in hints.items()}
    return TypedDict("Arguments", fields)  # type: ignore[operator]  # its fields are known at run time

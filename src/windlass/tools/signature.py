"""A function's parameters as a model may fill them: each with a hint, the context taken out."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, NamedTuple, get_origin, get_type_hints

from windlass.errors import ConfigError
from windlass.ports.tool import ToolContext
from windlass.tools.hints import readable

# Importers move a name that is only a hint under TYPE_CHECKING, where nothing can evaluate it.
_CONTEXT_TEXT: Final = re.compile(
    r"\s*['\"]?(?:\w+\.)*ToolContext\s*(?:\[.*\])?['\"]?\s*\Z", re.DOTALL
)
_Kind = inspect.Parameter


class Parameters(NamedTuple):
    """What a function takes: `hints` for the model, `context` (a name) for the runner."""

    hints: dict[str, Any]
    defaults: dict[str, object]
    context: str | None
    context_by_name: bool


def innermost(fn: Callable[..., object]) -> Any:  # noqa: ANN401 - a function, a method, a builtin
    """Return the function that has the name, the hints and the docstring."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return fn if inspect.isroutine(fn) else getattr(type(fn), "__call__", fn)  # noqa: B004 - see `is_async`


def parameters_of(fn: Callable[..., object], *, field: str) -> Parameters:
    """Return the parameters of a function.

    Raises:
        ConfigError: naming the function and the parameter that a model cannot fill.
    """
    try:
        listed = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        raise _refused(field, "a function whose signature is hidden", "a Python function") from None
    fixed = fn.keywords if isinstance(fn, functools.partial) else {}
    listed = [each for each in listed if each.name not in fixed]
    written = getattr(innermost(fn), "__annotations__", {})
    context = None
    if listed and _is_context_text(written.get(listed[0].name)):
        context = listed.pop(0)
    hints = _evaluated(
        fn, {each.name: written.get(each.name, _Kind.empty) for each in listed}, field
    )
    if context is None and listed and _is_context(hints[listed[0].name]):
        context = listed.pop(0)
        del hints[context.name]
    for each in listed:
        _check(each, hints[each.name], field)
    return Parameters(
        hints={name: readable(hint, field=f"{field}({name})") for name, hint in hints.items()},
        defaults={each.name: each.default for each in listed if each.default is not _Kind.empty},
        context=None if context is None else context.name,
        context_by_name=context is not None and context.kind is _Kind.KEYWORD_ONLY,
    )


def _is_context(hint: object) -> bool:
    return hint is ToolContext or get_origin(hint) is ToolContext


def _is_context_text(written: object) -> bool:
    return isinstance(written, str) and _CONTEXT_TEXT.match(written) is not None


def _check(parameter: inspect.Parameter, hint: object, field: str) -> None:
    place = f"{field}({parameter.name})"
    if parameter.kind in (_Kind.VAR_POSITIONAL, _Kind.VAR_KEYWORD):
        raise _refused(place, str(parameter.kind.description) + " arguments", "named parameters")
    if parameter.kind is _Kind.POSITIONAL_ONLY:
        raise _refused(
            place, "a positional-only parameter", "one that can be given by name, as models do"
        )
    if hint is _Kind.empty:
        wanted = "a type hint"
        if parameter.name in {"self", "cls"}:
            wanted += "; of a method, make a tool when it is bound: tool(thing.method)"
        raise _refused(place, "no type hint", wanted)
    if _is_context(hint):
        raise _refused(place, "the ToolContext in a later place", "it as the first parameter")


def _evaluated(fn: Callable[..., object], written: dict[str, Any], field: str) -> dict[str, Any]:
    """Return hints whose text is evaluated where the function was written, each on its own."""
    inner = innermost(fn)
    inner = inspect.unwrap(getattr(inner, "__func__", inner))
    hints: dict[str, Any] = {}
    for name, hint in written.items():
        if hint is _Kind.empty:
            hints[name] = hint
            continue
        holder = _Holder({name: hint})
        try:
            hints[name] = _hint(holder, inner, name)
        except Exception as error:  # noqa: BLE001 - a hint as text may raise anything
            raise _refused(
                f"{field}({name})",
                f"a hint that cannot be evaluated ({type(error).__name__}: {error})",
                "a hint whose names are known where the tool is made",
            ) from None
    return hints


class _Holder:
    """Lets one annotation be evaluated at a time, so that a failure names its parameter."""

    def __init__(self, annotations: dict[str, Any]) -> None:
        self.__annotations__ = annotations


def _hint(holder: _Holder, inner: Any, name: str) -> Any:  # noqa: ANN401 - hints are any objects
    module = getattr(inner, "__globals__", {})
    try:
        return get_type_hints(holder, module, {}, include_extras=True)[name]
    except NameError:
        # A class made inside a function: its name is known where the decorator stands.
        return get_type_hints(holder, module, _names_around(), include_extras=True)[name]


def _names_around() -> dict[str, Any]:
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - the one way to see the caller's names
    while frame is not None and frame.f_globals.get("__name__", "").startswith("windlass.tools"):
        frame = frame.f_back
    return dict(frame.f_locals) if frame is not None else {}


def _refused(place: str, found: str, wanted: str) -> ConfigError:
    return ConfigError(
        f"{place}: found {found}, wanted {wanted}", field=place, found=found, wanted=wanted
    )

"""A function's parameters as a model may fill them: each with a hint that msgspec reads, the context taken out."""

from __future__ import annotations

import functools
import inspect
import operator
import re
import sys
import types
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Annotated, Any, Final, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from windlass.errors import ConfigError
from windlass.ports.tool import ToolContext
from windlass.tools.schema import is_from_pydantic, pattern_refused

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


def parameters_of(
    fn: Callable[..., object], *, field: str, context_first: bool = False
) -> Parameters:
    """Return the parameters of a function; `context_first`: whatever its hint, the first is the context.

    Raises:
        ConfigError: naming the function and the parameter that a model cannot fill.
    """
    try:
        listed = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        found = "a function whose signature is hidden"
        raise ConfigError.at(field, found, "a Python function") from None
    fixed = fn.keywords if isinstance(fn, functools.partial) else {}
    listed = [each for each in listed if each.name not in fixed]
    written = getattr(innermost(fn), "__annotations__", {})
    context = None
    if listed and (context_first or _is_context_text(written.get(listed[0].name))):
        context = listed.pop(0)
    own = {each.name: written.get(each.name, _Kind.empty) for each in listed}
    hints = _evaluated(fn, own, field)
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
        raise ConfigError.at(place, f"{parameter.kind.description} arguments", "named parameters")
    if parameter.kind is _Kind.POSITIONAL_ONLY:
        wanted = "one that can be given by name, as models do"
        raise ConfigError.at(place, "a positional-only parameter", wanted)
    if hint is _Kind.empty:
        wanted = "a type hint"
        if parameter.name in {"self", "cls"}:
            wanted += "; of a method, make a tool when it is bound: tool(thing.method)"
        raise ConfigError.at(place, "no type hint", wanted)
    if _is_context(hint):
        raise ConfigError.at(place, "the ToolContext in a later place", "it as the first parameter")


def _evaluated(fn: Callable[..., object], written: dict[str, Any], field: str) -> dict[str, Any]:
    """Return hints whose text is evaluated where the function was written, each on its own."""
    inner = innermost(fn)
    inner = inspect.unwrap(getattr(inner, "__func__", inner))
    hints: dict[str, Any] = {}
    for name, hint in written.items():
        if hint is _Kind.empty:
            hints[name] = hint
            continue
        try:
            hints[name] = _hint(hint, inner, name)
        except Exception as error:  # noqa: BLE001 - a hint as text may raise anything
            found = f"a hint that cannot be evaluated ({type(error).__name__}: {error})"
            wanted = "a hint whose names are known where the tool is made"
            raise ConfigError.at(f"{field}({name})", found, wanted) from None
    return hints


def _hint(written: object, inner: Any, name: str) -> Any:  # noqa: ANN401 - hints are any objects
    # One annotation at a time, so that a failure to evaluate it names its parameter.
    holder = types.SimpleNamespace(__annotations__={name: written})
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


# ---------------------------------------------------------------------------------- the hints

_LIMITS: Final = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length")
_UNIONS: Final = (Union, types.UnionType)


def readable(hint: Any, *, field: str) -> Any:  # noqa: ANN401 - a hint is any object
    """Return the hint with its notes as `msgspec.Meta`: text, limits, pydantic's `Field`.

    Raises:
        ConfigError: a limit that would be ignored without a word, or a regular expression.
    """
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        inner, *notes = args
        made = readable(inner, field=field)
        for meta in (meta for note in notes for meta in _metas(note, field)):
            made = Annotated[made, meta]
        return made
    if origin in _UNIONS:
        # As `A | B` is evaluated: one by one, since a hint may be None or a class.
        return functools.reduce(operator.or_, (readable(arg, field=field) for arg in args))
    if origin in {list, tuple, set, frozenset, dict}:
        inner_hints = tuple(arg if arg is ... else readable(arg, field=field) for arg in args)
        return origin[inner_hints]
    return hint


def own_description(hint: Any) -> str | None:  # noqa: ANN401 - a hint is any object
    """Return what a readable hint says about its parameter."""
    if get_origin(hint) is not Annotated:
        return None
    notes = [note.description for note in hint.__metadata__ if isinstance(note, msgspec.Meta)]
    return next((text for text in notes if text), None)


def _metas(note: object, field: str) -> Iterator[msgspec.Meta]:
    if isinstance(note, str):
        yield msgspec.Meta(description=note)
    elif isinstance(note, msgspec.Meta):
        yield note
    elif isinstance(text := getattr(note, "documentation", None), str):  # typing_extensions.Doc
        yield msgspec.Meta(description=text)
    elif is_from_pydantic(note):
        yield from _foreign_metas(note, field)
    # PEP 593: a tool ignores the notes it does not know.


def _foreign_metas(note: Any, field: str) -> Iterator[msgspec.Meta]:  # noqa: ANN401 - not a type of ours
    parts = getattr(note, "metadata", None)
    if isinstance(parts, list):  # pydantic's Field
        for part in parts:
            yield from _metas(part, field)
        if note.description:
            yield msgspec.Meta(description=note.description)
        return
    if getattr(note, "pattern", None) is not None:
        raise pattern_refused(field)
    limits = {name: getattr(note, name, None) for name in _LIMITS}
    given = {name: limit for name, limit in limits.items() if limit not in (None, 0)}
    if limits.get("min_length") == 0 and not given:
        return
    given |= {k: v for k, v in limits.items() if v == 0 and k != "min_length"}
    if not given:
        found = f"{type(note).__name__} in Annotated, which plain hints cannot keep"
        raise ConfigError.at(field, found, "limits that msgspec.Meta has, or a pydantic model")
    yield msgspec.Meta(**given)

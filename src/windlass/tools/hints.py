"""A parameter's hint as msgspec reads it: notes in `Annotated` become its limits and descriptions."""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Iterator
from typing import Annotated, Any, Final, Union, get_args, get_origin

import msgspec

from windlass.errors import ConfigError
from windlass.tools.pydantic_models import is_from_pydantic

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
        metas = [meta for note in notes for meta in _metas(note, field)]
        return _annotated(readable(inner, field=field), metas)
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


def _annotated(hint: Any, metas: list[msgspec.Meta]) -> Any:  # noqa: ANN401 - a hint is any object
    for meta in metas:
        hint = Annotated[hint, meta]
    return hint


def _metas(note: object, field: str) -> Iterator[msgspec.Meta]:
    if isinstance(note, str):
        yield msgspec.Meta(description=note)
    elif isinstance(note, msgspec.Meta):
        yield note
    elif isinstance(text := getattr(note, "documentation", None), str):  # typing_extensions.Doc
        yield msgspec.Meta(description=text)
    elif is_from_pydantic(note):
        yield from _foreign_metas(note, field)
    # Any other note is somebody else's business, as PEP 593 has it.


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
        kind = type(note).__name__
        raise ConfigError(
            f"{field}: found {kind} in Annotated, which plain hints cannot keep; "
            f"wanted limits that msgspec.Meta has, or a pydantic model",
            field=field,
            found=kind,
        )
    yield msgspec.Meta(**given)


def pattern_refused(field: str) -> ConfigError:
    """Return the refusal of a regular expression: one that backtracks would stop the whole process."""
    return ConfigError(
        f"{field}: found a regular expression, wanted none; check the text in the tool's body, "
        f"where it can raise ToolError",
        field=field,
        found="a regular expression",
    )

"""What a tool returned as plain JSON, by rules that never guess.

A value is taken apart only if its type says how: dataclasses, named tuples, enums, msgspec Structs,
pydantic models, dates, UUIDs, Decimals. For anything else nobody asked for its `str()`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final
from uuid import UUID

import msgspec

from windlass.errors import WindlassError
from windlass.guards.limits import DEFAULT_LIMITS
from windlass.kernel.value import Json, freeze
from windlass.tools.pydantic_models import dumped, is_model

_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
_WRITTEN_BY_MSGSPEC: Final = (datetime, date, time, timedelta, UUID, Decimal)
# Parts that are shared are written out wherever they stand; that can grow without bound.
_MAX_NODES: Final = 1_000_000


class NotPlain(Exception):
    """Says why a value has no JSON form, in words for a model."""


def as_json(value: object) -> Json:
    """Return the value as frozen JSON.

    Raises:
        NotPlain: it has no JSON form, or none within the limits.
    """
    try:
        if type(value) not in _PLAIN:
            value = _Walk().plain(value, DEFAULT_LIMITS.json_depth)
        return freeze(value, field="result")
    except WindlassError as error:
        raise NotPlain(str(error)) from None


class _Walk:
    """Counts what it has seen, so that a value that never ends does."""

    def __init__(self) -> None:
        self.room = _MAX_NODES

    def plain(self, value: object, depth: int) -> Json:
        self.room -= 1
        if self.room < 0 or depth < 0:
            limit = f"{DEFAULT_LIMITS.json_depth} levels and {_MAX_NODES:,} parts"
            raise NotPlain(f"it is larger than {limit}, or contains itself")
        if type(value) in _PLAIN:
            return value
        if isinstance(value, Enum):
            return self.plain(value.value, depth - 1)
        if isinstance(value, Mapping):
            return {_key(key): self.plain(item, depth - 1) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.plain(item, depth - 1) for item in value]
        if _is_dataclass(value):
            import dataclasses  # noqa: PLC0415 - whoever made the value has loaded it

            fields = dataclasses.fields(value)  # type: ignore[arg-type]  # it is one
            return {each.name: self.plain(getattr(value, each.name), depth - 1) for each in fields}
        return self.plain(_by_its_own_rules(value), depth)


def _is_dataclass(value: object) -> bool:
    return hasattr(type(value), "__dataclass_fields__")


def _key(key: object) -> str:
    if isinstance(key, Enum):
        key = key.value
    if not isinstance(key, str):
        raise NotPlain(f"it has a key of type {type(key).__name__}, and keys must be text")
    return str.__str__(key)


def _base_of(value: str | float) -> str | float:
    """Return what a subclass of a plain type, such as a number of numpy's, holds."""
    if isinstance(value, str):
        return str.__str__(value)
    return int.__int__(value) if isinstance(value, int) else float.__float__(value)


def _by_its_own_rules(value: Any) -> object:  # noqa: ANN401 - any value may be a result
    """Return what a type that writes itself makes of the value; it may hold more of them."""
    kind = type(value)
    if isinstance(value, (str, int, float)):
        return _base_of(value)
    try:
        if isinstance(value, msgspec.Struct):
            return msgspec.to_builtins(value, enc_hook=_foreign)
        if is_model(kind):
            return dumped(value)
        if isinstance(value, _WRITTEN_BY_MSGSPEC):
            return msgspec.to_builtins(value)
    except NotPlain:
        raise
    except Exception as error:  # noqa: BLE001 - the user's own type failed to write itself
        raise NotPlain(f"{kind.__name__} could not be written: {type(error).__name__}") from None
    raise NotPlain(f"there is no JSON for {kind.__name__}")


def _foreign(value: object) -> object:
    if _is_dataclass(value) or is_model(type(value)):
        return as_json(value)
    raise NotPlain(f"there is no JSON for {type(value).__name__}")

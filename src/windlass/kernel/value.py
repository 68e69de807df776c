"""What every value of windlass is made of: frozen structs, and JSON that cannot change.

Law 1. A value is immutable all the way down. Plain JSON inside a value (tool arguments, results,
    driver records) is a frozen copy: the caller may go on changing the original.
Law 2. Only JSON goes in: no NaN, no infinity, no key that is not text, no object that merely has
    a `str()`. What cannot be stored is refused where it is built, with the path to it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any, ClassVar, NoReturn, TypeAlias, dataclass_transform

import msgspec

from windlass.errors import CallerError, InvalidInput, LimitExceeded
from windlass.guards import INPUT_LIMITS, clean_text, is_clean

Json: TypeAlias = Any
"""None, bool, int, float, str, or lists and text-keyed dicts of these."""

_MAX_DEPTH = INPUT_LIMITS.json_depth
_MAX_KEYS = INPUT_LIMITS.json_keys
_MAX_INTEGER_BITS = INPUT_LIMITS.json_integer_bits
CLEAN_TEXT = "clean text"
_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


def snake_case(class_name: str) -> str:
    """`ToolCall` → `tool_call`: the stored tag of a class."""
    return _CAPITAL.sub("_", class_name).lower()


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Value(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag=snake_case,
    # Values are acyclic by construction, so the collector need not walk them.
    gc=False,
):
    """Base of all values: immutable, keyword-only, tagged, strict when decoded."""


class JsonValue(Value, kw_only=True):
    """A value some of whose fields hold plain JSON, frozen when it is built."""

    json_fields: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        """Replace each JSON field by its frozen copy."""
        for name in self.json_fields:
            if type(getattr(self, name)) not in _FROZEN:
                self._freeze_field(name)

    def _freeze_field(self, name: str) -> None:
        given = getattr(self, name)
        try:
            frozen = _freeze(given, _MAX_DEPTH)
        except _Refused as refused:
            raise refused.error(f"{type(self).__name__}.{name}") from None
        if frozen is not given:
            set_field(self, name, frozen)


set_field = msgspec.structs.force_setattr


def repair_text(value: Value, *names: str) -> None:
    """Clean text fields that a model, a tool or a provider wrote: they are repaired, not refused."""
    for name in names:
        given = getattr(value, name)
        if given is None or (type(given) is str and given.isascii() and "\x00" not in given):
            continue
        if type(given) is not str:
            check_instance(given, str, field=f"{type(value).__name__}.{name}")
        if not is_clean(given):
            set_field(value, name, clean_text(given))


def check_instance(found: object, wanted: type, *, field: str) -> None:
    """Refuse a value of another kind.

    Raises:
        InvalidInput: naming both.
    """
    if not isinstance(found, wanted):
        raise InvalidInput.at(field, type(found).__name__, wanted.__name__)


def use_default(value: Value, name: str, default: object) -> None:
    """Put the default itself where an equal object was given.

    The encoder leaves a default out when it is the very object, not when it is merely equal, and equal
    values must give equal bytes. Needed where a default is text or a struct; small integers, None,
    empty text and empty tuples are one object each.
    """
    given = getattr(value, name)
    if given is not default and given == default:
        set_field(value, name, default)


def _refuse_change(self: object, *_args: object, **_kwargs: object) -> NoReturn:
    raise TypeError(f"{type(self).__name__} is part of a frozen value; copy it to change it")


class FrozenDict(dict[str, Json]):
    """A dict that is equal to, and encodes as, the one it was copied from, but never changes."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = _refuse_change
    clear = pop = popitem = setdefault = update = _refuse_change


class FrozenList(list[Json]):
    """A list that is equal to, and encodes as, the one it was copied from, but never changes."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse_change
    append = clear = extend = insert = pop = remove = _refuse_change
    reverse = sort = _refuse_change


EMPTY_DICT = FrozenDict()
_FROZEN = frozenset({FrozenDict, FrozenList, type(None), bool})
_TEXT = frozenset({str})


def freeze(value: object, *, field: str = "value", depth: int = 0) -> Json:
    """Return a deep frozen copy of plain JSON, which stands inside something of that depth.

    Raises:
        InvalidInput: something in it is not JSON; `field` is the path to it.
        LimitExceeded: it is nested too deeply (which also ends a value that contains itself) or
            an object has too many keys.
    """
    try:
        return _freeze(value, _MAX_DEPTH - depth)
    except _Refused as refused:
        raise refused.error(field) from None


def thaw(value: Json) -> Json:
    """Return a plain, changeable deep copy of frozen JSON."""
    if isinstance(value, dict):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, list):
        return [thaw(item) for item in value]
    return value


class _Refused(Exception):
    """Carries a refusal outwards; each container it passes adds its step to the path.

    Paths are built only for what is refused: building one per leaf would cost more than the copy.
    """

    def __init__(self, found: str, wanted: str, *, limit: bool = False) -> None:
        self.found = found
        self.wanted = wanted
        self.limit = limit
        self.steps: list[str] = []

    def error(self, field: str) -> CallerError:
        path = field + "".join(reversed(self.steps))
        kind = LimitExceeded if self.limit else InvalidInput
        return kind.at(path, self.found, self.wanted)


def _freeze(value: object, room: int) -> Json:
    kind = type(value)
    if kind is str:
        if not is_clean(value):  # type: ignore[arg-type]
            raise _Refused("NUL or a lone surrogate", CLEAN_TEXT)
        return value
    if kind in _FROZEN:
        return value
    if isinstance(value, dict):
        return _freeze_dict(value, room - 1)
    if kind is int:
        if value.bit_length() > _MAX_INTEGER_BITS:  # type: ignore[attr-defined]
            raise _Refused("a huge integer", f"at most {_MAX_INTEGER_BITS:,} bits")
        return value
    if kind is float:
        if not math.isfinite(value):  # type: ignore[arg-type]
            raise _Refused(str(value), "a finite number")
        return value
    if isinstance(value, (list, tuple)):
        return _freeze_list(value, room - 1)
    raise _Refused(kind.__name__, "JSON (null, bool, number, text, list or dict)")


def _freeze_dict(value: dict[Any, object], room: int) -> FrozenDict:
    if room < 0:
        raise _too_deep()
    if not value:
        return EMPTY_DICT
    if len(value) > _MAX_KEYS:
        raise _Refused(f"{len(value):,} keys", f"at most {_MAX_KEYS:,}", limit=True)
    # Copied before it is looked at: nothing that is checked here changes any more.
    copied = FrozenDict(value)
    if not _TEXT.issuperset(map(type, copied)):
        raise _bad_key(copied)
    keys = "".join(copied)
    # Almost all keys are plain ASCII; checking that here saves a call.
    if (not keys.isascii() or "\x00" in keys) and not is_clean(keys):
        raise _bad_key(copied)
    if _is_flat(copied.values()):
        return copied
    items = {}
    for key, item in copied.items():
        try:
            items[key] = _freeze(item, room)
        except _Refused as refused:
            refused.steps.append(f".{key[:40]}")
            raise
    return FrozenDict(items)


def _freeze_list(value: list[object] | tuple[object, ...], room: int) -> FrozenList:
    if room < 0:
        raise _too_deep()
    copied = FrozenList(value)
    if _is_flat(copied):
        return copied
    items = []
    for item in copied:
        try:
            items.append(_freeze(item, room))
        except _Refused as refused:
            refused.steps.append(f"[{len(items)}]")
            raise
    return FrozenList(items)


def _is_flat(items: Iterable[object]) -> bool:
    """Whether these are plain scalars and what is frozen: then a copy is all they need."""
    for item in items:
        kind = type(item)
        if kind is str:
            if not item.isascii() or "\x00" in item:  # type: ignore[attr-defined,operator] # text
                return False
        elif kind is int:
            if item.bit_length() > _MAX_INTEGER_BITS:  # type: ignore[attr-defined] # an integer
                return False
        elif kind is float:
            if not math.isfinite(item):  # type: ignore[arg-type] # a float
                return False
        elif kind not in _FROZEN:
            return False
    return True


def _too_deep() -> _Refused:
    return _Refused(f"more than {_MAX_DEPTH} levels", f"at most {_MAX_DEPTH} levels", limit=True)


def _bad_key(value: dict[Any, object]) -> _Refused:
    kinds = [type(key) for key in value if type(key) is not str]
    if kinds:
        return _Refused(f"a key of type {kinds[0].__name__}", "text keys")
    return _Refused("a key with NUL or a lone surrogate", CLEAN_TEXT)

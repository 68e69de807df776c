"""A value that came out of the sandbox, written out as Python would, within a length.

Law 1. It takes time and memory in proportion to the length, not to the value: parts that are shared, nested deeply or
    huge are cut before they are written.
Law 2. It calls nothing that the code of the sandbox could have chosen, and never raises.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

_CUT: Final = "…"
_MAX_DEPTH: Final = 50
# CPython refuses to write integers of more than 4,300 digits.
_MAX_BITS: Final = 14_000
_BRACKETS: Final[dict[type, tuple[str, str]]] = {
    list: ("[", "]"), tuple: ("(", ")"), set: ("{", "}"), frozenset: ("frozenset({", "})"),
}  # fmt: skip


class _Full(Exception):
    """The length is reached."""


def written(value: object, *, most: int = 8_192) -> str:
    """Return a value as an expression, of `most` characters and a `…` at most.

    Args:
        value: What came out of the sandbox.
        most: How many characters are written.
    """
    writer = _Writer(most)
    try:
        writer.write(value, 0)
    except _Full:
        return "".join(writer.parts)[:most] + _CUT
    return "".join(writer.parts)


class _Writer:
    __slots__ = ("parts", "room")

    def __init__(self, room: int) -> None:
        self.parts: list[str] = []
        self.room = room

    def put(self, text: str) -> None:
        self.parts.append(text)
        self.room -= len(text)
        if self.room < 0:
            raise _Full

    def write(self, value: Any, depth: int) -> None:  # noqa: ANN401 - any value of the sandbox
        kind = type(value)
        if depth > _MAX_DEPTH:
            self.put(_CUT)
        elif kind is dict:
            self.mapping(value, depth)
        elif isinstance(value, tuple) and hasattr(kind, "_fields"):
            self.named(kind.__name__, zip(kind._fields, value, strict=False), depth)
        elif kind in _BRACKETS:
            self.sequence(value, kind, depth)
        elif kind.__name__ == "MontyClassProxy":
            self.object(value, depth)
        else:
            self.put(_atom(value, self.room + 2))

    def mapping(self, value: dict[Any, Any], depth: int) -> None:
        self.put("{")
        for n, (key, item) in enumerate(value.items()):
            self.put(", " if n else "")
            self.write(key, depth + 1)
            self.put(": ")
            self.write(item, depth + 1)
        self.put("}")

    def sequence(self, value: Any, kind: type, depth: int) -> None:  # noqa: ANN401 - see above
        if kind in (set, frozenset) and not value:
            self.put(f"{kind.__name__}()")
            return
        opens, closes = _BRACKETS[kind]
        self.put(opens)
        for n, item in enumerate(value):
            self.put(", " if n else "")
            self.write(item, depth + 1)
        self.put("," if kind is tuple and len(value) == 1 else "")
        self.put(closes)

    def object(self, value: Any, depth: int) -> None:  # noqa: ANN401 - see above
        name, attributes = str(value.name), value.attributes
        if value.is_dataclass:
            self.named(name, attributes.items(), depth)
        else:
            self.put(f"<{name} object>")

    def named(self, name: str, fields: Iterable[tuple[str, Any]], depth: int) -> None:
        self.put(f"{name}(")
        for n, (field, item) in enumerate(fields):
            self.put(f"{', ' if n else ''}{field}=")
            self.write(item, depth + 1)
        self.put(")")


def _atom(value: Any, room: int) -> str:  # noqa: ANN401 - see above
    """Return a value without parts, written out; a text or number that is too long is cut before that."""
    try:
        if isinstance(value, int) and value.bit_length() > _MAX_BITS:
            return f"<int of {value.bit_length():,} bits>"
        if isinstance(value, (str, bytes)):
            return repr(value[:room])
        if isinstance(value, BaseException):
            said = str(value)
            return f"{type(value).__name__}({said[:room]!r})"
        return repr(value)
    except Exception:  # noqa: BLE001 - a value that cannot be written is named
        return f"<{type(value).__name__}>"

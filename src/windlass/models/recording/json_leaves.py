"""The strings and numbers in JSON text, each with its place in the text: what scrubbing writes anew.

Read here and not by a parser, which forgets how a value was written: everything that is not changed has to stay
as it came, to the byte. In a stream of events, every event's JSON is looked at; what is not JSON is a leaf of its own.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple, TypeAlias

from windlass.kernel import canonical

Kind: TypeAlias = Literal["string", "number", "key", "other"]
_Inside: TypeAlias = "tuple[tuple[dict[str, str], str | int], ...]"

_BLANKS: Final = re.compile(r"[ \t\r\n]*")
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_SCALAR: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null")
_LINE: Final = re.compile(r"[^\r\n]+")
_DATA: Final = re.compile(r"data: ?")
_MAX_DEPTH: Final = 200
# What tells texts apart that grow in the same place of many events.
_MARKS: Final = frozenset(
    {"index", "output_index", "item_id", "content_index", "summary_index", "thought"}
)


class Leaf(NamedTuple):
    """A string, a number or a key of JSON, or words that are not JSON (`other`).

    `start` and `end` are its place, a string's without its quotes; `name` is the nearest key above it. Leaves of one
    `place` are the pieces of one text.
    """

    start: int
    end: int
    value: str
    kind: Kind
    name: str = ""
    place: tuple[object, ...] = ()
    depth: int = 0


def leaves_of(text: str) -> list[Leaf]:
    """Return all leaves of a text: of JSON, or of a stream of events."""
    found = _in_json(text, 0, len(text))
    if found is not None:
        return found
    found = []
    for line in _LINE.finditer(text):
        data = _DATA.match(line[0])
        start = line.start() + (data.end() if data else 0)
        inside = _in_json(text, start, line.end()) if data else None
        if inside is None:
            words = text[start : line.end()]
            inside = [Leaf(start, line.end(), words, "other", place=(start,))]
        found += inside
    return found


class _Scan:
    """Goes through the JSON between two places of a text."""

    def __init__(self, text: str, end: int) -> None:
        self._text = text
        self._end = end
        self.found: list[tuple[int, int, Kind, _Inside]] = []

    def value(self, at: int, inside: _Inside) -> int:
        """Return where the value ends that begins at a place.

        Raises:
            ValueError: this is not JSON.
        """
        first = self._text[at : at + 1] if at < self._end else ""
        if first == '"':
            return self._string(at, "string", inside)
        if first in ("{", "[") and len(inside) < _MAX_DEPTH:
            return self._members(at, inside, is_object=first == "{")
        scalar = _SCALAR.match(self._text, at, self._end)
        if scalar is None:
            raise ValueError("not JSON")
        if scalar[0][-1].isdigit():
            self.found.append((at, scalar.end(), "number", inside))
        return scalar.end()

    def _string(self, at: int, kind: Kind, inside: _Inside) -> int:
        string = _STRING.match(self._text, at, self._end)
        if string is None:
            raise ValueError("not JSON")
        self.found.append((at + 1, string.end() - 1, kind, inside))
        return string.end()

    def _members(self, at: int, inside: _Inside, *, is_object: bool) -> int:
        marks: dict[str, str] = {}
        number, closing = 0, "}" if is_object else "]"
        at = self.skip(at + 1)
        while not self._is(at, closing):
            if number:
                at = self._after(at, ",")
            key: str | int = number
            if is_object:
                start, at = at, self._string(at, "key", inside)
                key = self._text[start + 1 : at - 1]
                at = self._after(self.skip(at), ":")
            start, at = at, self.value(at, (*inside, (marks, key)))
            if key in _MARKS or (key == "type" and not inside):
                marks[str(key)] = self._text[start:at]
            number += 1
            at = self.skip(at)
        return at + 1

    def _is(self, at: int, char: str) -> bool:
        if at >= self._end:
            raise ValueError("not JSON")
        return self._text[at] == char

    def _after(self, at: int, char: str) -> int:
        if not self._is(at, char):
            raise ValueError("not JSON")
        return self.skip(at + 1)

    def skip(self, at: int) -> int:
        """Return where something begins again."""
        blanks = _BLANKS.match(self._text, at, self._end)
        return at if blanks is None else blanks.end()


def _in_json(text: str, start: int, end: int) -> list[Leaf] | None:
    """Return the leaves of the JSON between two places; None if it is not JSON."""
    scan = _Scan(text, end)
    try:
        if scan.skip(scan.value(scan.skip(start), ())) != end:
            return None
        return [_leaf(text, *each) for each in scan.found]
    except ValueError:
        return None


def _leaf(text: str, start: int, end: int, kind: Kind, inside: _Inside) -> Leaf:
    written = text[start:end]
    value = str(canonical.parse(f'"{written}"')) if "\\" in written else written
    if kind == "key":
        return Leaf(start, end, value, kind, place=("key", start))
    names = [key for _, key in inside if isinstance(key, str)]
    return Leaf(
        start, end, value, kind, names[-1] if names else "", _place(kind, inside), len(inside)
    )


def _place(kind: Kind, inside: _Inside) -> tuple[object, ...]:
    place: list[object] = [kind]
    for at, (marks, key) in enumerate(inside):
        below = inside[at + 1][0] if at + 1 < len(inside) else {}
        # A piece of a call says by itself which call it is of, wherever it stands in its list.
        is_numbered = isinstance(key, int) and "index" in below
        place += [None if is_numbered else key, *sorted(marks.items())]
    return tuple(place)

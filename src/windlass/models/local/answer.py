"""A reply held to a schema, read while it is written: the words of an answer are shown before it is over."""

from __future__ import annotations

import re

from windlass.errors import CallerError
from windlass.guards.text import clean_text
from windlass.kernel import canonical
from windlass.kernel.value import Json
from windlass.models.local.prompt import ANSWER

_OPENING = re.compile(rf'\s*\{{\s*"{ANSWER}"\s*:\s*"')
_HIGH = r"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW = r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
# As much of a JSON string as can be read already: no escape that is cut, no half of a pair that may still come.
_READABLE = re.compile(
    r'(?:[^"\\\x00-\x1f]'
    r'|\\["\\/bfnrt]'
    r"|\\u(?![dD][89abAB])[0-9a-fA-F]{4}"
    rf"|{_HIGH}{_LOW}"
    rf"|{_HIGH}(?=[^\\]|\\[^u]|\\u[^dD]|\\u[dD][^c-fC-F]))*"
)
_ESCAPE = re.compile(rf"{_HIGH}{_LOW}|\\u[0-9a-fA-F]{{4}}|\\.")
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class AnswerReader:
    """Takes a reply piece by piece and gives out the words for the user, without the JSON around them."""

    def __init__(self) -> None:
        self._written: list[str] = []
        self._shown: list[str] = []
        self._unread = ""
        self._is_open = False

    def feed(self, piece: str) -> str:
        """Take a piece; return the words that can be shown now."""
        self._written.append(piece)
        self._unread += piece
        if not self._is_open:
            opening = _OPENING.match(self._unread)
            if opening is None:
                return ""
            self._unread, self._is_open = self._unread[opening.end() :], True
        return self._read()

    def _read(self) -> str:
        found = _READABLE.match(self._unread)
        segment = found.group() if found else ""
        if not segment:
            return ""
        self._unread = self._unread[len(segment) :]
        words = clean_text(_ESCAPE.sub(_unescaped, segment))
        self._shown.append(words)
        return words

    @property
    def shown(self) -> str:
        """All words that were given out."""
        return "".join(self._shown)

    @property
    def has_begun(self) -> bool:
        """Whether it is an answer in words, as far as it is written."""
        return self._is_open

    @property
    def written(self) -> str:
        """All that the model wrote."""
        return "".join(self._written)


def _unescaped(escape: re.Match[str]) -> str:
    found = escape.group()
    if found[1] != "u":
        return _SHORT.get(found[1], found[1])
    units = bytes.fromhex(found.replace("\\u", ""))
    return units.decode("utf-16-be", "surrogatepass")


def read_object(text: str) -> dict[str, Json] | None:
    """Return the JSON object that a text is; None if it is cut, or another thing."""
    try:
        found = canonical.parse(text)
    except (ValueError, CallerError):
        return None
    return found if isinstance(found, dict) else None

"""Text that every store, wire and provider can carry: no lone surrogate, no NUL.

A lone surrogate cannot be written as UTF-8. PostgreSQL refuses NUL where SQLite takes it; windlass
refuses it on every store alike. Bad text from users and programs is refused (`check_text`); text that a
model or a tool produced has been paid for and is repaired instead (`clean_text`).

Where a person decides by what they read, characters that cannot be seen, or that move others, are written out
(`visible`).
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Iterator

from windlass.errors import ConfigError, InvalidInput
from windlass.guards.limits import check_limit

_REPLACEMENT = "\ufffd"
# A Python string holds a surrogate only when it is alone: a pair is one character.
_BAD = re.compile("[\x00\ud800-\udfff]")

LARGE = 256 * 1024
"""From so many bytes or characters on, work on a value takes long enough for others to notice: it is done off the
event loop, a piece at a time."""
_PIECE = 1024 * 1024


def pieces(text: str) -> Iterator[str]:
    """Return a text in pieces. A thread that goes through them lets the others run in between."""
    return (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))


def utf8(text: str) -> bytes:
    """Return the bytes of a text of any length, made piece by piece."""
    return b"".join([piece.encode() for piece in pieces(text)])


# Printable as far as Unicode goes, and yet nothing is to be seen: fillers, joiners, blank patterns, variation selectors.
_BLANK = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    + "".join(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
)


def from_utf8(data: bytes) -> str:
    """Return the text of bytes of any length, read piece by piece; what is not UTF-8 is replaced by U+FFFD."""
    decoder = getincrementaldecoder("utf-8")("replace")
    read = [decoder.decode(data[at : at + _PIECE]) for at in range(0, len(data), _PIECE)]
    return "".join([*read, decoder.decode(b"", final=True)])


def utf8_length(text: str) -> int:
    """Return how many bytes a text of any length has."""
    return len(text) if text.isascii() else sum(len(piece.encode()) for piece in pieces(text))


def is_clean(text: str) -> bool:
    """Whether `text` can be stored and sent everywhere."""
    if not text.isascii():
        try:
            for piece in pieces(text) if len(text) > _PIECE else (text,):
                piece.encode()
        except UnicodeEncodeError:
            return False
    return "\x00" not in text


def check_text(text: object, *, field: str) -> str:
    """Return `text` if it is clean.

    Raises:
        InvalidInput: naming the field and the place of the first bad character.
    """
    if not isinstance(text, str):
        raise InvalidInput.at(field, type(text).__name__, "text")
    # Most text is plain ASCII; checking that here saves a call.
    if (text.isascii() and "\x00" not in text) or is_clean(text):
        return text
    place, found = _first_bad(text)
    raise InvalidInput(
        f"{field}: found {found} at character {place}, wanted text without it",
        field=field,
        found=found,
        wanted="text without NUL and lone surrogates",
    )


def check_words(words: object, *, field: str) -> str:
    """Return `words`, a name or a reason, if it is clean and within the limits.

    Raises:
        InvalidInput: it is not clean text.
        LimitExceeded: it is too long.
    """
    checked = check_text(words, field=field)
    check_limit("metadata_bytes", len(checked.encode()), field=field)
    return checked


def clean_text(text: str) -> str:
    """Return `text` with each NUL and each lone surrogate replaced by U+FFFD."""
    if is_clean(text):
        return text
    # NUL first: a text of nothing else would be a match of the pattern for each character.
    cleaned = (piece.replace("\x00", _REPLACEMENT) for piece in pieces(text))
    return "".join(_BAD.sub(_REPLACEMENT, piece) for piece in cleaned)


def words_of(error: BaseException) -> str:
    """Return what an exception says, clean; one that cannot say it is called by its name alone."""
    try:
        return clean_text(str(error))
    except Exception:  # noqa: BLE001 - foreign code: whatever it raises, there is nothing to quote
        return ""


def is_hidden(char: str) -> bool:
    """Whether a reader does not see this character: a control, a format or direction mark, an odd space, a blank letter."""
    return not char.isprintable() or char in _BLANK


def escaped(char: str) -> str:
    """Return a character as JSON escapes it: four hex digits, or two times four beyond the basic plane."""
    code = ord(char)
    if code > 0xFFFF:
        code -= 0x10000
        return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
    return f"\\u{code:04x}"


def visible(text: str, *, keep: str = "") -> str:
    """Return `text` with each hidden character escaped, but for those to `keep`. Inside of JSON it is the same value."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(escaped(one) if one not in keep and is_hidden(one) else one for one in text)


def _first_bad(text: str) -> tuple[int, str]:
    found = _BAD.search(text)
    assert found is not None  # noqa: S101 - it is not clean
    return found.start(), "NUL" if found[0] == "\x00" else "a lone surrogate"


def check_version(found: object, *, field: str) -> None:
    """Refuse a version that is not clean text: 1 is a number, "1" is a version.

    Versions are recorded with each turn and have to be read again.

    Raises:
        ConfigError: naming the field.
    """
    if isinstance(found, str) and is_clean(found):
        return
    raise ConfigError.at(field, type(found).__name__, 'clean text, such as "1"')

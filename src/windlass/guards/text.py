"""Text that every store, wire and provider can carry: no lone surrogate, no NUL.

A lone surrogate cannot be written as UTF-8. PostgreSQL refuses NUL where SQLite takes it; windlass
refuses it on every store alike. Bad text from users and programs is refused (`check_text`); text that a
model or a tool produced has been paid for and is repaired instead (`clean_text`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from windlass.errors import ConfigError, InvalidInput

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


def clean_text(text: str) -> str:
    """Return `text` with each NUL and each lone surrogate replaced by U+FFFD."""
    if is_clean(text):
        return text
    return "".join(_BAD.sub(_REPLACEMENT, piece) for piece in pieces(text))


def words_of(error: BaseException) -> str:
    """Return what an exception says, clean; one that cannot say it is called by its name alone."""
    try:
        return clean_text(str(error))
    except Exception:  # noqa: BLE001 - foreign code: whatever it raises, there is nothing to quote
        return ""


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

"""Files at the door: bytes, their media type and their name, as a provider takes them and a header can carry them."""

from __future__ import annotations

import re

from windlass.errors import InvalidInput
from windlass.guards.text import check_text

_WORD = r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}"
_PARAMETER = rf'[ \t]*;[ \t]*{_WORD}=(?:{_WORD}|"[A-Za-z0-9 !#$&^_.+:/=-]{{0,126}}")'
_MEDIA_TYPE = re.compile(rf"{_WORD}/{_WORD}(?:{_PARAMETER}){{0,8}}\Z")
_MAX_NAME_CHARS = 255
# Control characters, path separators, and marks that change the direction or the line of what is shown.
_NOT_IN_NAME = re.compile("[\x00-\x1f\x7f-\x9f/\\\\\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
# How files of these types begin; providers refuse others under their name.
_BEGINNINGS: dict[str, re.Pattern[bytes]] = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF....WEBP", re.DOTALL),
    # Readers look for it in the first 1,024 bytes.
    "application/pdf": re.compile(rb".{0,1019}%PDF-", re.DOTALL),
}


def check_media_type(found: object, *, field: str) -> str:
    """Return a media type that is `type/subtype`, with parameters or without.

    Raises:
        InvalidInput: it is something else.
    """
    media_type = check_text(found, field=field)
    if _MEDIA_TYPE.match(media_type) is None:
        what = f"{len(media_type):,} characters that are not one" if media_type else "nothing"
        raise InvalidInput.at(field, what, "a media type such as image/png")
    return media_type


def check_file_name(found: object, *, field: str) -> str | None:
    """Return the name of a file, without a folder; None: it has none.

    Raises:
        InvalidInput: it is empty, too long, a path, or has characters that do not show.
    """
    if found is None:
        return None
    name = check_text(found, field=field)
    wanted = f"the name of a file, of 1 to {_MAX_NAME_CHARS} characters, without its folder"
    if not name or len(name) > _MAX_NAME_CHARS:
        raise InvalidInput.at(field, f"{len(name):,} characters", wanted)
    bad = _NOT_IN_NAME.search(name)
    if bad is not None:
        raise InvalidInput.at(field, f"U+{ord(bad[0]):04X} at character {bad.start()}", wanted)
    if name in (".", ".."):
        raise InvalidInput.at(field, "the name of a folder", wanted)
    return name


def media_type_of(data: bytes) -> str | None:
    """Return the type that the beginning of a file tells, of those that providers look into; None: another."""
    return next((name for name, begins in _BEGINNINGS.items() if begins.match(data)), None)


def check_file(data: bytes, media_type: str, *, field: str) -> None:
    """Refuse bytes that no provider takes under this media type.

    Raises:
        InvalidInput: there are none, or they are obviously of another type.
    """
    if not data:
        raise InvalidInput.at(field, "no bytes", "a file that is not empty")
    kind = media_type.partition(";")[0].strip().lower()
    begins = _BEGINNINGS.get("image/jpeg" if kind == "image/jpg" else kind)
    if begins is None or begins.match(data) is not None:
        return
    other = media_type_of(data)
    found = f"the bytes of {other}" if other else "bytes that do not begin like it"
    next_step = f"media_type={other!r}" if other else "the media type that the bytes have"
    raise InvalidInput(
        f"{field}: found {found}, wanted {kind}; give {next_step}",
        field=field,
        found=found,
        wanted=kind,
    )

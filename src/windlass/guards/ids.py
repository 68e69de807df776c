"""Ids are checked text: short, printable, the same on every store, file system and URL path."""

from __future__ import annotations

import re

from windlass.errors import InvalidInput
from windlass.guards.limits import INPUT_LIMITS

# No space and no "/": an id is one segment of a replay key and of a URL path.
# \Z, not $: in Python "$" also matches before a final newline.
_MAX_CHARS = INPUT_LIMITS.id_chars
_ID = re.compile(rf"[A-Za-z0-9._:\-@+=~|]{{1,{_MAX_CHARS}}}\Z")


def is_id(value: object) -> bool:
    """Whether `value` may name something."""
    return isinstance(value, str) and _ID.match(value) is not None


def check_id(value: object, *, field: str) -> str:
    """Return `value` if it is an id.

    Raises:
        InvalidInput: naming the field and what is wrong with it. The id itself is not shown when
            it is long or unprintable, since it came from outside.
    """
    if isinstance(value, str) and _ID.match(value):
        return value
    raise InvalidInput(
        f"{field}: {_what_is_wrong(value)}; an id is 1 to {_MAX_CHARS} of A-Z a-z 0-9 . _ : - @ + = ~ |",
        field=field,
        found=_what_is_wrong(value),
        wanted="an id",
    )


def _what_is_wrong(value: object) -> str:
    if not isinstance(value, str):
        return f"found {type(value).__name__}, not text"
    if not value:
        return "found empty text"
    if len(value) > _MAX_CHARS:
        return f"found {len(value):,} characters"
    bad = next(char for char in value if not _ID.match(char))
    return f"found the character U+{ord(bad):04X}"

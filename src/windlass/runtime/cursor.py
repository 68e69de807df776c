"""Cursors: the text in which a reader carries its place in a live feed from one connection to the next.

It comes back from outside, so it is read as hostile: whatever this feed did not write names no place.
"""

from __future__ import annotations

from windlass.errors import InvalidInput

# No feed counts that far; longer digits are not worth converting.
_MAX_DIGITS = 18


def write_cursor(incarnation: str, position: int) -> str:
    """Name the place behind the event at `position` of one incarnation of a feed."""
    return f"{incarnation}.{position}"


def read_cursor(text: str, incarnation: str) -> int | None:
    """Return the position that a cursor of this incarnation names, None for any other text.

    Raises:
        InvalidInput: it is not even text.
    """
    if not isinstance(text, str):
        found = type(text).__name__
        raise InvalidInput(
            f"cursor: found {found}, wanted text", field="cursor", found=found, wanted="text"
        )
    place = text.rpartition(".")[2]
    if not place.isascii() or not place.isdigit() or len(place) > _MAX_DIGITS:
        return None
    position = int(place)
    return position if text == write_cursor(incarnation, position) else None

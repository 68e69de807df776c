"""Marks: how far the changes of a store were read, as text that means nothing to its holder.

A mark names its store and counts what was written up to it. It comes back from clients, so it is read as hostile text:
one of another store, or of something that this store has not written yet, is refused.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256

from windlass.errors import InvalidInput

_MARK = re.compile(r"([0-9a-f]{12})((?:\.[0-9]{1,19}){1,2})", re.ASCII)


def write_mark(store_id: str, *counts: int) -> str:
    """Return the mark of a moment at which so much was written."""
    return ".".join((_tag(store_id), *map(str, counts)))


def read_mark(mark: object, store_id: str, now: tuple[int, ...]) -> tuple[int, ...]:
    """Return what a mark counts; `now` is what it would count at this moment.

    Raises:
        InvalidInput: it is not a mark of this store, or ahead of it.
    """
    found = _MARK.fullmatch(mark) if isinstance(mark, str) else None
    if found is None:
        raise _refused("something else")
    if found[1] != _tag(store_id):
        raise _refused("one of another store")
    counts = tuple(int(count) for count in found[2].split(".")[1:])
    if len(counts) != len(now) or any(map(int.__gt__, counts, now)):
        raise _refused("one of what this store has not written")
    return counts


def _refused(found: str) -> InvalidInput:
    return InvalidInput.at("mark", found, "a mark that changes() of this store gave")


@lru_cache(maxsize=64)
def _tag(store_id: str) -> str:
    return sha256(store_id.encode()).hexdigest()[:12]

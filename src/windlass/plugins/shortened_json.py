"""JSON that is too long to be shown, as shorter JSON: leaf by leaf, with counts where something is missing.

Law 1. What comes out is JSON, and within its room.
Law 2. What is kept is kept as it was, in its place; long text is cut at its end (or where the window says), long lists
    and dicts lose items and say how many.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from windlass.kernel import canonical
from windlass.kernel.value import Json
from windlass.plugins.windowing import Window, boundary, shares

# Every label has room in that: `"… 1,048,576 bytes"`.
_LEAST: Final = 32
# An item that is kept is not cut below that, if its list has the room.
_FLOOR: Final = 512
_MORE: Final = "…"


def shortened(value: Json, n_bytes: int, kind: Window = "head") -> str:
    """Return JSON of at most `n_bytes` (32 or more) that says as much of the value as it can."""
    return canonical.encode(_fit(value, max(n_bytes, _LEAST), kind)).decode()


def _fit(value: Json, room: int, kind: Window) -> Json:
    size = _size(value)
    if size <= room:
        return value
    if isinstance(value, str):
        return _text(value, room, kind)
    if isinstance(value, list):
        return _list(value, room, kind)
    if isinstance(value, dict):
        return _dict(value, room, kind)
    return f"{_MORE} {size:,} digits"


def _size(value: Json) -> int:
    return len(canonical.encode(value))


def _text(text: str, room: int, kind: Window) -> str:
    size = len(text.encode())
    left = room - _size(f"{_MORE} [{size:,} bytes cut] {_MORE}")
    head = text[: _fitting(text, left if kind == "head" else left // 2)] if kind != "tail" else ""
    turned = text[len(head) :][::-1]
    tail = ""
    if kind != "head":
        tail = turned[: _fitting(turned, left - _size(head) + 2 if head else left)][::-1]
    cut = size - len(head.encode()) - len(tail.encode())
    if not head and not tail:
        return f"{_MORE} {size:,} bytes"
    return f"{head}{_MORE} [{cut:,} bytes cut]" + (f" {_MORE}{tail}" if tail else "")


def _fitting(text: str, room: int) -> int:
    """Return how many characters have room, written as JSON without its quotes."""
    low, high = 0, min(len(text), max(0, room))
    while low < high:
        middle = (low + high + 1) // 2
        if _size(text[:middle]) - 2 <= room:
            low = middle
        else:
            high = middle - 1
    return boundary(text, low)


def _list(items: list[Json], room: int, kind: Window) -> Json:
    note = f"{_MORE} {len(items):,} more items"
    floor = max(_LEAST, min(_FLOOR, room // 8))
    left = room - 2 - _size(note) - 1
    sizes: dict[int, int] = {}
    for at in _by_importance(len(items), kind):
        size = _size(items[at])
        left -= min(size, floor) + 1
        if left < 0:
            break
        sizes[at] = size
    if not sizes:
        return f"{_MORE} {len(items):,} items"
    kept = sorted(sizes)
    given = shares([sizes[at] for at in kept], room - 2 - _size(note) - 1 - len(kept))
    made = [_fit(items[at], share, kind) for at, share in zip(kept, given, strict=True)]
    if len(kept) < len(items):
        gap = next((n for n, at in enumerate(kept) if n != at), len(kept))
        made.insert(gap, f"{_MORE} {len(items) - len(kept):,} more items")
    return made


def _by_importance(count: int, kind: Window) -> Iterator[int]:
    if kind == "head":
        yield from range(count)
    elif kind == "tail":
        yield from range(count - 1, -1, -1)
    else:
        for at in range((count + 1) // 2):
            yield at
            if count - 1 - at > at:
                yield count - 1 - at


def _dict(items: dict[str, Json], room: int, kind: Window) -> Json:
    sign = _MORE
    while sign in items:
        sign += _MORE
    note = {sign: f"{len(items):,} more keys"}
    # Names say more than what is under the first of them: rather all, with a little of each.
    floor = max(_LEAST, min(_FLOOR, room // len(items) - _LEAST))
    left = room - _size(note) - 1
    sizes: dict[str, int] = {}
    for key in sorted(items):
        size = _size(items[key])
        needed = _size(key) + 2 + min(size, floor)
        if needed <= left:
            left -= needed
            sizes[key] = size
    if not sizes:
        return f"{_MORE} {len(items):,} keys"
    names = sum(_size(key) + 2 for key in sizes)
    given = shares(list(sizes.values()), room - _size(note) - 1 - names)
    made = {key: _fit(items[key], share, kind) for key, share in zip(sizes, given, strict=True)}
    if len(sizes) < len(items):
        made[sign] = f"{len(items) - len(sizes):,} more keys"
    return made

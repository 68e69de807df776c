"""Windows on long text: which lines of it are shown, and how much is not.

Law 1. What is shown of a text is its beginning, its end or both, unchanged; what is cut is told in a line of its own.
Law 2. Cuts are between lines. A line that is too long to be one counts as several, so that every text can be paged
    through by line number; it is broken between characters, not inside what a reader sees as one.
Law 3. A window, with all that it says about itself, is within its limits.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from windlass.guards.text import pieces, utf8_length

Window: TypeAlias = Literal["head", "tail", "both"]
Mark: TypeAlias = Callable[["Gap"], str]

# All but tab, line feed and carriage return: escape sequences are shown, never interpreted.
_JOINER: Final = "\u200d"
# No character that people use is made of more.
_MAX_JOINED: Final = 32


class Room(NamedTuple):
    """How much may be shown."""

    n_bytes: int
    n_lines: int


class Gap(NamedTuple):
    """What is not shown; `start` is the number of its first line, from 1."""

    n_bytes: int
    n_lines: int
    start: int


class Lines:
    """A text by its lines, of which none is longer than `width` characters."""

    __slots__ = ("_ends", "text")

    def __init__(self, text: str, width: int) -> None:
        self.text = text
        self._ends = list(_ends(text, width))

    def __len__(self) -> int:
        return len(self._ends)

    def between(self, first: int, last: int) -> str:
        """Return lines `first` to `last`, from 0, the last one not included."""
        return self.text[self.place(first) : self.place(last)]

    def place(self, at: int) -> int:
        """Return where line `at` begins."""
        return self._ends[at - 1] if at else 0

    def until(self, place: int) -> int:
        """Return how many lines end at or before a place."""
        return bisect_right(self._ends, place)

    def fitting(self, room: Room, first: int = 0) -> int:
        """Return how many lines from `first` on have room."""
        return self._count(room, range(first, len(self)))

    def fitting_at_end(self, room: Room) -> int:
        """Return how many lines at the end have room."""
        return self._count(room, range(len(self) - 1, -1, -1))

    def _count(self, room: Room, places: Iterable[int]) -> int:
        count, left = 0, room.n_bytes
        for at in places:
            left -= len(self.between(at, at + 1).encode())
            if left < 0 or count >= room.n_lines:
                break
            count += 1
        return count


def _ends(text: str, width: int) -> Iterator[int]:
    # Line by line: to split a text of millions of lines in one call would keep all threads waiting.
    at, size = 0, len(text)
    while True:
        begin, end = at, text.find("\n", at)
        is_last = end < 0
        if is_last:
            end = size
        while end - at > width:
            at = boundary(text, at + width, at)
            yield at
        at = min(end + 1, size)
        if end > begin or end < size:
            yield at
        if is_last:
            return


def boundary(text: str, at: int, low: int = 0) -> int:
    """Return the last place up to `at`, and above `low`, that is not inside what a reader sees as one character."""
    for place in range(at, max(low, at - _MAX_JOINED), -1):
        if not _is_joined(text, place):
            return place
    return at


def _is_joined(text: str, at: int) -> bool:
    if not 0 < at < len(text):
        return False
    after = text[at]
    if after.isascii():
        return after == "\n" and text[at - 1] == "\r"
    if after == _JOINER or text[at - 1] == _JOINER:
        return True
    return unicodedata.category(after).startswith("M") or "\U0001f3fb" <= after <= "\U0001f3ff"


def count_lines(text: str) -> int:
    """Return how many lines a text has, as people count them."""
    n_ends = sum(piece.count("\n") for piece in pieces(text))
    return n_ends + (not text.endswith("\n") if text else 0)


def shares(sizes: Sequence[int], room: int) -> list[int]:
    """Return what each gets of the room: the small all they need, the others equally much."""
    given = [0] * len(sizes)
    left = len(sizes)
    for at in sorted(range(len(sizes)), key=lambda at: sizes[at]):
        given[at] = min(sizes[at], max(0, room) // left)
        room -= given[at]
        left -= 1
    return given


def window(lines: Lines, room: Room, kind: Window, mark: Mark) -> str:
    """Return what is shown of a text that has no room."""
    size = utf8_length(lines.text)
    # No number in the mark is greater than these.
    longest = len(mark(Gap(size, len(lines), len(lines))).encode())
    room = Room(max(0, room.n_bytes - longest - 2), max(0, room.n_lines - 1))
    if kind == "head":
        head, tail = _head(lines, room), ""
    elif kind == "tail":
        head, tail = "", _tail(lines, room)
    else:
        head = _head(lines, Room(room.n_bytes // 2, room.n_lines // 2))
        rest = Room(room.n_bytes - len(head.encode()), room.n_lines - count_lines(head))
        tail = _tail(lines, rest)
    before, after = lines.until(len(head)), lines.until(len(lines.text) - len(tail))
    gap = Gap(size - len(head.encode()) - len(tail.encode()), max(1, after - before), before + 1)
    over = "\n" if head and not head.endswith("\n") else ""
    return head + over + mark(gap) + ("\n" + tail if tail else "")


def _head(lines: Lines, room: Room) -> str:
    shown = lines.between(0, lines.fitting(room))
    if shown or not room.n_lines:
        return shown
    return head_of(lines.text, room.n_bytes)


def _tail(lines: Lines, room: Room) -> str:
    shown = lines.between(len(lines) - lines.fitting_at_end(room), len(lines))
    if shown or not room.n_lines:
        return shown
    return tail_of(lines.text, room.n_bytes)


def head_of(text: str, n_bytes: int) -> str:
    """Return as much of the beginning as has room."""
    cut = text[:n_bytes].encode()[:n_bytes].decode(errors="ignore")
    return text[: boundary(text, len(cut), -1)]


def tail_of(text: str, n_bytes: int) -> str:
    """Return as much of the end as has room."""
    if n_bytes <= 0:
        return ""
    cut = text[-n_bytes:].encode()[-n_bytes:].decode(errors="ignore")
    at = len(text) - len(cut)
    while _is_joined(text, at) and at < len(text):
        at += 1
    return text[at:]

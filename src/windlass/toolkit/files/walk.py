"""Looking around in a folder: what is there, and which names fit.

Law. The work is bounded: names looked at, names shown. What was left out is said in the answer.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import accumulate, takewhile
from typing import Final, Literal, NamedTuple, TypeAlias

from windlass.errors import PathDenied, ToolError
from windlass.toolkit.files.folder import Folder, Names, as_shown, has_dot

Kind: TypeAlias = Literal["file", "folder", "link", "other"]

SKIPPED: Final = frozenset({
    "node_modules", "__pycache__", "venv", "site-packages", "target", "dist", "build",
})  # fmt: skip
"""Folders that are listed and not entered, unless a call begins in them."""
_MAX_SEEN: Final = 20_000
_MAX_DEPTH: Final = 32
_MAX_LISTED: Final = 500
_MAX_FOUND: Final = 200
_MAX_CHARS: Final = 60_000
_MAX_PATTERN_CHARS: Final = 300
_ENDS: Final = {"link": "@ (a link, not followed)", "other": " (not a plain file)", "file": ""}


class Entry(NamedTuple):
    """A name in the folder."""

    names: Names
    kind: Kind

    @property
    def path(self) -> str:
        """Its path from the root."""
        return "/".join(self.names)


class Walk:
    """The entries below a folder, the nearest first, within bounds.

    Args:
        folder: Where the tree lies.
        names: The folder in it to begin at.
        depth: How many levels to go down.
        seen: How many names to look at.
    """

    def __init__(
        self, folder: Folder, names: Names, *, depth: int = _MAX_DEPTH, seen: int = _MAX_SEEN
    ) -> None:
        self._folder = folder
        self.start = names
        self._depth = len(names) + depth
        self._seen = self._left = seen
        self.is_whole = True
        self._n_unshown = 0
        self._unread = list[str]()
        self._skipped = list[str]()
        self.deeper = set[str]()

    def __iter__(self) -> Iterator[Entry]:
        todo = deque([self.start])
        while todo and self._left > 0:
            names = todo.popleft()
            try:
                entries = self._entries(names)
            except (OSError, PathDenied, ToolError):
                if names == self.start:
                    raise
                self._unread.append("/".join(names))
                continue
            for entry in entries:
                yield entry
                if entry.kind != "folder":
                    continue
                if entry.names[-1] in SKIPPED:
                    self._skipped.append(entry.path)
                elif len(entry.names) < self._depth:
                    todo.append(entry.names)
                else:
                    self.deeper.add(entry.path)
        self.is_whole &= not todo

    def left_out(self) -> list[str]:
        """Return what was not looked at, in words."""
        told = list[str]()
        if not self.is_whole:
            told.append(f"all after the first {self._seen:,} names; begin in a folder further down")
        if self._skipped:
            told.append(f"what is in {some(self._skipped)}; begin there to look into it")
        if self._unread:
            told.append(f"{some(self._unread)}, which could not be read")
        if self._n_unshown:
            told.append(f"{counted(self._n_unshown, 'name')} that may not be opened")
        return told

    def _entries(self, names: Names) -> list[Entry]:
        found: list[Entry] = []
        with self._folder.opened(names) as opened, os.scandir(opened) as entries:
            for entry in entries:
                if self._left <= 0:
                    self.is_whole = False
                    break
                self._left -= 1
                if self._folder.shows(names, entry.name):
                    found.append(Entry((*names, entry.name), _kind(entry)))
                elif not has_dot(entry.name):
                    self._n_unshown += 1
        return sorted(found)


# ------------------------------------------------------------------------------------ names


def listing(folder: Folder, path: str, depth: int) -> str:
    """Return what is in a folder, as a model reads it."""
    walk = Walk(folder, folder.names_of(path, is_folder=True), depth=depth)
    entries = sorted(walk)
    rows = list[str]()
    for entry in entries[:_MAX_LISTED]:
        end = _ENDS.get(entry.kind, "/")
        rows.append(f"{entry.path}{end}{' …' if entry.path in walk.deeper else ''}")
    rows, left_out = _fitting(rows), walk.left_out()
    if len(entries) > len(rows):
        left_out.insert(0, f"{len(entries) - len(rows):,} more names")
    head = f"{as_shown(path) or '.'}: {counted(len(entries), 'name')}"
    if walk.deeper:
        head += "; … stands for more in a folder"
    return "\n".join([head, *rows, *ending(left_out, "listed")])


def found_names(folder: Folder, pattern: str, path: str) -> str:
    """Return the files whose paths fit a pattern."""
    wanted = Pattern(pattern, "pattern")
    walk = Walk(folder, folder.names_of(path, is_folder=True))
    found = [e.path for e in walk if e.kind == "file" and wanted.fits(e.names[len(walk.start) :])]
    rows, left_out = _fitting(found[:_MAX_FOUND]), walk.left_out()
    if len(found) > len(rows):
        left_out.insert(0, f"{len(found) - len(rows):,} more; use a narrower pattern")
    head = f"{counted(len(found), 'file')} found"
    return "\n".join([head, *rows, *ending(left_out, "listed")])


def _fitting(rows: Sequence[str]) -> list[str]:
    """Return as many rows as can be shown."""
    room = takewhile(lambda used: used <= _MAX_CHARS, accumulate(len(row) + 1 for row in rows))
    return [row for row, _ in zip(rows, room, strict=False)]


class Pattern:
    """A pattern of paths: `*.py` in any folder, `src/*.py`, `src/**/test_*.py`."""

    def __init__(self, pattern: str, field: str) -> None:
        parts = pattern.removeprefix("./").split("/")
        if not pattern or "" in parts or ".." in parts or len(pattern) > _MAX_PATTERN_CHARS:
            shown = as_shown(pattern)
            raise ToolError(f"{field}: found `{shown}`, wanted one such as *.py or src/**/*.md")
        parts = parts if len(parts) > 1 else ["**", *parts]
        # One `**` stands for any number of folders already; each more of them would only cost.
        self._parts = [
            part
            for last, part in zip(["", *parts], parts, strict=False)
            if part != "**" or last != "**"
        ]

    def fits(self, names: Sequence[str]) -> bool:
        """Whether a path fits, name by name: no pattern makes that take long."""
        # Which beginnings of the pattern fit the names so far; `**` stands for any number of folders.
        begun = self._with_empty({0})
        for name in names:
            after = set[int]()
            for at in begun:
                if at < len(self._parts) and self._parts[at] == "**":
                    after.add(at)
                elif at < len(self._parts) and _fits(name, self._parts[at]):
                    after.add(at + 1)
            begun = self._with_empty(after)
        return len(self._parts) in begun

    def _with_empty(self, places: set[int]) -> set[int]:
        for at in range(len(self._parts)):
            if at in places and self._parts[at] == "**":
                places.add(at + 1)
        return places


def _fits(name: str, part: str) -> bool:
    try:
        return fnmatchcase(name, part)
    except re.error:
        return name == part


def _kind(entry: os.DirEntry[str]) -> Kind:
    with suppress(OSError):
        if entry.is_symlink():
            return "link"
        if entry.is_dir(follow_symlinks=False):
            return "folder"
        if entry.is_file(follow_symlinks=False):
            return "file"
    return "other"


# ------------------------------------------------------------------------------------ words


def ending(left_out: Sequence[str], what: str) -> list[str]:
    """Return the line that says what was left out, if there is something."""
    return [f"(Not {what}: {'; '.join(left_out)}.)"] if left_out else []


def some(paths: Sequence[str]) -> str:
    """Return the first few of some paths, in words."""
    shown = ", ".join(paths[:5])
    return shown if len(paths) <= 5 else f"{shown} and {len(paths) - 5:,} more"


def counted(n: int, noun: str) -> str:
    """Return a number of things, in words."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"

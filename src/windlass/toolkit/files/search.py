"""Looking around in a folder: what is there, which names fit, which lines contain something.

Law 1. The work is bounded: names looked at, bytes read, lines shown. What was left out is said in the answer.
Law 2. A regular expression runs in a process of its own, whose time and memory are bounded by the system: no pattern
    holds up the program, nor goes on when the program was killed.
Law 3. A file that is not text is named, never shown.

Length: names and lines are looked for on one walk, within one set of bounds, and are read together.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Final, Literal, NamedTuple, TypeAlias

from windlass.errors import PathDenied, ToolError
from windlass.guards.text import visible
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
_MAX_HITS: Final = 100
_MAX_HITS_PER_FILE: Final = 20
_MAX_SEARCHED_BYTES: Final = 64 * 1024 * 1024
_MAX_QUERY_CHARS: Final = 1_000
_MAX_PATTERN_CHARS: Final = 300
_MAX_LINE_CHARS: Final = 240
_REGEX_S: Final = 5.0
_REGEX_BYTES: Final = 512 * 1024 * 1024
_NO_MEMORY: Final = 3
_BATCH_BYTES: Final = 8 * 1024 * 1024
_ENDS: Final = {"link": "@ (a link, not followed)", "other": " (not a plain file)", "file": ""}
# Texts come in between NULs, which no text has; the numbers of the lines that fit go out, a text to a line.
# It sets its own limits first: when the program that began it is killed, no other process ends it.
_REGEX_PROCESS: Final = """
import itertools, re, resource, signal, sys
most_hits, most_s, most_bytes, no_memory = map(int, sys.argv[1:])
signal.signal(signal.SIGALRM, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
signal.alarm(most_s)
for kind, most in (resource.RLIMIT_CPU, most_s), (resource.RLIMIT_DATA, most_bytes), (resource.RLIMIT_CORE, 0):
    hard = resource.getrlimit(kind)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (most, most))
try:
    given = sys.stdin.buffer.read().decode().split("\\0")
    flags = re.IGNORECASE if given[0] else 0
    try:
        fits = re.compile(given[1], flags).search
    except (re.error, OverflowError, RecursionError) as error:
        print("!", error)
        sys.exit()
    for text in given[2:]:
        lines = enumerate(text.split("\\n"), 1)
        print(*itertools.islice((n for n, line in lines if fits(line)), most_hits))
        del lines
except MemoryError:
    sys.exit(no_memory)
"""


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
            told.append(f"what is in {_some(self._skipped)}; begin there to look into it")
        if self._unread:
            told.append(f"{_some(self._unread)}, which could not be read")
        if self._n_unshown:
            told.append(f"{_count(self._n_unshown, 'name')} that may not be opened")
        return told

    def _entries(self, names: Names) -> list[Entry]:
        found: list[Entry] = []
        with self._folder.opened(names) as opened, os.scandir(opened) as entries:
            for entry in entries:
                if self._left <= 0:
                    self.is_whole = False
                    break
                self._left -= 1
                if self._folder.shows(entry.name):
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
    left_out = walk.left_out()
    if len(entries) > _MAX_LISTED:
        left_out.insert(0, f"{len(entries) - _MAX_LISTED:,} more names")
    head = f"{as_shown(path) or '.'}: {_count(len(entries), 'name')}"
    if walk.deeper:
        head += "; … stands for more in a folder"
    return "\n".join([head, *rows, *_ending(left_out, "listed")])


def found_names(folder: Folder, pattern: str, path: str) -> str:
    """Return the files whose paths fit a pattern."""
    wanted = Pattern(pattern, "pattern")
    walk = Walk(folder, folder.names_of(path, is_folder=True))
    found = [e.path for e in walk if e.kind == "file" and wanted.fits(e.names[len(walk.start) :])]
    left_out = walk.left_out()
    if len(found) > _MAX_FOUND:
        left_out.insert(0, f"{len(found) - _MAX_FOUND:,} more; use a narrower pattern")
    head = f"{_count(len(found), 'file')} found"
    return "\n".join([head, *found[:_MAX_FOUND], *_ending(left_out, "listed")])


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


# ------------------------------------------------------------------------------------ lines


class Query(NamedTuple):
    """What lines are searched for."""

    text: str
    regex: bool = False
    ignore_case: bool = False


class _Text(NamedTuple):
    path: str
    lines: list[str]


def found_lines(folder: Folder, query: Query, path: str, pattern: str, limit: int) -> str:
    """Return the lines that contain something, with their files and numbers."""
    _check_query(query)
    search = _Search(folder, query, limit)
    walk = Walk(folder, folder.names_of(path, is_folder=True))
    wanted = Pattern(pattern, "pattern")
    files = [e.names for e in walk if e.kind == "file" and wanted.fits(e.names[len(walk.start) :])]
    hits = search.run(files)
    shown = [f"{path}:{number}: {line}" for path, number, line in hits]
    more = "" if search.is_done else " at least"
    there = "" if walk.is_whole else "the first "
    searched = f"{search.n_files:,} of {there}{_count(len(files), 'file')} searched"
    head = f"{_count(len(shown), 'line')} found{more}; {searched}"
    return "\n".join([head, *shown, *_ending(search.left_out(walk), "searched")])


class _Search:
    """Reads files and finds lines in them, within bounds."""

    def __init__(self, folder: Folder, query: Query, limit: int) -> None:
        self._folder = folder
        self._query = query
        self._limit = limit
        self._n_bytes = 0
        self._binary = list[str]()
        self._unread = list[str]()
        self._cut = list[str]()
        self.n_files = 0
        self.is_done = True

    def run(self, files: Sequence[Names]) -> list[tuple[str, int, str]]:
        hits = list[tuple[str, int, str]]()
        for batch in self._batches(files):
            for text, numbers in zip(batch, self._numbers(batch), strict=True):
                if len(numbers) > _MAX_HITS_PER_FILE:
                    self._cut.append(text.path)
                for number in numbers[:_MAX_HITS_PER_FILE]:
                    if len(hits) == _MAX_HITS:
                        self.is_done = False
                        return hits
                    hits.append((text.path, number, _shown_line(text.lines[number - 1])))
        return hits

    def left_out(self, walk: Walk) -> list[str]:
        told = [] if self.is_done else ["the rest; use a narrower query, folder or pattern"]
        if self._cut:
            told.append(f"more than {_MAX_HITS_PER_FILE} lines each of {_some(self._cut)}")
        if self._binary:
            told.append(f"{_some(self._binary)}: not text")
        if self._unread:
            told.append(f"{_some(self._unread)}: too large, or not a file to be opened")
        return told + walk.left_out()

    def _batches(self, files: Sequence[Names]) -> Iterator[list[_Text]]:
        batch, size = list[_Text](), 0
        for names in files:
            if self._n_bytes >= _MAX_SEARCHED_BYTES:
                self.is_done = False
                break
            try:
                data = self._folder.read(names, self._limit).data
            except (PathDenied, ToolError):
                self._unread.append("/".join(names))
                continue
            self._n_bytes += len(data)
            if b"\0" in data:
                self._binary.append("/".join(names))
                continue
            self.n_files += 1
            text = data.decode(errors="replace").replace("\r\n", "\n")
            batch.append(_Text("/".join(names), text.split("\n")))
            size += len(data)
            if size >= _BATCH_BYTES:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _numbers(self, batch: Sequence[_Text]) -> list[list[int]]:
        if self._query.regex:
            return _by_regex(self._query, batch)
        wanted = self._query.text
        if not self._query.ignore_case:
            return [[n for n, line in enumerate(t.lines, 1) if wanted in line] for t in batch]
        folded = wanted.casefold()
        return [
            [n for n, line in enumerate(t.lines, 1) if folded in line.casefold()] for t in batch
        ]


def _by_regex(query: Query, batch: Sequence[_Text]) -> list[list[int]]:
    """Return the numbers of the lines that fit, as a process of its own finds them."""
    import subprocess  # noqa: PLC0415 - only regular expressions need it
    import sys  # noqa: PLC0415 - as above

    given = ["1" if query.ignore_case else "", query.text, *("\n".join(t.lines) for t in batch)]
    bounds = (_MAX_HITS_PER_FILE + 1, int(_REGEX_S) + 1, _REGEX_BYTES, _NO_MEMORY)
    command = [sys.executable, "-I", "-S", "-c", _REGEX_PROCESS, *map(str, bounds)]
    try:
        done = subprocess.run(  # noqa: S603 - our own program; what the model wrote is its input
            command,
            input="\0".join(given).encode(),
            capture_output=True,
            timeout=_REGEX_S,
            env={},
            check=False,
        )
    except subprocess.TimeoutExpired:
        told = f"query: found a pattern that takes longer than {_REGEX_S:g} s"
        raise ToolError(f"{told}, wanted a simpler one, a narrower folder, or plain text") from None
    if done.returncode == _NO_MEMORY:
        told = (
            f"query: found a pattern that takes more than {_REGEX_BYTES // 1024**2} MiB of memory"
        )
        raise ToolError(f"{told}, wanted a simpler one, a narrower folder, or plain text")
    rows = done.stdout.decode(errors="replace").split("\n")
    if rows[0].startswith("!"):
        reason = as_shown(rows[0][2:])
        raise ToolError(f"query: found a regular expression that cannot be read ({reason})")
    if done.returncode != 0 or len(rows) != len(batch) + 1:
        raise ToolError("query: the search ended without an answer; search for plain text")
    return [[int(number) for number in row.split()] for row in rows[:-1]]


def _check_query(query: Query) -> None:
    if not query.text:
        raise ToolError("query: found no text, wanted what to search for")
    if len(query.text) > _MAX_QUERY_CHARS:
        found = f"{len(query.text):,} characters"
        raise ToolError(f"query: found {found}, wanted at most {_MAX_QUERY_CHARS:,}")
    if "\n" in query.text or "\0" in query.text:
        raise ToolError("query: found several lines, wanted text of one line")
    try:
        query.text.encode()
    except UnicodeEncodeError:
        raise ToolError("query: found half a character, wanted plain text") from None


# ------------------------------------------------------------------------------------ words


def _shown_line(line: str) -> str:
    cut = line if len(line) <= _MAX_LINE_CHARS else line[:_MAX_LINE_CHARS] + "…"
    return visible(cut, keep="\t")


def _ending(left_out: Sequence[str], what: str) -> list[str]:
    return [f"(Not {what}: {'; '.join(left_out)}.)"] if left_out else []


def _some(paths: Sequence[str]) -> str:
    shown = ", ".join(paths[:5])
    return shown if len(paths) <= 5 else f"{shown} and {len(paths) - 5:,} more"


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _kind(entry: os.DirEntry[str]) -> Kind:
    with suppress(OSError):
        if entry.is_symlink():
            return "link"
        if entry.is_dir(follow_symlinks=False):
            return "folder"
        if entry.is_file(follow_symlinks=False):
            return "file"
    return "other"

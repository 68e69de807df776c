"""Which lines of the files in a folder contain something.

Law 1. The work is bounded: bytes read, lines shown. What was left out is said in the answer.
Law 2. A regular expression runs in a process of its own, whose time and memory are bounded by the system: no pattern
    holds up the program, nor goes on when the program was killed.
Law 3. A file that is not text is named, never shown.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from windlass.errors import PathDenied, ToolError
from windlass.guards.text import visible
from windlass.toolkit.files.folder import Folder, Names, as_shown
from windlass.toolkit.files.walk import Pattern, Walk, counted, ending, some

_MAX_HITS: Final = 100
_MAX_HITS_PER_FILE: Final = 20
_MAX_SEARCHED_BYTES: Final = 64 * 1024 * 1024
_MAX_QUERY_CHARS: Final = 1_000
_MAX_LINE_CHARS: Final = 240
_CHARS_BEFORE: Final = 60
_REGEX_S: Final = 5.0
_REGEX_BYTES: Final = 512 * 1024 * 1024
_NO_MEMORY: Final = 3
_BATCH_BYTES: Final = 8 * 1024 * 1024
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
    searched = f"{search.n_files:,} of {there}{counted(len(files), 'file')} searched"
    head = f"{counted(len(shown), 'line')} found{more}; {searched}"
    return "\n".join([head, *shown, *ending(search.left_out(walk), "searched")])


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
                    hits.append(
                        (text.path, number, _shown_line(text.lines[number - 1], self._query))
                    )
        return hits

    def left_out(self, walk: Walk) -> list[str]:
        told = [] if self.is_done else ["the rest; use a narrower query, folder or pattern"]
        if self._cut:
            told.append(f"more than {_MAX_HITS_PER_FILE} lines each of {some(self._cut)}")
        if self._binary:
            told.append(f"{some(self._binary)}: not text")
        if self._unread:
            told.append(f"{some(self._unread)}: too large, or not a file to be opened")
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


def _shown_line(line: str, query: Query) -> str:
    """Return a line as far as it can be shown: its beginning, or what is around the text that was searched for."""
    if len(line) <= _MAX_LINE_CHARS:
        return visible(line, keep="\t")
    start, end = _place(line, query)
    if end <= _MAX_LINE_CHARS:
        return visible(f"{line[:_MAX_LINE_CHARS]}…", keep="\t")
    first = max(0, start - _CHARS_BEFORE)
    part = line[first : first + _MAX_LINE_CHARS]
    more = "…" if len(line) > first + len(part) else ""
    shown = visible(part, keep="\t")
    return f"(from column {first + 1:,}) …{shown}{more}"


def _place(line: str, query: Query) -> tuple[int, int]:
    """Return where the text is in a line; of a regular expression, only the number of the line is known."""
    if query.regex:
        return 0, 0
    if not query.ignore_case:
        start = line.index(query.text)
        return start, start + len(query.text)
    # One letter may be compared as several: ß as ss.
    ends = list(accumulate(len(letter.casefold()) for letter in line))
    folded = query.text.casefold()
    start = line.casefold().index(folded)
    return bisect_right(ends, start), bisect_left(ends, start + len(folded)) + 1

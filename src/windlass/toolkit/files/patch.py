"""Unified diffs that a model wrote, read.

Law 1. A line of a change that stands in no hunk is refused. It is not taken for words, and left out in silence.
Law 2. A refusal names the line of the patch, what was found and what was wanted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final, NamedTuple

from windlass.errors import ToolError
from windlass.guards.text import visible

MAX_FILES: Final = 50
MAX_HUNKS: Final = 500
NOWHERE: Final = "/dev/null"
UNENDED: Final = "\\ No newline at end of file"
_HUNK: Final = re.compile(r"@@ -(?P<at>\d+)(?:,(?P<old>\d+))? \+\d+(?:,(?P<new>\d+))? @@")
_NEXT: Final = ("@@", "diff ", "index ", "Index: ", "new file mode", "deleted file mode", "```")
_GIT: Final = "diff --git "
_BINARY: Final = "a binary file, wanted text"
_RENAMED: Final = "a renamed file, wanted the deletion of one file and the creation of another"
# Lines between `diff --git` and `---`. Elsewhere words may begin like that.
_REFUSED: Final = {
    "rename ": _RENAMED,
    "copy ": "a copied file, wanted the creation of a file",
    "old mode ": "a change of permissions, wanted a change of text",
    "GIT binary patch": _BINARY,
}
_MAKES: Final = "new file mode "
_DELETES: Final = "deleted file mode "
_HEADER: Final = (_MAKES, _DELETES, "index ", "similarity index ", "dissimilarity index ")
_EXECUTED: Final = re.compile(rf"{_MAKES}(?!100644)\d+$")
# The second name of an `index` line is that of the new text; these are the names of none.
_FILLED: Final = re.compile(r"index \w+\.\.(?!e69de29|473a0f4)")
_COMPARED: Final = re.compile(r"Binary files .+ differ$")
_ESCAPE: Final = re.compile(rb'\\(?:([0-3][0-7]{2})|(["\\])|(.?))', re.DOTALL)
_TIME: Final = re.compile(r"\t(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.0+)? ([+-]\d{4})$")
_SIGNATURE: Final = "-- "
_MAX_DIGITS: Final = 9


class Row(NamedTuple):
    """A line of a hunk: whether it is kept (` `), removed (`-`) or added (`+`)."""

    sign: str
    text: str
    is_ended: bool = True


class Hunk(NamedTuple):
    """A place where a file changes: its lines, and the line of the patch that begins it."""

    rows: tuple[Row, ...]
    line: int

    @property
    def old(self) -> list[str]:
        """The lines that must be there."""
        return [row.text for row in self.rows if row.sign != "+"]

    @property
    def adds(self) -> bool:
        """Whether lines are there when it is applied."""
        return any(row.sign != "-" for row in self.rows)

    @property
    def is_last(self) -> bool:
        """Whether it says that the text ends with it."""
        return not all(row.is_ended for row in self.rows)

    @property
    def old_is_ended(self) -> bool:
        """Whether a line feed may stand after the last of the lines that must be there."""
        return all(row.is_ended for row in self.rows if row.sign != "+")


class FilePatch(NamedTuple):
    """What a patch says about one file."""

    path: str
    hunks: tuple[Hunk, ...]
    creates: bool
    deletes: bool


class _Named(NamedTuple):
    """The file that a `diff --git` line names, and whether `a/` and `b/` stand before its path."""

    path: str
    has_prefixes: bool


# ----------------------------------------------------------------------------------- reading


def parse(patch: str) -> list[FilePatch]:
    """Return what a patch says, file by file. Words around it are passed over.

    Raises:
        ToolError: naming the line that is not part of a unified diff.
    """
    reader = _Reader(patch)
    files = list(reader.files())
    if not files:
        wanted = "a unified diff, whose files begin with `--- a/path` and `+++ b/path`"
        raise ToolError(f"patch: found no file in it, wanted {wanted}")
    if len(files) > MAX_FILES:
        raise ToolError(f"patch: found {len(files)} files, wanted at most {MAX_FILES}")
    seen = set[str]()
    for file in files:
        if file.path in seen:
            raise ToolError(f"patch: found {shown(file.path)} twice, wanted all its hunks together")
        seen.add(file.path)
    return files


class _Reader:
    """Goes through a patch from line to line."""

    def __init__(self, patch: str) -> None:
        self._raw = patch.split("\n")
        self._lines = [line.removesuffix("\r") for line in self._raw]
        self._at = 0
        self._n_hunks = 0

    def files(self) -> Iterator[FilePatch]:
        is_after_file = is_apart = False
        while self._at < len(self._lines):
            line = self._line(self._at)
            if self._begins_file(self._at) or line.startswith(_GIT):
                yield self._git_file() if line.startswith(_GIT) else self._file(None)
                is_after_file, is_apart = True, False
                continue
            if is_after_file:
                self._check_outside(line, is_apart=is_apart)
                is_apart = is_apart or not line
            self._check_words(line)
            if line.startswith("@@"):
                raise self._refusal("a hunk without a file, wanted `--- a/path` first")
            if line.startswith(("--- a/", "--- /dev/null")):
                raise self._refusal("`---` without `+++` in the next line")
            if line.startswith("*** ") and " File: " in line:
                raise self._refusal("another kind of patch, wanted a unified diff")
            self._at += 1

    def _check_outside(self, line: str, *, is_apart: bool) -> None:
        """Refuse a line of a change that no hunk has: passed over, a part of the patch would be left out in silence."""
        is_replaced = line.startswith("-") and self._line(self._at + 1).startswith("+")
        # Words that stand apart from the hunk may be a list.
        is_change = line.startswith(("-", "+")) and line != _SIGNATURE and not is_apart
        if is_change or is_replaced:
            raise self._refusal("a line of a change outside of a hunk, wanted `@@` before it")

    def _git_file(self) -> FilePatch:
        """Return what git says about a file; one that is empty has no `---` and no hunk."""
        first, modes, is_cut_off = self._at, "", False
        named = self._named(self._line(first).removeprefix(_GIT).rstrip())
        self._at += 1
        while self._at < len(self._lines):
            line = self._line(self._at)
            self._check_words(line)
            for start, found in _REFUSED.items():
                if line.startswith(start):
                    raise self._refusal(found)
            if line and not line.startswith(_HEADER):
                break
            modes += line if line.startswith((_MAKES, _DELETES)) else ""
            is_cut_off |= modes.startswith(_MAKES) and _FILLED.match(line) is not None
            self._at += 1
        if self._begins_file(self._at):
            return self._file(named)
        creates, deletes = modes.startswith(_MAKES), modes.startswith(_DELETES)
        is_cut_off |= self._line(self._at).startswith(("--- ", "+++ ", "@@"))
        if named is None or is_cut_off or not (creates or deletes):
            self._at = first
            wanted = "`--- a/path` and `+++ b/path` after it"
            raise self._refusal(f"no change below `diff --git`, wanted {wanted}")
        return FilePatch(named.path, (), creates, deletes)

    def _check_words(self, line: str) -> None:
        if _EXECUTED.match(line):
            told = "a new file with permissions of its own, wanted `new file mode 100644`"
            raise self._refusal(f"{told}; these tools set none")
        if _COMPARED.match(line):
            raise self._refusal(_BINARY)

    def _file(self, named: _Named | None) -> FilePatch:
        first = self._at
        heads = self._line(first)[4:], self._line(first + 1)[4:]
        before = self._path(heads[0])
        self._at += 1
        after = self._path(heads[1])
        self._at += 1
        hunks = list[Hunk]()
        while self._line(self._at).startswith("@@"):
            hunks.append(self._hunk())
        end, self._at = self._at, first
        creates, deletes = before == NOWHERE, after == NOWHERE
        if creates and deletes:
            raise self._refusal(f"{NOWHERE} twice, wanted a path")
        # Without prefixes a folder may be called `a` or `b`.
        are_there = (creates or before.startswith("a/")) and (deletes or after.startswith("b/"))
        if are_there and (named is None or named.has_prefixes):
            before, after = (path if path == NOWHERE else path[2:] for path in (before, after))
        if not (creates or deletes) and before != after:
            raise self._refusal(_RENAMED)
        if not hunks and not (creates or deletes):
            raise self._refusal(f"no hunk for {shown(after)}, wanted `@@ … @@`")
        self._at = end
        creates = creates or (_is_of_1970(heads[0]) and not any(hunk.old for hunk in hunks))
        deletes = deletes or (_is_of_1970(heads[1]) and not any(hunk.adds for hunk in hunks))
        return FilePatch(before if deletes else after, tuple(hunks), creates, deletes)

    def _named(self, words: str) -> _Named | None:
        """Return what both halves of the line name: paths with blanks are not quoted."""
        half = len(words) // 2
        if words[half : half + 1] != " ":
            return None
        before, after = self._path(words[:half]), self._path(words[half + 1 :])
        if before.startswith("a/") and after == f"b/{before[2:]}":
            return _Named(before[2:], has_prefixes=True)
        return _Named(before, has_prefixes=False) if before == after != "" else None

    def _path(self, words: str) -> str:
        """Return a path, also one that git has quoted."""
        path = words.partition("\t")[0].strip()
        if len(path) < 3 or not path[0] == path[-1] == '"':
            return path
        try:
            plain = _ESCAPE.sub(_unescaped, path[1:-1].encode()).decode()
        except ValueError:
            plain = "\n"
        if any(char < " " for char in plain):
            wanted = "one of letters that can be seen"
            raise self._refusal(f"the path `{shown(path)}`, wanted {wanted}")
        return plain

    def _hunk(self) -> Hunk:
        first, head = self._at + 1, self._line(self._at)
        self._n_hunks += 1
        if self._n_hunks > MAX_HUNKS:
            wanted = f"at most {MAX_HUNKS}: apply it in parts"
            raise self._refusal(f"more than {MAX_HUNKS} hunks, wanted {wanted}")
        found, rows = _HUNK.match(head), None
        self._at += 1
        if found is not None:
            numbers = [found["at"], found["old"] or "1", found["new"] or "1"]
            if max(map(len, numbers)) > _MAX_DIGITS:
                raise ToolError(f"patch, line {first}: found a number that no file reaches")
            rows = self._counted(int(numbers[1]), int(numbers[2]))
        if rows is None:
            rows = self._guessed()
        if not any(row.sign != " " for row in rows):
            raise ToolError(f"patch, line {first}: found a hunk that changes nothing")
        for side in (" -", " +"):
            if not all(row.is_ended for row in [row for row in rows if row.sign in side][:-1]):
                told = f"found a line after `{UNENDED}`, wanted that mark after the last one"
                raise ToolError(f"patch, line {first}: {told}")
        return Hunk(tuple(rows), first)

    def _counted(self, n_old: int, n_new: int) -> list[Row] | None:
        """Return the lines that the numbers ask for, if a hunk may end where they end."""
        rows, at, n_blank = list[Row](), self._at, 0
        while n_old > 0 or n_new > 0:
            row = _row(self._line(at)) if at < len(self._lines) else None
            # The next file begins before the numbers are used up: they are wrong.
            if row is None or (self._begins_file(at) and self._line(at + 2).startswith(_NEXT)):
                return None
            n_old -= row.sign != "+"
            n_new -= row.sign != "-"
            rows.append(row)
            n_blank = 0 if self._line(at) else n_blank + 1
            at = self._after_mark(at + 1, rows)
        if n_old < 0 or n_new < 0 or not self._may_end(at):
            return None
        self._at = at
        # Empty lines at the end are in the hunk only because its numbers say so, which may be too large.
        return rows[: len(rows) - n_blank]

    def _guessed(self) -> list[Row]:
        """Return the lines up to where the next hunk or file begins: models count badly."""
        rows, at, n_blank = list[Row](), self._at, 0
        while at < len(self._lines) and not self._begins_next(at):
            line = self._line(at)
            row = _row(line)
            if row is None:
                self._at = at
                wanted = "a line that begins with a blank, `-` or `+`"
                raise self._refusal(f"`{shown(line)}`, wanted {wanted}")
            rows.append(row)
            n_blank = 0 if line else n_blank + 1
            at = self._after_mark(at + 1, rows)
        self._at = at
        # Empty lines at the end are the space between two parts of the answer.
        return rows[: len(rows) - n_blank]

    def _after_mark(self, at: int, rows: list[Row]) -> int:
        if not self._line(at).startswith("\\"):
            return at
        # A carriage return before no line feed is a letter of the text, unless all lines of the patch have one.
        is_letter = self._raw[at - 1].endswith("\r") and not self._raw[at].endswith("\r")
        text = rows[-1].text + "\r" * is_letter
        rows[-1] = rows[-1]._replace(text=text, is_ended=False)
        return at + 1

    def _may_end(self, at: int) -> bool:
        while at < len(self._lines) and not self._line(at):
            at += 1
        line = self._line(at)
        is_body = _row(line) is not None and line not in ("", _SIGNATURE)
        if not is_body or self._begins_next(at):
            return True
        if line[0] in "-+" and not self._line(at - 1):
            # Taken for the hunk's, words would be written into the file; taken for words, a change would be left out.
            self._at = at
            wanted = "`@@` without numbers if it is of the hunk, another sign before it if not"
            raise self._refusal(f"a line of the hunk above or of words below it, wanted {wanted}")
        return False

    def _begins_next(self, at: int) -> bool:
        return self._line(at).startswith(_NEXT) or self._begins_file(at)

    def _begins_file(self, at: int) -> bool:
        return self._line(at).startswith("--- ") and self._line(at + 1).startswith("+++ ")

    def _line(self, at: int) -> str:
        return self._lines[at] if at < len(self._lines) else ""

    def _refusal(self, found: str) -> ToolError:
        return ToolError(f"patch, line {self._at + 1}: found {found}")


def _row(line: str) -> Row | None:
    if not line:  # an empty line whose blank was lost on the way
        return Row(" ", "")
    return Row(line[0], line[1:]) if line[0] in " -+" else None


def _is_of_1970(words: str) -> bool:
    """Whether a path comes with the time that `diff -N` gives to a file that is not there: the first second of 1970."""
    found = _TIME.search(words)
    if found is None:
        return False
    try:
        time = datetime.strptime(" ".join(found.groups()), "%Y-%m-%d %H:%M:%S %z")
    except ValueError:
        return False
    return time.timestamp() == 0


def _unescaped(escape: re.Match[bytes]) -> bytes:
    octal, itself, other = escape.groups()
    if other is not None:
        raise ValueError(other)
    return itself or bytes([int(octal, 8)])


def shown(text: str) -> str:
    """Return a line or a path as a message can carry it."""
    return visible(text if len(text) <= 120 else text[:120] + "…")

"""Unified diffs, applied to a text.

Law 1. Nothing here touches a file: text goes in, text comes out.
Law 2. A patch fits exactly or not at all: the lines that it shows must stand in the text, in one place. No number in
    `@@` chooses between several: a person may have allowed the other one.
Law 3. A refusal names the line of the patch or of the text, what was found and what was wanted.
Law 4. The work is bounded: a text is taken apart once, and searched once for each hunk, of which there are few.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import Final, NamedTuple

from windlass.errors import ToolError
from windlass.toolkit.files.patch import UNENDED, FilePatch, Hunk, shown

_MARK: Final = "\ufeff"
_MAX_PLACES: Final = 100


class _Line(NamedTuple):
    """A line of a text, and how it ends."""

    text: str
    end: str


def apply(text: str, patch: FilePatch) -> str:
    """Return what a patch makes of a text. Lines that it adds end as those that they replace, or as most of the text.

    Raises:
        ToolError: it does not fit; nothing of it is applied.
    """
    # The mark (BOM) at the beginning of a file is no part of its text, but git shows it.
    old = patch.hunks[0].old if patch.hunks else []
    if not old or not old[0].startswith(_MARK) or text.startswith(_MARK):
        return _applied(text, patch)
    made = _applied(_MARK + text, patch).removeprefix(_MARK)
    if made == text:
        found = "a change of the mark (BOM) at the beginning, which stays"
        raise ToolError(
            f"patch, line {patch.hunks[0].line}: found {found}, wanted a change of text"
        )
    return made


def _applied(text: str, patch: FilePatch) -> str:
    lines = _lines(text)
    most = end_of(text)
    places = _Places(lines, patch.path)
    made, done = list[_Line](), 0
    for hunk in patch.hunks:
        at = places.of(hunk, done)
        made += lines[done:at]
        ends = list[str]()  # of the lines that are removed right here
        for row in hunk.rows:
            if row.sign == "+":
                end = (ends.pop(0) if len(ends) > 1 else (*ends, most)[0]) if row.is_ended else ""
                made.append(_Line(row.text, end))
                continue
            line, at = lines[at], at + 1
            if row.sign == "-":
                ends += [line.end] if line.end else []
            else:
                made.append(line)
                ends.clear()
        done = at
    made += lines[done:]
    # Only the last line of a file may be without an end.
    ended = [line if line.end else line._replace(end=most) for line in made[:-1]]
    return "".join(line.text + line.end for line in (*ended, *made[-1:]))


def end_of(text: str) -> str:
    """Return how most lines of a text end: CRLF or LF."""
    n_crlf = text.count("\r\n")
    return "\r\n" if n_crlf * 2 > text.count("\n") else "\n"


def _lines(text: str) -> list[_Line]:
    found = list[_Line]()
    for line in text.split("\n"):
        plain = line.removesuffix("\r")
        found.append(_Line(plain, "\n" if plain is line or plain == line else "\r\n"))
    last = text.rpartition("\n")[2]
    found.pop()
    return [*found, _Line(last, "")] if last else found


class _Places:
    """Finds hunks in the lines of a text. They are searched as one text: that takes linear time, whatever is sought."""

    def __init__(self, lines: list[_Line], path: str) -> None:
        self._lines = [line.text for line in lines]
        self._is_ended = not lines or lines[-1].end != ""
        self._path = path
        self._text = "\n".join(["", *self._lines, ""])
        self._starts = list(accumulate((len(line) + 1 for line in self._lines), initial=0))

    def of(self, hunk: Hunk, start: int) -> int:
        """Return the only place where a hunk fits, from a line on."""
        old, where = hunk.old, f"patch, line {hunk.line}"
        if not old:
            if not self._lines:
                return 0
            told = "found no lines around what is added, wanted some that are in the file"
            raise ToolError(f"{where}: {told}, so that its place is known")
        places = self._all(old, start)
        if not places:
            raise ToolError(f"{where}: {_misfit(old, self._lines, start, self._path)}")
        if hunk.is_last:
            return self._end(hunk, start)
        if len(places) > 1:
            count = f"{len(places)}{' or more' if len(places) == _MAX_PLACES else ''}"
            listed = ", ".join(str(at + 1) for at in places[:5])
            told = f"found its lines in {count} places of {shown(self._path)} (lines {listed})"
            raise ToolError(f"{where}: {told}, wanted more lines around, so that one is left")
        return places[0]

    def _end(self, hunk: Hunk, start: int) -> int:
        """Return the place of a hunk that says that the text ends with it."""
        at, path = len(self._lines) - len(hunk.old), shown(self._path)
        told = None
        if at < start or self._lines[at:] != hunk.old:
            told = (
                f"more lines in {path} after those of the hunk, which says that {path} ends there"
            )
        elif self._is_ended and not hunk.old_is_ended:
            told = f"a line feed at the end of {path}, which the hunk says is not there"
        if told is not None:
            raise ToolError(
                f"patch, line {hunk.line}: found {told} (`{UNENDED}`); read {path} again"
            )
        return at

    def _all(self, old: list[str], start: int) -> list[int]:
        wanted = "\n".join(["", *old, ""])
        places, at = list[int](), self._starts[start]
        while len(places) < _MAX_PLACES and (at := self._text.find(wanted, at)) >= 0:
            places.append(bisect_left(self._starts, at))
            at += 1
        return places


def _misfit(old: list[str], texts: list[str], start: int, path: str) -> str:
    """Say which line of a hunk is not in the file, as far as that can be told."""
    left, earlier = set(texts[start:]), set(texts[:start])
    again = f"read {shown(path)} again"
    for text in old:
        if text in left:
            continue
        told = f"found a line that is not in {shown(path)}: `{shown(text)}`"
        loose = next((n for n, each in enumerate(texts, 1) if _same(each, text)), None)
        if text in earlier:
            told = f"found `{shown(text)}` only before the hunk above, wanted hunks in order"
        elif loose is not None:
            told += f"; line {loose} differs from it only in white space"
        return f"{told}; {again}"
    return f"found lines that are all in {shown(path)}, but not together; {again}"


def _same(one: str, other: str) -> bool:
    return bool(other.strip()) and "".join(one.split()) == "".join(other.split())

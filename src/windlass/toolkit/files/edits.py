"""What a model asks to be done to a file: a whole new text, a part replaced, a patch.

Law 1. An edit is made from the bytes of the file alone, so made again from the same bytes it is the same.
Law 2. What an edit does not name stays as it is, byte for byte: the mark at the beginning, the ends of lines.
Law 3. A refusal tells the model what to do next, and shows it what it may have meant.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from codecs import BOM_UTF8
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from hashlib import sha256
from itertools import pairwise
from typing import Final, NamedTuple

from windlass.errors import ToolError
from windlass.guards.text import visible
from windlass.toolkit.files.applying import apply, end_of
from windlass.toolkit.files.folder import Content, Folder, Names, as_shown
from windlass.toolkit.files.patch import FilePatch, parse
from windlass.toolkit.files.writing import Edit

VERSION_CHARS: Final = 12
MAX_PLACES: Final = 1_000
"""The most places of a file that one edit replaces."""
_SHOWN_CHARS: Final = 160
_MAX_COMPARED: Final = 1_000
_SIMILAR: Final = 0.6


def version_of(data: bytes) -> str:
    """Return what a model names a state of a file by."""
    return sha256(data).hexdigest()[:VERSION_CHARS]


class Plain(NamedTuple):
    """The text of a file, and whether a byte order mark stood before it."""

    text: str
    has_mark: bool

    @property
    def data(self) -> bytes:
        """The bytes of the file."""
        return (BOM_UTF8 if self.has_mark else b"") + self.text.encode()


def plain(content: Content, path: str) -> Plain:
    """Return the text of a file.

    Raises:
        ToolError: it is not UTF-8 text.
    """
    has_mark = content.data.startswith(BOM_UTF8)
    try:
        text = content.data[len(BOM_UTF8) if has_mark else 0 :].decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        found = "a file that is not UTF-8 text"
        raise ToolError(f"{as_shown(path)}: found {found}, which these tools read but do not edit")
    return Plain(text, has_mark)


# ---------------------------------------------------------------------------------- whole texts


def written(names: Names, text: str, version: str) -> Edit:
    """Return the edit that gives a file a whole new text."""
    data = _encoded(text, "text")
    path = "/".join(names)

    def make(before: Content | None) -> bytes:
        shown = as_shown(path)
        if before is None:
            if version:
                told = "no such file any more; leave `version` out to make a new one"
                raise ToolError(f"{shown}: {told}")
            return data
        if not version:
            told = "this file exists. Read it with read_file and give the version that it shows"
            raise ToolError(f'{shown}: {told}, as version="…"; or change parts with edit_file')
        if version != (now := version_of(before.data)):
            found = f"found version {now}, wanted {as_shown(version[:40])}"
            raise ToolError(f"{shown}: {found}: it changed since you read it; read it again")
        try:
            file = plain(before, path)
        except ToolError:
            if b"\0" in before.data:
                return data  # what was no text has no ends of lines to keep
            file = Plain(before.data.decode("latin-1"), has_mark=False)
        return file._replace(
            text=_with_ends(text.removeprefix("\ufeff"), "", end_of(file.text))
        ).data

    return Edit(names, make)


# -------------------------------------------------------------------------------------- parts


def replaced(names: Names, old: str, new: str, places: int) -> Edit:
    """Return the edit that replaces a part of a file, which stands in it so often."""
    _encoded(old, "old")
    _encoded(new, "new")
    if not old:
        told = "found no text, wanted what stands in the file now; write_file makes new files"
        raise ToolError(f"old: {told}")
    if old == new:
        raise ToolError("new: found the same text as `old`, wanted what is to stand there")
    # However its lines end: what a model read had only line feeds.
    wanted = _with_lf(old)
    path = "/".join(names)

    def make(before: Content | None) -> bytes:
        if before is None:
            raise ToolError(f"{as_shown(path)}: no such file; write_file makes one")
        file = plain(before, path)
        text = _Searched(file.text)
        found = text.starts(wanted)
        if not found:
            raise ToolError(f"{as_shown(path)}: {_not_found(file.text, old, places)}")
        overlap = any(at - last < len(wanted) for last, at in pairwise(found))
        if len(found) != places or overlap:
            told = _miscounted(text.flat, found, places, overlap=overlap)
            raise ToolError(f"{as_shown(path)}: {told}")
        made = text.replaced(wanted, new)
        if made == file.text:
            raise ToolError("new: found the same text as `old`, wanted what is to stand there")
        return file._replace(text=made).data

    return Edit(names, make)


class _Searched:
    """A text as a model read it, with line feeds only, and where its places are in the file.

    Searched as text, not by a regular expression: that takes linear time, whatever is searched for.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._main = end_of(text)
        self.flat = _with_lf(text)
        self._crlf = [match.start() - n for n, match in enumerate(re.finditer("\r\n", text))]

    def starts(self, wanted: str) -> list[int]:
        """Return where it stands, also where one place overlaps another; no more than can be told."""
        found, at = list[int](), 0
        while len(found) <= MAX_PLACES and (at := self.flat.find(wanted, at)) >= 0:
            found.append(at)
            at += 1
        return found

    def replaced(self, wanted: str, new: str) -> str:
        """Return the text with each of its places replaced; the rest is as it was, byte for byte."""
        made, done, at = list[str](), 0, self.flat.find(wanted)
        while at >= 0:
            start, done_flat = self._place(at), at + len(wanted)
            end = self._place(done_flat)
            part = _with_ends(_with_lf(new), self._text[start:end], self._main)
            made += [self._text[done:start], part]
            done, at = end, self.flat.find(wanted, done_flat)
        return "".join([*made, self._text[done:]])

    def _place(self, at: int) -> int:
        return at + bisect_left(self._crlf, at)


def _with_ends(new: str, replaced_text: str, main: str) -> str:
    """Return a new text whose lines end as those that it replaces, or as most in the file."""
    if "\n" in replaced_text:
        main = end_of(replaced_text)
    return new if main == "\n" else _with_lf(new).replace("\n", "\r\n")


def _with_lf(text: str) -> str:
    return text.replace("\r\n", "\n")


def _miscounted(text: str, found: Sequence[int], places: int, *, overlap: bool) -> str:
    lines = ", ".join(str(text.count("\n", 0, at) + 1) for at in found[:5])
    n_found = f"{len(found)} time{'s' if len(found) > 1 else ''}"
    if len(found) > MAX_PLACES:
        n_found = f"over {MAX_PLACES:,} times"
    told = (
        f"found `old` {n_found} (lines {lines}{', …' if len(found) > 5 else ''}), wanted {places}"
    )
    if overlap:
        return f"{told} that do not overlap: give more text around it"
    if len(found) > MAX_PLACES:
        return f"{told}: give more text around it"
    return f"{told}: give more text around it, or places={len(found)} to replace each"


def _not_found(text: str, old: str, places: int) -> str:
    told = f"found `old` 0 times, wanted {places}"
    first = next((line for line in old.split("\n") if line.strip()), "")
    lines = text.split("\n")
    squeezed = "".join(first.split())
    for number, line in enumerate(lines, 1):
        if squeezed and "".join(line.split()) == squeezed:
            if line.strip("\r") == first.strip("\r"):
                said = f"its first line is line {number}, but the lines after that differ"
                return f"{told}; {said}: read the file from there"
            said = f"line {number} differs from its first line only in white space"
            return f"{told}; {said}: `{_shown(line)}`"
    nearest = _nearest(first.strip(), lines)
    if nearest is None:
        return f"{told}, and no line is like its first one; read the file again"
    return (
        f"{told}; the nearest to its first line is line {nearest + 1}: `{_shown(lines[nearest])}`"
    )


def _nearest(wanted: str, lines: Sequence[str]) -> int | None:
    """Return the line that is most like a text, if one is like it, among so many as can be compared."""
    matcher = SequenceMatcher(None, b=wanted[:_SHOWN_CHARS])
    best, place = _SIMILAR, None
    for at, line in enumerate(lines[:_MAX_COMPARED]):
        matcher.set_seq1(line.strip()[:_SHOWN_CHARS])
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best:
            ratio = matcher.ratio()
            if ratio > best:
                best, place = ratio, at
    return place


def _shown(line: str) -> str:
    cut = line.removesuffix("\r")
    return visible(cut if len(cut) <= _SHOWN_CHARS else cut[:_SHOWN_CHARS] + "…", keep="\t")


# ------------------------------------------------------------------------------------- patches


def patched(folder: Folder, patch: str) -> list[Edit]:
    """Return the edits that a unified diff says.

    Raises:
        PathDenied: it names a path that may not be opened.
        ToolError: it is not one.
    """
    _encoded(patch, "patch")
    return [Edit(folder.names_of(file.path), _patching(file)) for file in parse(patch)]


def _patching(file: FilePatch) -> Callable[[Content | None], bytes | None]:
    shown = as_shown(file.path)

    def make(before: Content | None) -> bytes | None:
        if file.creates:
            if before is not None:
                told = f"this file exists; begin its part of the patch with `--- a/{shown}`"
                raise ToolError(f"{shown}: {told}")
            return apply("", file).encode()
        if before is None:
            told = "no such file; to make it, begin its part of the patch with `--- /dev/null`"
            raise ToolError(f"{shown}: {told}")
        old = plain(before, file.path)
        text = apply(old.text, file)
        if not file.deletes:
            return old._replace(text=text).data
        if text:
            told = "the patch deletes this file, but does not remove all of its lines"
            raise ToolError(f"{shown}: {told}; read it again, and remove each line")
        return None

    return make


def _encoded(text: str, field: str) -> bytes:
    if "\0" in text:
        raise ToolError(f"{field}: found a NUL, wanted text; these tools write only text")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ToolError(f"{field}: found half a character, wanted whole ones") from None

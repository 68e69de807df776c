"""Front matter: the YAML at the top of a Markdown file, as far as the skills convention uses it.

Understood: plain, quoted and block text (`|`, `>`), lists of text, one level of keys below a key, comments. All
else is refused with its line, but for one mistake that real files make and that leaves no doubt: a colon inside plain
text is text, and is noted.

A key that nobody asks for is never read, so whatever stands there may be any YAML at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from windlass.plugins.yaml_text import Unreadable, folded, quoted, without_comment

_FENCE: Final = "---"
_MAX_CHARS: Final = 32 * 1024
_KEY: Final = re.compile(r"\w[\w ./-]*")
_BLOCK: Final = re.compile(r"[|>](?:[+-]?[1-9]?|[1-9][+-])")
# Anchors, aliases, tags, directives, and what YAML keeps for itself.
_RESERVED: Final = "&*!%@`"
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})


class Line(NamedTuple):
    """A line of the file, counted from 1."""

    number: int
    text: str


class Entry(NamedTuple):
    """A key, what stands behind its colon, and the lines below that belong to it."""

    key: str
    line: int
    rest: str
    below: tuple[Line, ...]


class FrontMatter:
    """The keys of a file, to be read by what is wanted of them; and the text that comes after."""

    __slots__ = ("body", "entries", "notes")

    def __init__(self, entries: dict[str, Entry], body: str) -> None:
        self.entries = entries
        self.body = body
        self.notes: list[str] = []
        """What was read although it is not quite right."""

    def line(self, key: str) -> int:
        """Return where a key stands; where it would stand if it is not there."""
        found = self.entries.get(key)
        return 1 if found is None else found.line

    def text(self, key: str) -> str | None:
        """Return a key's text; None if it is not there or null.

        Raises:
            Unreadable: it is something else.
        """
        found = self.entries.get(key)
        return None if found is None else self._text(found)

    def words(self, key: str) -> list[str] | str | None:
        """Return a key's list of texts, or its text.

        Raises:
            Unreadable: it is something else.
        """
        found = self.entries.get(key)
        if found is None:
            return None
        if found.rest.startswith("["):
            return _flow_list(found)
        below = _filled(found.below)
        if not _value_behind(found) and below and _is_item(below[0].text):
            return _block_list(below)
        return self._text(found)

    def mapping(self, key: str) -> dict[str, str]:
        """Return the texts below a key. What is no text there is left out, and noted.

        Raises:
            Unreadable: there are no keys below it.
        """
        found = self.entries.get(key)
        if found is None:
            return {}
        if found.rest.startswith("{"):
            self.notes.append(f"line {found.line}: {key} is written in braces and left out")
            return {}
        if _value_behind(found):
            raise Unreadable(f"found text for {key}, wanted keys below it", found.line)
        below = _filled(found.below)
        if below and below[0].text.lstrip().startswith("{"):
            self.notes.append(f"line {found.line}: {key} is written in braces and left out")
            return {}
        kept: dict[str, str] = {}
        for entry in _entries(found.below, _indent(below[0].text) if below else 0).values():
            try:
                kept[entry.key] = self._text(entry) or ""
            except Unreadable as error:
                self.notes.append(
                    f"line {error.line}: {key}.{entry.key} is left out: {error.reason}"
                )
        return kept

    def _text(self, entry: Entry) -> str | None:
        rest = entry.rest
        if rest.startswith(("|", ">")):
            return _block_text(entry)
        if not _value_behind(entry):
            return self._plain_below(entry)
        if rest.startswith(('"', "'")):
            return quoted([rest, *(line.text for line in entry.below)], entry.line)
        _refuse_start(rest, entry.key, entry.line)
        return self._plain(entry, [Line(entry.line, rest), *entry.below])

    def _plain_below(self, entry: Entry) -> str | None:
        below = _filled(entry.below)
        if not below:
            return None
        first = below[0].text.strip()
        lines = [line for line in entry.below if line.number >= below[0].number]
        if first.startswith(('"', "'")):
            return quoted([first, *(line.text for line in lines[1:])], below[0].number)
        _refuse_start(first, entry.key, below[0].number)
        if _split(first) is not None:
            raise Unreadable(f"found keys below {entry.key}, wanted text", below[0].number)
        return self._plain(entry, lines)

    def _plain(self, entry: Entry, lines: Sequence[Line]) -> str | None:
        parts: list[str] = []
        has_ended = False
        for line in lines:
            bare = without_comment(line.text).strip()
            if has_ended and bare:
                raise Unreadable(f"found more of {entry.key} behind a comment", line.number)
            has_ended = has_ended or bare != line.text.strip()
            if ": " in bare or bare.endswith(":"):
                self.notes.append(f"line {line.number}: {entry.key} has a colon and no quotes")
            parts.append(bare)
        text = folded(parts)
        return None if text in _NULLS else text


def read_front_matter(text: str) -> FrontMatter:
    """Return what stands at the top of a file, and the rest of it.

    Raises:
        Unreadable: there is none, or it is not as the convention has it.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != _FENCE:
        raise Unreadable("found no front matter, wanted --- in the first line", 1)
    end = next((at for at in range(1, len(lines)) if lines[at].rstrip() == _FENCE), None)
    if end is None:
        raise Unreadable("found no end of the front matter, wanted a second ---", 1)
    top = [Line(at + 1, lines[at]) for at in range(1, end)]
    if sum(len(line.text) for line in top) > _MAX_CHARS:
        raise Unreadable(f"found a front matter of over {_MAX_CHARS:,} characters", 1)
    return FrontMatter(_entries(top, 0), "\n".join(lines[end + 1 :]).strip("\n"))


# ------------------------------------------------------------------------------------- keys


def _entries(lines: Iterable[Line], indent: int) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    below: list[Line] = []
    head: Entry | None = None
    for line in lines:
        text = line.text
        depth = _indent(text)
        _refuse_tabs(line)
        if (
            not text.strip()
            or depth > indent
            or (head is not None and _goes_on(text, head, below, indent))
        ):
            if head is None and text.strip() and not text.lstrip().startswith("#"):
                raise Unreadable("found an indented line before any key", line.number)
            below.append(line)
            continue
        if text.lstrip().startswith("#"):
            continue
        if head is not None:
            entries[head.key] = head._replace(below=tuple(below))
        head, below = _head(line, depth, indent, entries), []
    if head is not None:
        entries[head.key] = head._replace(below=tuple(below))
    return entries


def _head(line: Line, depth: int, indent: int, known: dict[str, Entry]) -> Entry:
    found = _split(line.text.strip())
    if found is None or depth < indent:
        raise Unreadable("found a line that is no `key: value`", line.number)
    key, rest = found
    if key in known:
        raise Unreadable(f"found {key} again, the first is in line {known[key].line}", line.number)
    return Entry(key, line.number, rest, ())


def _goes_on(text: str, head: Entry, below: Iterable[Line], indent: int) -> bool:
    """Whether a line that is not indented still belongs to the key above, as YAML allows."""
    bare = text.strip()
    if _indent(text) != indent:
        return False
    if _is_item(bare) and not _value_behind(head):
        return all(_is_item(line.text) for line in _filled(below))
    return bare in ("]", "}") and head.rest.startswith(("[", "{"))


def _split(text: str) -> tuple[str, str] | None:
    at = text.find(":")
    if at < 1 or (at + 1 < len(text) and text[at + 1] not in " \t"):
        return None
    key = text[:at].rstrip()
    return (key, text[at + 1 :].strip()) if _KEY.fullmatch(key) else None


def _value_behind(entry: Entry) -> bool:
    return bool(entry.rest) and not entry.rest.startswith("#")


def _filled(lines: Iterable[Line]) -> list[Line]:
    return [line for line in lines if line.text.strip() and not line.text.lstrip().startswith("#")]


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip(" "))


def _refuse_tabs(line: Line) -> None:
    if line.text.lstrip(" ").startswith("\t") and line.text.strip():
        raise Unreadable("found a tab at the start, wanted spaces", line.number)


def _refuse_start(text: str, key: str, number: int) -> None:
    if text[0] in _RESERVED + "|>":
        raise Unreadable(f"found {key} beginning with {text[0]}, wanted text", number)
    if text[0] in "[{" or _is_item(text):
        raise Unreadable(f"found a list or keys for {key}, wanted text", number)
    if text[0] in "]}," or text == "?" or text.startswith("? "):
        raise Unreadable(f"found {key} beginning with {text[0]}, wanted text", number)


# ------------------------------------------------------------------------------------- values


def _block_text(entry: Entry) -> str:
    header = without_comment(entry.rest).strip()
    if not _BLOCK.fullmatch(header):
        raise Unreadable(
            f"found {entry.key} beginning with {header[:8]}, wanted | or >", entry.line
        )
    digits = [char for char in header if char.isdigit()]
    filled = [line for line in entry.below if line.text.strip()]
    if not filled:
        return ""
    margin = int(digits[0]) if digits else _indent(filled[0].text)
    for line in filled:
        if _indent(line.text) < margin:
            raise Unreadable(f"found a line left of the text of {entry.key}", line.number)
    texts = [line.text[margin:].rstrip() for line in entry.below]
    # How many line ends are kept at the end (+, -) does not matter: nobody wants any.
    return ("\n".join(texts) if header[0] == "|" else folded(texts, keep_indented=True)).strip("\n")


def _is_item(text: str) -> bool:
    bare = text.strip()
    return bare == "-" or bare.startswith("- ")


def _block_list(lines: Sequence[Line]) -> list[str]:
    items: list[str] = []
    depth = _indent(lines[0].text)
    for line in lines:
        if _indent(line.text) != depth or not _is_item(line.text):
            raise Unreadable("found a line that is no `- item`", line.number)
        item = line.text.strip()[1:].strip()
        if item.startswith(('"', "'")):
            items.append(quoted([item], line.number))
            continue
        bare = without_comment(item).strip()
        if not _is_text(bare) or _is_item(bare):
            raise Unreadable("found an item that is no text", line.number)
        items.append(bare)
    return items


def _is_text(item: str) -> bool:
    has_colon = ": " in item or item.endswith(":")
    return bool(item) and item[0] not in _RESERVED + "[]{},|>?" and not has_colon


def _flow_list(entry: Entry) -> list[str]:
    lines = [Line(entry.line, entry.rest), *entry.below]
    text = " ".join(without_comment(line.text).strip() for line in lines).strip()
    if not text.endswith("]"):
        raise Unreadable(f"found no end of the list {entry.key}, wanted ]", entry.line)
    items: list[str] = []
    for item in _between_commas(text[1:-1], entry):
        if item.startswith(('"', "'")):
            items.append(quoted([item], entry.line))
        elif not _is_text(item) or any(char in item for char in "[]{}"):
            raise Unreadable(f"found an item of {entry.key} that is no text", entry.line)
        else:
            items.append(item)
    return items


def _between_commas(text: str, entry: Entry) -> list[str]:
    items: list[str] = []
    open_quote, start = "", 0
    for at, char in enumerate(text + ","):
        if open_quote:
            open_quote = "" if char == open_quote and text[at - 1] != "\\" else open_quote
        elif char in "\"'" and not text[start:at].strip():
            open_quote = char
        elif char == ",":
            items.append(text[start:at].strip())
            start = at + 1
    if open_quote:
        raise Unreadable(f"found a quote that is not closed in {entry.key}", entry.line)
    if items and not items[-1]:
        items.pop()  # a comma may stand before the end
    if not all(items):
        raise Unreadable(f"found an empty item in {entry.key}", entry.line)
    return items

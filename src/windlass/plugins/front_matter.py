"""Front matter: the part of YAML that stands at the top of published SKILL.md files.

Read: plain and quoted text, over several lines if need be, block text (`|`, `>`), lists of text, one level of keys
below a key, comments. Anything else is refused with its line. One mistake of real files leaves no doubt and is read
with a note: a colon inside plain text.

A key that is not asked for is never read, so any YAML may stand there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from windlass.kernel import canonical

_FENCE: Final = "---"
_MAX_CHARS: Final = 32 * 1024
_HEAD: Final = re.compile(r"(\w[\w ./-]*?) *:(?:[ \t]+(.*))?")
_COMMENT: Final = re.compile(r"(?:^|[ \t])#.*", re.DOTALL)
_QUOTED: Final = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^']|'')*'""", re.DOTALL)
_IN_FLOW: Final = re.compile(
    rf"""\s*+({_QUOTED.pattern}|[^\s"',\[\]{{}}][^,\[\]{{}}]*+)\s*+(?:,\s*+|$)"""
)
_ESCAPE: Final = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)", re.DOTALL)
# What starts an anchor, an alias, a tag, a directive, a complex key or block text in YAML, and what it reserves.
_NOT_PLAIN: Final = "&*!%@`|>]},"
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})


class Unreadable(Exception):
    """What could not be read, and in which line of the file."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(f"line {line}: {reason}")
        self.reason = reason
        self.line = line


class Entry(NamedTuple):
    """A key, the text behind its colon, and the lines below that belong to it."""

    key: str
    line: int
    rest: str
    below: list[str]

    def value(self) -> tuple[int, list[str]]:
        """Return the lines of the value from its first one on, and the number of that one."""
        lines = [self.rest, *self.below]
        at = next((at for at, line in enumerate(lines) if _bare(line)), len(lines))
        return self.line + at, lines[at:]


class FrontMatter(msgspec.Struct):
    """The keys of a file, each read as what the caller wants of it; and the text that comes after.

    `notes` say what was read although it is not quite right.
    """

    entries: dict[str, Entry]
    body: str
    notes: list[str] = []

    def line(self, key: str) -> int:
        """Return the line of a key; 1 if there is no such key."""
        found = self.entries.get(key)
        return 1 if found is None else found.line

    def text(self, key: str) -> str | None:
        """Return a key's text; None if there is no such key, or its value is null.

        Raises:
            Unreadable: it is not text.
        """
        found = self.entries.get(key)
        return None if found is None else self._text(found)

    def words(self, key: str) -> list[str] | str | None:
        """Return a key's list of texts, or its text.

        Raises:
            Unreadable: it is neither.
        """
        found = self.entries.get(key)
        if found is not None and found.rest.startswith("["):
            return _flow_list(found)
        if found is not None and not found.rest:
            number, lines = found.value()
            if lines and _is_item(lines[0]):
                return _block_list(lines, number)
        return self.text(key)

    def mapping(self, key: str) -> dict[str, str]:
        """Return the texts below a key. A value that is not text is left out, with a note.

        Raises:
            Unreadable: there are no keys below it.
        """
        found = self.entries.get(key)
        if found is None:
            return {}
        number, lines = found.value()
        if lines and lines[0].lstrip().startswith("{"):
            self.notes.append(f"line {found.line}: {key} is written in braces and left out")
            return {}
        if found.rest:
            raise Unreadable(f"found text for {key}, wanted keys below it", found.line)
        kept: dict[str, str] = {}
        for entry in _entries(lines, number, _indent(lines[0]) if lines else 0).values():
            try:
                kept[entry.key] = self._text(entry) or ""
            except Unreadable as error:
                left_out = f"{key}.{entry.key} is left out"
                self.notes.append(f"line {error.line}: {left_out}: {error.reason}")
        return kept

    def _text(self, entry: Entry) -> str | None:
        if entry.rest.startswith(("|", ">")):
            return _block_text(entry)
        number, lines = entry.value()
        if not lines:
            return None
        first = lines[0].strip()
        if first[0] in "\"'":
            return _quoted("\n".join(lines).lstrip(), number)
        if first[0] in "[{" or _is_item(first):
            raise Unreadable(f"found a list or keys for {entry.key}, wanted text", number)
        if first[0] in _NOT_PLAIN or first == "?" or first.startswith("? "):
            raise Unreadable(f"found {entry.key} beginning with {first[0]}, wanted text", number)
        if not entry.rest and _HEAD.fullmatch(first):
            raise Unreadable(f"found keys below {entry.key}, wanted text", number)
        return self._plain_text(entry.key, lines, number)

    def _plain_text(self, key: str, lines: Sequence[str], first: int) -> str | None:
        parts: list[str] = []
        has_comment = False
        for number, line in enumerate(lines, first):
            bare = _bare(line)
            if bare and has_comment:
                raise Unreadable(f"found more of {key} behind a comment", number)
            if ": " in bare or bare.endswith(":"):
                self.notes.append(f"line {number}: {key} has a colon and no quotes")
            has_comment = has_comment or bare != line.strip()
            parts.append(bare)
        text = _folded(parts)
        return None if text in _NULLS else text


def read_front_matter(text: str) -> FrontMatter:
    """Return what stands at the top of a file, and the rest of it.

    Raises:
        Unreadable: there is no front matter, or a line of it is not a key, a comment or part of a value.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != _FENCE:
        raise Unreadable("found no front matter, wanted --- in the first line", 1)
    end = next((at for at in range(1, len(lines)) if lines[at].rstrip() == _FENCE), None)
    if end is None:
        raise Unreadable("found no end of the front matter, wanted a second ---", 1)
    if sum(map(len, lines[1:end])) > _MAX_CHARS:
        raise Unreadable(f"found a front matter of over {_MAX_CHARS:,} characters", 1)
    return FrontMatter(_entries(lines[1:end], 2, 0), "\n".join(lines[end + 1 :]).strip("\n"))


def _entries(lines: Sequence[str], first: int, indent: int) -> dict[str, Entry]:
    """Return the keys that stand at this indent, in lines of which the first has this number."""
    entries: dict[str, Entry] = {}
    head: Entry | None = None
    value = ""  # how the value of that key begins
    for number, line in enumerate(lines, first):
        if line.strip() and line.lstrip(" ").startswith("\t"):
            raise Unreadable("found a tab at the start, wanted spaces", number)
        is_comment = line.lstrip().startswith("#") and _indent(line) <= indent
        if line.strip() and not is_comment and not _belongs(line, head, value, indent):
            head = _head(line, number, indent, entries)
            entries[head.key] = head
            value = head.rest
        elif head is not None:
            head.below.append("" if is_comment else line)
            value = value or _bare(line)
        elif _bare(line):
            raise Unreadable("found an indented line before any key", number)
    return entries


def _belongs(line: str, head: Entry | None, value: str, indent: int) -> bool:
    """Whether a line is part of the value of the key above it."""
    if _indent(line) != indent or head is None:
        return _indent(line) > indent
    if line.strip() in ("]", "}"):
        return value.startswith(("[", "{"))
    # YAML lets the items of a list stand as far left as their key.
    return _is_item(line) and not head.rest and (not value or _is_item(value))


def _head(line: str, number: int, indent: int, known: dict[str, Entry]) -> Entry:
    found = _HEAD.fullmatch(line.strip())
    if found is None or _indent(line) < indent:
        raise Unreadable("found a line that is not `key: value`", number)
    key, rest = found[1], found[2] or ""
    if key in known:
        raise Unreadable(f"found {key} again, the first is in line {known[key].line}", number)
    return Entry(key, number, "" if rest.startswith("#") else rest, [])


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _bare(line: str) -> str:
    """Return a line without its comment."""
    return _COMMENT.sub("", line, count=1).strip()


def _is_item(line: str) -> bool:
    return line.strip() == "-" or line.lstrip().startswith("- ")


def _folded(lines: Sequence[str]) -> str:
    """Return lines as one: an end of line is a space, each empty line after it an end of line.

    Lines that are indented keep their line ends.
    """
    made, joint, was_indented = "", "", False
    for line in lines:
        if not line.strip():
            joint += "\n"
            continue
        is_indented = line[0] in " \t"
        if made:
            made += joint + "\n" if is_indented or was_indented else joint or " "
        made += line
        joint, was_indented = "", is_indented
    return made


def _block_text(entry: Entry) -> str:
    header = _bare(entry.rest)
    if header.rstrip("+-") not in ("|", ">") or len(header) > 2:
        found = f"found {entry.key} beginning with {header[:8]}"
        raise Unreadable(f"{found}, wanted | or >", entry.line)
    margin = next((_indent(line) for line in entry.below if line.strip()), 0)
    for number, line in enumerate(entry.below, entry.line + 1):
        if line.strip() and _indent(line) < margin:
            raise Unreadable(f"found a line left of the text of {entry.key}", number)
    texts = [line[margin:].rstrip() for line in entry.below]
    # + and - say how many line ends to keep at the end; a skill needs none.
    return ("\n".join(texts) if header[0] == "|" else _folded(texts)).strip("\n")


def _quoted(text: str, number: int) -> str:
    """Return what stands in the quotes that these lines begin with."""
    found = _QUOTED.match(text)
    if found is None:
        raise Unreadable("found a quote that is not closed", number)
    for line, behind in enumerate(text[found.end() :].split("\n"), number + found[0].count("\n")):
        if _bare(behind):
            raise Unreadable("found something behind the quotes", line)
    first, *more = found[0][1:-1].split("\n")
    inner = _folded([first.rstrip() if more else first, *(line.strip() for line in more)])
    if text[0] == "'":
        return inner.replace("''", "'")
    return _ESCAPE.sub(lambda escape: _meant(escape[0], number), inner)


def _meant(escape: str, number: int) -> str:
    """Return what an escape stands for. YAML has more of them than JSON, which skills do not use."""
    try:
        return str(canonical.parse(f'"{escape}"'))
    except ValueError:
        raise Unreadable(f"found the escape {escape}, wanted one that JSON has", number) from None


def _block_list(lines: Sequence[str], number: int) -> list[str]:
    items: list[str] = []
    for at, line in enumerate(lines, number):
        if not _bare(line):
            continue
        if _indent(line) != _indent(lines[0]) or not _is_item(line):
            raise Unreadable("found a line that is not `- item`", at)
        items.append(_item(line.strip()[1:].strip(), at))
    return items


def _flow_list(entry: Entry) -> list[str]:
    text = " ".join(map(_bare, [entry.rest, *entry.below])).strip()
    if not text.endswith("]"):
        raise Unreadable(f"found no end of the list {entry.key}, wanted ]", entry.line)
    items: list[str] = []
    at, inner = 0, text[1:-1].strip()
    while at < len(inner):
        found = _IN_FLOW.match(inner, at)
        if found is None:
            raise Unreadable(f"found an item of {entry.key} that is not text", entry.line)
        items.append(_item(found[1].strip(), entry.line))
        at = found.end()
    return items


def _item(text: str, number: int) -> str:
    if text[:1] in ('"', "'"):
        return _quoted(text, number)
    bare = _bare(text)
    if not bare or bare[0] in _NOT_PLAIN + "[{?" or _is_item(bare) or ": " in f"{bare} ":
        raise Unreadable("found an item that is not text", number)
    return bare

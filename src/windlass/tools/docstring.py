"""Docstrings: what a tool does, and what each parameter means, in Google, NumPy or Sphinx style.

A docstring is prose. Anything not understood stays part of the description or is left out; nothing is
refused here.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_ARGS: Final = frozenset(
    {
        "args", "arguments", "parameters", "params", "keyword args", "keyword arguments",
        "other parameters",
    }
)  # fmt: skip
# Sections that tell a programmer something, and the model nothing that it could use.
_OTHER: Final = frozenset(
    {
        "attributes", "example", "examples", "raises", "references", "return", "returns", "see also",
        "todo", "warns", "yield", "yields",
    }
)  # fmt: skip
_GOOGLE_ITEM: Final = re.compile(r"\*{0,2}(?P<name>\w+)\s*(?:\([^:]*\))?\s*:(?:\s+|$)(?P<text>.*)")
_NUMPY_ITEM: Final = re.compile(r"(?P<names>\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")
_SPHINX_PARAM: Final = re.compile(
    r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?\*{0,2}(?P<name>\w+)\s*:\s*(?P<text>.*)"
)
_SPHINX_FIELD: Final = re.compile(
    r":(?:param|parameter|arg|argument|key|keyword|type|raises?|except|exception|returns?|rtype|yields?|var|ivar|cvar)\b[^:]*:"
)


class Docstring(NamedTuple):
    """What a docstring says."""

    description: str = ""
    parameters: dict[str, str] = {}  # noqa: RUF012 - a fresh one is always given


def parse(text: str | None) -> Docstring:
    """Return the text before the sections, and the description of each parameter."""
    if not text:
        return Docstring("", {})
    lines = inspect.cleandoc(text).splitlines()
    if lines and lines[0].lower().removesuffix(":") in _ARGS:
        # The margin is that of the other lines; under a heading in the first, it is theirs alone.
        lines[1:] = [f" {line}" if line else line for line in lines[1:]]
    description: list[str] = []
    parameters: dict[str, str] = {}
    at, seen_section = 0, False
    while at < len(lines):
        section, start = _heading(lines, at)
        if section is None:
            if not seen_section:
                description.append(lines[at])
            at += 1
            continue
        seen_section = True
        end = _end(lines, start, section)
        for name, words in _items(lines[start:end], section):
            parameters.setdefault(name, words)
        at = end
    return Docstring("\n".join(description).strip(), parameters)


def _heading(lines: list[str], at: int) -> tuple[str | None, int]:
    """Return the style of the section that begins here, and where its first line is."""
    line = lines[at]
    if _SPHINX_FIELD.match(line):
        return "sphinx", at
    title = line.strip().lower()
    below = lines[at + 1] if at + 1 < len(lines) else ""
    if re.fullmatch(r"-{3,}|={3,}", below.strip()) and title in _ARGS | _OTHER:
        return ("numpy" if title in _ARGS else "other"), at + 2
    if line[:1].isspace() or not title.endswith(":"):
        return None, at
    title = title.removesuffix(":")
    is_indented = below[:1].isspace() or not below
    if title in _ARGS and is_indented:
        return "google", at + 1
    if title in _OTHER and is_indented:
        return "other", at + 1
    return None, at


def _end(lines: list[str], start: int, section: str) -> int:
    """Return where the section ends: at the next heading, or at text that stands in the margin again."""
    for at in range(start, len(lines)):
        if section == "sphinx" and at == start:
            continue
        line = lines[at]
        if _heading(lines, at)[0] is not None:
            return at
        if section in {"google", "sphinx"} and line and not line[0].isspace():
            return at
    return len(lines)


def _items(lines: list[str], section: str) -> Iterator[tuple[str, str]]:
    if section == "sphinx":
        found = _SPHINX_PARAM.match(lines[0])
        if found is not None:
            yield found["name"], _joined([found["text"], *lines[1:]])
        return
    if section == "other":
        return
    item = _GOOGLE_ITEM if section == "google" else _NUMPY_ITEM
    margin = min((_indent(line) for line in lines if line.strip()), default=0)
    names: list[str] = []
    words: list[str] = []
    for line in lines:
        found = item.match(line.strip()) if line.strip() and _indent(line) == margin else None
        if found is None:
            words.append(line)
            continue
        yield from ((name, _joined(words)) for name in names)
        groups = found.groupdict()
        listed = groups.get("names") or groups["name"]
        names = [name.strip().lstrip("*") for name in listed.split(",")]
        words = [groups.get("text") or ""]
    yield from ((name, _joined(words)) for name in names)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _joined(lines: list[str]) -> str:
    return " ".join(word for line in lines if (word := line.strip()))

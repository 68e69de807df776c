"""A skill: what its SKILL.md says, checked against the convention."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

import msgspec

from windlass.guards.text import is_clean
from windlass.plugins.front_matter import FrontMatter, read_front_matter
from windlass.plugins.yaml_text import Unreadable

MAX_DESCRIPTION_CHARS: Final = 1_024
_MAX_NAME_CHARS: Final = 64
_MAX_COMPATIBILITY_CHARS: Final = 500
_MAX_ALLOWED: Final = 128
_MAX_TOOL_CHARS: Final = 128
_REVISION_CHARS: Final = 12
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_KNOWN: Final = frozenset(
    {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
)


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """A skill without its instructions.

    `allowed_tools` holds names of tools, without what may stand in brackets behind them; None: not said.
    """

    name: str
    description: str
    license: str | None = None
    compatibility: str | None = None
    metadata: dict[str, str] = {}
    allowed_tools: tuple[str, ...] | None = None
    revision: str
    notes: tuple[str, ...] = ()


def is_skill_name(name: object) -> bool:
    """Whether the convention takes this as a skill's name."""
    return isinstance(name, str) and len(name) <= _MAX_NAME_CHARS and bool(_NAME.fullmatch(name))


def read_skill(data: bytes, *, folder: str) -> tuple[Skill, str]:
    """Return a skill and its instructions, from the bytes of its SKILL.md and the name of its folder.

    Raises:
        Unreadable: with the reason and the line.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Unreadable("found bytes that are not UTF-8", line) from None
    if not is_clean(text):
        raise Unreadable("found NUL", text.count("\n", 0, text.index("\x00")) + 1)
    top = read_front_matter(text)
    skill = Skill(
        name=_name(top, folder),
        description=_description(top),
        license=_plain(top, "license"),
        compatibility=_compatibility(top),
        metadata=top.mapping("metadata"),
        allowed_tools=_allowed_tools(top),
        revision=sha256(data).hexdigest()[:_REVISION_CHARS],
        notes=_notes(top),
    )
    return skill, top.body


def _name(top: FrontMatter, folder: str) -> str:
    name, line = _plain(top, "name"), top.line("name")
    if name is None:
        raise Unreadable("found no name", line)
    if not is_skill_name(name):
        wanted = f"1 to {_MAX_NAME_CHARS} of a-z 0-9, in words with - between them"
        raise Unreadable(f"found another kind of name, wanted {wanted}", line)
    if name != folder:
        raise Unreadable(f"found the name {name}, wanted that of its folder, {folder}", line)
    return name


def _description(top: FrontMatter) -> str:
    # One line, so that no description can look like more than one entry of a list.
    said = " ".join((_plain(top, "description") or "").split())
    if not said:
        raise Unreadable("found no description", top.line("description"))
    if len(said) > MAX_DESCRIPTION_CHARS:
        top.notes.append(
            f"line {top.line('description')}: description has {len(said):,} characters and is cut at "
            f"{MAX_DESCRIPTION_CHARS:,}"
        )
        said = said[: MAX_DESCRIPTION_CHARS - 1].rstrip() + "…"
    return said


def _compatibility(top: FrontMatter) -> str | None:
    said = _plain(top, "compatibility")
    if said is not None and len(said) > _MAX_COMPATIBILITY_CHARS:
        top.notes.append(
            f"line {top.line('compatibility')}: compatibility has over {_MAX_COMPATIBILITY_CHARS} characters"
        )
    return said


def _allowed_tools(top: FrontMatter) -> tuple[str, ...] | None:
    said, line = top.words("allowed-tools"), top.line("allowed-tools")
    if said is None or said == "":
        return None
    patterns = _outside_brackets(said) if isinstance(said, str) else said
    names = dict.fromkeys(pattern.partition("(")[0].strip() for pattern in patterns)
    names.pop("", None)
    if not all(map(is_clean, names)):
        raise Unreadable("found a character in allowed-tools that cannot be stored", line)
    if len(names) > _MAX_ALLOWED or any(len(name) > _MAX_TOOL_CHARS for name in names):
        raise Unreadable(
            f"found allowed-tools beyond {_MAX_ALLOWED} names of {_MAX_TOOL_CHARS} characters", line
        )
    return tuple(names)


def _outside_brackets(text: str) -> list[str]:
    """Return what is between spaces and commas, where these are not in brackets: `Bash(git add:*), Read`."""
    made = [""]
    depth = 0
    for char in text:
        if depth == 0 and (char == "," or char.isspace()):
            made.append("")
            continue
        depth = max(0, depth + {"(": 1, ")": -1}.get(char, 0))
        made[-1] += char
    return [word for word in made if word]


def _plain(top: FrontMatter, key: str) -> str | None:
    said = top.text(key)
    if said is not None and not is_clean(said):
        raise Unreadable(f"found a character in {key} that cannot be stored", top.line(key))
    return said.strip() if said is not None else None


def _notes(top: FrontMatter) -> tuple[str, ...]:
    unknown = [entry for key, entry in top.entries.items() if key not in _KNOWN]
    return (*top.notes, *(f"line {entry.line}: {entry.key} is ignored" for entry in unknown))

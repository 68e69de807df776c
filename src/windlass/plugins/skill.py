"""Skills: what a SKILL.md says, checked against the convention; and the index of all in the host's folders."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Collection, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import msgspec

from windlass.errors import ConfigError, LimitExceeded, PathDenied
from windlass.guards.text import is_clean
from windlass.plugins import skill_folder
from windlass.plugins.front_matter import FrontMatter, Unreadable, read_front_matter
from windlass.plugins.skill_folder import SKILL_FILE, Listed, Signature, SkillFolder, as_shown

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


class SkillHead(msgspec.Struct, frozen=True, kw_only=True):
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


def read_skill(data: bytes, *, folder: str) -> tuple[SkillHead, str]:
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
    skill = SkillHead(
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
        found = f"description has {len(said):,} characters and is cut at {MAX_DESCRIPTION_CHARS:,}"
        top.notes.append(f"line {top.line('description')}: {found}")
        said = said[: MAX_DESCRIPTION_CHARS - 1].rstrip() + "…"
    return said


def _compatibility(top: FrontMatter) -> str | None:
    said = _plain(top, "compatibility")
    if said is not None and len(said) > _MAX_COMPATIBILITY_CHARS:
        found = f"compatibility has over {_MAX_COMPATIBILITY_CHARS} characters"
        top.notes.append(f"line {top.line('compatibility')}: {found}")
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
        most = f"{_MAX_ALLOWED} names of {_MAX_TOOL_CHARS} characters"
        raise Unreadable(f"found allowed-tools beyond {most}", line)
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


# --------------------------------------------------------------------------------------- all skills


MAX_SKILLS: Final = 200


class Root(NamedTuple):
    """A folder as the host wrote it, and where that is."""

    given: str
    path: str


class LeftOut(NamedTuple):
    """A skill that is not offered: the file as the host would write it, the line if there is one, and the reason."""

    file: str
    line: int | None
    reason: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.reason}"


class SkillFiles(Protocol):
    """The files of a skill: a folder on disk, or what a program made."""

    def read(self, path: str, limit: int) -> bytes:
        """Return the bytes of a file."""
        ...

    def files(self) -> tuple[list[Listed], bool]:
        """Return the files, and whether there are more than are listed."""
        ...


class Placed(NamedTuple):
    """A skill, and where its files are."""

    skill: SkillHead
    folder: SkillFiles


class Scan(NamedTuple):
    """What one scan of the folders found, by name."""

    placed: dict[str, Placed]
    left_out: tuple[LeftOut, ...]
    names: frozenset[str]
    """Also those of skills that are left out or not enabled."""


class SkillIndex:
    """The skills in the host's folders, and those that the host `made` in code, which come first.

    It keeps what it read from files, which is the same for every turn.
    """

    def __init__(
        self,
        roots: Collection[str | os.PathLike[str]],
        *,
        max_bytes: int,
        made: Mapping[str, Placed] = {},
    ) -> None:
        self._given = dict(made)
        self._roots = tuple(_root(given, f"folders[{at}]") for at, given in enumerate(roots))
        self._max_bytes = max_bytes
        self._read: dict[SkillFolder, tuple[Signature, SkillHead | LeftOut]] = {}
        self._lock = threading.Lock()
        self.last = Scan({}, (), frozenset())

    def scan(self, *, enabled: frozenset[str] | None, disabled: frozenset[str]) -> Scan:
        """Scan the folders, and read what is new. Safe to call from any thread."""
        with self._lock:
            found, left_out = self._found()

            def is_wanted(name: str) -> bool:
                return name not in disabled and (enabled is None or name in enabled)

            placed = {name: one for name, one in self._given.items() if is_wanted(name)}
            for folder, file in found:
                if not is_wanted(folder.name):
                    continue
                made = self._made(folder, file)
                if isinstance(made, LeftOut):
                    left_out.append(made)
                elif folder.name in placed:
                    reason = "found a second skill of this name, the first one is used"
                    left_out.append(LeftOut(file, None, reason))
                elif len(placed) == MAX_SKILLS:
                    left_out.append(LeftOut(file, None, f"found more than {MAX_SKILLS} skills"))
                else:
                    placed[folder.name] = Placed(made, folder)
            known = {folder for folder, _file in found}
            self._read = {at: kept for at, kept in self._read.items() if at in known}
            names = frozenset([*self._given, *(folder.name for folder in known)])
            self.last = Scan(dict(sorted(placed.items())), tuple(left_out), names)
            return self.last

    def _found(self) -> tuple[list[tuple[SkillFolder, str]], list[LeftOut]]:
        """Return the skills' folders, each with its SKILL.md as the host would write it; and what is left out."""
        found: list[tuple[SkillFolder, str]] = []
        left_out: list[LeftOut] = []
        for root in self._roots:
            try:
                here = skill_folder.look_into(root.path)
            except OSError:
                left_out.append(LeftOut(root.given, None, "found no folder that can be read"))
                continue
            for folder in here.folders:
                child = f"{as_shown(folder.child)}/" if folder.child else ""
                found.append((folder, f"{root.given}/{child}{SKILL_FILE}"))
            reason = "found a symbolic link, which is not followed"
            left_out += [LeftOut(f"{root.given}/{name}", None, reason) for name in here.links]
            if not here.is_whole:
                left_out.append(LeftOut(root.given, None, "found more entries than are looked at"))
        return found, left_out

    def _made(self, folder: SkillFolder, file: str) -> SkillHead | LeftOut:
        known = self._read.get(folder)
        if known is not None and known[0] == skill_folder.signature_of(folder):
            return known[1]
        try:
            data, signature = folder.read_signed(SKILL_FILE, self._max_bytes)
        except (PathDenied, LimitExceeded) as error:
            return LeftOut(file, None, str(error).partition(": ")[2])
        made: SkillHead | LeftOut
        try:
            made, _body = read_skill(data, folder=folder.name)
        except Unreadable as error:
            made = LeftOut(file, error.line, error.reason)
        self._read[folder] = (signature, made)
        return made


def _root(given: str | os.PathLike[str], field: str) -> Root:
    if not isinstance(given, str | os.PathLike) or isinstance(os.fspath(given), bytes):
        raise ConfigError.at(field, type(given).__name__, "the path of a folder")
    path = Path(os.path.normpath(Path(given).absolute()))
    if not path.is_dir():
        found = f"no folder {as_shown(str(given))}"
        raise ConfigError.at(field, found, "one that holds skills, or a skill")
    return Root(as_shown(str(given).rstrip("/") or "/"), str(path))

"""The shelf: all skills in the folders that the host named, read again when they changed."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection
from pathlib import Path
from typing import Final, NamedTuple

from windlass.errors import ConfigError, LimitExceeded, PathDenied
from windlass.plugins.skill import Skill, read_skill
from windlass.plugins.skill_folder import (
    SKILL_FILE,
    Signature,
    SkillFolder,
    as_shown,
    look_into,
    signature_of,
)
from windlass.plugins.yaml_text import Unreadable

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


class Placed(NamedTuple):
    """A skill, and where it lies."""

    skill: Skill
    folder: SkillFolder


class Look(NamedTuple):
    """What was on the shelf at one look, in the order of the names."""

    placed: dict[str, Placed]
    left_out: tuple[LeftOut, ...]
    names: frozenset[str]
    """Also those of skills that are left out or not enabled."""


class Shelf:
    """Folders of skills. What it keeps is what it read from files, which is the same for every turn."""

    def __init__(self, roots: Collection[str | os.PathLike[str]], *, max_bytes: int) -> None:
        self._roots = tuple(_root(given, f"folders[{at}]") for at, given in enumerate(roots))
        self._max_bytes = max_bytes
        self._read: dict[SkillFolder, tuple[Signature, Skill | LeftOut]] = {}
        self._lock = threading.Lock()
        self.last = Look({}, (), frozenset())

    def look(self, *, enabled: frozenset[str] | None, disabled: frozenset[str]) -> Look:
        """Look at the folders, and read what is new. Any thread may."""
        with self._lock:
            found, left_out = self._found()
            placed: dict[str, Placed] = {}
            for root, folder in found:
                name = _name_of(root, folder)
                if name in disabled or (enabled is not None and name not in enabled):
                    continue
                made = self._made(root, folder)
                if isinstance(made, LeftOut):
                    left_out.append(made)
                elif name in placed:
                    reason = "found a second skill of this name, the first one is used"
                    left_out.append(LeftOut(_file_of(root, folder), None, reason))
                elif len(placed) == MAX_SKILLS:
                    reason = f"found more than {MAX_SKILLS} skills"
                    left_out.append(LeftOut(_file_of(root, folder), None, reason))
                else:
                    placed[name] = Placed(made, folder)
            known = {folder for _root, folder in found}
            self._read = {at: kept for at, kept in self._read.items() if at in known}
            names = frozenset(_name_of(root, folder) for root, folder in found)
            self.last = Look(dict(sorted(placed.items())), tuple(left_out), names)
            return self.last

    def _found(self) -> tuple[list[tuple[Root, SkillFolder]], list[LeftOut]]:
        found: list[tuple[Root, SkillFolder]] = []
        left_out: list[LeftOut] = []
        for root in self._roots:
            try:
                here = look_into(root.path)
            except OSError:
                left_out.append(LeftOut(root.given, None, "found no folder that can be read"))
                continue
            found += [(root, folder) for folder in here.folders]
            left_out += [
                LeftOut(
                    f"{root.given}/{name}", None, "found a symbolic link, which is not followed"
                )
                for name in here.links
            ]
            if not here.is_whole:
                left_out.append(LeftOut(root.given, None, "found more entries than are looked at"))
        return found, left_out

    def _made(self, root: Root, folder: SkillFolder) -> Skill | LeftOut:
        known = self._read.get(folder)
        if known is not None and known[0] == signature_of(folder):
            return known[1]
        file = _file_of(root, folder)
        try:
            data, signature = folder.read_signed(SKILL_FILE, self._max_bytes)
        except (PathDenied, LimitExceeded) as error:
            return LeftOut(file, None, str(error).partition(": ")[2])
        made: Skill | LeftOut
        try:
            made, _body = read_skill(data, folder=_name_of(root, folder))
        except Unreadable as error:
            made = LeftOut(file, error.line, error.reason)
        self._read[folder] = (signature, made)
        return made


def _root(given: str | os.PathLike[str], field: str) -> Root:
    if not isinstance(given, str | os.PathLike) or isinstance(os.fspath(given), bytes):
        found = type(given).__name__
        raise ConfigError(
            f"{field}: found {found}, wanted the path of a folder", field=field, found=found
        )
    path = Path(os.path.normpath(Path(given).absolute()))
    if not path.is_dir():
        raise ConfigError(
            f"{field}: found no folder {as_shown(str(given))}, wanted one that holds skills, or a skill",
            field=field,
            found=str(given),
            wanted="a folder",
        )
    return Root(as_shown(str(given).rstrip("/") or "/"), str(path))


def _name_of(root: Root, folder: SkillFolder) -> str:
    return folder.child or Path(root.path).name


def _file_of(root: Root, folder: SkillFolder) -> str:
    child = f"{folder.child}/" if folder.child else ""
    return f"{root.given}/{as_shown(child)}{SKILL_FILE}"

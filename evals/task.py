"""A task: what the folder holds at first, what is asked, what may change, and how one tells that it was done.

A task is a folder: `start/` is copied to a scratch folder, `task.toml` has the words and a script for tests, and
`check.py` runs in the scratch folder when the agent has ended.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windlass.kernel import ModelReply
from windlass.testing import call, say

FOLDER = Path(__file__).parent / "tasks"
_CHECK_S = 60
# What windlass keeps in the folder, and what Python and its tools leave behind anywhere in it.
_KEPT = ".windlass"
_LEFT_BEHIND = ("__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task."""

    name: str
    title: str
    prompt: str
    may_change: frozenset[str]
    script: tuple[dict[str, Any], ...]

    @property
    def folder(self) -> Path:
        """Where it is kept."""
        return FOLDER / self.name

    def lay_out(self, scratch: Path) -> None:
        """Copy its files to a folder that does not exist yet."""
        shutil.copytree(self.folder / "start", scratch)

    def replies(self) -> list[ModelReply]:
        """Return what a model says that does it as the script has it."""
        return [
            say(step["say"]) if "say" in step else call(step["tool"], **step["args"])
            for step in self.script
        ]

    def complaint(self, scratch: Path) -> str | None:
        """Return what is wrong with what an agent left in the folder; None if the task is done."""
        other = sorted(changed(self.folder / "start", scratch) - self.may_change)
        if other:
            return f"changed what it was not asked to change: {', '.join(other)}"
        try:
            done = subprocess.run(
                [sys.executable, "-B", str(self.folder / "check.py")],
                cwd=scratch,
                env={"PATH": os.defpath, "PYTHONPATH": str(scratch), "PYTHONUTF8": "1"},
                capture_output=True,
                text=True,
                check=False,
                timeout=_CHECK_S,
            )
        except subprocess.TimeoutExpired:
            return f"the check took more than {_CHECK_S} s"
        if done.returncode == 0:
            return None
        return (done.stderr.strip() or done.stdout.strip() or "the check failed").splitlines()[-1]


def tasks() -> list[Task]:
    """Return all tasks, by name."""
    return [_read(file.parent) for file in sorted(FOLDER.glob("*/task.toml"))]


def _read(folder: Path) -> Task:
    read = tomllib.loads((folder / "task.toml").read_text(encoding="utf-8"))
    return Task(
        name=folder.name,
        title=read["title"],
        prompt=read["prompt"],
        may_change=frozenset(read["may_change"]),
        script=tuple(read["script"]),
    )


def changed(before: Path, after: Path) -> set[str]:
    """Return the files that differ between two folders, are new or are gone."""
    old, new = _digests(before), _digests(after)
    return {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}


def _digests(folder: Path) -> dict[str, str]:
    found = {}
    for path in folder.rglob("*"):
        place = path.relative_to(folder)
        if place.parts[0] == _KEPT or not set(place.parts).isdisjoint(_LEFT_BEHIND):
            continue
        if path.is_symlink():
            found[place.as_posix()] = f"a link to {path.readlink()}"
        elif path.is_file():
            found[place.as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found

"""What is asked of a disk, noted in order."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest


class Died(BaseException):
    """The process was killed here."""


class Noted:
    """Notes what a call does to the disk, by the names of files and folders; dies when it has done one of them."""

    def __init__(
        self,
        root: Path,
        patch: pytest.MonkeyPatch,
        dies_after: str = "",
        calls: Iterable[str] = ("write", "fsync", "rename", "mkdir"),
    ) -> None:
        self.done: list[str] = []
        self._root, self._dies_after = root, dies_after
        for name in calls:
            patch.setattr(os, name, self._noted(name, getattr(os, name)))

    def _noted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - as the function has it
            target = self._target(name, *args)
            result = function(*args, **options)
            self.done.append(f"{name} {target}")
            if self.done[-1] == self._dies_after:
                raise Died
            return result

        return call

    def _target(self, name: str, *args: Any) -> str:
        if name not in ("write", "fsync"):
            found = Path(args[1] if name in ("rename", "replace") else args[0]).name
        elif not stat.S_ISDIR(os.fstat(args[0]).st_mode):
            return "half"
        else:
            found = self._folder(os.fstat(args[0]).st_ino)
        return {62: "record", 32: "scope", 2: "bucket"}.get(len(found), found)

    def _folder(self, inode: int) -> str:
        if self._root.stat().st_ino == inode:
            return "root"
        return next(path.name for path in self._root.rglob("*") if path.stat().st_ino == inode)

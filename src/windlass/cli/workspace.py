"""The folder that the default agent may look into: what is below it, plain text, nothing hidden."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from windlass.errors import ToolError

MAX_BYTES: Final = 64 * 1024
MAX_NAMES: Final = 200


class Workspace:
    """Reads below one folder. Links that lead out of it, hidden names and anything but files are refused."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    def read(self, name: str) -> str:
        """Return the beginning of a text file.

        Raises:
            ToolError: it may not be read, or is no text.
        """
        path = self._place(name)
        try:
            # Without waiting: a pipe in the folder must not hold the turn up.
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise ToolError(f"{name}: {error.strerror}") from None
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                raise ToolError(f"{name}: is no file")
            with os.fdopen(file, "rb", closefd=False) as opened:
                data = opened.read(MAX_BYTES)
        finally:
            os.close(file)
        if b"\x00" in data:
            raise ToolError(f"{name}: is no text")
        text = data.decode("utf-8", errors="replace")
        left = found.st_size - len(data)
        return f"{text}\n[{left} more bytes]" if left > 0 else text

    def names(self, name: str = ".") -> list[str]:
        """Return what a folder holds, folders with a slash.

        Raises:
            ToolError: it may not be looked into, or is no folder.
        """
        path = self._place(name)
        try:
            found = sorted(path.iterdir())
        except OSError as error:
            raise ToolError(f"{name}: {error.strerror}") from None
        shown = [each for each in found if not each.name.startswith(".")]
        listed = [f"{each.name}/" if each.is_dir() else each.name for each in shown[:MAX_NAMES]]
        more = len(shown) - MAX_NAMES
        return [*listed, f"[{more} more]"] if more > 0 else listed

    def _place(self, name: str) -> Path:
        try:
            path = (self._root / name).resolve(strict=True)
        except (OSError, ValueError, RuntimeError):
            raise ToolError(f"{name[:200]}: there is no such file") from None
        if not path.is_relative_to(self._root):
            raise ToolError(f"{name[:200]}: is outside of the folder that may be read")
        if any(part.startswith(".") for part in path.relative_to(self._root).parts):
            raise ToolError(f"{name[:200]}: is hidden, and hidden files are not read")
        return path

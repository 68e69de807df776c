"""The tools of the default agent. They only look: at the clock, at numbers, at files below one folder.

Law 1. Files are read below the current folder only: no hidden names, no links that lead out.
"""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from windlass import tool
from windlass.errors import ToolError
from windlass.models.arithmetic import evaluate
from windlass.runtime.system_clock import SystemClock

MAX_BYTES: Final = 64 * 1024
MAX_NAMES: Final = 200


@tool(effect="pure")
def clock() -> str:
    """Return the date and the time here, with the offset from UTC."""
    now = datetime.fromtimestamp(SystemClock().now_ms() / 1000, tz=UTC)
    return now.astimezone().isoformat(timespec="seconds")


@tool(effect="pure")
def calculate(expression: str) -> int | float:
    """Calculate, e.g. `(17 + 4) * 2 ** 0.5`. Knows sqrt, log, exp, sin, cos, tan, min, max, round."""
    return evaluate(expression)


@tool(effect="pure")
def read_file(path: str) -> str:
    """Read a text file below the current folder."""
    return Workspace(Path.cwd()).read(path)


@tool(effect="pure")
def list_files(folder: str = ".") -> list[str]:
    """List a folder below the current one."""
    return Workspace(Path.cwd()).names(folder)


# ---------------------------------------------------------------------- files


class Workspace:
    """Reads text files below one folder; refuses links that lead out, hidden names and non-files."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    def read(self, name: str) -> str:
        """Return the beginning of a text file.

        Raises:
            ToolError: it may not be read, or is not text.
        """
        path = self._place(name)
        try:
            # Non-blocking: a pipe in the folder must not hold up the turn.
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise ToolError(f"{name}: {error.strerror}") from None
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                raise ToolError(f"{name}: is not a regular file")
            with os.fdopen(file, "rb", closefd=False) as opened:
                data = opened.read(MAX_BYTES)
        finally:
            os.close(file)
        if b"\x00" in data:
            raise ToolError(f"{name}: is not a text file")
        text = data.decode("utf-8", errors="replace")
        left = found.st_size - len(data)
        return f"{text}\n[{left} more bytes]" if left > 0 else text

    def names(self, name: str = ".") -> list[str]:
        """Return the names in a folder, subfolders with a slash.

        Raises:
            ToolError: it may not be listed, or is not a folder.
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
            raise ToolError(f"{name[:200]}: no such file") from None
        if not path.is_relative_to(self._root):
            raise ToolError(f"{name[:200]}: is outside of the folder that may be read")
        if any(part.startswith(".") for part in path.relative_to(self._root).parts):
            raise ToolError(f"{name[:200]}: is hidden; hidden files are not read")
        return path

"""The file tools as a model calls them, on a folder that has something beside it that is not theirs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from windlass.errors import WindlassError
from windlass.ports.tool import ToolContext, ToolHost
from windlass.toolkit import files

CANARY = "canary-7f3a"
"""Stands in the files outside, and must never be in an answer."""

SECRET = f"{CANARY}\n"


class Answer(NamedTuple):
    """What a call came to: `ok` or the code of its error, and the text."""

    status: str
    text: str


class FileTools:
    """The tools of one folder, called with checked arguments; `key` is that of the call."""

    def __init__(self, root: Path, *, key: str = "", **options: Any) -> None:
        self.by_name = {each.name: each for each in files(root, write="allow", **options)}
        self.key = key
        self.host: ToolHost | None = None
        self.attempt = 1

    def call(self, name: str, args: Mapping[str, Any], key: str = "") -> Answer:
        made = self.by_name[name]
        ctx = ToolContext(
            deps=None,
            idempotency_key=key or self.key,
            host=self.host,
            attempt=self.attempt,
        )
        takes_context = name in ("write_file", "edit_file", "apply_patch")
        try:
            own = made.check(args)
            text = made(ctx, **own) if takes_context else made(**own)
        except WindlassError as error:
            return Answer(error.code, str(error))
        assert isinstance(text, str)
        return Answer("ok", text)

    def ok(self, tool: str, /, *, key: str = "", **args: Any) -> str:
        """Call it, and return what it answers if that is no error."""
        answer = self.call(tool, args, key)
        assert answer.status == "ok", answer
        return answer.text

    def refused(self, tool: str, /, *, key: str = "", **args: Any) -> str:
        """Call it, and return the error that it answers."""
        answer = self.call(tool, args, key)
        assert answer.status in ("tool_error", "path_denied", "args_invalid"), answer
        return answer.text


def make_file(path: Path, text: str | bytes = "") -> Path:
    """Make a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def picture_of(folder: Path) -> dict[str, str]:
    """Return what is in a folder: names, kinds, permissions and contents, but not what the tools keep for themselves."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name.split("/")[0] == ".windlass":
            continue
        mode = oct(path.lstat().st_mode)
        if path.is_symlink():
            found[name] = f"{mode} -> {path.readlink()}"
        elif path.is_file() and path.stat().st_size < 1_000_000:
            found[name] = f"{mode} {hashlib.sha256(path.read_bytes()).hexdigest()}"
        else:
            found[name] = mode
    return found


class Place:
    """A folder for the tools, and one beside it that is not for them."""

    def __init__(self, at: Path) -> None:
        self.root, self.outside = at / "root", at / "outside"
        make_file(self.root / "inside.txt", "inside\n")
        make_file(self.root / "sub" / "deep.txt", "deep\n")
        make_file(self.root / ".git" / "config", SECRET)
        make_file(self.root / ".windlass" / "notes" / "n.md", SECRET)
        make_file(self.root / ".env", SECRET)
        make_file(self.outside / "secret.txt", SECRET)
        make_file(self.outside / "folder" / "secret.txt", SECRET)
        self.before = picture_of(self.outside)

    def link(self, name: str, target: Path | str) -> None:
        (self.root / name).symlink_to(target)

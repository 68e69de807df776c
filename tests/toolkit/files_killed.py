"""A program that makes a call of a file tool again and again, each time killed one step later, until it comes through.

    python files_killed.py FOLDER CALL BETWEEN

After each kill it says what is in the folder; then, as the process after the crash, it makes the same call again and says
what was answered, and what is there now. BETWEEN names what happens before that attempt, or goes wrong while it lasts;
then there is one more attempt. Each line is JSON. It forks for each life: `import` happens once.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, cast

from tests.toolkit.files_scene import FileTools, make_file
from windlass.ports.tool import ToolHost

# What changes a disk, or opens something on it: a kill before a mere look leaves the same as one after it.
STEPS = ("fchmod", "fchown", "fsync", "mkdir", "open", "rename", "unlink", "write")
BIG = "line\n" * 50
PATCH = """\
--- a/a.txt
+++ b/a.txt
@@ -1,2 +1,2 @@
 a
-b
+B
--- /dev/null
+++ b/new/folder/c.txt
@@ -0,0 +1 @@
+c
--- a/d.txt
+++ /dev/null
@@ -1 +0,0 @@
-d
"""
# Applied twice, it adds the line twice.
PAIR = "--- a/a.txt\n+++ b/a.txt\n@@\n a\n+x\n--- a/d.txt\n+++ b/d.txt\n@@\n-d\n+D\n"
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "make": ("write_file", {"path": "new/folder/c.txt", "text": BIG}),
    "replace": ("write_file", {"path": "a.txt", "text": BIG, "version": "911169ddaaf1"}),
    "edit": ("edit_file", {"path": "a.txt", "old": "b", "new": "bb"}),
    "patch": ("apply_patch", {"patch": PATCH}),
    "pair": ("apply_patch", {"patch": PAIR}),
}
KEY = "key-of-the-call"
UNOPENED = (".", ".windlass", "halves", "calls", "lock")


class Killer:
    """Counts what a process asks of its system, and kills it at one of the steps. A write dies half done, too."""

    def __init__(self, at: int) -> None:
        self.left = at
        for name in STEPS:
            setattr(os, name, self._counted(name, getattr(os, name)))

    def _counted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - as the function has it
            self.step()
            if name == "write" and self.left == 0:
                function(args[0], args[1][: len(args[1]) // 2])
                self.step()
            done = function(*args, **options)
            if name in ("mkdir", "open", "rename", "unlink"):
                self.step()
            return done

        return call

    def step(self) -> None:
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1


def fresh(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    make_file(folder / "a.txt", "a\nb\n").chmod(0o640)
    make_file(folder / "d.txt", "d\n")


def content_of(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and ".windlass" not in path.parts
    }


def live(tools: FileTools, call: str, at: int) -> bool:
    """Make the call in a process that is killed at a step; return whether it came through."""
    child = os.fork()
    if child == 0:
        Killer(at)
        name, args = CALLS[call]
        tools.call(name, args, KEY)
        os.kill(os.getpid(), signal.SIGTERM)
    _, status = os.waitpid(child, 0)
    return os.WTERMSIG(status) == signal.SIGTERM


Between = Callable[[FileTools, Path], AbstractContextManager[object]]


def lives(folder: Path, call: str, between: Between) -> Iterator[Mapping[str, Any]]:
    """Say for each step what a kill there leaves, and what the same call then makes of it."""
    name, args = CALLS[call]
    folder.mkdir()
    tools, at, is_through = FileTools(folder), 0, False
    while not is_through:
        fresh(folder)
        is_through = live(tools, call, at)
        left = content_of(folder)
        tools.attempt = 2
        with between(tools, folder):
            answer = tools.call(name, args, KEY)
            then = content_of(folder)
        yield {
            "at": at,
            "left": left,
            "answer": answer.text,
            "status": answer.status,
            "then": then,
            "mode": oct((folder / "a.txt").stat().st_mode & 0o777),
            "halves": len(list(folder.glob(".windlass/halves/*"))),
            "last": tools.call(name, args, KEY).status,
            "finally": content_of(folder),
        }
        tools.attempt = 1
        at += 1


# ------------------------------------------------------------------- between a kill and the attempt after it


def by_person(_: FileTools, folder: Path) -> AbstractContextManager[object]:
    """What a person does between the crash and the next attempt."""
    make_file(folder / "a.txt", "mine\n")
    return nullcontext()


@contextmanager
def failing(name: str, code: int) -> Iterator[None]:
    """Let a function of the system fail."""
    function = getattr(os, name)

    def fail(*_: Any, **__: Any) -> Any:  # noqa: ANN401 - as the function has it
        raise OSError(code, os.strerror(code))

    setattr(os, name, fail)
    try:
        yield
    finally:
        setattr(os, name, function)


@contextmanager
def unopened(name: str) -> Iterator[None]:
    """Let nothing with this name be opened, as by a process that has too many files open."""
    opens = os.open

    def refuse(path: str, *args: Any, **options: Any) -> int:
        if path == name:
            raise OSError(errno.EMFILE, "Too many open files")
        return opens(path, *args, **options)

    setattr(os, "open", refuse)  # noqa: B010 - it takes what is called here, not all that `os.open` does
    try:
        yield
    finally:
        os.open = opens


class CancelledSoon:
    """A turn that is cancelled once the call has looked at it, which it does when it has the lock."""

    n_looks = 0

    @property
    def is_cancelled(self) -> bool:
        self.n_looks += 1
        return self.n_looks > 1


@contextmanager
def cancelled(tools: FileTools, _: Path) -> Iterator[None]:
    tools.host = cast("ToolHost", CancelledSoon())
    try:
        yield
    finally:
        tools.host = None


@contextmanager
def read_only(_: FileTools, folder: Path) -> Iterator[None]:
    (folder / "d.txt").chmod(0o444)
    try:
        yield
    finally:
        (folder / "d.txt").chmod(0o644)


@contextmanager
def linked(_: FileTools, folder: Path) -> Iterator[None]:
    d_txt, moved = folder / "d.txt", folder / ".windlass" / "moved"
    moved.parent.mkdir(mode=0o700, exist_ok=True)
    d_txt.rename(moved)
    d_txt.symlink_to("a.txt")
    try:
        yield
    finally:
        moved.rename(d_txt)


BETWEEN: dict[str, Between] = {
    "nobody": lambda *_: nullcontext(),
    "person": by_person,
    "full": lambda *_: failing("write", errno.ENOSPC),
    "broken": lambda *_: failing("rename", errno.EIO),
    "cancelled": cancelled,
    "read_only": read_only,
    "linked": linked,
    **{f"unopened {name}": lambda *_, name=name: unopened(name) for name in UNOPENED},
}


if __name__ == "__main__":
    for told in lives(Path(sys.argv[1]), sys.argv[2], BETWEEN[sys.argv[3]]):
        sys.stdout.write(json.dumps(told) + "\n")

"""Where notes are kept: short texts under a scope and a topic, on a shelf that outlives sessions and processes.

Law 1. A note is replaced as a whole: a crash leaves the old text or the new one, and writing it again changes nothing.
Law 2. A note lies under its scope alone, whatever the scope is called.
Law 3. The folder of a shelf and what is in it are never opened through a link: others may have put one there.
Law 4. What goes wrong with a shelf is told to a model without a path, a host or the words of a foreign error.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from windlass.errors import ConfigError, ToolError, WindlassError
from windlass.guards.text import clean_text

TOPIC: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}", re.ASCII)
TOPIC_WANTED: Final = "a short name of a-z, 0-9, - and _, such as `coding-style`"
MAX_NOTE_BYTES: Final = 16 * 1024
_END: Final = ".md"
# What a killed process left half written is cleared away once no process can still be writing it.
_HALF_S: Final = 3_600.0
_HALF: Final = re.compile(rf"\.{TOPIC.pattern}\.[0-9a-f]{{8}}", re.ASCII)
_ABOVE: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
_FOLDER: Final = _ABOVE | getattr(os, "O_NOFOLLOW", 0)
# Non-blocking: opening a pipe that took the note's place must not hold up the call.
_NOTE: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
_METHODS: Final = ("get", "put", "remove", "topics")


class Shelf(Protocol):
    """Where notes are kept: by scope and topic. Methods are plain functions that run in a thread, several at a time.

    A call whose process died runs again, so `put` and `remove` may be called twice. An exception that is none of
    windlass's is told to the model by its class alone; raise `ToolError` to tell it more.
    """

    def get(self, scope: str, topic: str) -> str | None:
        """Return a note; None if there is none."""
        ...

    def put(self, scope: str, topic: str, text: str) -> None:
        """Keep a note in place of the one before; when this returns, it is durable."""
        ...

    def remove(self, scope: str, topic: str) -> None:
        """Remove a note, if there is one."""
        ...

    def topics(self, scope: str) -> list[str]:
        """Return the topics of a scope."""
        ...


AnyShelf: TypeAlias = Shelf | str | Path


class FolderShelf:
    """Keeps each note as a Markdown file that its owner alone may read, in a folder of its own for each scope.

    Args:
        folder: Where; it is made when the first note is written. It may lie behind links, and must not be one.

    Raises:
        ConfigError: this system cannot keep links out, or a folder durable.
    """

    def __init__(self, folder: str | Path) -> None:
        if not (hasattr(os, "O_NOFOLLOW") and hasattr(os, "O_DIRECTORY")):
            wanted = "Linux or macOS; elsewhere give a Shelf of your own"
            raise ConfigError.at("shelf", f"a folder on {os.name}", wanted)
        if not str(folder):
            raise ConfigError.at("shelf", "an empty path", "a folder")
        self._root = Path(folder).absolute()

    def get(self, scope: str, topic: str) -> str | None:
        """Return a note; None if there is none."""
        name = _file_of(topic)
        try:
            with self._folder(scope) as folder, _opened(name, _NOTE, folder) as note:
                return os.read(note, MAX_NOTE_BYTES + 1).decode(errors="replace")
        except FileNotFoundError:
            return None

    def put(self, scope: str, topic: str, text: str) -> None:
        """Keep a note in place of the one before."""
        name = _file_of(topic)
        self._make_root()
        with self._folder(scope, make=True) as folder:
            written_s = _write(folder, name, text.encode())
            os.fsync(folder)
            _clear(folder, written_s)

    def remove(self, scope: str, topic: str) -> None:
        """Remove a note, if there is one."""
        name = _file_of(topic)
        with suppress(FileNotFoundError), self._folder(scope) as folder:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            # Also when it was gone: a process may have been killed before it came to this.
            os.fsync(folder)

    def topics(self, scope: str) -> list[str]:
        """Return the topics of a scope, sorted."""
        try:
            with self._folder(scope) as folder:
                names = os.listdir(folder)  # noqa: PTH208 - an open folder, not a path
        except FileNotFoundError:
            return []
        topics = (name.removesuffix(_END) for name in names if name.endswith(_END))
        return sorted(topic for topic in topics if TOPIC.fullmatch(topic))

    @contextmanager
    def _folder(self, scope: str, *, make: bool = False) -> Iterator[int]:
        """Open the folder of a scope. All work is done in the open folder, because a path may lead elsewhere a moment later.

        Raises:
            OSError: it or the root is a link, or is no folder.
            ToolError: another user can change what is in it.
        """
        # A digest: whatever a scope is called, its folder is below the root, and only its own.
        name = hashlib.sha256(scope.encode()).hexdigest()[:32]
        with _opened(self._root, _FOLDER) as root:
            if make:
                _keep_out_of_repositories(root)
                with suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=root)
                # Also when it was there: who made it may have been killed before this.
                os.fsync(root)
            with _opened(name, _FOLDER, root) as folder:
                if os.fstat(folder).st_uid != os.geteuid():
                    raise ToolError(_ANOTHERS)
                yield folder

    def _make_root(self) -> None:
        """Make the root and the folders above it; when this returns, each of them is durable."""
        way = (self._root, *self._root.parents)
        n_missing = next(n for n, each in enumerate(way) if each.exists())
        # Also the lowest that was there: a process may have made it and been killed before it came to the next line.
        _sync(way[n_missing].parent)
        for each in reversed(way[:n_missing]):
            each.mkdir(mode=0o700 if each == self._root else 0o777, exist_ok=True)
            _sync(each.parent)


def shelf_of(found: AnyShelf) -> Shelf:
    """Return a shelf: of a folder, or the one that was given.

    Raises:
        ConfigError: it is neither, or its methods are not plain functions.
    """
    if isinstance(found, (str, Path)):
        return FolderShelf(found)
    methods = [getattr(found, name, None) for name in _METHODS]
    if isinstance(found, type) or not all(map(callable, methods)):
        raise ConfigError.at("shelf", type(found).__name__, "a folder, or a Shelf")
    if any(map(inspect.iscoroutinefunction, methods)):
        raise ConfigError.at("shelf", "methods that are `async def`", "plain methods")
    return found


class Scoped:
    """The notes of one scope, as tools work with them."""

    def __init__(self, shelf: Shelf, scope: str) -> None:
        self._shelf = shelf
        self._scope = scope

    def get(self, topic: str) -> str:
        """Return a note, as far as notes go; empty if there is none."""
        with _told("read"):
            text = clean_text(self._shelf.get(self._scope, topic) or "")
        if len(text.encode()) <= MAX_NOTE_BYTES:
            return text
        return f"{text.encode()[:MAX_NOTE_BYTES].decode(errors='ignore')}\n… (the rest is cut)"

    def put(self, topic: str, text: str) -> None:
        """Keep a note in place of the one before."""
        with _told("written"):
            self._shelf.put(self._scope, topic, text)

    def remove(self, topic: str) -> None:
        """Remove a note, if there is one."""
        with _told("written"):
            self._shelf.remove(self._scope, topic)

    def topics(self) -> list[str]:
        """Return the topics that there are, sorted."""
        with _told("read"):
            return sorted(str(each) for each in self._shelf.topics(self._scope))


@contextmanager
def _told(done: str) -> Iterator[None]:
    """Tell what goes wrong with a shelf in words for a model: a foreign error may hold paths, hosts and keys."""
    try:
        yield
    except WindlassError:
        raise
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else type(error).__name__
        raise ToolError(_FAILED.format(done=done, why=why)) from error
    except Exception as error:
        raise ToolError(_FAILED.format(done=done, why=type(error).__name__)) from error


_FAILED: Final = "The notes could not be {done}: {why}. Nothing is wrong with the arguments: go on without, and tell the person."


_ANOTHERS: Final = (
    "The notes are in a folder of another user, so they are left alone. Nothing is wrong with the arguments: go on "
    "without, and tell the person."
)


def _file_of(topic: str) -> str:
    if not TOPIC.fullmatch(topic):
        raise ToolError(f"topic: wanted {TOPIC_WANTED}")
    return f"{topic}{_END}"


@contextmanager
def _opened(path: str | Path, flags: int, folder: int | None = None) -> Iterator[int]:
    file = os.open(path, flags, dir_fd=folder)
    try:
        yield file
    finally:
        os.close(file)


def _sync(folder: Path) -> None:
    # It may be one that this user may only pass through.
    with suppress(PermissionError), _opened(folder, _ABOVE) as opened:
        os.fsync(opened)


def _write(folder: int, name: str, content: bytes) -> float:
    """Write a file in place of the one before, whole or not at all; return the time of that on the disk's own clock."""
    half = f".{name.strip('.').removesuffix(_END)}.{secrets.token_hex(4)}"
    file = os.open(half, _NEW, 0o600, dir_fd=folder)
    try:
        with os.fdopen(file, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
            written_s = os.fstat(opened.fileno()).st_mtime
        os.replace(half, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(half, dir_fd=folder)
        raise
    return written_s


def _keep_out_of_repositories(root: int) -> None:
    """Keep a new shelf out of the repository that it may lie in; later, its rules are the user's."""
    if all(_HALF.fullmatch(name) for name in os.listdir(root)):
        _write(root, ".gitignore", b"*\n")


def _clear(folder: int, now_s: float) -> None:
    """Remove what `put` left half written long ago, and nothing that it did not make."""
    for name in os.listdir(folder):
        if not _HALF.fullmatch(name):
            continue
        # Another process may clear it at the same time; and the note is written already, whatever happens here.
        with suppress(OSError):
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISREG(found.st_mode) and now_s - found.st_mtime > _HALF_S:
                os.unlink(name, dir_fd=folder)

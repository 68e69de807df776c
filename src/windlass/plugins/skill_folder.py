"""The folder of a skill: its files, and nothing beyond it.

Law 1. A path is walked name by name, each opened in the folder opened before it, and never through a symbolic link.
    So the file that was checked is the file that is read, even if files are moved meanwhile.
Law 2. Only plain files are read, only if they are within the limit, and never more of them than the limit.
Law 3. A refusal names the path as it was given and nothing else of this machine.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from windlass.errors import ConfigError, LimitExceeded, PathDenied
from windlass.guards.text import is_clean

SKILL_FILE: Final = "SKILL.md"
MAX_LISTED: Final = 500
_MAX_SEEN: Final = 5_000
_MAX_DEPTH: Final = 16
_MAX_PATH_CHARS: Final = 1_024
_CHUNK: Final = 256 * 1024
# Not every system has all of them; `check_platform` refuses one that would follow links.
_NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_FILE: Final = os.O_RDONLY | _NO_FOLLOW | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_FOLDER: Final = _FILE | getattr(os, "O_DIRECTORY", 0)
# The root is the host's own word, so it may be a link.
_ROOT: Final = _FOLDER & ~_NO_FOLLOW
_LINK: Final = "a symbolic link, which is not followed"
_REASONS: Final = {
    errno.ENOENT: "no such file",
    errno.ENOTDIR: "no such file",
    errno.ENAMETOOLONG: "no such file",
    errno.ELOOP: _LINK,
    errno.EACCES: "a file that may not be read",
    errno.EPERM: "a file that may not be read",
}


class Listed(NamedTuple):
    """A file of a skill."""

    path: str
    n_bytes: int


Signature: TypeAlias = tuple[int, int, int, int, int]
"""What tells that a file is still the one that was read: device, inode, size, times of its last changes."""


class SkillFolder(NamedTuple):
    """Where a skill lies: the folder that the host named, or the folder called `child` in it."""

    root: str
    child: str = ""

    @property
    def name(self) -> str:
        """What the folder is called, and so the skill in it."""
        return self.child or Path(self.root).name

    def read(self, path: str, limit: int) -> bytes:
        """Return the bytes of a file.

        Raises:
            PathDenied: it is outside, not there, or not a plain file.
            LimitExceeded: it has more bytes than `limit`.
        """
        return self.read_signed(path, limit)[0]

    def read_signed(self, path: str, limit: int) -> tuple[bytes, Signature]:
        """Return the bytes of a file, and what they can be known by."""
        names = names_of(path)
        shown = as_shown(path)
        with ExitStack() as opened:
            try:
                folder = opened.enter_context(self._open())
                for name in names[:-1]:
                    folder = opened.enter_context(_folder(name, folder))
                file = opened.enter_context(_file(names[-1], folder))
                # Known by what it was before: a change while it is read is seen at the next look.
                signature = _signature(os.fstat(file))
                return _bytes_of(file, limit, shown), signature
            except OSError as error:
                reason = _REASONS.get(error.errno or 0, "a file that cannot be opened")
                if isinstance(error, _NotPlain):
                    reason = str(error)
                raise PathDenied(f"{shown}: found {reason}", field=shown, found=reason) from None

    def files(self) -> tuple[list[Listed], bool]:
        """Return the files that can be read, by path; and whether there are more than are listed."""
        listed: list[Listed] = []
        try:
            with self._open() as folder:
                is_whole = _list(folder, "", listed, [_MAX_SEEN])
        except OSError:
            return [], False
        listed.sort()
        return listed[:MAX_LISTED], not is_whole or len(listed) > MAX_LISTED

    @contextmanager
    def _open(self) -> Iterator[int]:
        with ExitStack() as opened:
            folder = opened.enter_context(_opened(self.root, _ROOT))
            if self.child:
                folder = opened.enter_context(_folder(self.child, folder))
            yield folder


class Found(NamedTuple):
    """What lies in a folder that the host named: the skills' folders, and what only looks like one."""

    folders: list[SkillFolder]
    links: list[str]
    is_whole: bool


def look_into(root: str) -> Found:
    """Return the folders in `root` that have a SKILL.md; `root` itself, if it has one.

    Raises:
        OSError: it cannot be read.
    """
    with _opened(root, _ROOT) as folder:
        if _exists(SKILL_FILE, folder):
            return Found([SkillFolder(root)], [], is_whole=True)
        found, links, n_seen = [], [], 0
        with os.scandir(folder) as entries:
            for entry in entries:
                n_seen += 1
                if n_seen > _MAX_SEEN:
                    break
                if entry.name.startswith(".") or not is_clean(entry.name):
                    continue
                if entry.is_dir() and _exists(f"{entry.name}/{SKILL_FILE}", folder):
                    if entry.is_symlink():
                        links.append(entry.name)
                    else:
                        found.append(SkillFolder(root, entry.name))
    return Found(sorted(found), sorted(links), n_seen <= _MAX_SEEN)


def signature_of(folder: SkillFolder) -> Signature | None:
    """Return what a skill's SKILL.md can be known by, without reading it; None if it is not there."""
    place = f"{folder.root}/{folder.child}" if folder.child else folder.root
    try:
        return _signature(os.lstat(f"{place}/{SKILL_FILE}"))
    except OSError:
        return None


def check_platform() -> None:
    """Refuse a system that cannot open a file in an open folder: there, a path could be swapped under a reader.

    Raises:
        ConfigError: it cannot.
    """
    if not {os.open, os.stat} <= os.supports_dir_fd or not _NO_FOLLOW:
        told = "this system cannot open files relative to a folder"
        raise ConfigError(f"Skills: {told}, so a skill cannot be kept apart", field="Skills")


def names_of(path: str) -> tuple[str, ...]:
    """Return the names on the way to a file, from a skill's folder on.

    Raises:
        PathDenied: the path leads out of the folder, or to what is hidden in it.
    """
    shown = as_shown(path)
    names = tuple(name for name in path.split("/") if name not in ("", "."))
    refusals = {
        "a character that no path has": not is_clean(path),
        "a path that is too long": len(path) > _MAX_PATH_CHARS or len(names) > _MAX_DEPTH,
        "an absolute path": path.startswith("/"),
        "a path that leads upwards": ".." in names,
        "a folder": not names or path.endswith("/"),
        "a hidden file": any(name.startswith(".") for name in names),
    }
    reason = next((reason for reason, is_so in refusals.items() if is_so), None)
    if reason is None:
        return names
    wanted = "a path in the skill's folder, such as references/guide.md"
    raise PathDenied(f"{shown}: found {reason}, wanted {wanted}", field=shown, found=reason)


def as_shown(path: str) -> str:
    """Return a path as a message can carry it."""
    text = path if len(path) <= 200 else path[:200] + "…"
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)


# ------------------------------------------------------------------------------------- opening


class _NotPlain(OSError):
    """What was found in the place of a file or a folder."""


@contextmanager
def _opened(path: str, flags: int, folder: int | None = None) -> Iterator[int]:
    descriptor = os.open(path, flags, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _folder(name: str, folder: int) -> Iterator[int]:
    if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        raise _NotPlain(_LINK)
    with _opened(name, _FOLDER, folder) as opened:
        yield opened


@contextmanager
def _file(name: str, folder: int) -> Iterator[int]:
    # Looked at first, because opening a device may already do something; and once more when it is open.
    _check_plain(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    with _opened(name, _FILE, folder) as opened:
        _check_plain(os.fstat(opened).st_mode)
        yield opened


def _check_plain(mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISLNK(mode):
        raise _NotPlain(_LINK)
    raise _NotPlain("a folder" if stat.S_ISDIR(mode) else "something that is not a plain file")


def _bytes_of(file: int, limit: int, shown: str) -> bytes:
    size = os.fstat(file).st_size
    pieces: list[bytes] = []
    while size <= limit:
        piece = os.read(file, _CHUNK)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        size = sum(map(len, pieces))
    told = f"{shown}: found {size:,} bytes, the limit is {limit:,}"
    raise LimitExceeded(told, field=shown, found=size, wanted=limit)


def _list(folder: int, prefix: str, listed: list[Listed], left: list[int]) -> bool:
    """Add the files below an open folder; return whether all of them could be seen."""
    is_whole = True
    with os.scandir(folder) as entries:
        for entry in entries:
            left[0] -= 1
            if left[0] < 0:
                return False
            name = entry.name
            if name.startswith(".") or not name.isprintable():
                continue
            path = f"{prefix}{name}"
            if entry.is_dir(follow_symlinks=False):
                is_whole &= _list_below(folder, name, f"{path}/", listed, left)
            elif entry.is_file(follow_symlinks=False) and path != SKILL_FILE:
                with suppress(OSError):  # gone since it was seen
                    listed.append(Listed(path, entry.stat(follow_symlinks=False).st_size))
    return is_whole


def _list_below(folder: int, name: str, prefix: str, listed: list[Listed], left: list[int]) -> bool:
    if prefix.count("/") >= _MAX_DEPTH:
        return False
    try:
        with _folder(name, folder) as below:
            return _list(below, prefix, listed, left)
    except OSError:
        return True  # gone, or changed into something else, since it was seen


def _signature(found: os.stat_result) -> Signature:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _exists(path: str, folder: int) -> bool:
    try:
        os.stat(path, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True

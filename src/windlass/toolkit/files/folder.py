"""A folder that a model works in: its files, and nothing beyond it.

Law 1. The root is opened once. Every path is walked from there name by name, each opened in the folder opened before it,
    and never through a symbolic link. So no name that is swapped meanwhile leads out.
Law 2. Only plain files with one name are opened: no pipes, devices or sockets, and no hard links unless the host allows
    them, because the other name may be outside.
Law 3. `.git` and `.windlass` are never opened for a model, however they are spelled.
Law 4. A refusal names the path as it was given and nothing else of this machine.
Law 5. Nothing is read before its size is known to be within the limit, and never more than that.
"""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from windlass.errors import ConfigError, PathDenied, ToolError
from windlass.guards.text import is_hidden, visible
from windlass.toolkit.files.permissions import Permissions

Names: TypeAlias = tuple[str, ...]
Signature: TypeAlias = tuple[int, int, int, int, int]

PROTECTED: Final = (
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".env", ".env.*", ".netrc", ".pypirc", ".npmrc",
    ".git-credentials", ".hg", ".svn", ".jj",
)  # fmt: skip
"""Names that no tool opens, unless the host gives others. Patterns such as `*.pem` may stand among them."""
# How Windows shortens `.git` is on the list, because folders may lie on its disks.
_ALWAYS: Final = (".git", ".windlass", "git~[0-9]*", "windla~[0-9]*")
_MAX_PATH_CHARS: Final = 1_024
_MAX_NAME_BYTES: Final = 255
_MAX_DEPTH: Final = 32
_CHUNK: Final = 256 * 1024
_NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_CLOSED: Final = getattr(os, "O_CLOEXEC", 0)
# Non-blocking: opening a pipe that took a file's place must not hold up the call; nor may a terminal become ours.
_PATIENT: Final = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_FILE: Final = os.O_RDONLY | _NO_FOLLOW | _CLOSED | _PATIENT
_FOLDER: Final = os.O_RDONLY | _NO_FOLLOW | _CLOSED | getattr(os, "O_DIRECTORY", 0)
_INSIDE: Final = "wanted a path below the folder, such as src/app.py"
_GONE: Final = "The folder that the file tools work in was deleted; nothing was done."
_LINK: Final = "a symbolic link, which is never followed; use the path of the file itself"
_KINDS: Final = {
    stat.S_IFLNK: _LINK, stat.S_IFIFO: "a pipe, wanted a plain file",
    stat.S_IFSOCK: "a socket, wanted a plain file", stat.S_IFCHR: "a device, wanted a plain file",
    stat.S_IFBLK: "a device, wanted a plain file",
}  # fmt: skip


class Content(NamedTuple):
    """A file as it was read: its bytes, who may do what with it, and what tells whether it is still the same."""

    data: bytes
    permissions: Permissions
    signature: Signature


class Folder:
    """Opens files below one root.

    Args:
        root: The folder. A link is resolved once, here.
        hidden: Whether names that start with a dot may be opened.
        hard_links: Whether files with more than one name may be opened.
        protected: Names that are refused in addition to `.git` and `.windlass`; patterns may stand among them.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        hidden: bool = False,
        hard_links: bool = False,
        protected: Iterable[str] = PROTECTED,
    ) -> None:
        _check_platform()
        self.allows_hidden = hidden
        self.allows_hard_links = hard_links
        self._protected = (*_ALWAYS, *(_folded(each)[0] for each in _checked(protected)))
        self.fd = _opened_root(root)
        weakref.finalize(self, os.close, self.fd)

    # ------------------------------------------------------------------------------------ names

    def names_of(self, path: str, *, is_folder: bool = False) -> Names:
        """Return the names on the way to a file; for a folder, none of them is the root itself.

        Raises:
            PathDenied: the path leads out of the folder, or to what may not be opened in it.
        """
        if is_folder:
            path = path.removesuffix("/") if path != "/" else path
        reason = _wrong_path(path)
        names = tuple(path.removeprefix("./").split("/"))
        if is_folder and path in (".", ""):
            return ()
        reason = reason or next(filter(None, map(_wrong_name, names)), None)
        if reason is None and len(names) > _MAX_DEPTH:
            reason = f"a path of {len(names)} names, wanted at most {_MAX_DEPTH}"
        if reason is not None:
            raise denied(path, reason)
        for name in names:
            self._check_allowed(name, path)
        return names

    def shows(self, above: Names, name: str) -> bool:
        """Whether a name in a folder may be told to a model: it can be opened, and it can be read."""
        n_chars = len("/".join((*above, name)))
        if (
            len(above) >= _MAX_DEPTH
            or n_chars > _MAX_PATH_CHARS
            or any(map(is_hidden, name))
            or _wrong_name(name) is not None
        ):
            return False
        return not self._is_protected(name) and (self.allows_hidden or not has_dot(name))

    def _check_allowed(self, name: str, path: str) -> None:
        if self._is_protected(name):
            raise denied(path, f"the protected name {as_shown(name)}; no tool may open it")
        if not self.allows_hidden and has_dot(name):
            raise denied(path, "a hidden name, wanted names that do not start with a dot")

    def _is_protected(self, name: str) -> bool:
        spellings = _folded(name)
        return any(fnmatchcase(each, pattern) for each in spellings for pattern in self._protected)

    # ---------------------------------------------------------------------------------- opening

    @contextmanager
    def opened(self, names: Sequence[str], *, make: bool = False) -> Iterator[int]:
        """Open the folder with these names; `make` makes those that are missing.

        Raises:
            PathDenied: a link or something else stands in the place of a folder.
            ToolError: there is no such folder, or it cannot be made.
        """
        held = self._opened_root()
        try:
            for at, name in enumerate(names, 1):
                path = "/".join(names[:at])
                below = _made_folder(held, name, path) if make else _open_folder(held, name, path)
                os.close(held)
                held = below
            yield held
        finally:
            os.close(held)

    def _opened_root(self) -> int:
        if os.fstat(self.fd).st_nlink == 0:
            raise ToolError(_GONE)
        try:
            # Not a duplicate: that would share its position, and two listings at once would each miss names.
            return os.open(".", _FOLDER, dir_fd=self.fd)
        except FileNotFoundError:
            raise ToolError(_GONE) from None
        except OSError as error:
            raise _refusal(error, ".", "folder") from None

    def sync(self, names: Names) -> None:
        """Make durable which names there are on the way to a file, and its own.

        Raises:
            PathDenied: something else stands in the place of a folder.
            ToolError: a folder cannot be opened.
            OSError: the disk does not take it.
        """
        with suppress(_Missing):  # a folder that was deleted since
            for n in range(len(names)):
                with self.opened(names[:n]) as folder:
                    os.fsync(folder)

    @contextmanager
    def opened_file(self, names: Names) -> Iterator[tuple[int, os.stat_result]]:
        """Open a plain file to be read.

        Raises:
            PathDenied: it is a link, a hard link, a pipe ...
            ToolError: it is not there, or cannot be read.
        """
        path = "/".join(names)
        with self.opened(names[:-1]) as folder:
            file = self._open_file(folder, names[-1], path)
        try:
            found = os.fstat(file)
            self._check_plain(found, path)
            yield file, found
        finally:
            os.close(file)

    def _open_file(self, folder: int, name: str, path: str) -> int:
        try:
            # Looked at first, because opening a device may already do something; and once more when it is open.
            self._check_plain(os.stat(name, dir_fd=folder, follow_symlinks=False), path)
            return os.open(name, _FILE, dir_fd=folder)
        except OSError as error:
            raise _refusal(error, path, "file") from None

    def _check_plain(self, found: os.stat_result, path: str) -> None:
        if stat.S_ISDIR(found.st_mode):
            raise ToolError(f"{as_shown(path)}: found a folder, wanted a file; list_files lists it")
        if not stat.S_ISREG(found.st_mode):
            raise denied(path, _KINDS.get(stat.S_IFMT(found.st_mode), "no plain file"))
        if found.st_nlink > 1 and not self.allows_hard_links:
            several = f"a file with {found.st_nlink} names (hard links)"
            raise denied(path, f"{several}, which may be a file outside; wanted one with one name")

    # ---------------------------------------------------------------------------------- reading

    def read(self, names: Names, limit: int) -> Content:
        """Return the whole of a file.

        Raises:
            PathDenied: it may not be opened.
            ToolError: it is not there, or has more bytes than `limit`.
        """
        with self.opened_file(names) as (file, found):
            size, n_read, pieces = found.st_size, 0, list[bytes]()
            while size <= limit:
                try:
                    piece = os.read(file, _CHUNK)
                except OSError as error:
                    raise _refusal(error, "/".join(names), "file") from None
                if not piece:
                    permissions = Permissions.of(file, found)
                    return Content(b"".join(pieces), permissions, signature_of(found))
                pieces.append(piece)
                n_read += len(piece)
                size = max(size, n_read)
        path = as_shown("/".join(names))
        raise ToolError(f"{path}: found {size:,} bytes, the limit is {limit:,}")

    def read_if_there(self, names: Names, limit: int) -> Content | None:
        """Return the whole of a file, or None if there is no such file."""
        try:
            return self.read(names, limit)
        except _Missing:
            return None


def signature_of(found: os.stat_result) -> Signature:
    """Return what tells that a file is still the one that was read: its place, its size, its last changes."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def has_dot(name: str) -> bool:
    """Whether a name is hidden, on whatever disk."""
    return _folded(name)[0].startswith(".")


def denied(path: str, reason: str) -> PathDenied:
    """Return the refusal of a path, for a reason that says what was found."""
    shown = as_shown(path)
    return PathDenied(f"{shown}: found {reason}", field=shown, found=reason)


def as_shown(path: str) -> str:
    """Return a path as a message can carry it."""
    return visible(path if len(path) <= 200 else path[:200] + "…")


# --------------------------------------------------------------------------------------- insides


class _Missing(ToolError):
    """There is no such file or folder."""


def _wrong_path(path: str) -> str | None:
    if len(path) > _MAX_PATH_CHARS:
        return f"a path of {len(path):,} characters, wanted at most {_MAX_PATH_CHARS:,}"
    if any(map(is_hidden, path)):
        return "a character that cannot be seen, wanted a path without it"
    if "\\" in path:
        return "a backslash, wanted / between names"
    if path.startswith("/"):
        return f"an absolute path, {_INSIDE}"
    if path == "~" or path.startswith("~/"):
        return f"a path in the home folder, {_INSIDE}"
    return None


def _wrong_name(name: str) -> str | None:
    if name == "..":
        return f"a path that leads upwards, {_INSIDE}"
    if name in ("", "."):
        return f"an empty name, {_INSIDE}"
    try:
        n_bytes = len(os.fsencode(name))
    except UnicodeEncodeError:
        return "a name that is not valid text"
    if n_bytes > _MAX_NAME_BYTES:
        return f"a name of {n_bytes:,} bytes, wanted at most {_MAX_NAME_BYTES}"
    return None


def _folded(name: str) -> tuple[str, str]:
    """Return what a name may turn into on a disk that ignores case, forms and blanks; and what follows a colon, too."""
    plain = unicodedata.normalize("NFKC", name).casefold()
    plain = "".join(char for char in plain if not is_hidden(char) or char == " ")
    plain = unicodedata.normalize("NFKC", plain).casefold()
    whole, cut = (
        each.lstrip(" ").rstrip(". ") or each for each in (plain, plain.partition(":")[0])
    )
    return whole, cut


def _open_folder(folder: int, name: str, path: str) -> int:
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            raise denied(path, _LINK)
        if not stat.S_ISDIR(mode):
            raise ToolError(f"{as_shown(path)}: found a file, wanted a folder")
        return os.open(name, _FOLDER, dir_fd=folder)
    except OSError as error:
        raise _refusal(error, path, "folder") from None


def _made_folder(folder: int, name: str, path: str) -> int:
    """Open a folder, and make it if it is missing; when this returns, its name is durable."""
    try:
        return _open_folder(folder, name, path)
    except _Missing:
        pass
    try:
        # Someone else may be faster; what it is shows when it is opened.
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
        os.fsync(folder)
    except OSError as error:
        raise ToolError(f"{as_shown(path)}: cannot be made ({error.strerror})") from None
    return _open_folder(folder, name, path)


def _refusal(error: OSError, path: str, what: str) -> PathDenied | ToolError:
    shown = as_shown(path)
    if error.errno == errno.ENOENT:
        return _Missing(f"{shown}: no such {what}; list_files shows what is there")
    if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
        return denied(path, "something else in its place since it was looked at; try again")
    if error.errno in (errno.EACCES, errno.EPERM):
        return ToolError(f"{shown}: this {what} may not be read")
    return ToolError(f"{shown}: this {what} cannot be opened ({error.strerror})")


def _opened_root(root: str | os.PathLike[str]) -> int:
    field = "files.root"
    try:
        resolved = Path(root).resolve(strict=True)
        if resolved == Path(resolved.anchor):
            raise ConfigError.at(field, "the whole file system", "a folder in it")
        return os.open(resolved, _FOLDER)
    except (OSError, RuntimeError, ValueError, TypeError) as error:
        found = getattr(error, "strerror", None) or type(error).__name__
        raise ConfigError.at(field, str(found).lower(), "a folder that is there") from None


def _checked(protected: Iterable[str]) -> tuple[str, ...]:
    names = (protected,) if isinstance(protected, str) else tuple(protected)
    for name in names:
        if not isinstance(name, str) or not name or "/" in name:
            raise ConfigError.at("files.protected", repr(name)[:60], "names without a slash")
    return names


def _check_platform() -> None:
    """Refuse a system that cannot open a file in an open folder: there, a path could be swapped under a reader."""
    if (
        not {os.open, os.stat, os.rename, os.unlink, os.mkdir} <= os.supports_dir_fd
        or not _NO_FOLLOW
    ):
        told = (
            "this system cannot open files relative to a folder, so a folder cannot be kept apart"
        )
        raise ConfigError(f"files: {told}", field="files")

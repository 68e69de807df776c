"""Who may do what with a file: its mode, its owner, its group and, on Linux, its access list (POSIX ACL).

Law 1. A file that is written anew is open to no user to whom it was not: what cannot be carried over is taken away.
Law 2. A new file has the permissions that the system gives to what is new in its folder.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from struct import Struct
from typing import Final, NamedTuple

_LIST: Final = "system.posix_acl_access"
_HANDED_ON: Final = "system.posix_acl_default"
# A list is a number of its form, then a tag, the rights and an id for each entry.
_HEAD_BYTES: Final = 4
_ENTRY: Final = Struct("<HHI")
_OWNER: Final = 1
_GROUP: Final = 4
_MASK: Final = 16
_OTHERS: Final = 32
_UNTOLD: Final = b""
_READ_WRITE: Final = 0o6


class Permissions(NamedTuple):
    """Those of a file. `access_list` is None if it has none, and empty if that cannot be told."""

    mode: int
    owner: tuple[int, int]
    access_list: bytes | None

    @classmethod
    def of(cls, file: int, found: os.stat_result) -> Permissions:
        """Return those of an open file."""
        owner = found.st_uid, found.st_gid
        return cls(stat.S_IMODE(found.st_mode), owner, _list_of(file, _LIST))

    def give(self, file: int) -> None:
        """Give them to another file, as far as the system allows.

        Raises:
            OSError: it does not take the access list.
        """
        keeps_group = _owned(file, *self.owner)
        # Not setuid or setgid: a program that was changed is not the one that was trusted.
        mode = self.mode & 0o777
        if self.access_list:
            kept = self.access_list if keeps_group else _changed(self.access_list, _as_others)
            os.setxattr(file, _LIST, kept)
        elif not keeps_group or self.access_list == _UNTOLD:
            # What one group was allowed is not handed to another: that has the rights that all have. Nor is what a list
            # allowed, which stands in the same bits of the mode.
            mode = (mode & ~0o070) | (mode & (mode & 0o007) << 3)
        os.fchmod(file, mode)


class HandedOn(NamedTuple):
    """What a folder hands on to what is new in it: its group, or an access list."""

    group: int | None
    access_list: bytes | None

    @classmethod
    def of(cls, folder: int, found: os.stat_result) -> HandedOn:
        """Return what an open folder hands on."""
        group = found.st_gid if found.st_mode & stat.S_ISGID else None
        return cls(group, _list_of(folder, _HANDED_ON))

    def give(self, file: int) -> None:
        """Give it to a new file.

        Raises:
            OSError: the system does not take the access list.
        """
        if self.group is not None:
            with suppress(OSError):  # a group that this process is not in
                os.fchown(file, -1, self.group)
        if self.access_list:
            os.setxattr(file, _LIST, _changed(self.access_list, _within_a_file))
        elif self.access_list == _UNTOLD:
            os.fchmod(file, 0o600)


def keep_to_itself(folder: int) -> None:
    """Let a folder hand on no access list to what is new in it.

    Raises:
        OSError: the system does not allow it.
    """
    if _list_of(folder, _HANDED_ON):
        os.removexattr(folder, _HANDED_ON)


def may(how: int, name: str, folder: int) -> bool:
    """Whether this process may do something with what has a name in a folder."""
    # As the user that the system asks about, who may be another than the one that began the process.
    is_asked = os.access in os.supports_effective_ids
    return os.access(name, how, dir_fd=folder, effective_ids=is_asked)


def may_replace(folder: os.stat_result, old: Permissions | None) -> bool:
    """Whether a file of a folder may be replaced or deleted, if the folder may be written to."""
    # In a sticky folder, such as /tmp, only by its owner or the folder's.
    if old is None or not folder.st_mode & stat.S_ISVTX:
        return True
    return os.geteuid() in (0, folder.st_uid, old.owner[0])


# --------------------------------------------------------------------------------------- insides


def _owned(file: int, owner: int, group: int) -> bool:
    """Give a file to an owner and a group, as far as the system allows; return whether it is of that group."""
    made = os.fstat(file)
    if made.st_uid != owner:
        with suppress(OSError):  # only root gives files away
            os.fchown(file, owner, group)
            return True
    if made.st_gid != group:
        try:
            os.fchown(file, -1, group)
        except OSError:
            return False
    return True


def _list_of(file: int, name: str) -> bytes | None:
    if sys.platform != "linux":
        return None
    try:
        return os.getxattr(file, name)
    except OSError as error:
        return None if error.errno in (errno.ENODATA, errno.ENOTSUP) else _UNTOLD


def _changed(access_list: bytes, change: Callable[[dict[int, int]], dict[int, int]]) -> bytes:
    """Return a list with other rights for the entries of which it has one: the owner, the group, the mask, all others."""
    entries = list(_ENTRY.iter_unpack(access_list[_HEAD_BYTES:]))
    single = {tag: rights for tag, rights, _ in entries if tag in (_OWNER, _GROUP, _MASK, _OTHERS)}
    given = change(single)
    made = [_ENTRY.pack(tag, given.get(tag, rights), each) for tag, rights, each in entries]
    return access_list[:_HEAD_BYTES] + b"".join(made)


def _as_others(rights: dict[int, int]) -> dict[int, int]:
    return {**rights, _GROUP: rights[_GROUP] & rights[_OTHERS]}


def _within_a_file(rights: dict[int, int]) -> dict[int, int]:
    # As the system does it: a mask stands for all entries between the owner and the others.
    bounded = (_OWNER, _MASK if _MASK in rights else _GROUP, _OTHERS)
    return {tag: own & _READ_WRITE if tag in bounded else own for tag, own in rights.items()}

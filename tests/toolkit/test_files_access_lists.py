"""Access lists (POSIX ACLs): a file that is written anew is open to the same users as before, and to nobody else."""

from __future__ import annotations

import errno
import os
import struct
import sys
from pathlib import Path

import pytest

from tests.toolkit.files_scene import FileTools, make_file

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has them")

LIST, HANDED_ON = "system.posix_acl_access", "system.posix_acl_default"
OWNER, USER, GROUP, MASK, OTHERS = 1, 2, 4, 16, 32
BOB, ALL = 61_003, 0xFFFFFFFF


def access_list(*entries: tuple[int, int, int]) -> bytes:
    """Return entries as Linux has them: who, what they may do, and the id of a user."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


# The group of the file may do nothing, although its bits of the mode, those of the mask, say that it may write.
BOB_WRITES = access_list(
    (OWNER, 6, ALL), (USER, 6, BOB), (GROUP, 0, ALL), (MASK, 6, ALL), (OTHERS, 0, ALL)
)  # fmt: skip


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def lists_of(path: Path) -> list[str]:
    return [name for name in os.listxattr(path) if name.startswith("system.posix_acl")]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = make_file(tmp_path / "root" / "f", "a\n").parent
    (root / "f").chmod(0o600)
    return root


def test_a_file_that_is_changed_keeps_its_access_list(root: Path) -> None:
    os.setxattr(root / "f", LIST, BOB_WRITES)

    FileTools(root).ok("edit_file", path="f", old="a", new="b")

    assert (root / "f").read_text() == "b\n"
    assert os.getxattr(root / "f", LIST) == BOB_WRITES
    assert mode_of(root / "f") == 0o660


def test_a_file_whose_access_list_cannot_be_kept_is_not_changed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.setxattr(root / "f", LIST, BOB_WRITES)

    def refused(*_: object) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(os, "setxattr", refused)
    told = FileTools(root).refused("edit_file", path="f", old="a", new="b")

    assert told == "It cannot be written (Operation not supported). No file was changed."
    assert (root / "f").read_text() == "a\n"
    assert os.getxattr(root / "f", LIST) == BOB_WRITES


def test_where_lists_cannot_be_read_what_one_may_allow_is_handed_to_no_group(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "f").chmod(0o664)

    def refused(*_: object) -> bytes:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "getxattr", refused)
    tools = FileTools(root)
    tools.ok("edit_file", path="f", old="a", new="b")
    tools.ok("write_file", path="new", text="")

    assert (mode_of(root / "f"), mode_of(root / "new")) == (0o644, 0o600)


def test_a_new_file_has_the_access_list_that_its_folder_hands_on(root: Path) -> None:
    inner = root / "inner"
    inner.mkdir()
    rights = ((OWNER, 7, ALL), (USER, 7, BOB), (GROUP, 5, ALL), (MASK, 7, ALL), (OTHERS, 1, ALL))
    os.setxattr(inner, HANDED_ON, access_list(*rights))
    tools = FileTools(root)
    (inner / "by_hand").touch()
    (inner / "folder").mkdir()
    (inner / "folder" / "by_hand").touch()

    for path in ("inner/by_tool", "inner/new/by_tool", "by_tool"):
        tools.ok("write_file", path=path, text="x")

    handed_on = access_list(
        (OWNER, 6, ALL), (USER, 7, BOB), (GROUP, 5, ALL), (MASK, 6, ALL), (OTHERS, 0, ALL)
    )  # fmt: skip
    for path in ("by_hand", "folder/by_hand", "by_tool", "new/by_tool"):
        assert os.getxattr(inner / path, LIST) == handed_on, path
        assert mode_of(inner / path) == 0o660
    assert lists_of(root / "by_tool") == []
    assert mode_of(root / "by_tool") == mode_of(make_file(root / "by_hand"))


def test_a_folder_that_hands_on_a_list_without_users_hands_on_a_mode(root: Path) -> None:
    inner = root / "inner"
    inner.mkdir()
    os.setxattr(inner, HANDED_ON, access_list((OWNER, 7, ALL), (GROUP, 7, ALL), (OTHERS, 0, ALL)))

    FileTools(root).ok("write_file", path="inner/by_tool", text="x")

    assert mode_of(make_file(inner / "by_hand")) == 0o660
    assert (mode_of(inner / "by_tool"), lists_of(inner / "by_tool")) == (0o660, [])


def test_the_root_hands_no_list_to_a_file_that_had_none(root: Path) -> None:
    """New content waits in a folder below the root, which would get the list, and hand it on."""
    os.setxattr(root, HANDED_ON, BOB_WRITES)
    (root / "f").chmod(0o640)
    inner = root / "inner"
    inner.mkdir()
    os.removexattr(inner, HANDED_ON)
    tools = FileTools(root)

    tools.ok("edit_file", path="f", old="a", new="b")
    tools.ok("write_file", path="inner/by_tool", text="x")

    assert (mode_of(root / "f"), lists_of(root / "f")) == (0o640, [])
    assert lists_of(inner / "by_tool") == []
    assert mode_of(inner / "by_tool") == mode_of(make_file(inner / "by_hand"))

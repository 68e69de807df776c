"""Whose a file is: what a user may not write stays, and nobody is locked out of a file that another user changed."""

from __future__ import annotations

import json
import os
import stat
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.toolkit.files_scene import Answer, make_file

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")

REPOSITORY = Path(__file__).parents[2]
EVA, AGENT, TEAM, ANY = 61_001, 61_002, 62_000, 0xFFFFFFFF
Call = tuple[str, dict[str, Any]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder of the agent."""
    root = tmp_path / "root"
    root.mkdir(mode=0o755)
    os.chown(root, AGENT, AGENT)
    return root


def owned(path: Path, owner: int, group: int, mode: int) -> Path:
    os.chown(path, owner, group)
    path.chmod(mode)
    return path


def look(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)


def made(root: Path, *calls: Call, team: bool = False, which: str = "real") -> list[Answer]:
    """Make calls as the agent, who may be in the team."""
    groups = json.dumps([AGENT, TEAM] if team else [AGENT])
    command = [
        sys.executable, "-m", "tests.toolkit.files_other_user",
        str(root), str(AGENT), groups, which, json.dumps(calls),
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=HANGS_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return [Answer(*answer) for answer in json.loads(done.stdout)]


def edit(path: str) -> Call:
    return "edit_file", {"path": path, "old": "a", "new": "b"}


def test_a_file_that_a_member_of_its_group_changes_stays_with_the_group(root: Path) -> None:
    file = owned(make_file(root / "f", "a\n"), EVA, TEAM, 0o660)

    (answer,) = made(root, edit("f"), team=True)

    assert answer.status == "ok", answer
    assert look(file) == (AGENT, TEAM, 0o660)


def test_a_group_that_cannot_be_kept_hands_no_rights_to_another_one(root: Path) -> None:
    own = owned(make_file(root / "own", "a\n"), AGENT, TEAM, 0o664)
    private = owned(make_file(root / "private", "a\n"), AGENT, TEAM, 0o670)

    answers = made(root, edit("own"), edit("private"))

    assert [answer.status for answer in answers] == ["ok", "ok"], answers
    assert look(own) == (AGENT, AGENT, 0o644)
    assert look(private) == (AGENT, AGENT, 0o600)


def test_a_new_file_in_a_folder_of_a_group_belongs_to_the_group(root: Path) -> None:
    shared = root / "shared"
    shared.mkdir()
    owned(shared, EVA, TEAM, 0o2770)

    answers = made(
        root,
        ("write_file", {"path": "shared/n", "text": ""}),
        ("write_file", {"path": "shared/new/m", "text": ""}),
        ("write_file", {"path": "own", "text": ""}),
        team=True,
    )

    assert [answer.status for answer in answers] == ["ok"] * 3, answers
    assert look(shared / "n") == (AGENT, TEAM, 0o644)
    assert look(shared / "new" / "m") == (AGENT, TEAM, 0o644)
    assert look(root / "own") == (AGENT, AGENT, 0o644)


@pytest.mark.parametrize("which", ["real", "effective"])
def test_a_file_that_may_not_be_written_is_not_replaced(which: str, root: Path) -> None:
    file = owned(make_file(root / "f", "a\n"), EVA, EVA, 0o644)
    before = file.stat().st_ino
    deletes = "--- a/f\n+++ /dev/null\n@@\n-a\n"

    answers = made(root, edit("f"), ("apply_patch", {"patch": deletes}), which=which)

    told = "f: found a file that is read-only here, wanted one that may be changed"
    assert answers == [Answer("tool_error", told)] * 2
    assert (file.stat().st_ino, look(file)) == (before, (EVA, EVA, 0o644))


@pytest.mark.parametrize("which", ["real", "effective"])
def test_a_folder_that_may_not_be_written_is_met_before_the_first_file_changes(
    which: str, root: Path
) -> None:
    first = owned(make_file(root / "a.txt", "a\n"), AGENT, AGENT, 0o644)
    closed = make_file(root / "closed" / "b.txt", "b\n")
    owned(closed, EVA, EVA, 0o666)
    patch = (
        "--- a/a.txt\n+++ b/a.txt\n@@\n-a\n+A\n--- a/closed/b.txt\n+++ b/closed/b.txt\n@@\n-b\n+B\n"
    )

    (answer,) = made(root, ("apply_patch", {"patch": patch}), which=which)

    told = "closed/b.txt: found a folder that may not be written to. No file was changed."
    assert answer == Answer("tool_error", told)
    assert (first.read_text(), closed.read_text()) == ("a\n", "b\n")


@pytest.mark.parametrize("which", ["real", "effective"])
def test_a_file_that_only_its_owner_may_replace_is_met_before_the_first_file_changes(
    which: str, root: Path
) -> None:
    """As in /tmp, whose folder has the sticky bit."""
    first = owned(make_file(root / "a.txt", "a\n"), AGENT, AGENT, 0o644)
    of_eva = owned(make_file(root / "sticky" / "b.txt", "b\n"), EVA, EVA, 0o666)
    own = owned(make_file(root / "sticky" / "c.txt", "c\n"), AGENT, AGENT, 0o644)
    owned(of_eva.parent, EVA, EVA, 0o1777)
    change = "--- a/a.txt\n+++ b/a.txt\n@@\n-a\n+A\n--- a/sticky/{0}.txt\n+++ b/sticky/{0}.txt\n@@\n-{0}\n+X\n"

    refused, done = made(
        root,
        ("apply_patch", {"patch": change.format("b")}),
        ("apply_patch", {"patch": change.format("c")}),
        which=which,
    )

    told = (
        "sticky/b.txt: found a file of another user, which only they may replace in this folder. "
        "No file was changed."
    )
    assert refused == Answer("tool_error", told)
    assert done.status == "ok", done
    assert (first.read_text(), of_eva.read_text(), own.read_text()) == ("A\n", "b\n", "X\n")


def test_in_a_sticky_folder_its_owner_replaces_files_of_all(root: Path) -> None:
    owned(root, AGENT, AGENT, 0o1777)
    file = owned(make_file(root / "f", "a\n"), EVA, EVA, 0o666)

    (answer,) = made(root, edit("f"))

    assert answer.status == "ok", answer
    assert file.read_text() == "b\n"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has such lists")
def test_what_an_access_list_allows_a_group_that_cannot_be_kept_is_handed_to_no_other(
    root: Path,
) -> None:
    def rights(of_group: int) -> bytes:
        who = ((1, 6, ANY), (2, 6, AGENT), (4, of_group, ANY), (16, 6, ANY), (32, 4, ANY))
        return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *each) for each in who)

    file = owned(make_file(root / "f", "a\n"), EVA, TEAM, 0o600)
    os.setxattr(file, "system.posix_acl_access", rights(6))

    (answer,) = made(root, edit("f"))

    assert answer.status == "ok", answer
    assert look(file) == (AGENT, AGENT, 0o664)
    assert os.getxattr(file, "system.posix_acl_access") == rights(4)

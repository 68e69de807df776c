"""The same call is done once, and what cannot be done leaves the files as they were."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from hashlib import sha256
from pathlib import Path

import pytest

from tests.limits import HANGS_S
from tests.toolkit.files_scene import FileTools, make_file, picture_of
from windlass.errors import ToolError
from windlass.toolkit.files import state as file_state
from windlass.toolkit.files.edits import patched
from windlass.toolkit.files.folder import Folder
from windlass.toolkit.files.writing import Edit, Writer

PATCH = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n"


def record_of(root: Path, key: str) -> Path:
    digest = sha256(key.encode()).hexdigest()
    return root / ".windlass" / "calls" / digest[:2] / digest[2:]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_file(tmp_path / "a.txt", "a\nb\n")
    make_file(tmp_path / "b.txt", "one\n")
    return tmp_path


@pytest.fixture
def tools(root: Path) -> FileTools:
    return FileTools(root)


# --------------------------------------------------------------------------------- once for a key


def test_the_same_call_again_is_done_already_and_another_one_is_not(
    root: Path, tools: FileTools
) -> None:
    first = tools.ok("edit_file", key="k1", path="a.txt", old="b", new="bb")
    again = tools.ok("edit_file", key="k1", path="a.txt", old="b", new="bb")
    other = tools.call("edit_file", {"path": "a.txt", "old": "a", "new": "aa"}, "k2")

    assert again == first
    assert (root / "a.txt").read_text() == "aa\nbb\n"
    assert other.status == "ok"


def test_without_a_key_nothing_is_recorded(root: Path, tools: FileTools) -> None:
    tools.ok("edit_file", path="a.txt", old="b", new="bb")

    assert list((root / ".windlass" / "calls").iterdir()) == []


def test_the_same_call_again_leaves_alone_what_someone_wrote_since(
    root: Path, tools: FileTools
) -> None:
    tools.ok("edit_file", key="k", path="a.txt", old="b", new="bb")
    make_file(root / "a.txt", "mine: b\n")

    told = tools.refused("edit_file", key="k", path="a.txt", old="b", new="bb")

    assert told == (
        "a.txt: changed by someone else since this call began; left alone. Read a.txt again."
    )
    assert (root / "a.txt").read_text() == "mine: b\n"


@pytest.mark.parametrize("content", [b"", b"{}", b'{"format":2,"type":"call_record"}', b"\xff"])
def test_a_record_that_cannot_be_read_makes_the_outcome_unknown(
    content: bytes, root: Path, tools: FileTools
) -> None:
    args = {"path": "a.txt", "old": "b", "new": "bb"}
    tools.ok("edit_file", key="k", **args)
    record_of(root, "k").write_bytes(content)

    answer = tools.call("edit_file", args, "k")

    assert answer.status == "tool_uncertain"
    assert answer.text.endswith("Read the files and go on from there.")
    assert (root / "a.txt").read_text() == "a\nbb\n"


def test_a_key_that_was_used_for_other_files_is_not_used_again(tools: FileTools) -> None:
    tools.ok("edit_file", key="k", path="a.txt", old="b", new="bb")

    answer = tools.call("edit_file", {"path": "b.txt", "old": "one", "new": "two"}, "k")

    assert answer.status == "tool_uncertain"


def test_records_older_than_thirty_days_are_removed(root: Path, tools: FileTools) -> None:
    tools.ok("edit_file", key="k", path="a.txt", old="b", new="c")
    record = record_of(root, "k")
    day_s, now_s = 24 * 3600, record.stat().st_mtime
    for name, days in (("old", 31), ("young", 29)):
        os.utime(make_file(record.parent / name), (now_s - days * day_s,) * 2)

    tools.ok("edit_file", key="k", path="a.txt", old="b", new="c")

    assert {each.name for each in record.parent.iterdir()} == {"young", record.name}


def test_what_a_killed_process_had_not_put_in_its_place_is_removed_by_the_next_call(
    root: Path, tools: FileTools
) -> None:
    tools.ok("edit_file", path="a.txt", old="b", new="c")
    halves = root / ".windlass" / "halves"
    make_file(halves / "left", "x" * 1_000)

    tools.refused("edit_file", path="a.txt", old="not there", new="c")

    assert list(halves.iterdir()) == []


def test_an_attempt_that_would_make_another_text_than_the_first_leaves_the_file_alone(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an update of windlass that edits differently."""
    folder = Folder(root)
    rename = os.rename

    def dying(source: str, target: str, **folders: int) -> None:
        if target == "a.txt":
            raise KeyboardInterrupt
        rename(source, target, **folders)

    with monkeypatch.context() as first:
        first.setattr(os, "rename", dying)
        with pytest.raises(KeyboardInterrupt):
            Writer(folder, 1_000).write([Edit(("a.txt",), lambda _: b"one\n")], "k")
    with pytest.raises(ToolError) as refused:
        Writer(folder, 1_000).write([Edit(("a.txt",), lambda _: b"another\n")], "k")

    assert str(refused.value) == (
        "a.txt: this call would change it otherwise now than when it began; left alone. Not changed: a.txt."
    )
    assert (root / "a.txt").read_text() == "a\nb\n"


# ------------------------------------------------------------------------- what goes wrong, and others


def test_a_file_that_changes_between_its_reading_and_its_rename_is_left_alone(
    root: Path, tools: FileTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def slow(file: int) -> None:
        make_file(root / "a.txt", "mine\n")
        fsync(file)

    tools.ok("edit_file", path="b.txt", old="one", new="two")
    monkeypatch.setattr(os, "fsync", slow)
    told = tools.refused("edit_file", path="a.txt", old="b", new="bb")

    assert told == ("a.txt: changed by someone else just now; read it again. No file was changed.")
    assert (root / "a.txt").read_text() == "mine\n"


def test_a_full_disk_leaves_every_file_as_it_was(
    root: Path, tools: FileTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = picture_of(root)

    def full(file: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    tools.ok("write_file", path="made_before", text="")
    (root / "made_before").unlink()
    monkeypatch.setattr(os, "write", full)
    told = tools.refused("apply_patch", patch=PATCH)

    assert told == "It cannot be written (No space left on device). No file was changed."
    assert picture_of(root) == before
    assert list((root / ".windlass" / "halves").iterdir()) == []


def test_a_rename_that_fails_in_the_middle_says_what_is_done(
    root: Path, tools: FileTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = os.rename

    def failing(source: str, target: str, **folders: int) -> None:
        if target == "b.txt":
            raise OSError(5, "Input/output error")
        rename(source, target, **folders)

    monkeypatch.setattr(os, "rename", failing)
    told = tools.refused("apply_patch", patch=PATCH + "--- a/b.txt\n+++ b/b.txt\n@@\n-one\n+1\n")

    assert told == (
        "b.txt: cannot be put in place (Input/output error). "
        "Changed before that: a.txt. Not changed: b.txt."
    )


def test_writers_at_once_each_make_their_change(root: Path) -> None:
    make_file(root / "list", "".join(f"<{n}>\n" for n in range(12)))
    told: list[str] = []

    def write(n: int) -> None:
        edit = {"path": "list", "old": f"<{n}>", "new": f"<{n} done>"}
        told.append(FileTools(root).call("edit_file", edit, f"k{n}").status)

    writers = [threading.Thread(target=write, args=(n,)) for n in range(12)]
    for each in writers:
        each.start()
    for each in writers:
        each.join(HANGS_S)

    assert told == ["ok"] * 12
    assert (root / "list").read_text() == "".join(f"<{n} done>\n" for n in range(12))


def test_a_call_waits_only_so_long_for_another_program(
    root: Path, tools: FileTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_state, "_N_LOOKS", 3)
    tools.ok("edit_file", path="b.txt", old="one", new="two")

    with (root / ".windlass" / "lock").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        told = tools.refused("edit_file", path="a.txt", old="b", new="bb")

    assert told == "another program is writing in this folder; nothing was changed"
    assert (root / "a.txt").read_text() == "a\nb\n"
    tools.ok("edit_file", path="a.txt", old="b", new="bb")


def test_a_call_that_had_begun_does_not_say_that_nothing_was_changed(
    root: Path, tools: FileTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = {"path": "a.txt", "old": "b", "new": "bb"}
    tools.ok("edit_file", key="k", **args)
    monkeypatch.setattr(file_state, "_N_LOOKS", 3)

    with (root / ".windlass" / "lock").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        answer = tools.call("edit_file", args, "k")

    assert answer.status == "tool_uncertain"
    assert answer.text == (
        "another program is writing in this folder. "
        "An earlier attempt of this call may have changed files: read them and go on from there."
    )


def test_a_call_that_gets_the_lock_when_its_turn_is_cancelled_changes_nothing(root: Path) -> None:
    """Nor does it write a byte: it ends when it has looked."""
    edits = patched(Folder(root), PATCH)

    with pytest.raises(ToolError) as refused:
        Writer(Folder(root), 1_000).write(edits, "k", lambda: True)

    assert str(refused.value) == "the turn was cancelled; nothing was changed"
    assert not record_of(root, "k").exists()
    assert (root / "a.txt").read_text() == "a\nb\n"


def test_a_file_on_another_disk_is_met_before_the_first_file_changes(
    root: Path, tools: FileTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted = make_file(root / "mounted" / "c.txt", "c\n").parent
    inode, fstat = mounted.stat().st_ino, os.fstat

    def on_another_disk(file: int) -> os.stat_result:
        found = fstat(file)
        if found.st_ino != inode:
            return found
        # The third field is the number of the disk.
        return os.stat_result((*found[:2], found.st_dev + 1, *found[3:]))

    monkeypatch.setattr(os, "fstat", on_another_disk)
    more = "--- a/mounted/c.txt\n+++ b/mounted/c.txt\n@@\n-c\n+C\n"
    told = tools.refused("apply_patch", key="k", patch=PATCH + more)

    assert told == (
        "mounted/c.txt: found a folder on another disk than the root, wanted one on the same. "
        "No file was changed."
    )
    assert (root / "a.txt").read_text() == "a\nb\n"
    assert not record_of(root, "k").exists()


def test_a_folder_of_another_mount_is_met_before_the_first_file_changes(
    root: Path, tools: FileTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the same disk is mounted there once more."""
    inode, rename = make_file(root / "mounted" / "c.txt", "c\n").parent.stat().st_ino, os.rename

    def across_mounts(source: str, target: str, **folders: int) -> None:
        if os.fstat(folders["dst_dir_fd"]).st_ino == inode:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        rename(source, target, **folders)

    monkeypatch.setattr(os, "rename", across_mounts)
    more = "--- a/mounted/c.txt\n+++ b/mounted/c.txt\n@@\n-c\n+C\n"
    told = tools.refused("apply_patch", key="k", patch=PATCH + more)

    assert told == (
        "mounted/c.txt: found a folder that is mounted by itself, wanted one of the root's mount. "
        "No file was changed."
    )
    assert (root / "a.txt").read_text() == "a\nb\n"
    assert not record_of(root, "k").exists()


def test_a_call_that_is_cancelled_between_two_files_stops_there_and_can_go_on(root: Path) -> None:
    folder = Folder(root)
    edits = patched(folder, PATCH + "--- a/b.txt\n+++ b/b.txt\n@@\n-one\n+1\n")
    a_txt, b_txt = root / "a.txt", root / "b.txt"

    with pytest.raises(ToolError) as refused:
        Writer(folder, 1_000).write(edits, "k", lambda: a_txt.read_text() == "a\nB\n")

    assert str(refused.value) == (
        "the turn was cancelled. Changed before that: a.txt. Not changed: b.txt."
    )
    assert (a_txt.read_text(), b_txt.read_text()) == ("a\nB\n", "one\n")
    Writer(folder, 1_000).write(edits, "k")
    assert (a_txt.read_text(), b_txt.read_text()) == ("a\nB\n", "1\n")

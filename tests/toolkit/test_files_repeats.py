"""A call that runs again: what it knows of the attempts before it, and what it does not know."""

from __future__ import annotations

import errno
import fcntl
import os
from hashlib import sha256
from pathlib import Path

import pytest

from tests.toolkit.files_scene import FileTools, make_file
from windlass.errors import ToolError
from windlass.toolkit.files import state as file_state
from windlass.toolkit.files.folder import Folder
from windlass.toolkit.files.writing import Edit, Writer

BEGUN = "An earlier attempt of this call may have changed files: read them and go on from there."


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_file(tmp_path / "a.txt", "a\nb\n")
    make_file(tmp_path / "b.txt", "one\n")
    return tmp_path


@pytest.fixture
def tools(root: Path) -> FileTools:
    return FileTools(root)


def test_a_file_that_changes_while_a_repeat_looks_at_it_is_left_alone(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the call makes the same of it as of the one that it began with."""
    folder, fsync = Folder(root), os.fsync
    edits = [Edit(("a.txt",), lambda _: b"one\n")]

    def dying(source: str, target: str, **folders: int) -> None:
        if target == "a.txt":
            raise KeyboardInterrupt
        rename(source, target, **folders)

    def slow(file: int) -> None:
        monkeypatch.setattr(os, "fsync", fsync)
        make_file(root / "a.txt", "mine\n")
        fsync(file)

    rename = os.rename
    with monkeypatch.context() as first:
        first.setattr(os, "rename", dying)
        with pytest.raises(KeyboardInterrupt):
            Writer(folder, 1_000).write(edits, "k")
    # What was recorded is made durable, after the first look at the file and before the second one.
    monkeypatch.setattr(os, "fsync", slow)
    with pytest.raises(ToolError) as refused:
        Writer(folder, 1_000).write(edits, "k", attempt=2)

    assert str(refused.value) == (
        "a.txt: changed by someone else just now; read it again. Not changed: a.txt."
    )
    assert (root / "a.txt").read_text() == "mine\n"


def test_a_repeat_that_may_not_trust_what_was_recorded_does_not_know_what_was_done(
    root: Path, tools: FileTools
) -> None:
    args = {"path": "a.txt", "old": "b", "new": "bb"}
    tools.ok("edit_file", key="k", **args)
    # The records lie in folders by the digests of their keys.
    (root / ".windlass" / "calls" / sha256(b"k").hexdigest()[:2]).chmod(0o770)

    first = tools.call("edit_file", args, "k")
    tools.attempt = 2
    repeat = tools.call("edit_file", args, "k")

    told = ".windlass: found a folder that other users may write to"
    assert first == ("tool_error", told)
    assert repeat == (
        "tool_uncertain",
        f"{told}. {BEGUN}",
    )


def test_a_repeat_that_waits_too_long_does_not_know_what_was_done(
    root: Path, tools: FileTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt before it may be what holds the lock, and about to write its record."""
    monkeypatch.setattr(file_state, "_N_LOOKS", 3)
    tools.ok("edit_file", path="b.txt", old="one", new="two")
    tools.attempt = 2

    with (root / ".windlass" / "lock").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        answer = tools.call("edit_file", {"path": "a.txt", "old": "b", "new": "bb"}, "k")

    assert answer == (
        "tool_uncertain",
        f"another program is writing in this folder. {BEGUN}",
    )


def test_a_repeat_of_a_call_that_had_not_begun_says_that_no_file_was_changed(
    root: Path, tools: FileTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(source: str, target: str, **folders: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    tools.ok("edit_file", path="b.txt", old="one", new="two")
    tools.attempt = 2
    monkeypatch.setattr(os, "rename", failing)
    told = tools.refused("edit_file", path="a.txt", old="b", new="bb")

    assert told.endswith("(Input/output error). No file was changed.")

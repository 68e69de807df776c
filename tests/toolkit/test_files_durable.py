"""What a call does to the disk, in an order that a crash or a power cut cannot hurt."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.toolkit.files_noted import Died, Noted
from tests.toolkit.files_scene import FileTools, make_file

PATCH = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n"
MORE = "--- /dev/null\n+++ b/new/deep/c.txt\n@@ -0,0 +1 @@\n+c\n"
CHAIN = ["fsync bucket", "fsync calls", "fsync .windlass", "fsync root"]
"""A record is durable when its folder is, in the folder above it, and so on."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "folder"
    make_file(root / "a.txt", "a\nb\n")
    make_file(root / "b.txt", "one\n")
    return root


@pytest.fixture
def tools(root: Path) -> FileTools:
    tools = FileTools(root)
    tools.ok("edit_file", key="first", path="b.txt", old="one", new="two")
    return tools


def after_death(
    root: Path, tools: FileTools, dies_after: str, patch: pytest.MonkeyPatch
) -> list[str]:
    """Return what the next attempt does when the first one died at a step."""
    with patch.context() as first:
        Noted(root, first, dies_after)
        with pytest.raises(Died):
            tools.call("apply_patch", {"patch": PATCH + MORE}, "k")
    with patch.context() as second:
        noted = Noted(root, second)
        tools.ok("apply_patch", key="k", patch=PATCH + MORE)
    assert (root / "new" / "deep" / "c.txt").read_text() == "c\n"
    return noted.done


def test_nothing_changes_before_all_of_it_and_its_record_are_on_the_disk(
    root: Path, tools: FileTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = Noted(root, monkeypatch)
    tools.ok("apply_patch", key="k", patch=PATCH + MORE)

    assert noted.done == [
        "write half", "fsync half",  # the new a.txt
        "write half", "fsync half",  # c.txt
        "mkdir bucket", "write half", "fsync half", "rename record", *CHAIN,
        "rename a.txt", "fsync root",
        "mkdir new", "fsync root", "mkdir deep", "fsync new", "rename c.txt", "fsync deep",
    ]  # fmt: skip


@pytest.mark.parametrize("step", ["mkdir .windlass", "mkdir calls", "mkdir bucket", "write half"])
def test_folders_that_a_killed_call_made_are_durable_before_the_first_file_changes(
    step: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = after_death(root, FileTools(root), step, monkeypatch)

    at = done.index("rename record")
    assert done[at + 1 : at + 6] == [*CHAIN, "rename a.txt"]


def test_a_record_that_a_killed_call_left_is_durable_before_the_next_file_changes(
    root: Path, tools: FileTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = after_death(root, tools, "rename record", monkeypatch)

    assert done[:4] == CHAIN
    assert "rename record" not in done


@pytest.mark.parametrize("step", ["rename a.txt", "mkdir new", "mkdir deep", "rename c.txt"])
def test_what_a_killed_call_put_in_its_place_is_made_durable_by_the_next_attempt(
    step: str, root: Path, tools: FileTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = after_death(root, tools, step, monkeypatch)

    assert done[-4:] == ["fsync root", "fsync root", "fsync new", "fsync deep"]


def test_a_file_that_changed_but_may_be_lost_in_a_power_cut_is_not_said_to_be_as_it_was(
    root: Path, tools: FileTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync, rename = os.fsync, os.rename

    def failing(_: int) -> None:
        raise OSError(5, "Input/output error")

    def renamed(source: str, target: str, **folders: int) -> None:
        rename(source, target, **folders)
        if target == "a.txt":
            monkeypatch.setattr(os, "fsync", failing)

    monkeypatch.setattr(os, "rename", renamed)
    told = tools.refused("apply_patch", key="k", patch=PATCH + MORE)

    assert told == (
        "a.txt: changed, but a power cut may undo it (Input/output error). "
        "Changed before that: a.txt. Not changed: new/deep/c.txt."
    )
    monkeypatch.setattr(os, "fsync", fsync)
    tools.ok("apply_patch", key="k", patch=PATCH + MORE)

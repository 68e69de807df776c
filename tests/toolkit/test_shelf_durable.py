"""What a shelf does to the disk, in an order that a crash or a power cut cannot hurt."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.toolkit.files_noted import Died, Noted
from windlass.toolkit.notes.shelf import FolderShelf

CALLS = ("fsync", "mkdir", "replace", "unlink")


def put(shelf: FolderShelf) -> None:
    shelf.put("s", "tea", "black")


def remove(shelf: FolderShelf) -> None:
    shelf.remove("s", "tea")


def done_by(
    act: Callable[[FolderShelf], None], place: Path, patch: pytest.MonkeyPatch, dies_after: str = ""
) -> list[str]:
    """Return what is done to the disk, up to a death; the folder lies two levels below `home`, which is there."""
    (place / "home").mkdir(exist_ok=True)
    shelf = FolderShelf(place / "home" / "kept" / "notes")
    with patch.context() as inner:
        noted = Noted(place, inner, dies_after, CALLS)
        if dies_after:
            with pytest.raises(Died):
                act(shelf)
        else:
            act(shelf)
    return noted.done


def test_a_note_is_durable_when_it_is_kept_and_so_are_the_folders_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert done_by(put, tmp_path, monkeypatch) == [
        "fsync root", "mkdir kept", "fsync home", "mkdir notes", "fsync kept",
        "fsync half", "replace .gitignore",
        "mkdir scope", "fsync notes",
        "fsync half", "replace tea.md", "fsync scope",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("step", "synced"),
    [
        ("mkdir kept", "fsync home"),
        ("mkdir notes", "fsync kept"),
        ("replace .gitignore", "fsync notes"),
        ("mkdir scope", "fsync notes"),
    ],
)
def test_a_folder_that_a_killed_process_made_is_made_durable_by_the_next_one(
    step: str, synced: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done_by(put, tmp_path, monkeypatch, dies_after=step)

    done = done_by(put, tmp_path, monkeypatch)

    assert synced in done[: done.index("replace tea.md")]
    assert done[-3:] == ["fsync half", "replace tea.md", "fsync scope"]


def test_that_a_note_is_gone_is_durable_also_when_the_call_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done_by(put, tmp_path, monkeypatch)

    assert done_by(remove, tmp_path, monkeypatch, dies_after="unlink tea.md") == ["unlink tea.md"]
    assert done_by(remove, tmp_path, monkeypatch) == ["fsync scope"]
